"""Rough directions of high-threshold units from two Hermite tensors of the rows.

Model (Goel and Panigrahy 2019): ``f(x) = P(u(w_1.x - t_1), ..., u(w_m.x - t_m))`` with x ~ N(0, I) and thresholds so
high that most rows have no active unit. Then ``T_2 ~ sum a_i w_i w_i'`` and ``T_3 ~ sum b_i w_i (x) w_i (x) w_i``: the
eigenvectors of T_2 whiten the directions, and power iteration with deflation on the whitened T_3 finds them one by
one. T_3 serves better than T_4, whose coefficient of a step unit vanishes at t = sqrt(3).

With many inputs the small eigenvalues of T_2 drown in the noise of the sums. Directions that are nearly orthogonal need
no whitening: power iteration on T_3 itself, started at active rows (each within reach of its unit, as ``w_i.x > t``),
ends at the units, and its distinct ends tell their number.

Rows with ``f = c_0`` contribute nothing and are dropped before any product is formed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from unweave.core.errors import InputError
from unweave.moments.hermite import HermiteMoments


@dataclass(frozen=True)
class Resting:
    """The value ``c_0`` of f where no unit is active, and how often it is taken."""

    value: float
    share: float
    """Fraction of the rows with this value."""


def find_resting_value(y: np.ndarray, *, tolerance: float = 1e-9) -> Resting:
    """The most frequent value of ``y`` (n,), values closer than ``tolerance`` of their range being one."""
    if not len(y):
        raise InputError("no rows: give at least one answer")
    ordered = np.sort(y)
    width = tolerance * max(float(ordered[-1] - ordered[0]), 1e-300)
    upper = np.searchsorted(ordered, ordered + width, side="right")
    counts = upper - np.arange(len(ordered))
    start = int(np.argmax(counts))
    value = float(ordered[start + counts[start] // 2])
    return Resting(value, float(counts[start]) / len(ordered))


def active_rows(y: np.ndarray, resting: Resting, *, tolerance: float = 1e-9) -> np.ndarray:
    """Which answers differ from the resting value: some unit is active there."""
    spread = max(float(np.max(y) - np.min(y)), 1e-300)
    return np.abs(y - resting.value) > tolerance * spread


def label_moments(chunks: Iterable[tuple[np.ndarray, np.ndarray]], input_size: int) -> HermiteMoments:
    """``T_0 .. T_3`` of labels over chunks of (x, label); silent rows cost almost nothing."""
    moments = HermiteMoments(input_size, order=3)
    for x, labels in chunks:
        moments.update(x, np.asarray(labels, dtype=np.float64))
    return moments


def num_directions(moments: HermiteMoments) -> tuple[int, float]:
    """How many eigenvalues of T_2 stand above what sampling alone would show, and the level of that noise."""
    values = np.linalg.eigvalsh(moments.tensor(2))
    noise = 2 * float(np.sqrt(moments.input_size * moments.num_used)) / moments.count
    return int(np.sum(values > 1.5 * noise)), noise


def find_starts(
    moments: HermiteMoments, num_units: int, rng: np.random.Generator, *, num_steps: int = 60
) -> np.ndarray:
    """Unit vectors (num_units, d) by T_2 whitening and T_3 power iteration with deflation.

    ``num_units`` may not exceed d. Signs are those that make the third moment positive: for units that switch on
    with ``w.x``, the true ones.
    """
    d = moments.input_size
    if not 1 <= num_units <= d:
        raise InputError(f"{num_units} units from {d} inputs: whitening finds between 1 and {d} directions")
    values, vectors = np.linalg.eigh(moments.tensor(2))
    largest = np.argsort(-values)[:num_units]
    floor = 1e-6 * max(float(np.max(np.abs(values))), 1e-300)
    root = np.sqrt(np.maximum(values[largest], floor))
    whiten = vectors[:, largest] / root
    third = np.einsum("abc,ai,bj,ck->ijk", moments.tensor(3), whiten, whiten, whiten, optimize=True)
    found = deflate(third, num_units, rng, num_steps=num_steps)
    directions = (found * root) @ vectors[:, largest].T
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def follow_rows(
    moments: HermiteMoments,
    rows: np.ndarray,
    *,
    num_rows: int | None = None,
    num_steps: int = 60,
    alike: float = 0.9,
) -> np.ndarray:
    """Unit vectors (k, d) at which power iteration on T_3 ends from active ``rows``: the strongest first.

    Ends closer than the cosine ``alike`` are one; ends that are no stronger than the noise of T_3 are left out.
    ``num_rows`` starts are used, 40 an input but at most 2 000 by default.
    """
    d = moments.input_size
    third = moments.tensor(3).reshape(d, -1)
    z = _unit(rows[: min(40 * d, 2000) if num_rows is None else num_rows])
    for _ in range(num_steps):
        after = _unit(_contract(third, z))
        moved = float(np.max(np.abs(after - z), initial=0.0))
        z = after
        if moved < 1e-6:
            break
    values = _values(third, z)
    noise = float(np.sqrt(6 * d * moments.num_used)) / moments.count
    found: list[np.ndarray] = []
    for i in np.argsort(-values):
        if values[i] <= 2.5 * noise:
            break
        if all(z[i] @ known < alike for known in found):
            found.append(z[i])
    return np.array(found).reshape(-1, d)


def deflate(third: np.ndarray, count: int, rng: np.random.Generator, *, num_steps: int = 60) -> np.ndarray:
    """``count`` components (count, m) of a third-order tensor: the strongest limit of many starts, taken off in turn.

    All starts make a few steps; the best of them are followed to the end.
    """
    size = len(third)
    rest, found = third.copy(), []
    for _ in range(count):
        flat = rest.reshape(size, -1)
        z = _unit(rng.standard_normal((max(2 * size, 60), size)))
        for step in range(num_steps):
            after = _unit(_contract(flat, z))
            moved = float(np.max(np.abs(after - z)))
            z = after
            if step == 12:
                z = z[np.argsort(-_values(flat, z))[:4]]
            if moved < 1e-9:
                break
        values = _values(flat, z)
        best = int(np.argmax(values))
        found.append(z[best])
        rest = rest - values[best] * np.einsum("a,b,c->abc", z[best], z[best], z[best])
    return np.array(found)


def cluster_rows(x: np.ndarray, count: int, rng: np.random.Generator, *, max_steps: int = 25) -> np.ndarray:
    """Spherical k-means of active rows ``x``: centres (count, d) of length one."""
    count = min(count, len(x))
    centres = _unit(x[rng.choice(len(x), count, replace=False)])
    for _ in range(max_steps):
        nearest = np.argmax(x @ centres.T, axis=1)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, x)
        empty = ~np.any(sums, axis=1)
        moved = _unit(np.where(empty[:, None], centres, sums))
        if np.allclose(moved, centres, atol=1e-6):
            break
        centres = moved
    return centres


def _contract(flat: np.ndarray, z: np.ndarray) -> np.ndarray:
    squares = (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    return squares @ flat.T


def _values(flat: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.einsum("na,na->n", _contract(flat, z), z)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
