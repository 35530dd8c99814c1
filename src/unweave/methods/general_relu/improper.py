"""A relu network that fits without being the network: Algorithm 5 of Awasthi, Tang and Vijayaraghavan (2021).

Units with a large bias, ``|b| > c sqrt(log 1/eps)``, are linear or dead under the Gaussian and leave no trace in the
tensors; still the function can be learnt. Regress y on ``relu(w~.x + b~)`` and ``relu(-w~.x - b~)`` for every unit
found, whatever its sign, and on x and 1, with bounded coefficients and a truncated loss. Then each pair is merged
(Claim D.14),

    alpha relu(t) + alpha' relu(-t) = (alpha + alpha') relu(t) - alpha' t,

and the linear rest is one pair ``relu(v.x + c) - relu(-v.x - c)``: at most m + 2 units in all. Rows are read once, in
chunks, into a triangular factor whose size does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.moments.population import ReluUnits


@dataclass(frozen=True)
class ImproperFit:
    """The merged network (at most m + 2 units) and its root mean square error on the rows it was fitted to."""

    network: Network
    rms: float
    num_rows: int
    num_truncated: int
    """Rows left out because their features were larger than the truncation."""


def learn_improper(
    chunks: Iterable[tuple[np.ndarray, np.ndarray]],
    units: ReluUnits,
    *,
    truncation: float = np.inf,
    bound: float = np.inf,
) -> ImproperFit:
    """Regression on both signs of every unit and a linear rest, merged.

    Parameters
    ----------
    chunks
        Rows ``(x, y)``, disjoint from those that ``units`` was found from.
    units
        Directions and biases, each pair up to a common sign; their output weights are not used.
    truncation
        Rows whose feature vector is longer than this are left out (tau).
    bound
        Largest norm of the coefficients.
    """
    factor, num_rows, num_truncated = _reduce(chunks, units, truncation)
    num = len(units)
    coefficients = _bounded_least_squares(factor[:, :-1], factor[:, -1], bound)
    rest = factor[:, -1] - factor[:, :-1] @ coefficients
    network = merge_pairs(
        units,
        coefficients[:num],
        coefficients[num : 2 * num],
        coefficients[2 * num : -1],
        float(coefficients[-1]),
    )
    used = max(num_rows - num_truncated, 1)
    return ImproperFit(network, float(np.linalg.norm(rest) / np.sqrt(used)), num_rows, num_truncated)


def merge_pairs(
    units: ReluUnits, plus: np.ndarray, minus: np.ndarray, linear: np.ndarray, constant: float
) -> Network:
    """``sum plus_i relu(t_i) + minus_i relu(-t_i) + linear.x + constant`` with at most m + 2 units (Claim D.14)."""
    weights = plus + minus
    v, c = linear - minus @ units.directions, constant - float(minus @ units.biases)
    rows, biases, length = units.directions, units.biases, float(np.linalg.norm(v))
    if length > 1e-12 * max(float(np.max(np.abs(weights), initial=0.0)), 1e-300):
        rows = np.vstack([rows, v / length, -v / length])
        biases = np.concatenate([biases, [c / length, -c / length]])
        weights, c = np.concatenate([weights, [length, -length]]), 0.0
    if not len(rows):
        rows, biases, weights = np.zeros((1, len(linear))), np.zeros(1), np.zeros(1)
    return Network([rows, weights[None]], [biases, np.array([c])], ["relu", "identity"])


def _reduce(
    chunks: Iterable[tuple[np.ndarray, np.ndarray]], units: ReluUnits, truncation: float
) -> tuple[np.ndarray, int, int]:
    """The triangular factor of (features, y) over all rows, chunk by chunk."""
    num_features = 2 * len(units) + units.input_size + 1
    factor = np.zeros((0, num_features + 1))
    num_rows = num_truncated = 0
    for x, y in chunks:
        x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(len(x), -1)
        if x.ndim != 2 or x.shape[1] != units.input_size or y.shape[1] != 1:
            raise InputError(
                f"rows x {x.shape} and y {y.shape} do not fit units of {units.input_size} inputs and one output"
            )
        scores = x @ units.directions.T + units.biases
        features = np.hstack([np.maximum(scores, 0.0), np.maximum(-scores, 0.0), x, np.ones((len(x), 1))])
        keep = np.linalg.norm(features, axis=1) <= truncation
        num_rows, num_truncated = num_rows + len(x), num_truncated + int(np.sum(~keep))
        stacked = np.vstack([factor, np.hstack([features, y])[keep]])
        factor = np.asarray(scipy.linalg.qr(stacked, mode="r", check_finite=False)[0])[: num_features + 1]
    if num_rows == num_truncated:
        raise InputError("no row is left to fit; give rows, or a larger truncation")
    return factor, num_rows, num_truncated


def _bounded_least_squares(design: np.ndarray, target: np.ndarray, bound: float) -> np.ndarray:
    """The shortest least-squares solution, or the best one of norm ``bound`` when that is longer."""
    u, sizes, vt = np.linalg.svd(design, full_matrices=False)
    real = sizes > 1e-12 * sizes[0]
    u, sizes, vt = u[:, real], sizes[real], vt[real]
    right = u.T @ target
    if np.linalg.norm(right / sizes) <= bound:
        return vt.T @ (right / sizes)
    low, high = 0.0, float(np.linalg.norm(sizes * right)) / bound
    for _ in range(100):
        ridge = 0.5 * (low + high)
        too_long = np.linalg.norm(sizes * right / (sizes**2 + ridge)) > bound
        low, high = (ridge, high) if too_long else (low, ridge)
    return vt.T @ (sizes * right / (sizes**2 + high))
