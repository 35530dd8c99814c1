"""Far field of float32 answers: several circles, and the last digits from points near the origin."""

from __future__ import annotations

import numpy as np

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.methods.far_field.first_layer import FirstLayer
from unweave.methods.far_field.one_layer import distinct_rows, fit_one_layer
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.union import join_circles
from unweave.models.resolve import resolve
from unweave.probes.far_circle import Crossing
from unweave.probes.far_rows import Reading


class InFloat32:
    """A network that computes in float32."""

    def __init__(self, network: Network):
        self.weights = [w.astype(np.float32) for w in network.weights]
        self.biases = [b.astype(np.float32) for b in network.biases]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        h = x.astype(np.float32)
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = np.tanh(h @ w.T + b)
        return h @ self.weights[-1].T + self.biases[-1]

    def network(self) -> Network:
        """What it computes, in float64."""
        names = ["tanh"] * (len(self.weights) - 1) + ["identity"]
        return Network([w.astype(float) for w in self.weights], [b.astype(float) for b in self.biases], names)


def test_one_hidden_layer_of_float32_answers():
    model = InFloat32(random_network((12, 8, 3), "tanh", seed=2))
    found = unweave.identify(model, input_size=12, seed=0)
    assert found.method == "far-field"
    assert found.identified, found.reason
    assert unweave.compare(model.network(), found).max_relative_error < 1e-4


def test_two_hidden_layers_of_float32_answers():
    model = InFloat32(random_network((8, 8, 4, 2), "tanh", seed=4))
    found = unweave.identify(model, input_size=8, method="far-field", seed=0)
    assert found.network is not None, found.reason
    assert unweave.compare(model.network(), found.network).max_relative_error < 1e-3


def test_rows_that_one_circle_alone_shows_are_left_out():
    rng = np.random.default_rng(0)
    rows, false = rng.standard_normal((3, 6)), rng.standard_normal((1, 6))

    def layer(shown: np.ndarray) -> FirstLayer:
        zeros = np.zeros(1)
        crossing = Crossing(0.0, 1.0, zeros, zeros, 100.0, 0.0, 0.0)
        reading = Reading(
            crossing, rng.standard_normal(6), 0.1, 0.1, zeros, np.zeros((6, 1)), np.zeros((2, 1))
        )
        num_units = len(shown)
        return FirstLayer(
            [reading] * num_units, shown, shown, np.eye(6), np.zeros((num_units, num_units)), None
        )

    circles = [rows[:2], np.concatenate([-rows, false]), rows[1:], rows]
    joined = join_circles(layer(shown) for shown in circles)
    assert joined is not None
    cosines = np.abs(joined.rows @ rows.T)
    cosines /= np.outer(np.linalg.norm(joined.rows, axis=1), np.linalg.norm(rows, axis=1))
    assert len(joined.rows) == 3
    assert sorted(np.argmax(cosines, axis=1).tolist()) == [0, 1, 2]
    assert np.min(np.max(cosines, axis=1)) > 1 - 1e-9


def test_a_layer_is_fitted_around_the_rows_that_circles_have_shown():
    model = InFloat32(random_network((6, 12, 2), "tanh", seed=1))
    meter = Meter(resolve(model, input_size=6))
    rng = np.random.default_rng(0)
    precision = measure_precision(meter, rng)
    sight = Sight(meter, precision, act.get("tanh"), rng, np.inf)
    rows = model.weights[0][1:].astype(float)  # one was missed, the others are known to a few per cent
    rows = rows * rng.uniform(0.9, 1.1, size=(11, 1)) + 0.02 * rng.standard_normal(rows.shape)
    network, rms = fit_one_layer(sight, distinct_rows(np.concatenate([rows, -rows])), float("inf"))
    assert rms <= sight.accept
    assert network.hidden == (12,)
    assert unweave.compare(model.network(), network).max_relative_error < 1e-2
