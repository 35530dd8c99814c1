"""One formula for a step: what a shortened one promises is the same on the host, on a device and in a stack."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.shallow.loss import ShallowLoss
from unweave.shallow.stacked import StackSettings, minimise_stack
from unweave.shallow.steps import ShallowProblem
from unweave.solve.accelerated import AcceleratedProblem
from unweave.solve.descend import Settings, descend
from unweave.solve.layout import Layout
from unweave.solve.step import DenseProblem

FAR = 300.0
"""Answers this large are out of reach of one step."""
FEW = Settings(target=0.0, max_steps=4, damping=1e-6, geodesic=False, stall_steps=0, coarse_damping=np.inf)


def _far_task():
    network = random_network((4, 3, 2), "tanh", 1)
    x = np.random.default_rng(2).standard_normal((60, 4))
    return Layout.of(network), network.flat(), x, FAR * random_network((4, 3, 2), "tanh", 3)(x)


def _host(layout, x, y):
    def residual(theta):
        return (layout.forward(theta, x) - y).ravel()

    return DenseProblem(residual, lambda t: (residual(t), layout.linearise(t, x)[1]), y.size)


def _propose(problem, theta):
    trial, _, promised = problem.expand(theta, False).propose(
        FEW.damping, geodesic=False, difference=0.1, longest_bend=1.5
    )
    return trial, promised


@pytest.mark.parametrize("device", [False, True])
def test_a_shortened_step_promises_what_its_own_linear_model_gains(device):
    layout, theta, x, y = _far_task()
    if device:
        problem = AcceleratedProblem(layout, x, y)
        trial, promised = _propose(problem, problem.inside(theta))
        trial = problem.outside(trial)
    else:
        trial, promised = _propose(_host(layout, x, y), theta)
    step = trial - theta
    assert np.linalg.norm(step) == pytest.approx(2 * (1 + np.linalg.norm(theta)))  # it was shortened
    outputs, jacobian = layout.linearise(theta, x)
    r = (outputs - y).ravel()
    assert promised == pytest.approx(r @ r - np.sum((r + jacobian @ step) ** 2), rel=1e-9)


def test_a_device_takes_the_shortened_steps_of_the_host():
    layout, theta, x, y = _far_task()
    problem = AcceleratedProblem(layout, x, y)
    there = descend(problem, problem.inside(theta), 1.0, FEW)
    here = descend(_host(layout, x, y), theta, 1.0, FEW)
    np.testing.assert_allclose(there.history, here.history, rtol=1e-8)


@pytest.mark.parametrize("num_samples", [15, 60])  # dual and primal
def test_a_stack_takes_the_shortened_steps_of_single_runs(num_samples):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((3, num_samples, 4)), FAR * rng.standard_normal((3, num_samples))
    stack, starts = ShallowLoss(x, y, act.get("softplus"), 5), rng.standard_normal((3, 25))
    end = minimise_stack(stack, starts, StackSettings(max_steps=FEW.max_steps, damping=FEW.damping))
    for k in range(3):
        alone = ShallowLoss(x[k], y[k], stack.activation, 5)
        problem = ShallowProblem(alone, "dual" if num_samples == 15 else "primal")
        found = descend(problem, starts[k], 1.0, FEW)
        np.testing.assert_allclose(end.parameters[k], found.parameters, rtol=1e-6)
