"""What a server may do to its answers so that they give less away: rounding, noise, clipping, top-k, labels.

``parse_defence`` reads what a user writes (``decimals=3``, ``noise=1e-3``, ``float32``, ``clip=1``, ``top=2``,
``labels``), and ``Defended`` is an oracle that answers so. Noise is drawn from the question itself: asking twice gives
the same answer, as a careful server would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.core.arguments import shown
from unweave.core.errors import InputError
from unweave.core.oracle import Oracle

KINDS = {
    "none": "no defence",
    "float32": "answers in single precision",
    "decimals": "answers rounded to so many decimals",
    "noise": "Gaussian noise of this size, relative to the spread of the answers",
    "clip": "answers clipped to plus and minus this",
    "top": "only the so many largest outputs, the others as zero",
    "labels": "only the index of the largest output, or the sign of a single one",
}


@dataclass(frozen=True)
class Defence:
    """One way of answering less: its kind and its strength."""

    kind: str = "none"
    strength: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind in ("none", "float32", "labels") else f"{self.kind}={self.strength:g}"


def parse_defence(text: str) -> Defence:
    """``decimals=3`` and its likes; unknown ones are refused with the list of those there are."""
    kind, _, value = (text if isinstance(text, str) else "").strip().partition("=")
    if kind not in KINDS:
        raise InputError(f"defence {shown(text)} is not known; there are {', '.join(KINDS)}")
    try:
        strength = float(value) if value else 0.0
    except ValueError as error:
        raise InputError(f"defence {text!r}: give a number, such as {kind}=3") from error
    needs_value = kind in ("decimals", "noise", "clip", "top")
    if needs_value != bool(value) or (needs_value and not strength >= (0 if kind == "decimals" else 1e-300)):
        raise InputError(f"defence {text!r}: write {kind}{'=3' if needs_value else ''}")
    return Defence(kind, strength)


class Defended:
    """An oracle whose answers are changed by a defence before anybody sees them."""

    name: str
    input_size: int
    output_size: int
    dtype: str
    notes: tuple[str, ...]

    def __init__(self, oracle: Oracle, defence: Defence, *, seed: int = 0):
        self.name = oracle.name if defence.kind == "none" else f"{oracle.name} behind {defence}"
        self.input_size = oracle.input_size
        self.output_size = 1 if defence.kind == "labels" else oracle.output_size
        self.dtype = "float32" if defence.kind == "float32" else oracle.dtype
        self.notes = oracle.notes
        self._oracle, self._defence, self._seed = oracle, defence, seed
        self._scale: float | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        change: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            "none": lambda y: y,
            "float32": lambda y: y.astype(np.float32).astype(np.float64),
            "decimals": lambda y: np.round(y, int(self._defence.strength)) + 0.0,
            "noise": lambda y: y + self._noise(x, y),
            "clip": lambda y: np.clip(y, -self._defence.strength, self._defence.strength),
            "top": self._largest,
            "labels": _labels,
        }
        return change[self._defence.kind](self._oracle(x))

    def _noise(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self._scale is None:
            points = np.random.default_rng(self._seed).standard_normal((64, self.input_size))
            self._scale = float(np.sqrt(np.mean(np.var(self._oracle(points), axis=0))))
        draws = np.empty_like(y)
        for row, question in enumerate(np.ascontiguousarray(x)):
            digest = hashlib.blake2b(question.tobytes(), key=self._seed.to_bytes(8, "little")).digest()
            draws[row] = np.random.default_rng(int.from_bytes(digest[:8], "little")).standard_normal(
                y.shape[1]
            )
        return self._defence.strength * self._scale * draws

    def _largest(self, y: np.ndarray) -> np.ndarray:
        keep = int(self._defence.strength)
        if keep >= y.shape[1]:
            return y
        least = -np.sort(-y, axis=1)[:, keep - 1 : keep]
        return np.where(y >= least, y, 0.0)


def _labels(y: np.ndarray) -> np.ndarray:
    labels = y[:, 0] > 0 if y.shape[1] == 1 else np.argmax(y, axis=1)
    return labels.astype(np.float64)[:, None]
