"""One hidden layer on top of many first-layer units, from their vertices."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.far_field.wide import fit_wide
from unweave.students.overwide import Pool


def fit(
    top: Network,
    *,
    width: int | None = None,
    noise: float = 0.0,
    most: int = 20_000,
    seconds: float = 60.0,
    still: int = 0,
):
    """``still``: vertices bought before the first unit takes its other side."""
    rng, bought = np.random.default_rng(1), [0]

    def buy(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.sign(rng.standard_normal((n, top.input_size)))
        if bought[0] < still:
            x[:, 0] = 1.0
        bought[0] += n
        y = top(x)
        return x, y + noise * rng.standard_normal(y.shape)

    return fit_wide(
        Pool(*buy(30), buy),
        act.get("tanh"),
        width=width,
        accept=max(1e-11, 4 * noise / float(np.std(top(buy(500)[0])))),
        noise=noise,
        rng=rng,
        max_vertices=most,
        deadline=clock.now() + seconds,
    )


@pytest.mark.parametrize(("width", "noise"), [(None, 0.0), (12, 0.0), (None, 1e-6)])
def test_width_and_every_parameter_are_found(width, noise):
    top = random_network((30, 12, 2), "tanh", seed=3)
    found = fit(top, width=width, noise=noise)
    assert found.network is not None, found.reason
    assert found.network.hidden == (12,)
    assert unweave.compare(top, found.network).max_relative_error < max(1e-9, 30 * noise)


def test_a_unit_that_does_not_move_among_the_first_vertices():
    top = random_network((30, 12, 2), "tanh", seed=3)
    found = fit(top, still=300)
    assert found.network is not None, found.reason
    assert unweave.compare(top, found.network).max_relative_error < 1e-9


def test_what_was_tried_is_told_where_nothing_fits():
    found = fit(random_network((30, 12, 2), "tanh", seed=3), most=600)
    assert found.network is None
    assert "far vertices" in found.reason
    assert [attempt[1] for attempt in found.attempts] == [(8,), (12,)]


def test_a_passed_deadline_is_told():
    found = fit(random_network((30, 12, 2), "tanh", seed=3), seconds=0.0)
    assert found.network is None
    assert "time limit" in found.reason
