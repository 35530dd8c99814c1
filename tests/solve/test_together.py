"""Several starts under ``vmap`` take the steps that each would take alone, and come in the order in which they end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truth import random_network
from unweave.solve import together
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import without_affine
from unweave.students.forms import Form
from unweave.students.starts import draw_start

STEADY = Settings(target=1e-9, max_steps=60, coarse_damping=np.inf)


def _task(sizes, activation="tanh", num_starts=3):
    truth = random_network(sizes, activation, 8)
    x = np.random.default_rng(9).standard_normal((40 * sum(truth.hidden), sizes[0]))
    y = truth(x)
    layout = Form.of(activation).layout((sizes[0], *(m + 3 for m in truth.hidden), sizes[-1]))
    return layout, [draw_start(layout, x, y, np.random.default_rng(k)) for k in range(num_starts)], x, y


@pytest.mark.parametrize(
    ("sizes", "activation"), [((4, 5, 1), "tanh"), ((4, 5, 3, 2), "sigmoid"), ((3, 4, 1), "gelu")]
)
def test_each_start_takes_the_steps_it_would_take_alone(sizes, activation):
    layout, starts, x, y = _task(sizes, activation)
    few = replace(STEADY, max_steps=12)
    side_by_side = {fit.history[0]: fit for fit in together.fit_together(layout, starts, x, y, few)}
    for start in starts:
        alone = fit_layout(layout, start, x, y, settings=few)
        fit = side_by_side[min(side_by_side, key=lambda first: abs(first - alone.history[0]))]
        np.testing.assert_allclose(fit.history, alone.history, rtol=1e-5)
        assert fit.end == alone.end


def test_bent_layouts_too():
    layout, starts, x, y = _task((4, 5, 1))
    bent, few = replace(layout, bent=True), replace(STEADY, max_steps=8)
    seen = without_affine(x, y)
    fits = list(together.fit_together(bent, starts, x, seen, few))
    alone = [fit_layout(bent, start, x, seen, settings=few) for start in starts]
    np.testing.assert_allclose(sorted(fit.rms for fit in fits), sorted(fit.rms for fit in alone), rtol=1e-5)


def test_they_come_in_the_order_in_which_they_end_and_the_rest_waits(monkeypatch):
    layout, starts, x, y = _task((4, 5, 1), num_starts=4)
    fits = list(together.fit_together(layout, starts, x, y, STEADY))
    steps = [fit.num_steps for fit in fits]
    assert len(fits) == 4
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]

    step, taken = together._step(), []
    monkeypatch.setattr(together, "_step", lambda: lambda *args: (taken.append(1), step(*args))[1])
    first = next(together.fit_together(layout, starts, x, y, STEADY))
    assert len(taken) == first.num_steps == steps[0]


def test_every_start_has_its_own_end():
    layout, starts, x, y = _task((4, 5, 1), num_starts=2)
    done = fit_layout(layout, starts[0], x, y, settings=STEADY)
    assert done.converged
    hopeless = np.full_like(starts[1], 40.0)  # saturated everywhere: nothing to gain
    fits = list(together.fit_together(layout, [done.parameters, hopeless], x, y, STEADY))
    assert fits[0].end == "target"
    assert fits[0].num_steps == 0
    np.testing.assert_array_equal(fits[0].parameters, done.parameters)
    assert fits[1].end in ("stalled", "stationary")
    assert fits[1].rms > 0.1


def test_without_an_accelerator_they_run_one_after_the_other():
    layout, starts, x, y = _task((4, 5, 1))
    fits = list(together.fit_each(layout, starts, x, y, STEADY))
    alone = [fit_layout(layout, start, x, y, settings=STEADY) for start in starts]
    assert [fit.history for fit in fits] == [fit.history for fit in alone]


def test_only_small_fits_share_a_launch(monkeypatch):
    monkeypatch.setattr(together, "use_accelerator", lambda *size: True)
    assert together.runs_together(4000, 900)
    assert not together.runs_together(40_000, 9000)
