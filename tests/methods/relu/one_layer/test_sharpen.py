"""Single precision: a unit with small weights is told by answers in which it is heard alone."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import relu_in_float32
from unweave.core.domains import Everywhere
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.methods.relu.one_layer.ridge_fit import Ridges, fit_ridges
from unweave.methods.relu.one_layer.sharpen import GOAL, points_alone, sharpen
from unweave.models.resolve import resolve


def quiet_network() -> Network:
    rng = np.random.default_rng(3)
    rows, columns = rng.standard_normal((10, 16)), rng.standard_normal((4, 10))
    columns[:, 3] *= 3e-3
    parts = rows, columns, 0.5 * rng.standard_normal(10), rng.standard_normal(4)
    rows, columns, first, last = (part.astype(np.float32).astype(float) for part in parts)
    return Network([rows, columns], [first, last], ["relu", "identity"])


@pytest.mark.parametrize("box", [None, 3.0])
def test_a_quiet_unit_is_asked_for_where_the_others_are_off(box):
    truth, rng = quiet_network(), np.random.default_rng(0)
    answer = relu_in_float32(truth)
    domain = Everywhere() if box is None else unweave.Box(-box, box)
    meter = Meter(resolve(lambda x: answer(x).astype(np.float32), input_size=16), domain=domain)
    x = 2 * rng.uniform(-1, 1, (300, 16))
    y = meter.ask(x)
    exact = Ridges(
        np.hstack([truth.weights[0], truth.biases[0][:, None]]),
        truth.weights[1].T,
        np.hstack([np.zeros((4, 16)), truth.biases[1][:, None]]),
        skip=False,
    ).balanced()
    before = fit_ridges(exact, x, y, np.full(300, 1e-6))
    after = sharpen(meter, before, x, y, 2.0**-23, rng, float("inf"))

    def off(ridges: Ridges) -> float:
        own = ridges.balanced().rows[3] - exact.rows[3]
        return float(np.max(np.abs(own)) / np.max(np.abs(exact.rows[3])))

    assert before.unit_errors()[3] > 4 * GOAL
    assert off(after.ridges) < min(off(before.ridges) / 2, 3 * GOAL)
    points = points_alone(meter, exact, 3, 2.0**-23, rng)
    heights = exact.heights(points)
    assert np.all(heights[:, 3] > 0)
    assert np.mean(np.delete(heights, 3, axis=1) > 0) < 0.2
