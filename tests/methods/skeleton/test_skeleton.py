"""The far skeleton: relu-like smooth networks through identify, and the pieces it is made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import unweave
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.far_view import FarView
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.formats.torch import to_torch
from unweave.methods.registry import entries
from unweave.methods.served import SERVED
from unweave.methods.skeleton.alpha import fit_alpha
from unweave.methods.skeleton.places import find_place
from unweave.methods.skeleton.profiles import CANDIDATES, fit_profile, name_elu
from unweave.methods.skeleton.quiet import add_quiet_units
from unweave.methods.skeleton.settle import settle, window_points
from unweave.models.resolve import resolve
from unweave.models.torch_module import read_module
from unweave.probes.piecewise_linear import is_piecewise_linear
from unweave.run import queries


def as_torch_initialises(sizes, activations, seed: int) -> Network:
    """Weights and biases uniform within one over the root of the fan-in, as ``nn.Linear`` has them."""
    rng = np.random.default_rng([seed, *sizes])
    weights, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        bound = 1 / np.sqrt(fan_in)
        weights.append(rng.uniform(-bound, bound, (fan_out, fan_in)))
        biases.append(rng.uniform(-bound, bound, fan_out))
    return Network(weights, biases, [*activations, "identity"])


@pytest.mark.parametrize(
    "name",
    [
        "gelu",
        "silu",
        "softplus",
        "elu",
        "elu(1.001)",
        "elu(1.2345)",
        "mish",
        "selu",
        "celu(0.5)",
        "gelu_tanh",
    ],
)
def test_one_layer_of_each_activation(name):
    truth = as_torch_initialises((6, 8, 1), [name], seed=1)
    found = unweave.identify(truth)
    assert found.identified, found.reason
    assert found.method == "skeleton"
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9
    assert found.ledger.total < 25 * truth.num_parameters


@pytest.mark.parametrize("names", [("gelu", "gelu"), ("silu", "elu")])
def test_two_layers_alike_or_not(names):
    truth = as_torch_initialises((6, 8, 6, 2), names, seed=2)
    found = unweave.identify(truth)
    assert found.identified, found.reason
    assert found.network.activations == (*names, "identity")
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9


def test_a_large_domain_is_seen_from_inside():
    truth = as_torch_initialises((6, 8, 6, 2), ("gelu", "gelu"), seed=2)
    found = unweave.identify(truth, domain=unweave.Ball(1e9))
    assert found.identified, found.reason
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9


def test_three_layers():
    truth = as_torch_initialises((10, 12, 12, 12, 1), ["gelu"] * 3, seed=3003)
    found = unweave.identify(truth)
    assert found.identified, found.reason
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9


@pytest.mark.parametrize("name", ["gelu", "softplus", "elu", "selu"])
def test_single_precision(name):
    module = to_torch(as_torch_initialises((6, 8, 1), [name], seed=1)).to(torch.float32)
    found = unweave.identify(module)
    assert found.identified, found.reason
    assert found.method == "skeleton"
    assert unweave.compare(read_module(module), found.network).max_relative_error < 1e-5


def test_an_activation_outside_the_table_is_the_reason():
    truth = as_torch_initialises((5, 6, 1), ["relu"], seed=3)

    def answer(x):
        z = x @ truth.weights[0].T + truth.biases[0]
        return (np.maximum(z, 0) + 0.3 * np.exp(-(z**2))) @ truth.weights[1].T

    found = unweave.identify(answer, input_size=5, surrogate=False)
    assert not found.identified
    assert "the activation of layer 1 is none of gelu" in found.reason


def test_the_named_activation_alone_is_tried():
    truth = as_torch_initialises((5, 6, 1), ["silu"], seed=4)
    found = unweave.identify(truth, activation="gelu")
    assert not found.identified
    found = unweave.identify(truth, activation="silu")
    assert found.identified


@pytest.mark.parametrize("name", [*CANDIDATES, "elu(0.5)"])
def test_profiles_show_the_activation_its_steepness_and_place(name):
    # elu of free alpha has two shifts, 0.3 and 1.87, unless a point lies between them
    phi, t = act.get(name), 40 * np.linspace(-1, 1, 61)
    answers = (3 + 0.2 * t + 0.7 * phi(0.8 * (t - 0.3)))[:, None]
    family = phi.family
    fits = {other: fit_profile(other, t, answers, 40.0) for other in CANDIDATES}
    assert min(fits, key=lambda other: fits[other].misfit) == family
    assert fits[family].misfit < 1e-11
    assert fits[family].steepness == pytest.approx(0.8, rel=1e-6)
    assert fits[family].shift == pytest.approx(0.3, abs=1e-6)
    if family == "elu":
        assert name_elu(fits["elu"].alpha) == phi.name


def test_a_place_is_on_the_zero_set_and_has_room():
    skeleton = as_torch_initialises((6, 8, 6, 1), ["relu", "relu"], seed=5)
    place = find_place(skeleton, 1, 2, 1e5, np.random.default_rng(0))
    assert place is not None
    along = place.point + np.linspace(-0.9, 0.9, 7)[:, None] * place.room * place.normal
    h = np.maximum(along @ skeleton.weights[0].T + skeleton.biases[0], 0.0)
    z = h @ skeleton.weights[1].T + skeleton.biases[1]
    assert np.all(np.sign(h) == np.sign(h[3]))
    assert z[:, 2] == pytest.approx(
        np.linspace(-0.9, 0.9, 7) * place.room * place.slope, abs=1e-6 * place.room
    )
    others = np.delete(z, 2, axis=1)
    assert np.all(np.sign(others) == np.sign(others[3]))


def test_lengths_and_biases_settle_from_a_few_answers():
    truth = as_torch_initialises((5, 6, 5, 2), ["gelu", "silu"], seed=6)
    weights, biases = [w.copy() for w in truth.weights], [b + 1e-3 for b in truth.biases]
    factors = 1 + 1e-3 * np.arange(6)
    weights[0], weights[1] = weights[0] * factors[:, None], weights[1] / factors
    start = Network(weights, biases, truth.activations)
    x = window_points(start, 6, (1.0, 100.0), np.random.default_rng(0))
    settled = settle(start, x, truth(x), 1e-16, 2.0**-52)
    assert settled.level < 10
    assert unweave.compare(truth, settled.network).max_relative_error < 1e-10


def test_alpha_is_fitted_and_named_within_its_error():
    truth = as_torch_initialises((6, 8, 1), ["elu(1.2345)"], seed=5)
    x = window_points(truth, 5, (3.0, 300.0), np.random.default_rng(0))
    y = truth(x)
    start = Network(truth.weights, truth.biases, ["elu(1.24)", "identity"])
    exact = fit_alpha(start, x, y, np.full(y.shape, 1e-14), 1e-16)
    assert exact.network.activations == truth.activations
    assert exact.errors[0] < 1e-9
    noisy = y + 1e-3 * np.random.default_rng(1).standard_normal(y.shape)
    rough = fit_alpha(start, x, noisy, np.full(y.shape, 1e-3), 1e-16)
    assert rough.errors[0] > 1e-6
    assert act.split_name(rough.network.activations[0])[1] == pytest.approx(1.2345, abs=0.02)


@pytest.mark.parametrize(
    ("sizes", "num"), [((5, 6, 5, 1), 1), ((10, 12, 12, 12, 1), 1), ((4, 12, 9, 2), 1), ((10, 12, 12, 1), 2)]
)
def test_quiet_units_are_found_in_the_rest(sizes, num):
    """Also where the features are more than the inputs: a gradient then shows a part of the row only."""
    truth = as_torch_initialises(sizes, ["gelu"] * (len(sizes) - 2), seed=7)
    weights, biases = [w.copy() for w in truth.weights], [b.copy() for b in truth.biases]
    weights[-2][-num:] = -np.abs(weights[-2][-num:])
    truth = Network(weights, biases, truth.activations)
    smaller = [*weights[:-2], weights[-2][:-num], weights[-1][:, :-num]]
    without = Network(smaller, [*biases[:-2], biases[-2][:-num], biases[-1]], truth.activations)
    grown = add_quiet_units(Meter(resolve(truth)), without, np.random.default_rng(1), num, sure=True)
    assert grown is not None
    assert unweave.compare(truth, grown).max_relative_error < 1e-6


def test_a_unit_that_is_always_on_far_out_is_found():
    truth = as_torch_initialises((6, 8, 6, 1), ["silu", "silu"], seed=11)
    weights = [w.copy() for w in truth.weights]
    weights[1][3] = np.abs(weights[1][3])
    truth = Network(weights, truth.biases, truth.activations)
    found = unweave.identify(truth)
    assert found.identified, found.reason
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9


def test_the_table_of_activations_is_what_methods_declare():
    declared = {entry.name: entry.load().serves for entry in entries(Evidence.QUERIES)}
    assert set(SERVED) == set(declared)
    for name, serves in declared.items():
        listed = SERVED[name].split("; ")[0].split(", ")
        named = () if name == "in-domain" else serves.when_named
        assert set(listed) == {*serves.activations, *named}
        assert all(act.get(activation) for activation in listed)


def test_a_view_from_afar_keeps_one_ledger():
    truth = as_torch_initialises((3, 4, 1), ["relu"], seed=8)
    meter = Meter(resolve(truth))
    view = FarView(meter, 1e6)
    x = np.random.default_rng(0).standard_normal((7, 3))
    assert view.ask(x) == pytest.approx(truth(1e6 * x) / 1e6)
    meter.ask(x)
    assert meter.ledger.total == 14
    seen, answers = view.transcript()
    assert seen == pytest.approx(x)
    assert answers == pytest.approx(view.ask(x))


def test_single_precision_states_how_well_it_tells_alpha():
    truth = as_torch_initialises((6, 8, 1), ["elu(1.001)"], seed=1)
    found = unweave.identify(to_torch(truth).to(torch.float32))
    assert found.network is not None
    alpha = -act.get(found.network.activations[0]).limits[0]
    [stated] = [text for text in found.warnings if "alpha of elu" in text]
    error = float(stated.split("to within ")[1].split(",")[0])
    assert abs(alpha - 1.001) <= error <= 0.02


def test_two_layers_in_single_precision():
    truth = as_torch_initialises((8, 8, 8, 1), ["gelu", "gelu"], seed=3)
    model = to_torch(truth).to(torch.float32)
    found = unweave.identify(model)
    assert found.identified, found.reason
    assert found.method == "skeleton"
    assert unweave.compare(read_module(model), found.network).max_relative_error < 2e-5


@pytest.mark.parametrize(
    ("name", "steepness", "shift"),
    [("gelu", 100, 0.9), ("gelu_tanh", 100, -0.9), ("hardswish", 20, 0.3), ("elu", 50, 0.7)],
)
def test_profiles_at_the_edge_of_their_window(name, steepness, shift):
    """A large bias moves the bend away from the middle of the window, by many of its own widths where it is steep."""
    rungs, q = 0.35 ** np.arange(-1, 9.0), np.linspace(-1, 1, 30)
    t = np.concatenate([rungs, -rungs, np.sign(q) * np.abs(q) ** 1.5])
    bend = act.get(name)(steepness * (t - shift)) / steepness
    answers = bend[:, None] * [1.0, -0.4] + t[:, None] * [0.3, 1.0] + 2
    assert fit_profile(name, t, answers, 1.0).misfit < 1e-9


def test_rough_answers_that_were_taken_for_kinked_are_looked_at_again(monkeypatch):
    looks = []

    def look(*args, **options):
        looks.append(options["num_segments"])
        return len(looks) == 1 or is_piecewise_linear(*args, **options)

    monkeypatch.setattr(queries, "is_piecewise_linear", look)
    model = to_torch(as_torch_initialises((4, 4, 1), ["selu"], seed=1)).to(torch.float32)
    found = unweave.identify(model)
    assert found.method == "skeleton", found.verdict()
    assert found.identified, found.verdict()


@pytest.mark.parametrize("name", ["gelu", "softplus"])
def test_a_weak_unit_in_single_precision(name):
    """One output weight is a two-hundredth of the others': where those units are off its parameters show."""
    truth = as_torch_initialises((6, 8, 1), [name], seed=1)
    weights = [w.copy() for w in truth.weights]
    weights[1][0, 3] = 1e-3
    model = to_torch(Network(weights, truth.biases, truth.activations)).to(torch.float32)
    found = unweave.identify(model)
    assert found.identified, found.reason
    assert unweave.compare(read_module(model), found.network).max_relative_error < 1e-5
