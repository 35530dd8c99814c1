"""Units that stand for two."""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import Layout
from unweave.students.splitting import split_units

TANH = act.get("tanh")


def test_the_unit_at_the_sum_of_two_that_are_alike_is_split_between_them():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((600, 6))
    rows = rng.standard_normal((5, 7))
    rows[1] = rows[0] + 0.25 * rng.standard_normal(7)
    outgoing = rng.standard_normal((2, 6))
    outgoing[:, 1] = outgoing[:, 0]
    truth = Layout.uniform((6, 5, 2), TANH)
    y = truth.forward(np.concatenate([rows.ravel(), outgoing.ravel()]), x)
    merged = np.vstack([(rows[0] + rows[1]) / 2, rows[2:]])
    together = np.column_stack([outgoing[:, 0] + outgoing[:, 1], outgoing[:, 2:]])
    narrow, settings = Layout.uniform((6, 4, 2), TANH), Settings(target=1e-12, max_steps=200)
    rest = fit_layout(narrow, np.concatenate([merged.ravel(), together.ravel()]), x, y, settings=settings)
    assert rest.rms > 1e-3
    wider, start = split_units(narrow, rest.parameters, x, y, 1)
    assert wider.sizes == (6, 5, 2)
    assert np.std(wider.forward(start, x) - y) < 0.7 * np.std(narrow.forward(rest.parameters, x) - y)
    found = fit_layout(wider, start, x, y, settings=settings)
    assert found.rms < 1e-10
    first, second = wider.block(start, 0)[[0, 4]]
    np.testing.assert_allclose((first + second) / 2, narrow.block(rest.parameters, 0)[0])


def test_nothing_is_split_where_nothing_is_left():
    rng = np.random.default_rng(2)
    layout = Layout.uniform((3, 4, 1), TANH)
    parameters, x = rng.standard_normal(layout.num_parameters), rng.standard_normal((50, 3))
    same, start = split_units(layout, parameters, x, layout.forward(parameters, x), 2)
    assert same.sizes == layout.sizes
    np.testing.assert_array_equal(start, parameters)
