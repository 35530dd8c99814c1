"""The few directions that vectors share of which each is seen through a matrix of its own.

Given ``y_i = A_i' V c_i`` with known A_i and unknown coefficients c_i, the columns of V span a space of dimension
``rank``: a matrix of low rank, each of whose columns is known up to the kernel of A_i'. A single direction is a null
vector of linear equations in V and the 1 / c_i; more of them take alternating least squares in V and the c_i, from
several starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NUM_STARTS, NUM_STEPS = 4, 200
ENOUGH = 1e-5
"""Relative misfit at which the steps end: what is seen is not more exact than that."""


@dataclass(frozen=True)
class CommonSpan:
    """An orthonormal basis (n, rank) and the misfit it leaves, relative to what was seen."""

    basis: np.ndarray
    misfit: float


def common_span(maps: np.ndarray, seen: np.ndarray, rank: int, rng: np.random.Generator) -> CommonSpan:
    """The span of ``rank`` directions behind ``seen`` (m, d) through ``maps`` (m, d, n)."""
    size = np.linalg.norm(seen, axis=1)
    kept = size > 1e-12 * np.max(size, initial=1e-300)
    maps, seen = maps[kept], seen[kept] / size[kept, None]
    # columns of the maps differ in size by what the features do
    scale = np.maximum(np.sqrt(np.mean(maps**2, axis=(0, 1))), 1e-300)
    maps = maps / scale
    if rank == 1:
        basis = _null_vector(maps, seen)
        return CommonSpan(np.linalg.qr(basis / scale[:, None])[0], _shares(maps @ basis, seen)[1])
    best = CommonSpan(np.zeros((maps.shape[2], rank)), np.inf)
    for _ in range(NUM_STARTS):
        found = _alternate(maps, seen, np.linalg.qr(rng.standard_normal((maps.shape[2], rank)))[0])
        best = found if found.misfit < best.misfit else best
        if best.misfit <= ENOUGH:
            break
    return CommonSpan(np.linalg.qr(best.basis / scale[:, None])[0], best.misfit)


def _null_vector(maps: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The direction (n, 1) that solves ``A_i' v = y_i / c_i`` best."""
    m, d, n = maps.shape
    system = np.zeros((m, d, n + m))
    system[:, :, :n] = maps
    system[np.arange(m), :, n + np.arange(m)] = -seen
    return np.linalg.svd(system.reshape(m * d, n + m))[2][-1, :n, None]


def _shares(views: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, float]:
    """Coefficients (m, rank) of what is seen in ``views`` (m, d, rank), and the relative misfit they leave."""
    shares = np.einsum("mrd,md->mr", np.linalg.pinv(views), seen)
    left = np.einsum("mdr,mr->md", views, shares) - seen
    return shares, float(np.sqrt(np.mean(np.sum(left**2, axis=1))))


def _alternate(maps: np.ndarray, seen: np.ndarray, basis: np.ndarray) -> CommonSpan:
    last, misfit = np.inf, np.inf
    for step in range(NUM_STEPS):
        shares, misfit = _shares(maps @ basis, seen)
        if misfit <= ENOUGH or (step % 20 == 19 and misfit > 0.9 * last):
            break
        last = misfit if step % 20 == 19 else last
        system = np.einsum("mdn,mr->mdnr", maps, shares).reshape(seen.size, -1)
        basis = np.linalg.lstsq(system, seen.ravel(), rcond=1e-12)[0].reshape(basis.shape)
        basis = np.linalg.qr(basis)[0]
    return CommonSpan(basis, misfit)
