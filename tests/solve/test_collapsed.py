"""Exact steps from normal equations that are summed over the outputs at once."""

import numpy as np
import pytest

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.solve.collapsed import CollapsedProblem
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_collapsed
from unweave.solve.layout import Layout

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("sizes", [(5, 7, 3), (4, 6, 7, 2), (3, 5, 4, 1)])
@pytest.mark.parametrize(("coarse", "error"), [(False, 1e-9), (True, 1e-3)])
def test_its_solves_are_those_of_the_jacobian(sizes, coarse, error):
    layout = Layout.uniform(sizes, act.get("tanh"))
    x, y = RNG.standard_normal((200, sizes[0])), RNG.standard_normal((200, sizes[-1]))
    theta = RNG.standard_normal(layout.num_parameters)
    outputs, jacobian = layout.linearise(theta, x)
    matrix, r = jacobian.T @ jacobian, (outputs - y).ravel()
    shift = 1e-3 * np.trace(matrix) / len(matrix)
    wanted = np.linalg.solve(matrix + shift * np.eye(len(matrix)), jacobian.T @ r)
    solve = CollapsedProblem(layout, x, y).expand(theta, coarse).damped(1e-3)
    assert solve is not None
    assert np.linalg.norm(solve(r) - wanted) < error * np.linalg.norm(wanted)


def test_a_perturbed_network_comes_back():
    layout = Layout.uniform((4, 6, 5, 2), act.get("tanh"))
    truth = RNG.standard_normal(layout.num_parameters)
    x = RNG.standard_normal((200, 4))
    start = truth + 0.05 * RNG.standard_normal(len(truth))
    fit = fit_collapsed(layout, start, x, layout.forward(truth, x), settings=Settings(target=1e-12))
    assert fit.rms < 1e-12
    assert np.allclose(fit.parameters, truth, atol=1e-8)


def test_other_forms_are_refused():
    tanh = act.get("tanh")
    with pytest.raises(ValueError, match="plain"):
        CollapsedProblem(Layout.uniform((3, 4, 2), tanh, skips=True), np.zeros((5, 3)), np.zeros((5, 2)))
    deep = Layout.of(Network([np.eye(2)] * 4, [np.zeros(2)] * 4, ["tanh"] * 3 + ["identity"]))
    with pytest.raises(ValueError, match="one or two"):
        CollapsedProblem(deep, np.zeros((5, 2)), np.zeros((5, 2)))
