"""Two hidden layers on top of many first-layer units, in steps on a few answers each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core import clock
from unweave.methods.far_field import pair
from unweave.methods.far_field.pair import fit_pair
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
