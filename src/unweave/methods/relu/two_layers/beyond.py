"""Second-layer weights that no crossing shows, from questions just beyond the plane of their first-layer unit.

Where a unit is on and the first-layer units of all open weights rest, a stack with 0 for these weights is right. From
there a step across one of their planes, short enough for the unit to stay on, leaves the unit's output direction times
the open weight times the height above the plane over: each such answer gives the weight, and several must agree.
A unit that mostly is on where the other one is leaves the weight over in the stack already, as a part linear in that
first-layer unit's feature (``rest``).
"""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.methods.relu.two_layers.oriented import OrientedLayer
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.methods.relu.two_layers.rest import single_row
from unweave.methods.relu.two_layers.stack import Stack
from unweave.probes.inquiry import SAFETY, Inquiry

EACH, FEWEST = 8, 3
"""Questions for each open weight, and how many of them must agree."""
NUM_STARTS = 400
"""Points, where the unit is on, from which steps are planned."""
STEPS = (1.0, 0.1, 0.01, 0.001)
"""Heights above the plane that are looked at, relative to the size of the point."""
PARALLEL = 1e-4
"""A rest is of a unit whose output direction it has to this."""
AGREES = 1e-5
"""Values agree that differ by this share of the unit's own weights, beside the errors of the answers."""


def measure_beyond(
    inquiry: Inquiry,
    layer: OrientedLayer,
    units: list[PreActivation],
    stack: Stack,
    rng: np.random.Generator,
) -> int:
    """Fill in open weights of ``units``, those of ``stack``, in place; returns how many were found."""
    pairs = [(i, int(j)) for i, unit in enumerate(units) for j in np.flatnonzero(~unit.known)]
    if not pairs or len(stack.signs) != len(units):
        return 0
    pairs = _read_rest(units, pairs, stack)
    read = [(i, j) for i, j in pairs if units[i].known[j]]
    if read or not pairs:
        return len(read)
    beyond = _Beyond(layer, inquiry.meter.domain, sorted({j for _, j in pairs}))
    seen = inquiry.meter.transcript()[0]
    seen = seen[beyond.rests(seen)]
    planned = [(i, j, beyond.plan(seen, units[i], stack.signs[i], j, rng)) for i, j in pairs]
    if not any(len(points) for _, _, points in planned):
        return 0
    with inquiry.meter.stage("second layer"):
        left, bars = inquiry.against(stack).ask(np.concatenate([points for _, _, points in planned]))
    total, start = 0, 0
    for i, j, points in planned:
        mine, start = slice(start, start + len(points)), start + len(points)
        heights = points @ layer.rows[j] + layer.offsets[j]
        value = _agreed(left[mine], SAFETY * bars[mine], heights, units[i])
        if value is not None:
            units[i].weights[j], units[i].known[j] = stack.signs[i] * value, True
            total += 1
    return total


def _read_rest(
    units: list[PreActivation], pairs: list[tuple[int, int]], stack: Stack
) -> list[tuple[int, int]]:
    """Fill in weights that the rest of ``stack`` shows; the pairs of rows of it that are understood.

    Besides open weights the rest may have one unit in it that is always on, whose output the other rows show.
    """
    shown, steady = np.all([u.known for u in units], axis=0), np.zeros((0, stack.rest.shape[1]))
    if stack.rest[shown].any():
        single = single_row(stack.rest[shown])
        if single is None:
            return []
        steady = single[1][None]
    understood = []
    for j in sorted({j for _, j in pairs}):
        owners = [i for i, other in pairs if other == j]
        basis = np.concatenate([steady, [units[i].output for i in owners]])
        if len(basis) > basis.shape[1]:
            continue
        parts = np.linalg.lstsq(basis.T, stack.rest[j], rcond=None)[0]
        if np.linalg.norm(parts @ basis - stack.rest[j]) > PARALLEL * np.linalg.norm(stack.rest[j]):
            continue
        understood += [(i, j) for i in owners]
        for i, part in zip(owners, parts[len(steady) :], strict=True):
            if abs(part) > AGREES * np.max(np.abs(units[i].weights)):
                units[i].weights[j], units[i].known[j] = stack.signs[i] * part, True
    return understood


class _Beyond:
    """The first layer, and those of its units that have open weights."""

    def __init__(self, layer: OrientedLayer, domain: Domain, busy: list[int]):
        self._layer, self._domain, self._busy = layer, domain, busy

    def rests(self, x: np.ndarray, but: int = -1) -> np.ndarray:
        """Where no unit with open weights is on, ``but`` apart."""
        others = [j for j in self._busy if j != but]
        return np.all(x @ self._layer.rows[others].T + self._layer.offsets[others] < 0, axis=1)

    def plan(
        self, seen: np.ndarray, unit: PreActivation, sign: float, j: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Points beyond plane j, as far as the unit is sure to stay on."""
        weights = sign * np.where(unit.known, unit.weights, 0.0)
        bias = -self._layer.features(unit.point[None])[0] @ weights
        starts = seen[self._layer.features(seen) @ weights + bias > 0]
        if not len(starts):
            return seen[:0]
        starts = starts[rng.permutation(len(starts))[:NUM_STARTS]]
        down = starts @ self._layer.rows[j] + self._layer.offsets[j]
        sizes = 1 + np.linalg.norm(starts, axis=1)
        steps = [starts + (s * sizes - down)[:, None] * self._layer.rows[j] for s in STEPS]
        planned = self._sure(np.concatenate(steps), weights, bias, j)
        if len(planned) < FEWEST:  # the two are hardly ever on together: look for where they are
            steps = [
                self._layer.lowest(-weights, x, self._domain, (j, s))
                for s, x in zip(STEPS, steps, strict=True)
            ]
            planned = self._sure(np.concatenate(steps), weights, bias, j)
        return planned

    def _sure(self, x: np.ndarray, weights: np.ndarray, bias: float, j: int) -> np.ndarray:
        """Of these points the highest above plane j at which the unit is on whatever the open weight."""
        x = x[self.rests(x, but=j) & self._domain.contains(x)]
        features = self._layer.features(x)
        height = features[:, j]
        sure = (height > 0) & (features @ weights + bias > np.max(np.abs(weights)) * height)
        order = np.argsort(-np.where(sure, height / (1 + np.linalg.norm(x, axis=1)), -1.0))
        return x[order[: min(EACH, int(np.sum(sure)))]]


def _agreed(left: np.ndarray, bars: np.ndarray, heights: np.ndarray, unit: PreActivation) -> float | None:
    """The weight on which most answers agree."""
    if len(left) < FEWEST:
        return None
    along = left @ unit.output
    aside = np.linalg.norm(left - along[:, None] * unit.output, axis=1)
    values, slack = along / heights, bars / heights + AGREES * np.max(np.abs(unit.weights))
    clean = aside <= slack * heights
    close = clean & clean[:, None] & (np.abs(values[:, None] - values) <= slack[:, None] + slack)
    best = close[int(np.argmax(close.sum(axis=1)))]
    if best.sum() < max(FEWEST, len(left) / 2):
        return None
    return float(np.average(values[best], weights=1 / slack[best] ** 2))
