"""Surplus units of a student with two hidden layers that nearly fits, told by linear algebra.

Close to a fit a student holds every true row of its first layer, and others whose effects cancel. The quadratic model
of the loss (``surgeon``) does not tell them apart: far moves that cancel cost it nothing. But surplus units of the
second layer can be left out one by one as long as the residual really stays, and the arguments of those that remain
are linear in the outputs of the first layer: what each unit there adds to them is a matter of least squares, in which
true units stand out by orders of magnitude. Even units with skips (``forms``) then lose the skips: their signs are
those of the skips, and a plain network has no valleys along them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.core.activations import Activation
from unweave.solve.descend import Minimum
from unweave.solve.layout import Layout
from unweave.students.surgeon import HostSurgeon

RIDGE = 1e-6
"""Of the surgeon's inverse: only compensations that are small are trusted ..."""
UNCHANGED = 2.0
"""... and a unit is gone if the residual stays below so many times what it was."""
TELLING = 10.0
"""True units add so many times as much to the arguments above as all surplus ones together."""
SINGULAR = 1e-12

Fit = Callable[[Layout, np.ndarray, float], Minimum]
"""``fit(layout, parameters, damping)``: a few exact steps."""


def sift(
    layout: Layout, parameters: np.ndarray, u: np.ndarray, v: np.ndarray, activation: Activation, fit: Fit
) -> tuple[Layout, np.ndarray] | None:
    """A plain student near the same function without surplus units of the first layer; None: none stand out."""
    first = fit(layout, parameters, 1e-5)
    layout, theta = drop_second(layout, first.parameters, u, v)
    found = fit(layout, theta, 1e-6)
    kept = choose_first(layout, found.parameters, u, found.rms)
    if kept is None:
        return None
    return _rebuild(layout, found.parameters, kept, u, v, activation)


def drop_second(layout: Layout, theta: np.ndarray, u: np.ndarray, v: np.ndarray) -> tuple[Layout, np.ndarray]:
    """The student without those units of the second layer whose removal leaves the residual as it is."""
    surgeon = HostSurgeon(layout, theta, u, v, ridges=(RIDGE,))
    first, second = layout.hidden
    alive, best, most = np.ones(second, dtype=bool), theta, UNCHANGED * _residual(layout, theta, u, v)
    while alive.sum() > 1:
        unit = int(np.argmin(np.where(alive, surgeon.costs()[1], np.inf)))
        trial = surgeon.remove(1, unit)
        if not _residual(layout, trial, u, v) <= most:
            break
        alive[unit], best = False, trial
    narrow, indices = layout.without([np.ones(first, dtype=bool), alive])
    return narrow, best[indices]


def choose_first(layout: Layout, theta: np.ndarray, u: np.ndarray, rms: float) -> np.ndarray | None:
    """Which units of the first layer the arguments of the second are made of; None: they do not stand out."""
    features, rest = _features(layout, theta, u)
    arguments = np.hstack([features, rest]) @ layout.block(theta, 1).T
    arguments /= np.maximum(np.std(arguments, axis=0), 1e-300)
    order, left = _eliminate(features, rest, arguments)
    without = np.maximum(np.array([0.0, *left]), max(rms, SINGULAR))
    gaps = without[1:] / without[:-1]
    num_surplus = int(np.argmax(gaps)) if len(gaps) else 0
    if not len(gaps) or gaps[num_surplus] < TELLING:
        return None
    kept = np.ones(layout.hidden[0], dtype=bool)
    kept[order[:num_surplus]] = False
    return kept


