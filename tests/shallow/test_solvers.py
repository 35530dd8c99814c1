"""Every solver of the shallow loss: the three linear systems agree, saddles are left, stacks equal single runs."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core import activations as act
from unweave.shallow import gradient_descent, stacked, trust_region
from unweave.shallow.lanczos import dense_least_eigenpair, least_eigenpair
from unweave.shallow.loss import ShallowLoss
from unweave.shallow.steps import ShallowProblem, choose_system, fit_shallow
from unweave.solve.descend import Settings


def _loss(n: int, d: int, k: int, name: str = "softplus(10)", seed: int = 0):
    rng = np.random.default_rng(seed)
    loss = ShallowLoss(rng.standard_normal((n, d)), rng.standard_normal(n), act.get(name), k)
    start = loss.join(rng.standard_normal((k, d)) / np.sqrt(d), rng.choice([-1.0, 1.0], k))
    return loss, start


def _stack(loss: ShallowLoss, count: int) -> ShallowLoss:
    return ShallowLoss(
        np.repeat(loss.x[None], count, 0), np.repeat(loss.y[None], count, 0), loss.activation, loss.width
    )


def test_dual_primal_and_matrix_free_propose_the_same_step():
    loss, start = _loss(30, 5, 5)
    proposals = [
        ShallowProblem(loss, system)
        .expand(start, False)
        .propose(0.1, geodesic=True, difference=0.1, longest_bend=1.5)
        for system in ("dual", "primal", "matrix-free")
    ]
    for trial, value, _ in proposals[1:]:
        assert np.allclose(trial, proposals[0][0], atol=2e-3 * np.linalg.norm(trial))
        assert value == pytest.approx(proposals[0][1], rel=2e-2)
    assert [choose_system(*sizes) for sizes in ((30, 40), (40, 30), (9000, 9000), (9000, 5000))] == [
        "dual",
        "primal",
        "matrix-free",
        "matrix-free",
    ]


@pytest.mark.parametrize("system", ["dual", "matrix-free"])
def test_random_labels_are_interpolated(system):
    loss, start = _loss(40, 6, 10)
    found = fit_shallow(loss, start, system=system, settings=Settings(stall_steps=0, max_steps=300))
    assert float(loss.value(found.parameters)) < 1e-24


def test_a_stack_ends_where_single_runs_end():
    loss, _ = _loss(40, 6, 10)
    starts = np.array([_loss(40, 6, 10, seed=s)[1] for s in range(4)])
    end = stacked.minimise_stack(_stack(loss, 4), starts)
    assert np.all(end.value < 1e-24)
    adaptive = gradient_descent.DescentSettings(max_steps=200)
    both = gradient_descent.descend_stack(_stack(loss, 4), starts, adaptive)
    alone = [gradient_descent.descend(loss, start, adaptive) for start in starts]
    assert np.allclose(both.value, [float(run.value) for run in alone], rtol=1e-6)
    assert np.all(both.value < loss.value(starts))


def test_the_trust_region_leaves_an_exact_saddle_and_ends_second_order_stationary():
    rng = np.random.default_rng(0)
    output = np.tile([1.0, -1.0], 6)
    x, y = rng.standard_normal((40, 6)), rng.standard_normal(40)
    loss = ShallowLoss(x, y, act.get("quadratic"), 12, output)
    saddle = np.zeros(loss.num_parameters)
    assert np.all(loss.at(saddle).gradient == 0)
    single = trust_region.descend(loss, saddle)
    end = trust_region.descend_stack(
        ShallowLoss(x[None], y[None], loss.activation, 12, output[None]), saddle[None]
    )
    for value, gradient, curvature in (
        (end.value[0], end.gradient[0], end.curvature[0]),
        (single.value, single.gradient, single.curvature),
    ):
        assert value < loss.value(saddle) / 2
        assert gradient < 1e-6 * value
        assert curvature > -1e-6
    assert float(single.value) == pytest.approx(float(end.value[0]), rel=1e-6)


def test_plain_descent_stays_at_a_saddle_and_perturbed_descent_leaves_it():
    rng = np.random.default_rng(0)
    loss = ShallowLoss(
        rng.standard_normal((40, 4)),
        rng.standard_normal(40),
        act.get("quadratic"),
        8,
        np.tile([1.0, -1.0], 4),
    )
    saddle = np.zeros(loss.num_parameters)
    settings = gradient_descent.DescentSettings(max_steps=3000)
    before = float(loss.value(saddle))
    assert float(gradient_descent.descend(loss, saddle, settings).value) == before
    left = gradient_descent.descend(loss, saddle, settings, perturbed=True)
    assert float(left.value) < 0.98 * before


def test_constant_steps_that_overflow_end_the_run():
    loss, start = _loss(40, 6, 10, "quadratic")
    end = gradient_descent.descend_stack(
        _stack(loss, 1), start[None], gradient_descent.DescentSettings(step=10.0, max_steps=500)
    )
    assert end.num_steps[0] < 500


def test_lanczos_brackets_the_least_eigenvalue():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((600, 600)))[0]
    values = np.concatenate([[-0.3], rng.uniform(0, 5, 599)])
    matrix = (basis * values) @ basis.T
    found = least_eigenpair(lambda u: matrix @ u, 600)
    assert found.lower <= -0.3 + 1e-9
    assert found.value == pytest.approx(-0.3, abs=1e-6)
    assert found.direction @ matrix @ found.direction == pytest.approx(found.value, abs=1e-9)
    assert not found.exact
    dense = dense_least_eigenpair(matrix)
    assert dense.exact
    assert dense.lower <= -0.3 <= dense.value + 1e-12
