"""The network on top of a saturated first layer, from its values at far vertices.

At a far vertex the hidden vector h in {-1, +1}^m is known exactly, so ``f = T(h)`` is an ordinary fitting problem
for the upper network T. When T is affine the plateaus of one half circle already determine it. Otherwise T has a
hidden layer of unknown width, fitted by Levenberg-Marquardt from random starts on a growing set of vertices:
students with free output weights and some surplus units, pruned afterwards, and, for a single output, students
whose output weights are all equal (the class of Fornasier, Klock and Rauchensteiner), which need fewer vertices.
A fit counts only when it reproduces more answers than it has parameters to the accuracy of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.solve.descend import End, Minimum, Settings, minimise
from unweave.solve.fit import fit_layout, spread_of
from unweave.solve.layout import Layout
from unweave.students.overwide import Pool
from unweave.students.prune import prune

MISSED = "a unit of the first layer was missed on this circle"
GROWTH = 1.25
STARTS_FREE = 2
STARTS_EQUAL = 4
SIZES = (1.0, 0.3)
"""Starts take turns in the size of their rows: sigmoid networks written as tanh have small ones."""
STARTS_THOROUGH = 6
FEW = 300
"""Vertices up to which such a search is cheap."""
PROMISING = 1e-3
"""A start that ran out of steps below this residual is given more of them."""
OUTLYING, MOST_OUTLIERS, OUTLIER_ROUNDS = 12.0, 0.03, 3
"""Residuals this many medians large are outliers, if they are at most this share of the vertices."""
NEARLY = 1e-6
"""A residual below this but above rounding is the right network with a few blemished vertices."""


@dataclass(frozen=True)
class Top:
    """The upper network with its relative residual on the vertices, or the reason why there is none."""

    network: Network | None
    rms: float
    num_vertices: int
    reason: str = ""
    attempts: tuple[tuple[str, tuple[int, ...], int, float, str], ...] = ()
    """What was tried: activation, widths on top, vertices, relative residual, how the fit ended."""
    whole: bool = False
    """Whether the network is the whole one, its first layer included."""


def affine_top(patterns: np.ndarray, values: np.ndarray) -> Network:
    """The least-squares affine map from hidden vectors to outputs."""
    design = np.hstack([patterns, np.ones((len(patterns), 1))])
    solution = np.linalg.lstsq(design, values, rcond=None)[0].T
    return Network([solution[:, :-1]], [solution[:, -1]], ["identity"])


def fit_affine(
    patterns: np.ndarray,
    values: np.ndarray,
    more_patterns: np.ndarray,
    more_values: np.ndarray,
    *,
    scale: float,
    accept: float,
) -> Top:
    """The affine map through the plateaus, if it predicts further vertices to ``accept`` of the scale."""
    top = affine_top(patterns, values)
    worst = float(np.max(np.abs(top(more_patterns) - more_values), initial=0.0)) / scale
    if worst > 1e3 * accept:
        return Top(None, worst, len(patterns), MISSED)
    patterns = np.concatenate([patterns, more_patterns])
    return Top(affine_top(patterns, np.concatenate([values, more_values])), worst, len(patterns))


def fit_top(
    pool: Pool,
    activation: act.Activation,
    *,
    width: int | None,
    accept: float,
    rng: np.random.Generator,
    max_vertices: int,
    deadline: float,
    deeper: bool = False,
) -> Top:
    """Fit one hidden layer on the vertices of a pool, buying more in steps of ``GROWTH`` until a student fits.

    ``accept`` is the relative residual that counts as exact. ``deeper``: more hidden layers will be tried after this,
    so that the search ends without its dearest part.
    """
    patterns, values = pool.x, pool.y
    num_units, num_outputs = patterns.shape[1], values.shape[1]
    start = 2 if width is None else width
    wanted = (
        int(3.2 * start * (num_units + 1)) if num_outputs == 1 else int(3.2 * start * (num_units + 2) / 2)
    )
    best, num_plateaus, attempts = np.inf, len(patterns), []
    while True:
        exhausted = False
        if wanted > len(patterns):
            before, missing = len(pool.x), wanted - len(patterns)
            pool.take(before + missing)
            exhausted = len(pool.x) < before + missing
            patterns = np.concatenate([patterns, pool.x[before:]])
            values = np.concatenate([values, pool.y[before:]])
        last = exhausted or len(patterns) >= max_vertices
        thorough = last and (not deeper or len(patterns) <= FEW)
        for layout, fit in _students(patterns, values, activation, width, rng, accept, thorough, deadline):
            if fit.end is End.STEPS and accept < fit.rms < PROMISING:
                settings = Settings(target=accept / 3, max_steps=400, damping=1e-4, deadline=deadline)
                fit = fit_layout(layout, fit.parameters, patterns, values, settings=settings)
            if fit.rms > accept:
                patterns, values, fit = _drop_outliers(layout, fit, patterns, values, accept)
            if accept < fit.rms < NEARLY:
                patterns, values, fit = _drop_blemished(layout, fit, patterns, values, accept, num_plateaus)
            best = min(best, fit.rms)
            attempts.append((activation.name, layout.sizes[:-1], len(patterns), float(fit.rms), fit.end))
            if fit.rms <= accept:
                top = _finish(layout, fit, patterns, values, accept)
                return replace(top, attempts=tuple(attempts))
            if clock.now() > deadline:
                reason = "the time limit was reached while fitting the second layer"
                return Top(None, best, len(patterns), reason)
        if last:
            return Top(None, best, len(patterns), f"no second layer fits {len(patterns)} far vertices")
        wanted = min(int(GROWTH * len(patterns)) + 1, max_vertices)


def _finish(layout: Layout, fit: Minimum, patterns, values, accept: float) -> Top:
    """Prune to minimal width and bring the residual to rounding."""
    settings = Settings(target=accept / 30, max_steps=60)
    layout, fit = prune(layout, fit, patterns, values, accept=accept, settings=settings)
    settings = Settings(target=1e-16, max_steps=12, damping=1e-9)
    final = fit_layout(layout, fit.parameters, patterns, values, settings=settings)
    return Top(layout.network(final.parameters), final.rms, len(patterns))


def _drop_outliers(layout: Layout, fit: Minimum, patterns, values, accept: float):
    """Leave out the few vertices on the wrong side of a hyperplane whose row was not yet exact enough.

    One wrong sign in a hidden vector keeps the right network from fitting, but sticks out of its residuals; a
    wrong network has no such outliers. What is left out must be little, and the rest must fit exactly.
    """
    settings = Settings(target=accept / 3, max_steps=40, damping=1e-3)
    for _ in range(OUTLIER_ROUNDS):
        residuals = np.max(np.abs(layout.forward(fit.parameters, patterns) - values), axis=1)
        keep = residuals <= OUTLYING * np.median(residuals)
        if keep.all() or keep.mean() < 1 - MOST_OUTLIERS:
            break
        again = fit_layout(layout, fit.parameters, patterns[keep], values[keep], settings=settings)
        if again.rms <= accept:
            return patterns[keep], values[keep], again
        if again.rms > 0.7 * fit.rms:
            break
        fit = Minimum(again.parameters, fit.rms, fit.num_steps, fit.end, fit.history)
    return patterns, values, fit


def _drop_blemished(layout: Layout, fit: Minimum, patterns, values, accept: float, num_plateaus: int):
    """Leave out plateaus of the circle where a unit was not quite saturated: the vertices bought are clean."""
    settings = Settings(target=accept / 3, max_steps=20, damping=1e-6)
    clean_patterns, clean_values = patterns[num_plateaus:], values[num_plateaus:]
    again = fit_layout(layout, fit.parameters, clean_patterns, clean_values, settings=settings)
    if again.rms > accept:
        return patterns, values, fit
    residuals = np.max(np.abs(layout.forward(again.parameters, patterns) - values), axis=1)
    keep = residuals <= 30 * accept * spread_of(values)
    kept = fit_layout(layout, again.parameters, patterns[keep], values[keep], settings=settings)
    return (
        (patterns[keep], values[keep], kept) if kept.rms <= accept else (clean_patterns, clean_values, again)
    )


def _students(patterns, values, activation, width, rng, accept, thorough, deadline):
    """Fits of the students that this many vertices can support, cheapest first.

    ``thorough``, when no more vertices are to be had: every width that the answers overdetermine, more starts.
    """
    num_units, num_outputs = patterns.shape[1], values.shape[1]
    num_answers = values.size
    settings = Settings(target=accept / 3, max_steps=150, deadline=deadline)
    if num_outputs == 1:
        for m in [width] if width is not None else _equal_widths(len(patterns), num_units):
            for start in range(STARTS_EQUAL):
                yield _fit_equal(patterns, values, m, activation, rng, settings, SIZES[start % len(SIZES)])
    surplus = int(num_answers / (2.8 * (num_units + 1 + num_outputs)))
    if width is not None:
        surplus = min(surplus, int(np.ceil(1.5 * width)) + 1)
    if surplus >= (1 if width is None else width):
        for start in range(STARTS_FREE):
            yield _fit_free(patterns, values, surplus, activation, rng, settings, SIZES[start % len(SIZES)])
    if thorough:
        widest = int(num_answers / (1.25 * (num_units + 1 + num_outputs)))
        for m in [width] if width is not None else range(max(surplus, 1), widest + 1):
            for start in range(STARTS_THOROUGH):
                yield _fit_free(patterns, values, m, activation, rng, settings, SIZES[start % len(SIZES)])


def _equal_widths(num_vertices: int, num_units: int) -> range:
    """Widths at 2.9 to 3.7 vertices a parameter; narrow ones are cheap and tried again when there are more."""
    high = max(int(num_vertices / (2.9 * (num_units + 1))), 1)
    low = int(np.ceil(num_vertices / ((6.0 if high <= 6 else 3.7) * (num_units + 1))))
    return range(min(max(low, 1), high), high + 1)


def _fit_free(patterns, values, width, activation, rng, settings, size) -> tuple[Layout, Minimum]:
    layout = Layout.uniform((patterns.shape[1], width, values.shape[1]), activation)
    hidden = size * _random_layer(patterns.shape[1], width, rng, spread=2.0, shift=0.3)
    features = activation(patterns @ hidden[:, :-1].T + hidden[:, -1])
    design = np.hstack([features, np.ones((len(features), 1))])
    gram = design.T @ design
    ridge = 1e-4 * np.trace(gram) / len(gram)
    output = np.linalg.solve(gram + ridge * np.eye(len(gram)), design.T @ values).T
    start = np.concatenate([hidden.ravel(), output.ravel()])
    return layout, fit_layout(layout, start, patterns, values, settings=settings)


def _fit_equal(patterns, values, width, activation, rng, settings, size) -> tuple[Layout, Minimum]:
    """A student whose output weights are one common number, which is fitted too."""
    layout = Layout.uniform((patterns.shape[1], width, 1), activation)
    hidden = size * _random_layer(patterns.shape[1], width, rng, spread=1.0, shift=0.1)
    sums = activation(patterns @ hidden[:, :-1].T + hidden[:, -1]).sum(axis=1)
    weight = np.std(values) / max(float(np.std(sums)), 1e-300)
    start = np.concatenate([hidden.ravel(), [weight, np.mean(values)]])
    cut = hidden.size

    def spelled_out(theta: np.ndarray) -> np.ndarray:
        return np.concatenate([theta[:cut], np.repeat(theta[cut], width), theta[cut + 1 :]])

    def residual(theta: np.ndarray) -> np.ndarray:
        return (layout.forward(spelled_out(theta), patterns) - values).ravel()

    def linearise(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outputs, jacobian = layout.linearise(spelled_out(theta), patterns)
        weight_column = jacobian[:, cut : cut + width].sum(axis=1, keepdims=True)
        return (outputs - values).ravel(), np.hstack(
            [jacobian[:, :cut], weight_column, jacobian[:, cut + width :]]
        )

    found = minimise(residual, linearise, start, scale=spread_of(values), settings=settings)
    return layout, Minimum(
        spelled_out(found.parameters), found.rms, found.num_steps, found.end, found.history
    )


def _random_layer(num_inputs, width, rng, *, spread, shift) -> np.ndarray:
    rows = rng.standard_normal((width, num_inputs))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows *= np.exp(rng.uniform(-1, 1, size=(width, 1)) * np.log(spread))
    return np.hstack([rows, shift * rng.standard_normal((width, 1))])
