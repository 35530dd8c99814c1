"""Sums with units missing, misread beyond a plane or there twice, set right from answers that agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unweave.methods.relu.lifted.consensus import Left, grow_base, grow_unit
from unweave.methods.relu.lifted.repair import on_rarely, repair
from unweave.methods.relu.lifted.ridge_sum import RidgeSum

INPUTS, PLANES, UNITS, OUTPUTS = 3, 8, 6, 2


def draw_sum(rng: np.random.Generator) -> RidgeSum:
    rows = rng.standard_normal((PLANES, INPUTS + 1))
    rows[:, -1] *= 0.4
    rows /= np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
    above = rng.standard_normal((PLANES + INPUTS + 1, OUTPUTS))
    gamma, beta = rng.standard_normal((UNITS, INPUTS + 1)), 0.5 * rng.standard_normal((UNITS, PLANES))
    return RidgeSum(rows, gamma, beta, rng.standard_normal((UNITS, OUTPUTS)), above)


def ask(point: RidgeSum, rng: np.random.Generator, count: int = 12000):
    x = rng.uniform(-1, 1, (count, INPUTS))
    y = point(x)
    bars = np.full(count, 1e-7)
    return x, y + 0.5e-7 * rng.standard_normal(y.shape), bars


def wrong(point: RidgeSum, x, y, bars) -> float:
    return float(np.mean(np.max(np.abs(point(x) - y), axis=1) > 8 * bars))


@pytest.mark.parametrize("seed", range(3))
def test_repair_finds_missing_and_misread_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = draw_sum(rng)
    x, y, bars = ask(truth, rng)
    x1 = np.hstack([x, np.ones((len(x), 1))])
    truth = on_rarely(truth, truth.forward(x1)[2])
    order = np.argsort(np.mean(truth.on(x), axis=0))
    missing, misread, plane = order[2], order[3], 2
    gamma, beta = truth.gamma.copy(), truth.beta.copy()
    beta[misread, plane] += 0.15
    gamma[misread] += 0.15 * truth.rows[plane]
    spoiled = replace(truth, gamma=gamma, beta=beta).take(np.delete(np.arange(UNITS), missing))
    assert wrong(spoiled, x, y, bars) > 0.1
    found = repair(spoiled, x, y, bars, rng, np.inf)
    assert wrong(found, x, y, bars) < 2e-3
    fresh = rng.uniform(-1, 1, (4000, INPUTS))
    assert np.mean(np.max(np.abs(found(fresh) - truth(fresh)), axis=1) > 1e-5) < 5e-3


def test_repair_leaves_out_a_unit_that_is_none() -> None:
    rng = np.random.default_rng(5)
    truth = draw_sum(rng)
    x, y, bars = ask(truth, rng)
    extra = draw_sum(rng)
    spoiled = replace(
        truth,
        gamma=np.vstack([truth.gamma, extra.gamma[:1]]),
        beta=np.vstack([truth.beta, extra.beta[:1]]),
        output=np.vstack([truth.output, 0.01 * extra.output[:1]]),
    )
    found = repair(spoiled, x, y, bars, rng, np.inf)
    assert len(found.gamma) == UNITS
    assert wrong(found, x, y, bars) == 0


def test_a_unit_grows_over_the_planes_that_answers_lie_beyond() -> None:
    rng = np.random.default_rng(1)
    truth = draw_sum(rng)
    x, y, bars = ask(truth, rng)
    state = Left(truth.take(np.arange(1, UNITS)), np.hstack([x, np.ones((len(x), 1))]), y, bars)
    grown = [grow_unit(state, start) for start in rng.permutation(np.flatnonzero(state.wrong))[:10]]
    best = max((g for g in grown if g is not None), key=lambda g: len(g.explained))
    assert len(best.explained) > 0.9 * state.wrong.sum()
    assert np.abs(best.output @ truth.output[0]) > (1 - 1e-6) * np.linalg.norm(truth.output[0])


def test_a_unit_is_off_beyond_planes_where_nobody_asked() -> None:
    rng = np.random.default_rng(1)
    truth = draw_sum(rng)
    x, y, bars = ask(truth, rng)
    near = truth.rows[0, :-1] @ x.T + truth.rows[0, -1] > 0  # on one side of a plane only
    x, y, bars = x[near], y[near], bars[near]
    state = Left(truth.take(np.arange(1, UNITS)), np.hstack([x, np.ones((len(x), 1))]), y, bars)
    grown = [grow_unit(state, start) for start in rng.permutation(np.flatnonzero(state.wrong))[:10]]
    best = max((g for g in grown if g is not None), key=lambda g: len(g.explained))
    assert not best.known[0]
    closed = best.closed(truth.rows).joined(state.point)
    rows = best.explained
    assert np.allclose(closed(x[rows]), best.joined(state.point)(x[rows]), atol=1e-12)
    beyond = rng.uniform(-1, 1, (20000, INPUTS))
    beyond = beyond[truth.rows[0, :-1] @ beyond.T + truth.rows[0, -1] < -0.5]
    assert np.mean(closed.on(beyond)[:, -1]) < np.mean(best.joined(state.point).on(beyond)[:, -1])


def test_what_is_linear_is_told_by_one_region() -> None:
    rng = np.random.default_rng(2)
    truth = draw_sum(rng).take(np.arange(2))
    x, y, bars = ask(truth, rng)
    x1 = np.hstack([x, np.ones((len(x), 1))])
    bare = truth.take(np.arange(1))
    state = Left(replace(bare, above=np.zeros_like(bare.above)), x1, y, bars)
    bases = [grow_base(state, start, rng) for start in range(20)]
    assert max(1 - wrong(base, x, y, bars) for base in bases if base is not None) > 0.4


def test_units_turned_to_their_rarer_side_are_the_same_sum() -> None:
    rng = np.random.default_rng(3)
    truth = draw_sum(rng)
    x = rng.uniform(-1, 1, (500, INPUTS))
    turned = on_rarely(truth, truth.forward(np.hstack([x, np.ones((500, 1))]))[2])
    assert np.allclose(turned(x), truth(x), atol=1e-12)
    assert np.all(np.mean(turned.on(x), axis=0) <= 0.5)
