"""Steps on a few answers at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.core import clock
from unweave.solve.batches import Pace, _Batch, descend_in_batches
from unweave.solve.descend import End
from unweave.solve.layout import Layout
from unweave.students.starts import draw_start

PACE = Pace(num_answers=120, num_steps=2000, damping=1e-3, momentum=0.98)


def a_student(sizes: tuple[int, ...], seed: int) -> tuple[Layout, np.ndarray, np.ndarray, np.ndarray]:
    """A layout, a random start, and points with answers of a network of half its units."""
    rng = np.random.default_rng(seed)
    true = random_network((sizes[0], *(k // 2 for k in sizes[1:-1]), sizes[-1]), "tanh", seed)
    layout = Layout.uniform(sizes, act.get("tanh"))
    x = rng.standard_normal((3 * layout.num_parameters, sizes[0]))
    y = true(x)
    y = (y - y.mean(axis=0)) / y.std()
    return layout, draw_start(layout, x, y, rng), x, y


@pytest.mark.parametrize("sizes", [(4, 9, 2), (3, 7, 6, 3)])
def test_the_matrix_of_a_batch_is_that_of_its_jacobian(sizes):
    layout, start, x, y = a_student(sizes, 1)
    outputs, jacobian = layout.linearise(start, x[:20])
    jacobian = jacobian.reshape(20, sizes[-1], -1).transpose(1, 0, 2).reshape(20 * sizes[-1], -1)
    blocks = [layout.block(start, layer).astype(np.float32) for layer in range(layout.num_layers)]
    inputs = np.hstack([x[:20], np.ones((20, 1))]).astype(np.float32)
    batch = _Batch(layout, blocks, inputs, y[:20].astype(np.float32))
    matrix = batch._shared()
    assert np.allclose(matrix, jacobian @ jacobian.T, atol=1e-4 * np.max(matrix))
    v = np.random.default_rng(2).standard_normal(layout.num_parameters)
    moves = [layout.block(v, layer).astype(np.float32) for layer in range(layout.num_layers)]
    assert np.allclose(batch._product(moves).T.ravel(), jacobian @ v, atol=1e-3)
    r = np.random.default_rng(3).standard_normal(outputs.shape)
    adjoint = np.concatenate([b.ravel() for b in batch._adjoint(r.astype(np.float32))])
    assert np.allclose(adjoint, jacobian.T @ r.T.ravel(), atol=1e-3 * np.max(np.abs(adjoint)))


@pytest.mark.parametrize("sizes", [(4, 12, 2), (3, 10, 10, 1)])
def test_an_over_wide_student_comes_near(sizes):
    layout, start, x, y = a_student(sizes, 5)
    fit = descend_in_batches(layout, start, x, y, PACE, np.random.default_rng(6))
    before = np.sqrt(np.mean((layout.forward(start, x) - y) ** 2))
    assert fit.rms < 0.05 * before
    assert fit.rms == pytest.approx(np.sqrt(np.mean((layout.forward(fit.parameters, x) - y) ** 2)))
    again = descend_in_batches(layout, start, x, y, PACE, np.random.default_rng(6))
    assert np.array_equal(fit.parameters, again.parameters)


def test_steps_that_lead_nowhere_are_taken_back():
    layout, start, x, y = a_student((4, 12, 2), 5)
    wild = replace(PACE, rate=50.0, num_steps=30)
    fit = descend_in_batches(layout, start, x, y, wild, np.random.default_rng(6))
    assert fit.end is End.STALLED
    assert np.array_equal(fit.parameters, start)


def test_the_clock_ends_it():
    layout, start, x, y = a_student((4, 12, 2), 5)
    fit = descend_in_batches(layout, start, x, y, PACE, np.random.default_rng(6), deadline=clock.now() - 1)
    assert fit.num_steps == 0
