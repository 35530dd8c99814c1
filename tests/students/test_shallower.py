"""Students with a layer too many: the one that acts as an affine map goes, wherever it is."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.comparison import compare
from unweave.core.network import Network
from unweave.students import student
from unweave.students.shallower import drop_layer
from unweave.students.student import Task


def with_a_layer_too_many(truth: Network, place: int, width: int, rng: np.random.Generator) -> Network:
    """The same function to about 1e-3, by tanh units at small arguments that hand on what enters layer ``place``."""
    weights, biases, names = list(truth.weights), list(truth.biases), list(truth.activations)
    small, size = 0.02, truth.weights[place].shape[1]
    spread = rng.standard_normal((width, size))
    weights[place : place + 1] = [small * spread, weights[place] @ np.linalg.pinv(spread) / small]
    biases[place : place + 1] = [np.zeros(width), biases[place]]
    return Network(weights, biases, ["tanh", *names])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_layer_that_only_hands_on_is_dropped(place):
    rng = np.random.default_rng(place)
    truth = random_network((6, 7, 5, 2), "tanh", seed=2)
    deeper = with_a_layer_too_many(truth, place, 9, rng)
    x = rng.standard_normal((600, 6))
    y = truth(x)
    found, rest = drop_layer(deeper, x, y)
    assert found.hidden == truth.hidden
    assert rest < 1e-2
    assert rest == pytest.approx(
        np.sqrt(np.mean((found(x) - y) ** 2)) / np.sqrt(np.mean((y - y.mean(0)) ** 2))
    )


def test_a_student_with_a_layer_too_many_leads_to_the_network(monkeypatch):
    rng = np.random.default_rng(4)
    truth = random_network((6, 7, 5, 1), "tanh", seed=3)
    x = rng.standard_normal((1500, 6))
    y = truth(x)
    deeper = with_a_layer_too_many(truth, 2, 6, rng)

    def try_it():
        task = Task.of(x, y, "tanh", deeper.hidden)
        return next(task.try_starts([task.standard.apply(deeper).flat()]))

    found, attempt = try_it()
    assert found is not None, attempt
    assert attempt.widths == (7, 5)
    assert compare(truth, found.network).max_relative_error < 1e-9
    monkeypatch.setattr(student, "AFFINE_LAYER", 0.0)
    found, _ = try_it()
    assert found is None or found.network.hidden != (7, 5)


def test_every_layer_that_is_needed_stays():
    truth = random_network((6, 7, 5, 1), "tanh", seed=3)
    x = np.random.default_rng(5).standard_normal((600, 6))
    _, rest = drop_layer(truth, x, truth(x))
    assert rest > 0.02


def test_noise_keeps_every_layer(monkeypatch):
    rng = np.random.default_rng(4)
    truth = random_network((6, 7, 5, 1), "tanh", seed=3)
    deeper = with_a_layer_too_many(truth, 2, 6, rng)
    x = rng.standard_normal((1500, 6))
    y = truth(x) + 1e-4 * rng.standard_normal((1500, 1))
    asked = []
    monkeypatch.setattr(student, "drop_layer", lambda *a: asked.append(a))
    task = Task.of(x, y, "tanh", deeper.hidden, noise=1e-4)
    _, attempt = next(task.try_starts([task.standard.apply(deeper).flat()]))
    assert attempt.narrowed
    assert not asked
