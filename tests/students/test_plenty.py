"""Plenty of points: the range is one in which something can be learnt, and activations of one kind share a student."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.comparison import compare
from unweave.core.network import Network
from unweave.students import plenty
from unweave.students.forms import Form
from unweave.students.kin import group_kin, take_over
from unweave.students.plenty import choose_scale, search_plenty


def _seller(network: Network, seed: int = 0, reach: float = 2.0, noise: float = 0.0):
    """Points of a box, scaled, with their answers."""
    rng, size = np.random.default_rng(seed), network.input_size

    def buy(scale: float, num_points: int) -> tuple[np.ndarray, np.ndarray]:
        x = scale * rng.uniform(-reach, reach, (num_points, size))
        return x, network(x) + noise * rng.standard_normal((num_points, network.output_size))

    return buy


@pytest.mark.parametrize(("own", "other"), [("tanh", "erf"), ("gelu", "silu"), ("gelu", "softplus")])
def test_a_student_answers_nearly_the_same_with_an_activation_of_its_kind(own, other):
    rng = np.random.default_rng(1)
    layout = Form.of(own).layout((4, 6, 5, 2))
    parameters = 0.4 * rng.standard_normal(layout.num_parameters)
    x = rng.standard_normal((200, 4))
    changed_layout, changed = take_over(layout, parameters, other)
    before, after = layout.forward(parameters, x), changed_layout.forward(changed, x)
    assert np.std(before - after) < 0.1 * np.std(before)


def test_kinds_are_bounded_units_even_parts_and_the_others():
    kinds = group_kin(["tanh", "erf", "gelu", "silu", "elu", "mish", "softsign"])
    assert kinds == [["tanh", "erf", "softsign"], ["gelu", "silu"], ["elu", "mish"]]


@pytest.mark.parametrize(("noise", "error"), [(0.0, 1e-9), (1e-7, 1e-4)])
def test_a_network_comes_back_with_the_activation_that_its_student_did_not_start_with(noise, error):
    truth = random_network((4, 5, 3, 1), "erf", 3)
    fit = search_plenty(
        _seller(truth, noise=noise),
        ("tanh", "erf"),
        rng=np.random.default_rng(0),
        time_limit=60,
        sizes=((150, 16.0),),
        noise=noise,
    )
    assert fit.minimal
    assert fit.network is not None
    assert fit.network.activations[0] == "erf"
    assert compare(truth, fit.network).max_relative_error < error


@pytest.mark.parametrize(("steepness", "is_halved"), [(0.3, False), (8.0, True)])
def test_the_range_is_halved_where_nothing_can_be_predicted(steepness, is_halved):
    network = random_network((24, 24, 16, 1), "tanh", 5)
    weights = [steepness * network.weights[0], 4 * network.weights[1], network.weights[2]]
    buy = _seller(Network(weights, network.biases, network.activations))
    scale, x, _ = choose_scale(buy, np.random.default_rng(0), np.inf)
    assert (scale < 1) == is_halved
    assert np.max(np.abs(x)) <= 2 * scale


def test_students_behind_rest_and_a_leader_with_exact_steps_is_told_apart_late(monkeypatch):
    """The kind that leads is split only where it nearly fits; one far behind has its first round alone."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (plenty.HELD + 200, 2))
    course = plenty.Class.of(x, np.tanh(x @ np.array([[1.0], [2.0]])), np.inf)
    rounds: list[str] = []

    def advance(racer):
        rounds.append("/".join(racer.activations))
        first = 0.5 if "gelu" in racer.activations else 0.1
        racer.fresh.append(0.3 * racer.last if racer.fresh else first)

    monkeypatch.setattr(plenty.Class, "advance", lambda self, racer: advance(racer))
    monkeypatch.setattr(plenty, "_finish", lambda course, racer: iter([(None, racer.activations[0])]))
    racers = [course.enter(kind, 60, rng) for kind in (["tanh", "erf"], ["gelu", "silu"])]
    first = next(plenty._race(course, racers))
    assert first == (None, "tanh")
    assert rounds.count("gelu/silu") == 1
    assert rounds[:1] == ["tanh/erf"]
    assert rounds[-2:] == ["tanh", "erf"]


def test_where_no_student_is_exact_the_one_that_reproduces_the_answers_is_given_back(monkeypatch):
    monkeypatch.setattr("unweave.students.student.EXACT", 1e-30)
    truth = random_network((4, 5, 3, 1), "tanh", 3)
    fit = search_plenty(
        _seller(truth), ("tanh",), rng=np.random.default_rng(0), time_limit=30, sizes=((150, 16.0),)
    )
    assert not fit.minimal
    assert fit.network is not None, fit.reason
    assert "its parameters are its own" in fit.reason
    x = np.random.default_rng(2).uniform(-2, 2, (200, 4))
    assert np.max(np.abs(fit.network(x) - truth(x))) < 1e-4
