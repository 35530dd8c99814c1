"""Surplus units of a student that nearly fits stand out by what they add to the arguments above."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.solve.descend import Minimum, Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import Layout
from unweave.students.forms import Form
from unweave.students.sift import choose_first, sift
from unweave.students.starts import draw_start


@pytest.mark.parametrize("activation", ["gelu", "elu"])
def test_a_student_that_nearly_fits_loses_surplus_units_of_its_first_layer_and_skips(activation):
    truth = random_network((4, 5, 3, 2), activation, 7)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((900, 4))
    y = truth(x)
    v = (y - y.mean(axis=0)) / y.std(axis=0)
    layout = Form.of(activation).layout((4, 9, 7, 2))

    def fit(layout: Layout, parameters: np.ndarray, damping: float) -> Minimum:
        settings = Settings(max_steps=20, damping=damping, stall_steps=0)
        return fit_layout(layout, parameters, x, v, settings=settings)

    near = Settings(target=3e-4, max_steps=100, stall_steps=0)
    start = fit_layout(layout, draw_start(layout, x, v, rng), x, v, settings=near)
    assert 1e-6 < start.rms <= 3e-4
    found = sift(layout, start.parameters, x, v, act.get(activation), fit)
    assert found is not None
    plain, parameters = found
    assert plain.hidden[0] <= 6
    assert not plain.skips
    exact = fit_layout(plain, parameters, x, v, settings=Settings(max_steps=100, damping=1e-4, stall_steps=0))
    assert exact.rms < 1e-11


def test_where_every_unit_is_needed_all_stay():
    truth = random_network((4, 5, 3, 2), "tanh", 8)
    x = np.random.default_rng(0).standard_normal((300, 4))
    kept = choose_first(Layout.of(truth), truth.flat(), x, 1e-12)
    assert kept is not None
    assert np.all(kept)
