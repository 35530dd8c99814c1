"""A second look at a network that is whole, and what is read off kinks without questions."""

from __future__ import annotations

import numpy as np

from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from methods.relu.deep.test_last import asked_pool
from unweave.methods.relu.deep.candidates import Candidate, grow_from_three
from unweave.methods.relu.deep.extremes import random_lines
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.top import fit_top
from unweave.methods.relu.deep.units import agree
from unweave.methods.relu.deep.view import LayerView
from unweave.methods.relu.deep.whole import Recovered, look_again
from unweave.methods.relu.deep.wide import fill_from_places


def test_a_second_look_begins_with_the_network_and_adds_what_suspects_show():
    network = he_network((6, 6, 5, 1), 5)
    pool, whole = asked_pool(network, 400), first_layers(network, 2)
    rows = rows_of(network, 1)
    z = whole.arguments(pool.inquiry.meter.transcript()[0])[-1]
    rare = int(np.argmin(np.mean(z > 0, axis=0)))
    known = whole.first(1).extended(np.delete(rows, rare, axis=0))
    x = np.random.default_rng(1).standard_normal((4000, 6))
    suspects = x[whole.arguments(x)[-1][:, rare] > 0][:20]
    found = look_again(pool, Recovered(known, fit_top(pool, known)), suspects)
    assert found.top is not None
    assert not found.top.wrong.any()
    assert found.known.width == 5


def _view(num_lines: int = 12) -> tuple[LayerView, np.ndarray]:
    """Kinks of two layers on the first one, all with normals; the rows of the second."""
    network = he_network((5, 9, 6, 1), 2)
    pool = open_pool(network)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, num_lines, 5, pool.rng))
    view = LayerView(pool, first_layers(network, 1))
    pool.measure(view.open, Known(5))
    view.load()
    rows = rows_of(network, 1)
    return view, rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_places_of_kinks_tell_a_weight():
    view, rows = _view()
    seen = np.ones(rows.shape[1], dtype=bool)
    seen[3] = False
    told = 0
    for row in rows:
        unit = fill_from_places(view, Candidate(np.where(seen, row, 0.0), seen, np.zeros(0, dtype=int)))
        told += unit.whole
        assert not unit.whole or abs(unit.row @ row) > 1 - 1e-12
    assert told >= 2


def test_three_kinks_together_tell_a_row():
    view, rows = _view()
    found = grow_from_three(view, np.ones(len(view.kinks), dtype=bool), np.random.default_rng(0))
    none, every = np.zeros(0, dtype=int), np.ones(rows.shape[1], dtype=bool)
    true = [Candidate(row, every, none) for row in rows]
    right = [one for one in found if any(agree(one, unit) for unit in true)]
    assert len(right) >= 4
    assert any(one.whole for one in right)  # those that are not right do not show where they should
