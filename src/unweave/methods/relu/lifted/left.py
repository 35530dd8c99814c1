"""A second-layer unit that is rarely on, from what a network without it leaves over of rough answers.

Where it alone is missing and on, that is its output times an affine function of the first layer's features: answers
that are wrong in one direction among the outputs give its row by linear least squares. Those that do not follow, where
another unit is missing too, are left aside.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network

CLEARLY = 100.0
"""Error bars by which answers must be wrong for their direction to be told."""
SAME = 3.0
"""How far directions may differ and still be one, in their own errors."""
SPARE = 10
"""Answers beyond the weights of a unit that a fit must have."""
PASSES = 10
"""How often the answers that follow a row are chosen anew."""
PARALLEL = 1e-4
"""One minus the cosine of directions of outputs that are one."""
LOWER = 1.1
"""What is taken off beyond what keeps a unit off."""
EXPLAINED = 8.0
"""Error bars up to which an answer follows."""


def with_left_over(
    network: Network, x: np.ndarray, y: np.ndarray, bars: np.ndarray, rng: np.random.Generator
) -> Network | None:
    """The relu network of two hidden layers with one unit more; None where what is left is not one unit's.

    Where what is left has the direction of a unit's output, that unit is wrong: it is told anew without it.
    """
    features = np.maximum(x @ network.weights[0].T + network.biases[0], 0.0)
    features = np.hstack([features, np.ones((len(x), 1))])
    wrong = _wrong_unit(network.weights[2], y - network(x), bars, rng)
    rest = network if wrong is None else _without(network, wrong)
    told = tell_unit(features, y - rest(x), bars, rng)
    if told is None:
        return None
    network = rest
    whole, output = told
    return Network(
        [
            network.weights[0],
            np.vstack([network.weights[1], whole[:-1]]),
            np.column_stack([network.weights[2], output]),
        ],
        [network.biases[0], np.append(network.biases[1], whole[-1]), network.biases[2]],
        network.activations,
    )


def tell_unit(
    features: np.ndarray, left: np.ndarray, bars: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Row over the features (n, f) and output of the unit that ``left`` (n, k) of the answers shows where it is on."""
    sizes = np.linalg.norm(left, axis=1)
    far = np.flatnonzero(sizes > CLEARLY * bars)
    if not len(far):
        return None
    output = _commonest(left[far] / sizes[far, None], bars[far] / sizes[far], rng)
    along = left @ output
    aside = np.linalg.norm(left - along[:, None] * output, axis=1)
    mine = np.flatnonzero(
        (sizes > EXPLAINED * bars) & (along > 0) & (aside < EXPLAINED * bars + along / CLEARLY)
    )
    shown = np.sum(features[mine] != 0, axis=0) > 2
    row = _row(features[np.ix_(mine, shown)], along[mine], bars[mine])
    if row is None:
        return None
    whole = np.zeros(len(shown))
    whole[shown] = row
    if not shown.all():
        _keep_off(whole, ~shown, features[sizes <= EXPLAINED * bars])
    return whole, output


def _wrong_unit(
    columns: np.ndarray, left: np.ndarray, bars: np.ndarray, rng: np.random.Generator
) -> int | None:
    """The one unit whose output has the commonest direction of what is left; None with one output."""
    sizes = np.linalg.norm(left, axis=1)
    far = np.flatnonzero(sizes > CLEARLY * bars)
    if not len(far) or len(columns) < 2:
        return None
    output = _commonest(left[far] / sizes[far, None], bars[far] / sizes[far], rng)
    alike = np.abs(output @ columns) > (1 - PARALLEL) * np.linalg.norm(columns, axis=0)
    return int(np.argmax(alike)) if alike.sum() == 1 else None


def _without(network: Network, unit: int) -> Network:
    first, second, last = network.weights
    return Network(
        [first, np.delete(second, unit, axis=0), np.delete(last, unit, axis=1)],
        [network.biases[0], np.delete(network.biases[1], unit), network.biases[2]],
        network.activations,
    )


def _keep_off(row: np.ndarray, hidden: np.ndarray, features: np.ndarray) -> None:
    """Weights of features that are on in no answer the unit shows in: as low as keeps it off in those it must not."""
    heights, pushes = features @ row, features[:, hidden].sum(axis=1)
    on = (heights > 0) & (pushes > 0)
    row[hidden] = -np.max(heights[on] / pushes[on], initial=0.0) * LOWER


def _commonest(directions: np.ndarray, errors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The mean of those directions that most of the others agree with one of."""
    some = rng.permutation(len(directions))[:400]
    directions, errors = directions[some], errors[some]
    apart = np.linalg.norm(directions[:, None] - directions, axis=2)
    near = apart <= SAME * (errors[:, None] + errors) + 1 / CLEARLY
    best = np.sum(directions[near[int(np.argmax(near.sum(axis=1)))]], axis=0)
    return best / np.linalg.norm(best)


def _row(features: np.ndarray, heights: np.ndarray, bars: np.ndarray) -> np.ndarray | None:
    """Least squares for ``features @ row = heights`` on most of the answers, those that do not follow left aside."""
    kept, row = np.ones(len(heights), dtype=bool), None
    for _ in range(PASSES):
        if kept.sum() < features.shape[1] + SPARE:
            return None
        design = features[kept] / bars[kept, None]
        scale = np.linalg.norm(design, axis=0)
        if not scale.all():
            return None
        row = np.linalg.lstsq(design / scale, heights[kept] / bars[kept], rcond=1e-10)[0] / scale
        misses = np.abs(features @ row - heights) / bars
        sound = misses <= max(SAME * float(np.median(misses)), EXPLAINED)
        if np.array_equal(sound, kept):
            break
        kept = sound
    return row if np.mean(misses <= EXPLAINED) > 0.5 else None
