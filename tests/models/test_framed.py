"""Models seen in units of their box."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.models.framed import Scaled, frame_box
from unweave.models.resolve import resolve

UNIT, MIDDLE = np.array([100.0, 1.0, 0.01, 10.0]), np.array([300.0, 2.0, 0.0, 50.0])
BOX = Box(MIDDLE - 2 * UNIT, MIDDLE + 2 * UNIT)


class Watched:
    """A network of the box's inputs that keeps what it was asked."""

    input_size = 4

    def __init__(self, sizes, dtype: str, seed: int):
        inner = random_network(sizes, "relu", seed)
        first = inner.weights[0] / UNIT
        self.truth = Network(
            [first, *inner.weights[1:]],
            [inner.biases[0] - first @ MIDDLE, *inner.biases[1:]],
            inner.activations,
        )
        self.dtype = dtype
        self.asked: list[np.ndarray] = []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.asked.append(x)
        h = x.astype(self.dtype)
        for i, (w, b) in enumerate(zip(self.truth.weights, self.truth.biases, strict=True)):
            h = h @ w.astype(self.dtype).T + b.astype(self.dtype)
            h = h if i == len(self.truth.weights) - 1 else np.maximum(h, 0)
        return h


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-8), ("float32", 1e-2)])
def test_a_box_far_from_the_origin_whose_sides_differ(dtype, error):
    model = Watched((4, 12, 3), dtype, 3)
    found = unweave.identify(model, domain=BOX, input_size=4, seed=2)
    assert found.identified, found.reason
    x = np.concatenate(model.asked)
    assert np.all(BOX.contains(x, 0.0))
    if dtype == "float32":  # every question is one that the model takes without rounding
        fresh = x[500:]
        assert np.mean(np.all(fresh == fresh.astype(np.float32), axis=1)) == 1
    assert found.ledger.total < 60 * model.truth.num_parameters
    points = BOX.sample(2000, 4, np.random.default_rng(0))
    truth = model.truth(points)
    assert np.max(np.abs(found.network(points) - truth)) < error * np.std(truth)


def test_an_ordinary_box_is_left_as_it_is():
    oracle = resolve(random_network((3, 4, 1)))
    assert frame_box(oracle, Box(-2.0, 2.0)) is oracle
    assert frame_box(oracle, Box(0.0, 1.0)) is oracle


def test_what_is_found_is_written_in_the_models_inputs():
    model = Watched((4, 5, 2), "float64", 1)
    scaled = frame_box(resolve(model, input_size=4, domain=BOX), BOX)
    assert isinstance(scaled, Scaled)
    u = scaled.frame.box.sample(50, 4, np.random.default_rng(1))
    inner = Network(
        [model.truth.weights[0] * scaled.frame.unit, *model.truth.weights[1:]],
        [model.truth.biases[0] + model.truth.weights[0] @ scaled.frame.middle, model.truth.biases[1]],
        model.truth.activations,
    )
    x = scaled.frame.outside(u)
    assert np.allclose(scaled(u), inner(u), rtol=1e-12)
    assert np.allclose(scaled.lift(inner)(x), model.truth(x), rtol=1e-12)
    assert np.all(np.abs(scaled.snap(u) - u) < 1e-12)
    assert np.array_equal(scaled.snap(scaled.snap(u)), scaled.snap(u))


def test_answers_still_come_in_pieces():
    class Served(Watched):
        name, notes, output_size = "served", (), 2

        def answer_in_pieces(self, x: np.ndarray) -> Iterator[np.ndarray]:
            yield self(x[:3])
            yield self(x[3:])

    scaled = frame_box(Served((4, 5, 2), "float64", 1), BOX)
    pieces = list(scaled.answer_in_pieces(np.zeros((8, 4))))
    assert [len(piece) for piece in pieces] == [3, 5]
