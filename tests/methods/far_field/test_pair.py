"""Two hidden layers on top of many first-layer units, in steps on a few answers each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core import clock
from unweave.methods.far_field import method, pair
from unweave.methods.far_field.pair import fit_pair
from unweave.methods.far_field.top import Top
from unweave.students.overwide import Pool


def vertices(top: unweave.Network, rng: np.random.Generator) -> Pool:
    def buy(count: int) -> tuple[np.ndarray, np.ndarray]:
        h = rng.choice([-1.0, 1.0], (count, top.weights[0].shape[1]))
        return h, top(h)

    return Pool(*buy(40), buy)


def test_both_widths_show_at_the_vertices(monkeypatch):
    for name in ("SEARCH", "SETTLE", "ROUND"):
        monkeypatch.setattr(pair, name, replace(getattr(pair, name), num_steps=600, num_answers=150))
    top = random_network((10, 6, 4, 2), "tanh", 5)
    rng = np.random.default_rng(1)
    found = fit_pair(
        vertices(top, rng),
        act.get("tanh"),
        accept=1e-11,
        rng=rng,
        max_vertices=9000,
        deadline=clock.now() + 60,
    )
    assert found.network is not None, found.reason
    assert found.network.hidden == (6, 4)
    assert unweave.compare(top, found.network).max_relative_error < 1e-8


def test_no_time_is_a_reason():
    top = random_network((10, 6, 4, 2), "tanh", 5)
    rng = np.random.default_rng(1)
    pool, more = vertices(top, rng), {"accept": 1e-11, "rng": rng, "deadline": clock.now()}
    found = fit_pair(pool, act.get("tanh"), max_vertices=9000, **more)
    assert found.network is None
    assert "two layers" in found.reason
    assert "budget" in fit_pair(pool, act.get("tanh"), max_vertices=100, **more).reason


@pytest.mark.parametrize(("sizes", "calls"), [((8, 24, 5, 4, 1), 3), ((8, 10, 5, 4, 1), 0)])
def test_it_is_tried_on_many_units_where_nothing_else_has_fitted(monkeypatch, sizes, calls):
    nothing, asked = Top(None, 1.0, 0, "nothing"), []
    monkeypatch.setattr(method, "fit_top", lambda *_, **__: nothing)
    for search in (method.Middle, method.Peeling, method.Inside):
        monkeypatch.setattr(search, "go_on", lambda *_, **__: nothing)
    monkeypatch.setattr(method, "fit_pair", lambda *_, **given: asked.append(given) or nothing)
    network = random_network(sizes, "tanh", 2)
    found = unweave.identify(network, method="far-field", budget=20_000, seed=0, surrogate=False)
    assert found.network is None
    assert len(asked) == calls
    assert all(given["max_vertices"] < 20_000 for given in asked)
