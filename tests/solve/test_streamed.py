"""Streamed least squares: the same sums in any chunks, the same standard errors as a direct computation."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.solve.information import unit_errors
from unweave.solve.layout import Layout
from unweave.solve.normal import sum_normally
from unweave.solve.streamed import fit_streamed, streamed_information


def _rows(network, num_rows: int, noise: float = 0.0):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((num_rows, network.input_size))
    return x, network(x) + noise * rng.standard_normal((num_rows, network.output_size))


def test_chunks_do_not_matter():
    network = random_network((4, 5, 2), "relu", 0)
    x, y = _rows(network, 500, 0.1)
    layout, theta = Layout.of(network), network.flat()
    whole = sum_normally(layout, theta, [(x, y)])
    parts = sum_normally(layout, theta, [(x[:77], y[:77]), (x[77:], y[77:])])
    assert np.allclose(whole.matrix, parts.matrix, rtol=1e-12, atol=1e-9)
    assert np.isclose(whole.loss, parts.loss)
    assert whole.num_residuals == parts.num_residuals == 1000


def test_errors_of_smooth_networks_are_those_of_the_inverse():
    network = random_network((3, 4, 1), "tanh", 1)
    x, y = _rows(network, 400)
    jacobian = Layout.of(network).linearise(network.flat(), x)[1]
    expected = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    found = streamed_information(network, [(x, y)])
    assert found is not None
    assert np.allclose(found.deviations, expected, rtol=1e-5)


def test_errors_of_relu_networks_hold_the_length_of_rows():
    network = random_network((3, 4, 1), "relu", 1).normalised()
    x, y = _rows(network, 400)
    found = streamed_information(network, [(x, y)])
    assert found is not None
    assert np.all(np.isfinite(found.deviations))
    # repeated noise, repeated fits: the spread is what was stated
    rng = np.random.default_rng(0)
    fits = []
    for _ in range(150):
        noisy = network(x) + 0.01 * rng.standard_normal(y.shape)
        fits.append(fit_streamed(network, lambda noisy=noisy: [(x, noisy)])[0].normalised().flat())
    ratio = np.std(fits, axis=0) / np.where(found.deviations > 0, found.deviations / 100, 1)
    assert 0.9 < np.sqrt(np.mean(ratio**2)) < 1.1


def test_a_unit_that_no_row_reaches_is_not_determined():
    network = random_network((3, 4, 1), "relu", 2)
    biases = [np.array([0.1, -0.2, 0.3, -50.0]), network.biases[1]]
    dead = type(network)(network.weights, biases, network.activations)
    found = streamed_information(dead, [_rows(dead, 300)])
    assert found is not None
    errors = unit_errors(dead, 0.1 * found.deviations)
    assert np.isinf(errors[3])
    assert np.all(errors[:3] < 1)
