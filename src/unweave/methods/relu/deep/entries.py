"""Lines aimed at entries that no kink has shown: just beyond the border at which a feature wakes, across the unit."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.extremes import is_bounded, spread_points
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.probes.lines import Lines


def aim_lines(
    pool: Pool,
    known: Known,
    row: np.ndarray,
    seen: np.ndarray,
    feature: int,
    starts: np.ndarray,
    num: int = 1,
) -> Lines | None:
    """Short lines across the zero set of ``row`` where ``feature`` is barely active and other entries are seen."""
    rng, domain, d = pool.rng, pool.inquiry.meter.domain, known.input_size
    below = known.first(known.depth - 1)
    w, b = known.weights[-1][feature], known.biases[-1][feature]
    part = np.where(seen, row, 0.0)
    near = starts[rng.integers(len(starts), size=200)] if len(starts) else np.zeros((0, d))
    near = (
        near
        + rng.standard_normal(near.shape)
        * (np.linalg.norm(near, axis=1, keepdims=True) / np.sqrt(d) + 0.1)
        * 0.5
    )
    x = np.concatenate([near, spread_points(domain, 200, d, rng, 0.7)])
    for _ in range(12):
        h, jac = known.jacobian(x)
        hb, jb = below.jacobian(x)
        z = np.stack([hb @ w + b, h @ part[:-1] + part[-1]], axis=1)
        g = np.stack([np.einsum("i,nid->nd", w, jb), np.einsum("i,nid->nd", part[:-1], jac)], axis=1)
        step = _shortest(g, z)
        x = x - np.where(np.isfinite(step), step, 0.0)
    h, jac = known.jacobian(x)
    hb, jb = below.jacobian(x)
    wake = np.einsum("i,nid->nd", w, jb)
    # the feature itself may count as active or not at its border: leave it out of the unit's own direction
    others = part[:-1].copy()
    others[feature] = 0.0
    move = np.einsum("i,nid->nd", others, jac)
    size = np.linalg.norm(wake, axis=1)
    z = np.stack([hb @ w + b, h @ others + part[-1]], axis=1)
    scale = 1 + np.linalg.norm(x, axis=1)
    active = known.active(np.where(np.arange(h.shape[1]) == feature, 0.0, h))
    dark = np.any(active & ~seen[:-1] & (np.arange(h.shape[1]) != feature), axis=1)
    along = move - (np.sum(move * wake, axis=1) / np.maximum(size**2, 1e-300))[:, None] * wake
    rate = np.sum(along * move, axis=1) / np.maximum(np.linalg.norm(along, axis=1), 1e-300)
    ok = (
        (np.abs(z).max(axis=1) < 1e-9 * scale)
        & ~dark
        & (size > 1e-6)
        & (rate > 1e-3 * np.linalg.norm(move, axis=1))
    )
    ok &= rate > 1e-6
    ok &= np.linalg.norm(x, axis=1) < 100 * (1 + np.median(np.linalg.norm(pool.x, axis=1)))
    ok = np.flatnonzero(ok)
    if not len(ok):
        return None
    # how far along the border the unit and its neighbours allow us to look: prefer roomy places
    clear = _other_clearance(known, x[ok], feature)
    eps = np.minimum(0.05 * scale[ok], 0.2 * clear)
    reach = 3 * np.max(np.abs(row)) * eps * size[ok] / rate[ok] + eps
    order = np.argsort(-np.where(reach < 2 * clear, eps / scale[ok], 1e-3 * eps / scale[ok]))[: 4 * num]
    chosen = ok[order[rng.permutation(len(order))[:num]]]
    keep = np.searchsorted(ok, chosen)
    across = wake[chosen] / size[chosen, None]
    direction = along[chosen] / np.linalg.norm(along[chosen], axis=1, keepdims=True)
    origin = x[chosen] + eps[keep, None] * across
    if is_bounded(domain, d):
        inside = domain.contains(origin + reach[keep, None] * direction) & domain.contains(
            origin - reach[keep, None] * direction
        )
        if not inside.any():
            return None
        origin, direction, keep = origin[inside], direction[inside], keep[inside]
    return Lines(origin, direction, -reach[keep], reach[keep], reach[keep])


def _shortest(g: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Shortest steps (n, d) with ``g step = z`` for two rows each."""
    gram = np.einsum("nid,njd->nij", g, g)
    trace = np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
    solved = np.linalg.solve(gram / trace + 1e-12 * np.eye(2), z[:, :, None] / trace)[:, :, 0]
    return np.einsum("nid,ni->nd", g, solved)


def _other_clearance(known: Known, x: np.ndarray, feature: int) -> np.ndarray:
    """Distance to the nearest zero set of any known unit but one of the last layer."""
    best = np.full(len(x), np.inf)
    zs, gs = known.gradients(x)
    for layer, (z, g) in enumerate(zip(zs, gs, strict=True)):
        size = np.linalg.norm(g, axis=2)
        apart = np.where(size > 1e-12, np.abs(z) / np.maximum(size, 1e-300), np.inf)
        if layer == known.depth - 1:
            apart[:, feature] = np.inf
        best = np.minimum(best, apart.min(axis=1, initial=np.inf))
    return np.where(np.isfinite(best), best, 1.0)
