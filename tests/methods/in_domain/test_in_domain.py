"""In-domain: activation, depth and widths are found inside the domain; samples alone; honest ends."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.comparison import compare
from unweave.core.domains import Ball, Box, Normal
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Problem
from unweave.methods.in_domain import method as in_domain
from unweave.methods.in_domain.method import InDomain, recover_from_samples
from unweave.methods.in_domain.ranges import choose_ranges
from unweave.run import identify

EXACT = Precision(1e-16, 1.0, "float64")


class Model:
    """A network as an oracle."""

    name, notes = "network", ()

    def __init__(self, network: Network, dtype: str = "float64"):
        self.network, self.dtype = network, dtype
        self.input_size, self.output_size = network.input_size, network.output_size

    def __call__(self, x):
        return self.network(x).astype(self.dtype).astype(np.float64)


def _recover(network, activations, domain, *, precision=EXACT, max_depth=2, budget=None, dtype="float64"):
    meter = Meter(Model(network, dtype), domain=domain, budget=budget)
    problem = Problem(activations, None, precision, 3, max_depth)
    return InDomain(time_limit=90).recover(meter, problem), meter


@pytest.mark.parametrize(
    ("sizes", "activation", "domain"),
    [
        ((6, 5, 1), "tanh", Ball(4.0)),
        ((5, 4, 2), "gelu", Box(-2.0, 2.0)),
        ((6, 5, 3, 1), "erf", Normal()),
    ],
)
def test_activation_depth_and_widths_are_found(sizes, activation, domain):
    truth = random_network(sizes, activation, 50)
    finding, meter = _recover(truth, ("tanh", "erf", "gelu", "softplus"), domain)
    assert finding.network is not None, finding.reason
    assert compare(truth, finding.network).max_relative_error < 1e-8
    assert finding.alternatives[activation] < 1e-12
    assert min(r for name, r in finding.alternatives.items() if name != activation) > 1e-6
    assert meter.ledger.total <= 15 * truth.num_parameters


def test_sigmoid_and_tanh_are_one_candidate():
    truth = random_network((5, 4, 1), "sigmoid", 51)
    finding, _ = _recover(truth, ("tanh", "sigmoid"), Ball(4.0), max_depth=1)
    assert set(finding.alternatives) == {"tanh"}
    assert compare(truth, finding.network).max_relative_error < 1e-8


def test_a_budget_is_kept_and_its_end_is_said():
    truth = random_network((8, 10, 1), "tanh", 52)
    finding, meter = _recover(truth, ("tanh",), Ball(4.0), budget=150, max_depth=1)
    assert finding.network is None
    assert meter.ledger.total <= 150
    assert "budget" in finding.reason


def test_steep_networks_are_asked_close_to_the_middle():
    mild = random_network((5, 4, 1), "tanh", 53)
    steep = Network([8 * mild.weights[0], mild.weights[1]], mild.biases, mild.activations)
    finding, meter = _recover(steep, ("tanh",), Ball(5.0), max_depth=1)
    assert compare(steep, finding.network).max_relative_error < 1e-8
    assert meter.ledger.total <= 20 * steep.num_parameters


class Wave:
    input_size, output_size = 5, 1

    def __init__(self, steepness):
        self.steepness = steepness

    def __call__(self, x):
        return np.sin(self.steepness * x[:, :1] + 0.5)


def test_two_ranges_leave_the_certificate_its_share_of_a_budget():
    meter = Meter(Model(Wave(6.0), "float64"), domain=Ball(5.0), budget=400)
    InDomain(time_limit=20).recover(meter, Problem(("tanh",), None, EXACT, 3, 1))
    assert meter.ledger.left == 400 // 5


@pytest.mark.parametrize(
    ("steepness", "precision", "num_ranges"),
    [(0.5, EXACT, 1), (6.0, EXACT, 2), (6.0, Precision(6e-8, 1.0, "float32"), 1)],
)
def test_where_only_a_small_part_would_do_exact_answers_come_from_the_whole_domain_too(
    steepness, precision, num_ranges
):
    meter = Meter(Model(Wave(steepness), "float64"), domain=Ball(5.0))
    problem = Problem(("tanh",), None, precision, 3, 1)
    ranges = choose_ranges(meter, problem, problem.rng(31))
    lengths = [np.max(np.linalg.norm(r.draw(500), axis=1)) for r in ranges]
    for r, length in zip(ranges, lengths, strict=True):  # what was asked to choose them is not asked again
        assert len(r.x) == len(r.y) > 0
        assert np.max(np.linalg.norm(r.x, axis=1)) <= 1.1 * length
    assert len(lengths) == num_ranges
    assert max(lengths) <= meter.domain.radius
    if num_ranges == 2:
        assert lengths[0] > 0.9 * 2 * np.sqrt(5)
        assert lengths[1] < lengths[0] / 3


def test_an_affine_model_has_no_hidden_units():
    affine = Network([[[1.0, -2.0, 0.5]]], [[0.3]], ["identity"])
    finding, _ = _recover(affine, ("tanh",), Ball(2.0))
    assert finding.network is not None
    assert finding.network.hidden == ()
    assert "affine" in finding.reason


def test_a_float32_model_is_read_to_its_precision():
    truth = random_network((6, 4, 1), "tanh", 54)
    finding, _ = _recover(
        truth, ("tanh",), Ball(4.0), precision=Precision(6e-8, 1.0, "float32"), max_depth=1, dtype="float32"
    )
    assert finding.network is not None, finding.reason
    assert compare(truth, finding.network).max_relative_error < 1e-5


def test_rounded_answers_are_asked_for_until_parameters_are_sharp(monkeypatch):
    """Where rounding leaves parameters coarse, more points are bought, a bounded number of times."""
    truth, rounded = random_network((6, 5, 1), "tanh", 54), Precision(6e-8, 1.0, "float32")
    ends = []
    for sharp in (1.0, 1e-9):
        monkeypatch.setattr(in_domain, "SHARP", sharp)
        ends.append(_recover(truth, ("tanh",), Ball(4.0), precision=rounded, max_depth=1, dtype="float32"))
    (few, first), (many, second) = ends
    assert second.ledger.total <= in_domain.MOST * first.ledger.total
    assert many.details["num_points"] == in_domain.MOST * few.details["num_points"]
    assert np.max(many.details["standard_errors"]) < 0.5 * np.max(few.details["standard_errors"])
    errors = [compare(truth, found.network).max_relative_error for found in (few, many)]
    assert errors[1] < 0.7 * errors[0]


def test_samples_alone_suffice():
    truth = random_network((6, 5, 2), "tanh", 55)
    rng = np.random.default_rng(56)
    x = 1.0 + rng.standard_normal((400, 6)) @ np.triu(np.ones((6, 6)))  # correlated, not centred
    small = Network([truth.weights[0] / 3, truth.weights[1]], truth.biases, truth.activations)
    finding = recover_from_samples(x, small(x), Problem(("tanh",), None, EXACT, 3, 1))
    assert finding.network is not None, finding.reason
    assert compare(small, finding.network).max_relative_error < 1e-8


def test_constant_inputs_are_reported_as_undetermined():
    truth = random_network((5, 4, 1), "tanh", 57)
    x = np.random.default_rng(58).standard_normal((400, 5))
    x[:, 3] = 2.0
    finding = recover_from_samples(x, truth(x), Problem(("tanh",), None, EXACT, 3, 1))
    assert finding.network is not None, finding.reason
    assert finding.undetermined


def test_an_engine_changes_where_students_run_and_nothing_else():
    truth = random_network((5, 4, 1), "tanh", 3)
    alone, together = (
        identify(truth, activation="tanh", domain=Ball(4.0), seed=2, engine=engine)
        for engine in (None, "threads")
    )
    assert alone.identified
    assert alone.ledger.total == together.ledger.total
    assert np.array_equal(alone.network.flat(), together.network.flat())


@pytest.mark.parametrize(
    ("sizes", "activation", "domain"),
    [((36, 6, 3, 1), "tanh", Box(-2.0, 2.0)), ((40, 5, 2), "silu", Ball(10.0))],
)
def test_of_many_inputs_and_few_units_only_the_active_directions_are_searched(sizes, activation, domain):
    network = random_network(sizes, activation, 2)
    found = identify(network, method="in-domain", domain=domain, activation=activation, seed=1)
    assert found.identified, found.reason
    assert compare(network, found.network).max_relative_error < 1e-8
    assert found.ledger.by_stage["active subspace"] > 0
    assert found.ledger.total < 12 * network.num_parameters


def test_single_precision_shows_the_active_directions_too():
    network = random_network((36, 6, 2), "tanh", 2)
    layers = [
        (w.astype(np.float32), b.astype(np.float32))
        for w, b in zip(network.weights, network.biases, strict=True)
    ]

    def single(x: np.ndarray) -> np.ndarray:
        (w, b), (v, c) = layers
        return np.tanh(x.astype(np.float32) @ w.T + b) @ v.T + c

    found = identify(single, input_size=36, method="in-domain", domain=Box(-2.0, 2.0), seed=1)
    assert found.identified, found.reason
    assert compare(network, found.network).max_relative_error < 1e-4
    assert found.ledger.by_stage["active subspace"] > 0


def test_softsign_units_are_tried_where_the_answers_level_off_slowly():
    truth = random_network((6, 8, 2), "softsign", 4)
    found = identify(truth, input_size=6)
    assert found.identified
    assert found.network is not None
    assert compare(truth, found.network).max_relative_error < 1e-9


def test_selu_in_a_ball():
    truth = random_network((3, 4, 1), "selu", seed=2)
    found = identify(truth, hidden=(4,), domain=Ball(10.0))
    assert found.identified, found.reason
    assert found.network.hidden_activations == ("selu",)
    assert compare(truth, found.network).max_relative_error < 1e-9
