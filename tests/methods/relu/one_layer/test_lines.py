"""One hidden layer of relu units: exact, frugal, and honest where the function leaves something open."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.domains import Ball, Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Problem
from unweave.methods.relu.one_layer.lines import ReluLines, _stay
from unweave.methods.relu.one_layer.polish import fit_doubtful
from unweave.methods.relu.one_layer.ridges import RidgeSum, fit_affine_part
from unweave.models.resolve import resolve
from unweave.probes.cells import measure_pieces
from unweave.probes.inquiry import open_inquiry
from unweave.probes.planes import Planes

EXACT = Precision(1e-16, 1.0, "float64")


def _recover(model, seed=0, *, domain=None, hidden=None, activations=("relu",), precision=EXACT):
    meter = Meter(resolve(model), domain=domain)
    return ReluLines().recover(meter, Problem(activations, hidden, precision, seed)), meter


@pytest.mark.parametrize(
    ("sizes", "limit"),
    [
        ((10, 20, 1), 3.4),
        ((20, 10, 1), 3.4),
        ((10, 20, 3), 3.4),
        ((20, 40, 1), 3.4),
        ((100, 64, 1), 2.4),
        ((1, 9, 1), 12),
    ],
)
def test_random_networks_come_back_exactly(sizes, limit):
    for seed in range(3):
        network = random_network(sizes, "relu", seed + 50)
        finding, meter = _recover(network, seed)
        assert finding.network is not None
        assert not finding.undetermined
        assert unweave.compare(network, finding.network).max_relative_error <= 1e-9
        assert meter.ledger.total <= limit * network.num_parameters


def test_vector_outputs_save_queries():
    network = random_network((60, 40, 10), "relu", 1)
    finding, meter = _recover(network)
    assert unweave.compare(network, finding.network).max_relative_error <= 1e-9
    assert meter.ledger.total <= 1.6 * network.num_parameters


@pytest.mark.parametrize("slope", [0.01, 0.3])
def test_the_slope_of_the_leak_is_found(slope):
    for sizes in ((10, 8, 1), (10, 14, 1), (8, 20, 3)):
        network = random_network(sizes, f"leaky_relu({slope})", 4)
        finding, _ = _recover(network, activations=("relu", "leaky_relu"))
        assert finding.network is not None
        assert finding.network.activations[0] == f"leaky_relu({slope})"
        assert unweave.compare(network, finding.network).max_relative_error <= 1e-9


def test_equal_and_opposite_rows_are_merged_into_what_the_function_shows():
    network = random_network((10, 8, 1), "relu", 3)
    rows, biases = network.weights[0].copy(), network.biases[0].copy()
    rows[1], biases[1] = 2 * rows[0], 2 * biases[0]
    rows[3], biases[3] = -rows[2], -biases[2]
    twin = Network([rows, network.weights[1]], [biases, network.biases[1]], network.activations)
    finding, _ = _recover(twin)
    assert finding.network is not None
    assert finding.network.hidden == (7,)
    x = np.random.default_rng(0).standard_normal((500, 10))
    np.testing.assert_allclose(finding.network(x), twin(x), atol=1e-10)


def test_dead_units_are_named():
    network = random_network((10, 8, 1), "relu", 3)
    rows, outputs = network.weights[0].copy(), network.weights[1].copy()
    rows[1], outputs[0, 4] = 0.0, 0.0
    finding, _ = _recover(Network([rows, outputs], network.biases, network.activations), hidden=(8,))
    assert finding.network is not None
    assert finding.network.hidden == (6,)
    assert "2 of the 8 hidden units are invisible" in finding.warnings[0]


def test_a_linear_skip_leaves_the_sides_open():
    network = random_network((6, 5, 1), "relu", 3)
    skip = np.random.default_rng(1).standard_normal((1, 6))
    meter = Meter(resolve(lambda x: network(x) + x @ skip.T, input_size=6))
    finding = ReluLines().recover(meter, Problem(("relu",), None, EXACT, 2))
    assert finding.network is not None
    assert len(finding.undetermined) == 5
    x = np.random.default_rng(0).standard_normal((500, 6))
    np.testing.assert_allclose(finding.network(x), network(x) + x @ skip.T, atol=1e-10)


def test_dependent_rows_leave_their_sides_open():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4, 3))
    rows[3] = -(rows[0] + rows[1])
    network = Network([rows, np.ones((1, 4))], [rng.uniform(-1, 1, 4), [0.3]], ["relu", "identity"])
    finding, _ = _recover(network)
    assert finding.network is not None
    assert len(finding.undetermined) == 3
    x = 3 * rng.standard_normal((500, 3))
    np.testing.assert_allclose(finding.network(x), network(x), atol=1e-11)


@pytest.mark.parametrize("domain", [Ball(3.0), Box(-1.0, 1.0)], ids=["ball", "box"])
def test_inside_a_bounded_domain(domain):
    network = random_network((10, 20, 1), "relu", 7)
    finding, _ = _recover(network, domain=domain)
    assert finding.network is not None
    assert unweave.compare(network, finding.network).max_relative_error <= 1e-9


def test_units_outside_the_domain_look_linear_and_are_named():
    network = random_network((10, 20, 1), "relu", 1)
    finding, meter = _recover(network, domain=Ball(0.3), hidden=(20,))
    assert finding.network is not None
    assert any("invisible in Ball" in w for w in finding.warnings)
    assert finding.undetermined
    x = meter.domain.sample(300, 10, np.random.default_rng(5))
    np.testing.assert_allclose(finding.network(x), network(x), atol=1e-9)


def test_an_affine_function_is_said_to_be_affine():
    finding, _ = _recover(Network([np.ones((2, 4))], [[0.0, 1.0]], ["identity"]))
    assert finding.network is not None
    assert finding.network.hidden == ()
    assert "affine" in finding.warnings[-1]


def test_two_hidden_layers_are_not_taken_for_one():
    for seed in range(4):
        finding, _ = _recover(random_network((8, 8, 6, 1), "relu", seed), seed)
        assert finding.network is None
        assert "more than one hidden layer" in finding.reason


def test_a_float32_module():
    import torch

    truth = random_network((10, 20, 1), "relu", 1)
    truth = Network(
        [w.astype(np.float32) for w in truth.weights],
        [b.astype(np.float32) for b in truth.biases],
        truth.activations,
    )
    layers = [torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1)]
    for layer, w, b in (
        (layers[0], truth.weights[0], truth.biases[0]),
        (layers[2], truth.weights[1], truth.biases[1]),
    ):
        layer.weight.data, layer.bias.data = torch.tensor(w).float(), torch.tensor(b).float()
    finding, _ = _recover(torch.nn.Sequential(*layers), 1, precision=Precision(1e-7, 3.0, "float32"))
    assert finding.network is not None
    assert unweave.compare(truth, finding.network).max_relative_error <= 1e-4


def test_a_trained_regressor_behind_a_scaler():
    from sklearn.datasets import make_friedman1
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = make_friedman1(300, 10, noise=0.5, random_state=0)
    model = make_pipeline(
        StandardScaler(),
        MLPRegressor(hidden_layer_sizes=(16,), activation="relu", max_iter=60, tol=1.0, random_state=0),
    ).fit(x, (y - y.mean()) / y.std())
    found = unweave.identify(model, seed=1)
    assert found.identified, found.reason
    assert found.method == "relu-lines"
    assert unweave.compare(model, found.network).max_relative_error <= 1e-9


def test_units_without_room_are_fitted_to_answers_from_everywhere():
    network = random_network((6, 9, 1), "relu", seed=4)
    meter = Meter(resolve(network), domain=Ball(3.0))
    rng = np.random.default_rng(0)
    inquiry = open_inquiry(meter, EXACT, rng)
    lengths = np.linalg.norm(network.weights[0], axis=1)
    normals, offsets = network.weights[0] / lengths[:, None], network.biases[0] / lengths
    errors = np.where(np.arange(9) < 2, 1e-5, 1e-13)
    jumps = (network.weights[1] * lengths).T
    off = errors[:, None] * rng.standard_normal((9, 6))
    planes = Planes(normals + off, offsets, jumps, errors, -offsets[:, None] * normals)
    gradient = network.weights[1] @ network.weights[0] / 2
    constant = network.biases[1] + network.weights[1] @ network.biases[0] / 2
    fitted = fit_doubtful(inquiry, RidgeSum(planes, gradient, constant), rng)
    x = meter.domain.sample(200, 6, rng)
    assert np.max(np.abs(fitted(x) - network(x))) < 1e-10
    assert np.max(fitted.planes.errors) < 1e-9


@pytest.mark.parametrize("seed", [4, 5])
def test_a_unit_taken_for_two_side_by_side_is_looked_for_anew(seed):
    """It leaves no kink on any line, but a difference on one side of its plane."""
    network = random_network((6, 5, 1), "relu", seed)
    meter, rng = Meter(resolve(network), domain=Ball(3.0)), np.random.default_rng(0)
    inquiry = open_inquiry(meter, EXACT, rng)
    lengths = np.linalg.norm(network.weights[0], axis=1)
    normals, offsets = network.weights[0] / lengths[:, None], network.biases[0] / lengths
    jumps = (network.weights[1] * lengths).T.copy()
    jumps[0] /= 2  # the first unit, half of it shifted
    planes = Planes(
        np.vstack([normals, normals[:1]]),
        np.append(offsets, offsets[0] + 1e-6),
        np.vstack([jumps, jumps[:1]]),
        np.append(np.full(5, 1e-9), 2e-9),
        -np.append(offsets, offsets[0] + 1e-6)[:, None] * np.vstack([normals, normals[:1]]),
    )
    pieces = measure_pieces(inquiry, np.zeros((1, 6)), np.array([1e-3]), rng)
    model, _, clean = ReluLines()._explain(inquiry, fit_affine_part(planes, pieces), pieces, rng)
    assert clean
    assert len(model.planes) == 5
    x = Ball(3.0).sample(200, 6, rng)
    assert np.max(np.abs(model(x) - network(x))) < 1e-9


@pytest.mark.parametrize("width", [0.1, 1e-3])
def test_a_network_that_does_not_bend_in_its_box_is_the_affine_map_it_is_there(width):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((5, 4)), rng.standard_normal((2, 5))]
    network = Network(weights, [np.array([3.0, -3, 3, -3, 3]), np.zeros(2)], ["relu", "identity"])
    domain = Box(-width, width)
    found = unweave.identify(network, domain=domain, time_limit=10)
    assert found.identified, found.verdict()
    assert not found.network.hidden
    x = domain.sample(100, 4, rng)
    assert np.max(np.abs(found.network(x) - network(x))) < 1e-12


def test_kinks_that_stay_tell_of_a_second_layer() -> None:
    assert _stay([89, 104, 67], 12)
    assert not _stay([66, 10, 0], 12)
    assert not _stay([212, 14, 1], 12)
    assert not _stay([89, 104], 12)
