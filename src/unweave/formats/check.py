"""Whether another implementation computes the same function, up to what its rounding explains.

The allowance is a running error analysis: the error of a layer's inputs is carried through its weights, the
rounding of its own sums is added, and the activation is evaluated at both ends of the resulting interval. So
a float32 copy of a network with large weights passes, and a wrong bias in one unit does not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.core.errors import ExportError
from unweave.core.network import Network
from unweave.core.outputs import ROWWISE, apply_output


def probe_points(input_size: int, seed: int = 0) -> np.ndarray:
    """Inputs near and far: 64 standard normal, 64 with radii from 1 to 1000, and the origin."""
    rng = np.random.default_rng([seed, input_size])
    near = rng.standard_normal((64, input_size))
    far = rng.standard_normal((64, input_size))
    far *= 10 ** rng.uniform(0, 3, size=(64, 1)) / np.linalg.norm(far, axis=1, keepdims=True)
    return np.concatenate([near, far, np.zeros((1, input_size))])


def rounding_allowance(network: Network, x: np.ndarray, dtype: str = "float64") -> np.ndarray:
    """How far the outputs of an implementation in ``dtype`` may be from the network's own, entry by entry.

    Infinite where some unit on the way overflows ``dtype``.
    """
    unit, largest = float(np.finfo(dtype).eps), float(np.finfo(dtype).max) / 4
    overflow = np.zeros(len(x), dtype=bool)
    h = np.asarray(x, dtype=np.float64)
    error = unit * np.abs(h)
    with np.errstate(all="ignore"):
        for w, b, name in zip(network.weights, network.biases, network.activations, strict=True):
            magnitude = np.abs(h) @ np.abs(w).T + np.abs(b)
            z = h @ w.T + b
            spread = error @ np.abs(w).T + unit * (w.shape[1] + 2) * magnitude
            h, ends = _through(name, z, spread)
            error = ends + (0.0 if name == "identity" else 32 * unit * (1.0 + np.abs(h) + spread))
            overflow |= ~np.all((magnitude < largest) & (np.abs(h) < largest), axis=1)
    error[overflow] = np.inf
    return error


def _through(name: str, z: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What stands behind ``z``, and how far it moves where ``z`` is off by ``spread``."""
    h = apply_output(name, z)
    if name not in ROWWISE:
        return h, np.maximum(*(np.abs(apply_output(name, z + sign * spread) - h) for sign in (-1, 1)))
    most = 2 * np.max(spread, axis=1, keepdims=True)  # all logits count, by at most their own error
    return h, h * np.expm1(np.minimum(most, 700.0)) if name == "softmax" else most + 0 * h


def require_same(
    network: Network, other: Callable[[np.ndarray], np.ndarray], what: str, dtype: str = "float64"
) -> None:
    """Raise ``ExportError`` unless ``other`` agrees with the network on near and far probe points.

    Points where the network itself overflows the precision say nothing and are left out.
    """
    x = probe_points(network.input_size).astype(dtype).astype(np.float64)
    with np.errstate(all="ignore"):
        expected = network(x)
        answers = np.asarray(other(x), dtype=np.float64)
    if answers.shape != expected.shape:
        raise ExportError(
            f"{what} answers with shape {answers.shape}, not {expected.shape}; nothing was written"
        )
    allowance = rounding_allowance(network, x, dtype)
    with np.errstate(all="ignore"):
        judged = np.isfinite(expected) & np.isfinite(allowance)
        wrong = judged & ~(np.abs(answers - expected) <= allowance)
    if not judged.any():
        raise ExportError(
            f"{what} cannot be checked: the network overflows {dtype} everywhere; rescale its weights"
        )
    if wrong.any():
        worst = float(np.nanmax(np.abs(answers - expected)[wrong]))
        raise ExportError(
            f"{what} differs from the network by {worst:.2g} on {int(wrong.any(axis=1).sum())} of {len(x)} "
            f"probe points; nothing was written, use another format"
        )
