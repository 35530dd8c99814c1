"""What may stand behind the last layer of a model: softmax, sigmoid, tanh, exp, a clamp; and its inverse.

``p = squash(z)``. A softmax forgets a common shift of its inputs: of two classes the difference ``z_1 - z_0`` is what
can be known, of more the logits relative to their mean. An error of p is an error of z divided by the slope there, and
an answer at the end of the range says nothing about z but on which side it lies: its error is infinite.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import scipy.special

from unweave.core import activations as act
from unweave.core.errors import InputError

ROWWISE = ("softmax", "log_softmax")
"""Those that look at all outputs at once."""
_CLAMP = re.compile(r"clamp\(\s*([-+0-9.eEinf]+)\s*,\s*([-+0-9.eEinf]+)\s*\)")
_RANGES = {
    "softmax": (0.0, 1.0),
    "log_softmax": (-math.inf, 0.0),
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "exp": (0.0, math.inf),
    "expm1": (-1.0, math.inf),
    "relu": (0.0, math.inf),
    "hardtanh": (-1.0, 1.0),
    "relu6": (0.0, 6.0),
}


def output_name(name: str) -> str:
    """The name of what stands behind the last layer, in its usual spelling; an activation or one of those here."""
    match = _CLAMP.fullmatch(str(name).strip())
    if match is not None:
        low, high = float(match[1]), float(match[2])
        if not low < high:
            raise InputError(f"{name!r}: the first bound of a clamp must be below the second")
        return clamp_name(low, high)
    return name if name in (*ROWWISE, "expm1") else act.get(name).name


def clamp_name(low: float, high: float) -> str:
    """``clamp(low, high)``, or the activation that is the same."""
    usual = {(0.0, math.inf): "relu", (-1.0, 1.0): "hardtanh", (0.0, 6.0): "relu6"}
    return usual.get((low, high), f"clamp({low!r}, {high!r})")


def apply_output(name: str, z: np.ndarray) -> np.ndarray:
    """Outputs (n, k) behind the last layer's ``z`` (n, k)."""
    if name == "softmax":
        return scipy.special.softmax(z, axis=1)
    if name == "log_softmax":
        return scipy.special.log_softmax(z, axis=1)
    if name == "expm1":
        return np.expm1(z)
    if name.startswith("clamp"):
        return np.clip(z, *Squashing(name).range)
    return act.get(name)(z)


@dataclass(frozen=True)
class Squashing:
    """One of them, by the name it has as the activation of the last layer."""

    name: str

    @property
    def range(self) -> tuple[float, float]:
        """Bounds of the answers."""
        match = _CLAMP.fullmatch(self.name)
        return _RANGES[self.name] if match is None else (float(match[1]), float(match[2]))

    @property
    def is_clamp(self) -> bool:
        """Whether the answers are the outputs themselves inside the range, and the range's end outside."""
        return self.name in ("relu", "hardtanh", "relu6") or self.name.startswith("clamp")

    def num_inner(self, num_outputs: int) -> int:
        """Outputs that can be known: of two classes only their difference."""
        return 1 if self.name in ROWWISE and num_outputs == 2 else num_outputs

    def invert(self, p: np.ndarray) -> np.ndarray:
        """What stands before the squashing, (n, inner); finite also where p is at the end of its range."""
        low, high = self.range
        if self.is_clamp:
            return p
        tiny = 1e-300
        with np.errstate(all="ignore"):
            if self.name == "softmax":
                return _centred(np.log(np.maximum(p, tiny)))
            if self.name == "log_softmax":
                return _centred(p)
            if self.name == "exp":
                return np.log(np.maximum(p, tiny))
            if self.name == "expm1":
                return np.log1p(np.maximum(p, -1 + 2.0**-53))
            inside = np.clip(p, low + (tiny if low == 0 else 2.0**-53), high - 2.0**-53)
            return scipy.special.logit(inside) if self.name == "sigmoid" else np.arctanh(inside)

    def restore(self, z: np.ndarray) -> np.ndarray:
        """The answers (n, k) behind inverted ones."""
        two = self.name in ROWWISE and z.shape[1] == 1
        return apply_output(self.name, np.hstack([-z / 2, z / 2]) if two else z)

    def errors(self, p: np.ndarray, noise: float, unit: float) -> np.ndarray:
        """Largest error (n,) of the inverted answers that comes of squashing.

        ``noise`` is an absolute error of p, ``unit`` the relative rounding of p; infinite at the end of the range.
        """
        low, high = self.range
        tiny = float(np.finfo(np.float32).tiny) if unit > 1e-10 else 1e-290
        with np.errstate(all="ignore"):
            if self.name == "softmax":
                slopes = np.where(p > tiny, p, 0.0)
            elif self.name == "sigmoid":
                slopes = p * (1 - p)
            elif self.name == "tanh":
                slopes = 1 - p**2
            elif self.name in ("exp", "expm1"):
                slopes = p - low
            elif self.name == "log_softmax":
                slopes = np.ones_like(p)
            else:
                slopes = np.where((p > low) & (p < high), 1.0, 0.0)
            plain = self.is_clamp or self.name == "log_softmax"
            # below the smallest normal number rounding is no longer relative
            sizes = np.zeros_like(p) if plain else np.maximum(np.abs(p), tiny)
            found = np.where(slopes > 0, (noise + unit * sizes) / np.maximum(slopes, 1e-320), np.inf)
        return np.max(found, axis=1)

    def contradicted(self, p: np.ndarray, noise: float, unit: float) -> np.ndarray:
        """Which rows (n,) of answers no softmax or log-softmax gives; none of another squashing."""
        k = p.shape[1]
        blur, rounding = 8 * math.sqrt(k) * noise, 4 * k * unit
        slack = np.full(len(p), blur + rounding)
        if self.name == "softmax":
            return np.any(p < -slack[:, None], axis=1) | (np.abs(p.sum(axis=1) - 1) > slack)
        if self.name == "log_softmax":
            above = np.any(p > slack[:, None], axis=1)
            slack = blur + rounding * (1 + np.max(np.abs(p), axis=1))  # the logits may be as large as these
            return above | (np.abs(np.exp(np.minimum(p, 1.0)).sum(axis=1) - 1) > slack)
        return np.zeros(len(p), dtype=bool)

    def outward(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The last layer of the model from that of the network of inner outputs."""
        if self.name in ROWWISE and len(bias) == 1:
            return np.vstack([-weight / 2, weight / 2]), np.concatenate([-bias / 2, bias / 2])
        return weight, bias


def _centred(logs: np.ndarray) -> np.ndarray:
    """Logits without the shift no softmax can show: the difference of two, or mean zero."""
    if logs.shape[1] == 2:
        return logs[:, 1:] - logs[:, :1]
    return logs - logs.mean(axis=1, keepdims=True)
