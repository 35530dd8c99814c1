"""The pre-activation of a second-layer unit as a sum of ridges over the first layer's planes.

Scaled by the size of its output weight, ``z(x) = gradient . (x - point) + sum_i weights_i (|u_i| - side_i u_i) / 2``
with ``u_i`` the signed distance from plane i and ``side_i`` its sign at ``point``, a kink of the unit. The weights of
planes that were not crossed need not be known: z holds wherever every such plane is on the same side as at ``point``.
Neither the orientation of the first layer's units nor that of z itself is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.probes.planes import Planes


@dataclass
class PreActivation:
    """One second-layer unit, as far as it is known."""

    point: np.ndarray
    gradient: np.ndarray
    sides: np.ndarray
    weights: np.ndarray
    known: np.ndarray
    output: np.ndarray
    """Direction of its output weights, of length one."""
    error: float
    assumed: set[int] = field(default_factory=set)
    """First-layer units whose weight is known only to switch this one off."""

    def values(self, planes: Planes, x: np.ndarray) -> np.ndarray:
        return self.expand(planes, x, x @ planes.normals.T + planes.offsets)[0]

    def slopes(self, planes: Planes, x: np.ndarray) -> np.ndarray:
        return self.expand(planes, x, x @ planes.normals.T + planes.offsets)[1]

    def expand(self, planes: Planes, x: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and slopes at the rows of ``x``, whose signed distances from the planes are ``heights``."""
        bends = np.where(self.known, self.weights, 0.0)
        turned = heights * self.sides < 0  # beyond its plane a known weight adds side * height * bend
        bent = turned * (-self.sides * bends)
        value = (x - self.point) @ self.gradient + np.einsum("nm,nm->n", bent, heights)
        return value, self.gradient + bent @ planes.normals

    def holds(self, planes: Planes, x: np.ndarray, margin: float = 0.0) -> np.ndarray:
        """Where the unknown planes are on the same side as at the kink, by ``margin``."""
        free = ~self.known
        if not free.any():
            return np.ones(len(x), dtype=bool)
        heights = (x @ planes.normals[free].T + planes.offsets[free]) * self.sides[free]
        return np.all(heights > margin, axis=1)


def start_unit(planes: Planes, kink: Planes) -> PreActivation:
    """A unit known only near one of its kinks."""
    size = float(np.linalg.norm(kink.jumps[0]))
    sides = np.sign(planes.normals @ kink.points[0] + planes.offsets)
    return PreActivation(
        kink.points[0],
        size * kink.normals[0],
        sides,
        np.zeros(len(planes)),
        np.zeros(len(planes), dtype=bool),
        kink.jumps[0] / size,
        float(kink.errors[0]) * size,
    )


def explains(unit: PreActivation, planes: Planes, kink: Planes, tolerance: float = 1e-5) -> bool:
    """Whether a kink lies on the unit's zero set with the right gradient."""
    x = kink.points
    if not unit.holds(planes, x)[0]:
        return False
    slope = unit.slopes(planes, x)[0]
    size = np.linalg.norm(slope)
    measured = np.linalg.norm(kink.jumps[0]) * kink.normals[0]
    apart = min(np.linalg.norm(slope - measured), np.linalg.norm(slope + measured))
    there = abs(unit.values(planes, x)[0])
    return bool(
        apart <= tolerance * size and there <= tolerance * size * (1 + np.linalg.norm(x[0] - unit.point))
    )


def absorb(unit: PreActivation, planes: Planes, kink: Planes, tolerance: float = 1e-6) -> bool:
    """Learn unknown weights from another kink of the same unit; False (and nothing learnt) if it is not one.

    The gradient there differs from what the known weights give by the unknown bends crossed on the way.
    """
    if unit.output @ kink.jumps[0] < (1 - 1e-6) * np.linalg.norm(kink.jumps[0]):
        return False
    x = kink.points
    heights = (x @ planes.normals.T + planes.offsets)[0]
    turned = np.flatnonzero(~unit.known & (np.sign(heights) != unit.sides))
    if not 0 < len(turned) < planes.normals.shape[1]:
        return False
    measured = np.linalg.norm(kink.jumps[0]) * kink.normals[0]
    size = np.linalg.norm(measured)
    slope, value = unit.slopes(planes, x)[0], unit.values(planes, x)[0]
    bends = -unit.sides[turned] * planes.normals[turned].T
    for orientation in (1.0, -1.0):
        weights = np.linalg.lstsq(bends, orientation * measured - slope, rcond=None)[0]
        miss = np.linalg.norm(bends @ weights + slope - orientation * measured)
        there = value + np.abs(heights[turned]) @ weights
        slack = (tolerance + 30 * kink.errors[0]) * size
        if miss <= slack and abs(there) <= slack * (1 + np.linalg.norm(x[0] - unit.point)):
            unit.weights[turned], unit.known[turned] = weights, True
            return True
    return False


