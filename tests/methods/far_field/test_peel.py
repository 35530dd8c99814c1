"""Deep saturating networks: what stands above the first layer, from vertices or from points near the origin."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.far_field import peel
from unweave.methods.far_field.inside import Inside
from unweave.methods.far_field.peel import Peeling
from unweave.students.overwide import Pool


def pool_of(network: Network, num_points: int, rng: np.random.Generator, vertices: bool = True) -> Pool:
    def buy(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.standard_normal((n, network.input_size))
        x = np.sign(x) if vertices else 2 * x
        return x, network(x)

    return Pool(*buy(num_points), buy)


def test_two_hidden_layers_above_come_from_vertices():
    top = random_network((10, 5, 3, 1), "tanh", seed=3)
    rng = np.random.default_rng(1)
    peeling = Peeling(
        pool_of(top, 200, rng),
        act.get("tanh"),
        hidden=None,
        max_depth=2,
        noise=0.0,
        rng=rng,
    )
    found = peeling.go_on(clock.now() + 60)
    assert found.network is not None, found.reason
    assert unweave.compare(top, found.network).max_relative_error < 1e-9


def test_known_rows_lead_to_the_whole_network_inside():
    truth = random_network((5, 6, 4, 3, 1), "tanh", seed=5)
    rng = np.random.default_rng(2)
    rows = truth.weights[0] * (1 + 0.005 * rng.standard_normal(truth.weights[0].shape))
    peeling = Peeling(
        pool_of(truth, 500, rng, vertices=False),
        act.get("tanh"),
        hidden=(4, 3),
        max_depth=2,
        noise=0.0,
        rng=rng,
        first=(rows, np.zeros(6)),
    )
    found = peeling.go_on(clock.now() + 60)
    assert found.network is not None, found.reason
    assert unweave.compare(truth, found.network).max_relative_error < 1e-8


def test_a_passed_deadline_is_told():
    top = random_network((6, 4, 3, 1), "tanh")
    rng = np.random.default_rng(0)
    peeling = Peeling(pool_of(top, 50, rng), act.get("tanh"), hidden=None, max_depth=2, noise=0.0, rng=rng)
    found = peeling.go_on(0.0)
    assert found.network is None
    assert "time limit" in found.reason


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_three_hidden_layers_end_to_end(activation):
    truth = random_network((8, 10, 5, 3, 1), activation, seed=1)
    found = unweave.identify(truth, method="far-field", seed=1)
    assert found.identified, found.reason
    assert found.network is not None
    assert found.network.hidden == (10, 5, 3)
    assert unweave.compare(truth, found.network).max_relative_error < 1e-7


def test_four_hidden_layers_on_few_units_come_from_gentle_points(monkeypatch):
    goes_on, found_inside = Inside.go_on, []

    def watched(search, *deadlines):
        top = goes_on(search, *deadlines)
        found_inside.append(top.network is not None)
        return top

    monkeypatch.setattr(Inside, "go_on", watched)
    truth = random_network((5, 6, 5, 4, 3, 1), "tanh", seed=2)
    found = unweave.identify(truth, method="far-field", seed=1)
    assert found.identified, found.reason
    assert found.network is not None
    assert found_inside[-1]
    assert unweave.compare(truth, found.network).max_relative_error < 1e-7


def test_as_few_vertices_as_are_mostly_enough_have_longer():
    top = random_network((10, 5, 3, 1), "tanh", seed=3)
    rng = np.random.default_rng(1)
    peeling = Peeling(pool_of(top, 200, rng), act.get("tanh"), hidden=None, max_depth=2, noise=0.0, rng=rng)
    found = peeling.go_on(0.0, clock.now() + 60)
    assert found.network is not None, found.reason
    many = Peeling(pool_of(top, 2000, rng), act.get("tanh"), hidden=None, max_depth=2, noise=0.0, rng=rng)
    assert not many.go_on(0.0, clock.now() + 60).attempts


def test_a_student_that_comes_near_leads_with_one_of_a_layer_more():
    plan = peel._Plan(None, [2, 3, 1, 4])
    plan.record(2, 0.1)
    plan.record(3, 5e-4)
    assert plan.leading == (3, 4)
    plan.record(4, 4e-4)
    assert plan.leading == (3, 4)


def test_students_that_were_cut_go_on_at_the_next_size(monkeypatch):
    """No student has the steps that it needs at one size."""
    begin, gone_on = peel.try_student, []
    resume = peel.resume_student

    def begin_briefly(*arguments, **options):
        return begin(*arguments, **options, max_steps=10)

    def go_on(attempt, *arguments, **options):
        gone_on.append(attempt)
        return resume(attempt, *arguments, **options)

    monkeypatch.setattr(peel, "UNFINISHED", 1.0)
    monkeypatch.setattr(peel, "try_student", begin_briefly)
    monkeypatch.setattr(peel, "resume_student", go_on)
    top = random_network((10, 5, 3, 1), "tanh", seed=3)
    rng = np.random.default_rng(1)
    peeling = Peeling(pool_of(top, 300, rng), act.get("tanh"), hidden=(5, 3), max_depth=2, noise=0.0, rng=rng)
    found = peeling.go_on(clock.now() + 60)
    assert found.network is not None, found.reason
    assert unweave.compare(top, found.network).max_relative_error < 1e-9
    assert gone_on


def test_a_search_goes_on_where_its_time_ran_out():
    top = random_network((10, 5, 3, 1), "tanh", seed=3)
    rng = np.random.default_rng(1)
    peeling = Peeling(pool_of(top, 200, rng), act.get("tanh"), hidden=None, max_depth=2, noise=0.0, rng=rng)
    first = peeling.go_on(clock.now() + 0.05)
    assert first.network is None
    assert first.attempts
    second = peeling.go_on(clock.now() + 60)
    assert second.network is not None, second.reason
    assert unweave.compare(top, second.network).max_relative_error < 1e-9


@pytest.mark.parametrize("inside", [False, True])
def test_students_begin_with_rows_of_the_closest_one_of_a_layer_less(monkeypatch, inside):
    begin, seen = peel.try_student, []

    def watched(*arguments, **options):
        _, attempt = begin(*arguments, **options)
        seen.append((attempt, options["known"]))
        return None, attempt

    monkeypatch.setattr(peel, "try_student", watched)
    truth = random_network((6, 5, 4, 3, 1), "tanh", seed=3)
    rng = np.random.default_rng(1)
    first = (truth.weights[0], truth.biases[0]) if inside else None
    pool = pool_of(truth, 300, rng, vertices=not inside)
    peeling = Peeling(
        pool, act.get("tanh"), hidden=None, max_depth=3, noise=0.0, rng=rng, first=first, max_vertices=400
    )
    peeling.go_on(clock.now() + 1)
    layer = 1 if inside else 0
    one = next(a.student for a, _ in seen if len(a.widths) == 1 + layer)
    rows = one.standard.undo(one.layout.network(one.parameters)).weights[layer]
    two, known = next((a, k) for a, k in seen if len(a.widths) == 2 + layer and len(k) > layer)
    assert len(known[layer][0]) == min(len(rows), two.widths[layer])
    assert all(np.any(np.all(np.isclose(rows, row), axis=1)) for row in known[layer][0])
