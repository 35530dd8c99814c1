"""Segmented scans: kinks of exact, float32 and noisy answers, each within its error bar."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.inquiry import open_inquiry
from unweave.probes.lines import draw_lines
from unweave.probes.scan import scan_lines

ROUGHNESS = {"float64": 0.0, "float32": 0.0, "noisy": 1e-4}


def _inquiry(network: Network, kind: str, rng: np.random.Generator):
    noise = np.random.default_rng(3)

    def answer(x):
        y = network(x)
        if kind == "float32":
            h = x.astype(np.float32)
            for w, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
                h = np.maximum(h @ w.T.astype(np.float32) + b.astype(np.float32), 0)
            y = h @ network.weights[-1].T.astype(np.float32) + network.biases[-1].astype(np.float32)
        return np.asarray(y, float) + ROUGHNESS[kind] * noise.standard_normal(y.shape)

    box = Box(-1.0, 1.0)
    meter = Meter(resolve(answer, input_size=network.input_size, domain=box), domain=box)
    return meter, open_inquiry(meter, measure_precision(meter, rng), rng)


def _random_network(sizes, seed: int) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairs]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in pairs]
    return Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


def _true_kinks(network: Network, origin, direction, low: float, high: float) -> np.ndarray:
    t = np.linspace(low, high, 20_001)
    h, places = origin + t[:, None] * direction, []
    for w, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
        z = h @ w.T + b
        for i, j in np.argwhere(z[:-1] * z[1:] < 0):
            places.append(t[i] - z[i, j] * (t[i + 1] - t[i]) / (z[i + 1, j] - z[i, j]))
        h = np.maximum(z, 0)
    return np.sort(places)


@pytest.mark.parametrize("kind", ["float64", "float32", "noisy"])
def test_kinks_are_found_within_their_error_bars(kind):
    network, rng = _random_network((6, 12, 8, 2), 5), np.random.default_rng(0)
    meter, inquiry = _inquiry(network, kind, rng)
    lines = draw_lines(meter.domain, 6, 6, rng)
    scans = scan_lines(inquiry, lines)
    num_true = num_found = num_wrong = 0
    for i, scan in enumerate(scans):
        true = _true_kinks(network, lines.origins[i], lines.directions[i], lines.low[i], lines.high[i])
        num_true, num_found = num_true + len(true), num_found + len(scan.positions)
        for place, error in zip(scan.positions, scan.place_errors, strict=True):
            num_wrong += np.min(np.abs(true - place)) > 8 * error + 1e-6
    assert num_found >= (0.6 if kind == "noisy" else 0.95) * num_true
    assert num_wrong <= (0.1 if kind == "noisy" else 0.03) * num_found
    assert meter.ledger.total <= 40 + 14 * num_true


def test_nothing_is_asked_within_a_window():
    rng = np.random.default_rng(1)
    width = 1e-3

    def answer(x):
        z = x[:, :1] - 0.3
        return np.where(np.abs(z) > width, np.maximum(z, 0), (z + width) ** 2 / (4 * width)) + 0.5 * x[:, 1:]

    box = Box(-1.0, 1.0)
    meter = Meter(resolve(answer, input_size=2, domain=box), domain=box)
    inquiry = open_inquiry(meter, measure_precision(meter, rng), rng, window=2 * width)
    lines = draw_lines(box, 4, 2, rng)
    for i, scan in enumerate(scan_lines(inquiry, lines)):
        places = (0.3 - lines.origins[i, 0]) / lines.directions[i, 0]
        crossed = lines.low[i] < places < lines.high[i]
        assert len(scan.positions) == int(crossed)
        if crossed:
            assert abs(scan.positions[0] - places) < 1e-9


def test_a_line_that_bends_all_along_is_given_up():
    def smooth(x):
        return np.sin(3 * x.sum(axis=1, keepdims=True))

    box, rng = Box(-1.0, 1.0), np.random.default_rng(0)
    meter = Meter(resolve(smooth, input_size=3, domain=box), domain=box)
    inquiry = open_inquiry(meter, measure_precision(meter, rng), rng)
    asked = meter.ledger.total
    found = scan_lines(inquiry, draw_lines(box, 2, 3, rng))
    assert all(line.endless for line in found)
    assert meter.ledger.total - asked < 5000


def test_a_line_through_hundreds_of_kinks_is_not():
    network, rng = _random_network((4, 300, 2), 1), np.random.default_rng(0)
    _, inquiry = _inquiry(network, "float64", rng)
    lines = draw_lines(inquiry.meter.domain, 1, 4, rng)
    found = scan_lines(inquiry, lines)[0]
    true = _true_kinks(network, lines.origins[0], lines.directions[0], lines.low[0], lines.high[0])
    assert not found.endless
    assert len(found.positions) >= 0.95 * len(true) > 50
