"""Starts of students: known rows in the first units of the first layers, random ones beside them."""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.solve.layout import Layout
from unweave.students.starts import draw_start


def test_known_rows_are_those_of_the_first_units_of_their_layers():
    rng = np.random.default_rng(0)
    layout = Layout.uniform((3, 4, 6, 1), act.get("tanh"))
    x = rng.standard_normal((50, 3))
    first, second = rng.standard_normal((4, 4)), rng.standard_normal((2, 5))
    start = draw_start(layout, x, np.sin(x[:, :1]), rng, [first, second])
    assert np.array_equal(layout.block(start, 0), first)
    assert np.array_equal(layout.block(start, 1)[:2], second)
    assert np.all(layout.block(start, 1)[2:])


def test_the_output_layer_has_looked_at_the_answers_through_them():
    rng = np.random.default_rng(1)
    layout = Layout.uniform((3, 4, 1), act.get("tanh"))
    rows, x = rng.standard_normal((4, 4)), rng.standard_normal((200, 3))
    y = np.tanh(x @ rows[:, :-1].T + rows[:, -1]) @ rng.standard_normal((4, 1))
    start = draw_start(layout, x, y, rng, [rows])
    assert np.std(layout.forward(start, x) - y) < 0.01 * np.std(y)
