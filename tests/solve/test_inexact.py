"""Steps by conjugate gradients: products without a Jacobian, their preconditioner, and where they hand over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.solve import inexact
from unweave.solve.descend import Settings
from unweave.solve.fit import CLOSE, fit_layout
from unweave.solve.inexact import Passes, pays
from unweave.solve.layout import Layout, without_affine
from unweave.students.starts import draw_start

WAY = Settings(target=3e-4, max_steps=150, inexact=True)


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(inexact, "WORTH", 0)
    monkeypatch.setattr(inexact, "WORTH_HARD", 0)


@pytest.mark.parametrize("sizes", [(5, 7, 1), (5, 7, 4, 2), (5, 7, 4, 3, 2)])
@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("bent", [False, True])
def test_passes_are_products_with_the_jacobian(sizes, skips, bent):
    layout = replace(Layout.uniform(sizes, act.get("tanh"), skips), bent=bent)
    rng = np.random.default_rng(0)
    theta, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((60, 5))
    outputs, jacobian = layout.linearise(theta, x)
    passes = Passes(layout, theta, x, np.float64)
    v, r = rng.standard_normal(layout.num_parameters), rng.standard_normal(outputs.size)
    np.testing.assert_allclose(passes.outputs, outputs, atol=1e-12)
    np.testing.assert_allclose(passes.forwards(v), jacobian @ v, atol=1e-11)
    np.testing.assert_allclose(passes.backwards(r), jacobian.T @ r, atol=1e-11)
    matrix = jacobian.T @ jacobian
    for layer, blocks in enumerate(passes.unit_blocks()):
        for unit, block in enumerate(blocks):
            own = layout.starts[layer] + unit * len(block) + np.arange(len(block))
            np.testing.assert_allclose(block, matrix[np.ix_(own, own)], atol=1e-11)


def test_a_part_of_many_points_tells_the_blocks():
    layout = Layout.uniform((3, 4, 1), act.get("tanh"))
    rng = np.random.default_rng(1)
    theta, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((4000, 3))
    jacobian = layout.linearise(theta, x)[1]
    block = Passes(layout, theta, x, np.float32).unit_blocks()[0][0]
    whole = (jacobian.T @ jacobian)[:4, :4]
    assert np.linalg.norm(block - whole) < 0.3 * np.linalg.norm(whole)
    assert not np.allclose(block, whole)


def _student(activation="tanh", sizes=(6, 5, 3, 1), widths=(10, 6), seed=3):
    truth = random_network(sizes, activation, seed)
    x = np.random.default_rng(seed).standard_normal((1200, sizes[0]))
    y = truth(x)
    layout = Layout.uniform((sizes[0], *widths, sizes[-1]), act.get(activation))
    return layout, draw_start(layout, x, y, np.random.default_rng(seed)), x, y


def test_the_basin_is_reached_without_a_jacobian(always, monkeypatch):
    layout, start, x, y = _student()

    def refuse(*args):
        raise AssertionError("a Jacobian was formed")

    monkeypatch.setattr(Layout, "linearise", refuse)
    found = fit_layout(layout, start, x, y, settings=WAY)
    assert found.end == "target"
    assert found.rms <= WAY.target


def test_exact_steps_go_on_where_inexact_ones_gain_no_more(always, monkeypatch):
    layout, start, x, y = _student()
    near = fit_layout(layout, start, x, y, settings=WAY).parameters
    monkeypatch.setattr(inexact, "MOST", 1)  # steepest descent: hardly any gain
    sharp = replace(WAY, target=1e-6)
    found = fit_layout(layout, near, x, y, settings=sharp)
    assert found.end == "target"
    assert found.num_steps == len(found.history) - 1 > WAY.stall_steps
    assert found.history[WAY.stall_steps] > 1e-5  # before they took over

    far = fit_layout(layout, start, x, y, settings=replace(sharp, max_steps=10))
    assert far.rms > CLOSE
    assert far.end == "steps"
    assert far.num_steps == 10  # a hopeless start costs no exact steps


def test_bent_outputs_too(always):
    layout, start, x, y = _student()
    seen = without_affine(x, y)
    found = fit_layout(replace(layout, bent=True), start, x, seen, settings=WAY)
    assert found.rms <= WAY.target


def test_small_problems_and_those_that_do_not_ask_take_exact_steps(monkeypatch):
    layout, start, x, y = _student()
    assert not pays(layout)
    wide = Layout.uniform((20, 30, 10, 1), act.get("tanh"))
    assert pays(wide)
    assert not pays(replace(wide, bent=True))
    assert not pays(Layout.uniform((20, 30, 10, 5, 1), act.get("tanh")))

    def refuse(*args):
        raise AssertionError("an inexact step was taken")

    monkeypatch.setattr(Passes, "forwards", refuse)
    fit_layout(layout, start, x, y, settings=replace(WAY, max_steps=2))
    monkeypatch.setattr(inexact, "WORTH", 0)
    fit_layout(layout, start, x, y, settings=replace(WAY, max_steps=2, inexact=False))