def _eliminate(features: np.ndarray, rest: np.ndarray, targets: np.ndarray) -> tuple[list[int], list[float]]:
    """The features in the order in which they are missed least, and what each removal leaves of the targets."""
    design = np.hstack([features, rest])
    scales = np.maximum(np.linalg.norm(design, axis=0), 1e-300)
    # everything that follows depends on the triangular factor alone
    factor = np.asarray(np.linalg.qr(np.hstack([design / scales, targets]), mode="r"))
    size = design.shape[1]
    columns, image = factor[:, :size], factor[:, size:]
    alive, fixed = list(range(features.shape[1])), list(range(features.shape[1], size))
    order: list[int] = []
    left: list[float] = []
    while len(alive) > 1:
        chosen = columns[:, alive + fixed]
        gram = chosen.T @ chosen
        gram[np.diag_indices_from(gram)] += SINGULAR
        inverse = np.linalg.inv(gram)
        weights = inverse @ (chosen.T @ image)
        costs = np.sum(weights**2, axis=1)[: len(alive)] / np.diag(inverse)[: len(alive)]
        order.append(alive.pop(int(np.argmin(costs))))
        chosen = columns[:, alive + fixed]
        missed = image - chosen @ np.linalg.lstsq(chosen, image, rcond=SINGULAR)[0]
        left.append(float(np.sqrt(np.sum(missed**2) / len(features) / targets.shape[1])))
    return order, left


def _rebuild(
    layout: Layout,
    theta: np.ndarray,
    kept: np.ndarray,
    u: np.ndarray,
    v: np.ndarray,
    activation: Activation,
) -> tuple[Layout, np.ndarray]:
    """The plain student with the ``kept`` units of the first layer, its last layer fitted again."""
    features, rest = _features(layout, theta, u)
    above = layout.block(theta, 1)
    arguments = np.hstack([features, rest]) @ above.T
    rows = layout.block(theta, 0)[kept].copy()
    design = np.hstack([features[:, kept], rest])
    above = np.linalg.lstsq(design, arguments, rcond=SINGULAR)[0].T
    if layout.skips:
        assert activation.reflection is not None
        slope = -activation.reflection.linear / 2
        num = len(rows)
        vectors = slope * (above[:, :num].T[:, :, None] * rows[:, None, :-1]).reshape(num, -1)
        rows *= _signs(vectors, above[:, num:-1].ravel())[:, None]
        features = activation.value(u @ rows[:, :-1].T + rows[:, -1], np)
        design = np.hstack([features, np.ones((len(u), 1))])
        even = layout.activations[1].value(arguments, np)
        above = np.linalg.lstsq(design, arguments, rcond=SINGULAR)[0].T
        top = np.linalg.lstsq(np.hstack([even, features, np.ones((len(u), 1))]), v, rcond=SINGULAR)[0].T
        vectors = slope * (top[:, : len(above)].T[:, :, None] * above[:, None, :-1]).reshape(len(above), -1)
        above *= _signs(vectors, top[:, len(above) : -1].ravel())[:, None]
    plain = Layout.uniform((u.shape[1], len(rows), len(above), v.shape[1]), _plain_unit(layout, activation))
    hidden = plain.activations[1].value(design @ above.T, np)
    top = np.linalg.lstsq(np.hstack([hidden, np.ones((len(u), 1))]), v, rcond=SINGULAR)[0].T
    return plain, np.concatenate([rows.ravel(), above.ravel(), top.ravel()])


def _plain_unit(layout: Layout, activation: Activation) -> Activation:
    return activation if layout.skips else layout.activations[0]


def _signs(vectors: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Signs s with ``s @ vectors`` near the target."""
    found = np.linalg.lstsq(vectors.T, target, rcond=SINGULAR)[0]
    return np.where(found < 0, -1.0, 1.0)


def _features(layout: Layout, theta: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the first layer, and what else the second one reads, with a one."""
    rows, ones = layout.block(theta, 0), np.ones((len(u), 1))
    features = layout.activations[0].value(u @ rows[:, :-1].T + rows[:, -1], np)
    return features, np.hstack([u, ones]) if layout.skips else ones


def _residual(layout: Layout, theta: np.ndarray, u: np.ndarray, v: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(np.mean((layout.forward(theta, u) - v) ** 2)))
