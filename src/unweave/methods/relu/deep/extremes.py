"""Points and lines where rare units show: the known features are pushed into few directions, offline."""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.probes.lines import Lines, draw_lines, line_through

PLENTY = 20
"""Points that are drawn for one that is taken."""
NEAREST = 1e-6
"""Points closer than this, relative to their size, are no ends of a segment."""


def spread_points(
    domain: Domain, num: int, d: int, rng: np.random.Generator, spread: float = 1.0
) -> np.ndarray:
    """Points at several scales around the origin, or of a bounded domain."""
    if is_bounded(domain, d):
        return domain.sample(num, d, rng)
    return rng.standard_normal((num, d)) * np.exp(spread * rng.standard_normal((num, 1)))


def novel_points(
    domain: Domain, num: int, known: Known, asked: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Of many spread points those at which the last two layers stand as at none that was asked; else any."""
    x = spread_points(domain, PLENTY * num, known.input_size, rng)
    old, new = (np.packbits(np.hstack([z > 0 for z in known.arguments(p)[-2:]]), axis=1) for p in (asked, x))
    _, first, number = np.unique(np.vstack([old, new]), axis=0, return_index=True, return_inverse=True)
    novel = first[number.ravel()[len(old) :]] >= len(old)
    alike = np.flatnonzero(first >= len(old))
    chosen = first[rng.permutation(alike)[:num]] - len(old)
    rest = np.flatnonzero(~novel)[: num - len(chosen)]
    return x[np.concatenate([chosen, rest])]


def is_bounded(domain: Domain, d: int) -> bool:
    return not bool(np.all(domain.contains(1e7 * np.eye(d))))


def random_lines(domain: Domain, num: int, d: int, rng: np.random.Generator) -> Lines:
    """Lines through points at several scales."""
    if is_bounded(domain, d):
        return draw_lines(domain, num, d, rng)
    through = spread_points(domain, num, d, rng, 0.7)
    directions = rng.standard_normal((num, d))
    return whole_lines(through, directions)


def whole_lines(origins: np.ndarray, directions: np.ndarray, far: float = 1e4) -> Lines:
    """Lines of an unbounded domain, followed to ``far`` times their own scale."""
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    scale = np.maximum(np.linalg.norm(origins, axis=1), 1e-3)
    return Lines(origins, directions, -far * scale, far * scale, scale)


def extreme_points(
    known: Known,
    num: int,
    domain: Domain,
    rng: np.random.Generator,
    *,
    num_draws: int = 3000,
    num_steps: int = 60,
) -> np.ndarray:
    """Points at which one or two features are large and all others small: maxima of (c . h) / |h|, c mostly -1."""
    n = known.width
    signs = -np.ones((num, n))
    first = rng.permutation(num) % n
    signs[np.arange(num), first] = 1.0
    second = (first + rng.integers(1, max(n, 2), size=num)) % n
    pairs = rng.uniform(size=num) < 0.5
    signs[pairs, second[pairs]] = 1.0
    return _climb(known, signs, domain, rng, num_draws, num_steps)


def lowest_points(
    known: Known, rows: np.ndarray, num: int, domain: Domain, rng: np.random.Generator
) -> np.ndarray:
    """Points at which ``row . h / |h|`` is smallest, for ``num`` of the rows."""
    pick = rng.permutation(max(num, len(rows)))[:num] % len(rows)
    return _climb(known, -rows[pick], domain, rng, 3000, 60)


def _climb(
    known: Known, signs: np.ndarray, domain: Domain, rng, num_draws: int, num_steps: int
) -> np.ndarray:
    """Maxima of ``c . h / |h|`` for every row c, by random steps from the best of many draws."""
    num, d, keep = len(signs), known.input_size, 6
    x = spread_points(domain, num_draws, d, rng)
    h = known.features(x)
    h = h / (np.linalg.norm(h, axis=1, keepdims=True) + 1e-9)
    score = signs @ h.T
    top = np.argpartition(-score, keep - 1, axis=1)[:, :keep]
    best, value = x[top].reshape(-1, d), np.take_along_axis(score, top, axis=1).ravel()
    wanted = np.repeat(signs, keep, axis=0)
    bounded = is_bounded(domain, d)
    for step in range(num_steps):
        size = np.linalg.norm(best, axis=1, keepdims=True) / np.sqrt(d) + (1e-3 if not bounded else 0.0)
        reach = size * 0.5 * rng.uniform(size=(len(best), 1)) ** 2
        if step % 2:
            trial = best + reach * rng.standard_normal(best.shape)
        else:
            h, jac = known.jacobian(best)
            length = np.linalg.norm(h, axis=1, keepdims=True) + 1e-9
            along = np.einsum(
                "nu,nud->nd", wanted - (np.sum(wanted * h, axis=1, keepdims=True) / length**2) * h, jac
            )
            trial = best + np.sqrt(d) * reach * along / np.maximum(
                np.linalg.norm(along, axis=1, keepdims=True), 1e-300
            )
        h = known.features(trial)
        now = np.sum(wanted * h, axis=1) / (np.linalg.norm(h, axis=1) + 1e-9)
        better = now > value
        if bounded:
            better &= domain.contains(trial)
        best[better], value[better] = trial[better], now[better]
    pick = np.argmax(value.reshape(num, keep), axis=1)
    return best.reshape(num, keep, d)[np.arange(num), pick]


def extreme_lines(known: Known, num: int, domain: Domain, rng: np.random.Generator) -> Lines:
    """Lines through pairs of extreme points."""
    points = extreme_points(known, 2 * num, domain, rng)
    a, b = points[:num], points[num:]
    if is_bounded(domain, known.input_size):
        return through_pairs(domain, a, b, rng)
    a = a * (np.linalg.norm(b, axis=1) / np.maximum(np.linalg.norm(a, axis=1), 1e-9))[:, None]
    return through_pairs(domain, a, b, rng)


def through_pairs(domain: Domain, a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> Lines:
    """Lines through pairs of points; where both are one the direction is random."""
    d = a.shape[1]
    same = np.linalg.norm(b - a, axis=1) < 1e-9 * (1e-9 + np.linalg.norm(a, axis=1))
    b = np.where(same[:, None], a + rng.standard_normal(a.shape), b)
    if is_bounded(domain, d):
        return line_through(domain, a, b)
    return whole_lines((a + b) / 2 + 1e-3 * rng.standard_normal(a.shape), b - a)


def border_lines(
    domain: Domain, x: np.ndarray, wrong: np.ndarray, rng: np.random.Generator, num: int = 8
) -> Lines:
    """Segments from points that contradict to near ones that do not: they cross the border of what is missing."""
    bad, right = x[wrong], x[~wrong]
    a = bad[rng.permutation(max(num, len(bad)))[:num] % len(bad)]
    sub = (
        right[rng.integers(len(right), size=min(len(right), 400))]
        if len(right)
        else rng.standard_normal((num, x.shape[1]))
    )
    size = np.linalg.norm(sub, axis=1)[None] + np.linalg.norm(a, axis=1)[:, None]
    apart = np.linalg.norm(sub[None] - a[:, None], axis=2) / size
    apart[apart < NEAREST] = np.inf
    reach = np.where(np.arange(num) % 2, min(3, len(sub)), min(40, len(sub)))
    b = sub[np.argsort(apart, axis=1)[np.arange(num), rng.integers(reach)]]
    length = np.maximum(np.linalg.norm(b - a, axis=1), 1e-9)
    # counted from the end nearer to the origin: points near it are exact then
    far = np.linalg.norm(a, axis=1) > np.linalg.norm(b, axis=1)
    scale = np.clip(np.minimum(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)), 1e-9, length)
    return Lines(
        np.where(far[:, None], b, a),
        (b - a) / length[:, None],
        np.where(far, -length, 0.0),
        np.where(far, 0.0, length),
        scale,
    )


def near_lines(pool: Pool, x: np.ndarray, normals: np.ndarray, num: int) -> Lines:
    """Short lines beside the kinks at ``x``, roughly along their normals."""
    rng, domain, d = pool.rng, pool.inquiry.meter.domain, x.shape[1]
    pick = rng.permutation(max(num, len(x)))[:num] % len(x)
    x, g = x[pick], normals[pick]
    size = np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(d) + 0.05
    origin = x + rng.standard_normal(x.shape) * size * rng.uniform(0.2, 1.0, size=(num, 1))
    direction = g + rng.standard_normal(x.shape) * 0.5 / np.sqrt(d)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    slope = np.sum(direction * g, axis=1, keepdims=True)
    foot = np.sum((x - origin) * g, axis=1, keepdims=True) / np.where(np.abs(slope) < 0.1, 1.0, slope)
    origin = origin + foot * direction
    half = 0.75 * size[:, 0] * np.sqrt(d)
    inside = domain.contains(origin + half[:, None] * direction) & domain.contains(
        origin - half[:, None] * direction
    )
    origin, direction, half = origin[inside], direction[inside], half[inside]
    return Lines(origin, direction, -half, half, half)