def complete_weights(
    unit: PreActivation, planes: Planes, orientation: np.ndarray, tolerance: float = 1e-5
) -> None:
    """Learn unknown weights of first-layer units that are active at the kink from the gradient there.

    With the first layer oriented, ``gradient = sum_i B_i s_i n_i`` over its active units. Nothing is learnt unless
    the gradient has more entries than there are weights open, and all of them agree.
    """
    active = unit.sides == orientation
    missing = np.flatnonzero(~unit.known & active)
    if not 0 < len(missing) < planes.normals.shape[1] or not orientation.all():
        return
    rows = orientation[:, None] * planes.normals
    rest = unit.gradient - np.where(unit.known & active, unit.weights, 0.0) @ rows
    weights = np.linalg.lstsq(rows[missing].T, rest, rcond=None)[0]
    if np.linalg.norm(weights @ rows[missing] - rest) <= tolerance * np.linalg.norm(unit.gradient):
        unit.weights[missing], unit.known[missing] = weights, True


def read_active_weights(
    planes: Planes, kinks: Planes, units: list[PreActivation], orientation: np.ndarray
) -> tuple[list[PreActivation], np.ndarray]:
    """Half of the weights for free, where the planes' normals are independent (no more units than inputs).

    The gradient at a kink is a combination of the rows of the *active* units only, so its coefficients show which
    units are active, hence their orientation, and are their weights. Kinks that agree with a unit on common weights
    are merged into it. Returns the units, and the orientation of each first-layer unit (0 where no kink shows it).
    """
    if not len(kinks):
        return units, orientation
    inverse = np.linalg.pinv(planes.normals.T)
    sizes = np.linalg.norm(kinks.jumps, axis=1, keepdims=True)
    gradients = sizes * kinks.normals
    weights = gradients @ inverse.T
    misfit = np.max(np.abs(weights @ planes.normals - gradients), axis=1)
    sides = np.sign(kinks.points @ planes.normals.T + planes.offsets)
    scale = np.max(np.abs(weights), axis=1)
    noise = 20 * kinks.errors * np.max(np.abs(gradients), axis=1) * np.linalg.norm(inverse, 2)
    floor = np.maximum(noise, 1e-7 * scale)
    good = misfit <= np.maximum(noise, 1e-6 * np.max(np.abs(gradients), axis=1))
    active = np.abs(weights) > floor[:, None]
    votes = np.where(active & good[:, None], sides * np.minimum(np.abs(weights) / floor[:, None], 1e6), 0.0)
    orientation = np.where(orientation == 0, np.sign(np.sum(votes, axis=0)), orientation)
    units = list(units)
    for q in np.argsort(kinks.errors):
        if not good[q]:
            continue
        unit = start_unit(planes, kinks.take([q]))
        unit.known = (sides[q] == orientation) & (orientation != 0)
        unit.weights = np.where(unit.known, weights[q] * sides[q], 0.0)
        if not any(_merge(other, unit) for other in units):
            units.append(unit)
    return units, orientation


def _merge(unit: PreActivation, other: PreActivation, tolerance: float = 1e-5) -> bool:
    """Take over the weights of ``other`` if it is a kink of the same unit."""
    if unit.output @ other.output < 1 - 1e-6:
        return False
    common = unit.known & other.known
    size = max(np.max(np.abs(unit.weights)), np.max(np.abs(other.weights)))
    shown = common & (np.maximum(np.abs(unit.weights), np.abs(other.weights)) > 1e-4 * size)
    if not shown.any():
        return False
    for orientation in (1.0, -1.0):
        apart = np.abs(unit.weights - orientation * other.weights)[common]
        if np.all(apart <= tolerance * size):
            extra = other.known & ~unit.known
            unit.weights = np.where(extra, orientation * other.weights, unit.weights)
            unit.known = unit.known | extra
            return True
    return False
