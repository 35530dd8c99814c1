"""The centre of all halfspaces that separate two sets of rows: the Bayes point of exact labels.

Without wrong labels every halfspace between the silent and the active rows is as likely as any other. Their mean has
the least expected squared error; the halfspace of the widest margin, which looks at the few tightest rows only, is
about a sixth further from the truth. The mean is taken over many chains of hit-and-run (Smith 1984) through the
polytope of (normal, offset), in coordinates in which the chains' first half is round.

Only rows that some sample comes close to can bind: the tightest rows are constraints from the start; when a sample
violates another row, all rows that samples come close to are added.
"""

from __future__ import annotations

import numpy as np

NUM_CHAINS = 64
REACH = 0.5
"""No sample leaves the box of this half width around the start."""


def find_centre(
    outside: np.ndarray,
    inside: np.ndarray,
    normal: np.ndarray,
    offset: float,
    rng: np.random.Generator,
    *,
    max_rounds: int = 6,
) -> tuple[np.ndarray, float] | None:
    """Normal and offset of the mean of the halfspaces with all rows of ``inside`` within and of ``outside`` without.

    The start must be such a halfspace; None when it is not, or when rows still bind after ``max_rounds``.
    """
    d = len(normal)
    tangent = np.linalg.svd(normal[None])[2][1:]
    rows = np.concatenate(
        [
            np.column_stack([outside @ tangent.T, -np.ones(len(outside))]),
            np.column_stack([-(inside @ tangent.T), np.ones(len(inside))]),
        ]
    )
    slack = np.concatenate([offset - outside @ normal, inside @ normal - offset])
    if not len(slack) or slack.min() <= 0:
        return None
    box, room = np.concatenate([np.eye(d), -np.eye(d)]), np.full(2 * d, REACH)
    used = np.argsort(slack)[: 30 * d]
    for _ in range(max_rounds):
        points = sample_polytope(np.concatenate([rows[used], box]), np.concatenate([slack[used], room]), rng)
        reached = np.max(rows @ points[-NUM_CHAINS:].T, axis=1)
        if np.all(reached <= slack):
            mean = points.mean(axis=0)
            turned, moved = normal + mean[:-1] @ tangent, offset + float(mean[-1])
            length = float(np.linalg.norm(turned))
            return turned / length, moved / length
        used = np.union1d(used, np.flatnonzero(reached > 0.7 * slack))
    return None


def sample_polytope(table: np.ndarray, bounds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points (n, d) spread evenly over ``{p : table @ p <= bounds}``, which is bounded and holds zero inside.

    Hit-and-run in two halves; the first finds the shape and is not returned. The last 64 rows are the ends of chains.
    """
    d = table.shape[1]
    shape = np.eye(d)
    points = np.zeros((NUM_CHAINS, d))
    slack = np.repeat(bounds[:, None], NUM_CHAINS, axis=1)
    seen: list[np.ndarray] = []
    for step in range(16 * d):
        moves = rng.standard_normal((NUM_CHAINS, d)) @ shape.T
        slopes = table @ moves.T
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = slack / slopes
        high = np.min(np.where(slopes > 0, ratios, np.inf), axis=0)
        low = np.max(np.where(slopes < 0, ratios, -np.inf), axis=0)
        lengths = low + (high - low) * rng.uniform(size=NUM_CHAINS)
        points = points + lengths[:, None] * moves
        slack = np.maximum(slack - slopes * lengths, 0.0)
        seen.append(points)
        if step in (4 * d, 8 * d):
            recent = np.concatenate(seen[len(seen) // 2 :])
            shape = np.linalg.cholesky(np.cov(recent.T).reshape(d, d) + 1e-18 * np.eye(d))
            slack = bounds[:, None] - table @ points.T
            seen = []
    return np.concatenate(seen)
