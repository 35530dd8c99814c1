"""Kinks along lines, the pieces between them and the planes behind them, against the weights they come from."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.domains import Ball
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.models.resolve import resolve
from unweave.probes.cells import measure_pieces
from unweave.probes.inquiry import open_inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines
from unweave.probes.planes import measure_planes

EXACT = Precision(1e-16, 1.0, "float64")


def _open(network, seed, domain=None):
    meter = Meter(resolve(network), domain=domain)
    rng = np.random.default_rng(seed)
    return meter, open_inquiry(meter, EXACT, rng), rng


def _crossings(network, lines, line):
    rows, biases = network.weights[0], network.biases[0]
    t = -(rows @ lines.origins[line] + biases) / (rows @ lines.directions[line])
    return np.sort(t[(t > lines.low[line]) & (t < lines.high[line])])


@pytest.mark.parametrize("sizes", [(10, 20, 1), (5, 40, 2), (60, 30, 3)])
def test_every_kink_of_a_line_is_found_with_few_queries(sizes):
    for seed in range(5):
        network = random_network(sizes, "relu", seed)
        meter, inquiry, rng = _open(network, seed)
        lines = draw_lines(meter.domain, 2, sizes[0], rng)
        before = meter.ledger.total
        kinks = find_kinks(inquiry, lines)
        assert meter.ledger.total - before <= 12 * 2 * sizes[1]
        for line, found in enumerate(kinks):
            truth = _crossings(network, lines, line)
            assert len(found.positions) == len(truth)
            np.testing.assert_allclose(found.positions, truth, rtol=1e-7, atol=1e-9)
            assert not len(found.unresolved)


def test_lines_stay_inside_a_ball():
    network = random_network((6, 12, 1), "relu", 3)
    meter, inquiry, rng = _open(network, 3, Ball(2.0))
    lines = draw_lines(meter.domain, 6, 6, rng)
    kinks = find_kinks(inquiry, lines)  # the meter refuses questions outside
    for line, found in enumerate(kinks):
        np.testing.assert_allclose(found.positions, _crossings(network, lines, line), atol=1e-9)


def test_two_close_kinks_are_told_apart():
    network = random_network((4, 2, 1), "relu", 0)
    rows = np.repeat(network.weights[0][:1], 2, axis=0) + np.array([[0.0], [1e-3]])
    from unweave.core.network import Network

    close = Network([rows, [[1.0, 1.5]]], [[0.3, 0.3 + 1e-6], [0.0]], network.activations)
    meter, inquiry, rng = _open(close, 1)
    lines = draw_lines(meter.domain, 1, 4, rng)
    (found,) = find_kinks(inquiry, lines)
    np.testing.assert_allclose(found.positions, _crossings(close, lines, 0), rtol=1e-6)


def test_a_smooth_function_is_bounded_work():
    network = random_network((3, 4, 1), "tanh", 0)
    meter, inquiry, rng = _open(network, 0, Ball(1.0))
    find_kinks(inquiry, draw_lines(meter.domain, 1, 3, rng), max_rounds=8)
    assert meter.ledger.total < 20_000


def test_pieces_are_the_gradient_of_the_cell():
    network = random_network((8, 6, 2), "relu", 5)
    _, inquiry, rng = _open(network, 5)
    centres = rng.standard_normal((4, 8))
    pieces = measure_pieces(inquiry, centres, np.full(4, 1e-3), rng)
    assert pieces.valid.all()
    for centre, gradient in zip(centres, pieces.gradients, strict=True):
        active = network.weights[0] @ centre + network.biases[0] > 0
        np.testing.assert_allclose(
            gradient, network.weights[1] @ (active[:, None] * network.weights[0]), atol=1e-9
        )


def test_planes_are_the_rows_of_the_layer():
    network = random_network((8, 6, 2), "relu", 6).normalised()
    meter, inquiry, rng = _open(network, 6)
    lines = draw_lines(meter.domain, 1, 8, rng)
    planes, _ = measure_planes(inquiry, lines, find_kinks(inquiry, lines), rng)
    truth = np.hstack([network.weights[0], network.biases[0][:, None]])
    for normal, offset, jump in zip(planes.normals, planes.offsets, planes.jumps, strict=True):
        row = np.append(normal, offset)
        sign = np.sign(truth[:, :-1] @ normal)
        best = int(np.argmax(np.abs(truth[:, :-1] @ normal)))
        np.testing.assert_allclose(sign[best] * row, truth[best], atol=1e-8)
        np.testing.assert_allclose(jump, network.weights[1][:, best], rtol=1e-7, atol=1e-8)
    assert len(planes) == 6
