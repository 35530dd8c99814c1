"""Is a candidate met on few lines a unit of the layer, or a facet of a deeper unit? Its zero set is asked elsewhere.

A deeper unit's zero set continues straight only while no unit of the layer switches. So the candidate is looked for
at places where the sure units of the layer stand differently than at its own kinks: five queries a place.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.extremes import spread_points
from unweave.methods.relu.deep.view import LayerView
from unweave.probes.inquiry import Inquiry

NUM_PLACES = 6


def patterns_at(view: LayerView, x: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """How the sure units (rows with bias) stand at the points."""
    return view.known.features(x) @ sure[:, :-1].T + sure[:, -1] > 0


def confirm(view: LayerView, unit: Candidate, sure: np.ndarray) -> bool | None:
    """Whether the function bends on the candidate's zero set where the layer stands differently; None: not told."""
    own = patterns_at(view, view.x[unit.members], sure)
    x, normal = zero_set(view, unit)
    if not len(x):
        return None
    pattern = patterns_at(view, x, sure)
    differs = np.min(np.sum(pattern[:, None] != own[None], axis=2), axis=1)
    far = np.flatnonzero(differs > 0)
    if len(far) < 2:
        return None
    _, first = np.unique(pattern[far], axis=0, return_index=True)
    pick = far[first][np.argsort(-differs[far[first]], kind="stable")][:NUM_PLACES]
    bent = bends(view.pool.inquiry, x[pick], normal[pick])
    told = bent >= 0
    if told.sum() < 2:
        return None
    return bool(np.mean(bent[told]) >= 0.8)


def zero_set(
    view: LayerView, unit: Candidate, num: int = 400, num_steps: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    """Points of the zero set at which every active entry is seen, and unit normals there."""
    known, pool, row = view.known, view.pool, np.where(unit.seen, unit.row, 0.0)
    rng, domain, d = pool.rng, pool.inquiry.meter.domain, known.input_size
    near = view.x[unit.members][rng.integers(len(unit.members), size=num // 2)]
    size = np.linalg.norm(near, axis=1, keepdims=True) / np.sqrt(d) + 0.1
    near = near + rng.standard_normal(near.shape) * size * rng.uniform(0, 1.5, size=(len(near), 1))
    x = np.concatenate([near, spread_points(domain, num - len(near), d, rng, 0.7)])
    for _ in range(num_steps + 1):
        h, jac = known.jacobian(x)
        gradient = np.einsum("n,mnd->md", row[:-1], jac)
        z = h @ row[:-1] + row[-1]
        length = np.linalg.norm(gradient, axis=1)
        step = (z / np.maximum(length**2, 1e-12))[:, None] * gradient
        x = x - step
    scale = 1 + np.linalg.norm(x, axis=1)
    dark = np.any(known.active(h) & ~unit.seen[:-1], axis=1)
    good = (np.linalg.norm(step, axis=1) < 1e-10 * scale) & ~dark & (length > 1e-9) & domain.contains(x)
    good &= scale < 1e3 * (1 + np.median(np.linalg.norm(pool.x, axis=1)))
    # a second difference needs room to the nearest border that is known
    good &= known.clearance(x) > 1e-4 * scale
    return x[good], gradient[good] / length[good, None]


def bends(inquiry: Inquiry, x: np.ndarray, normal: np.ndarray, share: float = 1e-5) -> np.ndarray:
    """1 where the function has a kink at x, 0 where it is straight, -1 where it is constant or unclear."""
    step = share * (1 + np.linalg.norm(x, axis=1))[:, None]
    points = np.concatenate([x + c * step * normal for c in (-2, -1, 0, 1, 2)])
    if not np.all(inquiry.meter.domain.contains(points)):
        inside = np.all(inquiry.meter.domain.contains(points).reshape(5, len(x)), axis=0)
        told = np.full(len(x), -1)
        if inside.any():
            told[inside] = bends(inquiry, x[inside], normal[inside], share)
        return told
    answers, bars = inquiry.ask(points)
    a = answers.reshape(5, len(x), -1)
    bar = 30 * np.max(bars.reshape(5, len(x)), axis=0)
    left, right, middle = (np.max(np.abs(a[i - 1] + a[i + 1] - 2 * a[i]), axis=1) for i in (1, 3, 2))
    flat = np.max(np.ptp(a, axis=0), axis=1) <= bar
    sides = np.maximum(left, right)
    kink = (middle > 5 * bar) & (sides < np.maximum(bar, 1e-3 * middle))
    straight = (middle <= bar) & (sides <= bar) & ~flat
    return np.where(kink, 1, np.where(straight, 0, -1))
