"""The first layer under high thresholds, from samples: units, open ends, landscapes, refinements."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import unweave
from unweave.core.errors import ExportError, InputError, Outcome
from unweave.experiments.high_threshold_stated import estimate_tan_alpha, refine_estimate
from unweave.methods.high_threshold.centre import find_centre, sample_polytope
from unweave.methods.high_threshold.inverse import fit_one_unit
from unweave.methods.high_threshold.labels import fit_labels
from unweave.methods.high_threshold.landscape import Landscape, landscape_starts, minimise_one_by_one
from unweave.methods.high_threshold.margin import separate
from unweave.methods.high_threshold.sigmoid import recover_sigmoid_units
from unweave.methods.high_threshold.starts import (
    find_resting_value,
    find_starts,
    follow_rows,
    label_moments,
    num_directions,
)
from unweave.moments.hermite import HermiteMoments


def directions(d: int, rng: np.random.Generator, spread: float = 0.25) -> np.ndarray:
    rows = np.linalg.qr(rng.standard_normal((d, d)))[0] + spread * rng.standard_normal((d, d)) / np.sqrt(d)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def worst(truth: np.ndarray, found: np.ndarray) -> float:
    return float(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1).max())


@pytest.fixture(scope="module")
def relu_case():
    rng = np.random.default_rng(11)
    w, t = directions(6, rng), rng.uniform(1.6, 2.0, 6)
    x = rng.standard_normal((30_000, 6))
    units = np.maximum(x @ w.T - t, 0)
    return w, t, x, units


def test_relu_units_under_sums_and_products_come_back_to_rounding(relu_case, tmp_path):
    w, t, x, units = relu_case
    y = units.sum(axis=1) + 0.5 * units[:, 0] * units[:, 1] - 0.7 * units[:, 2] * units[:, 4]
    found = unweave.learn(x, y, method=unweave.HighThreshold(unit="relu"))
    assert found.identified, found.verdict()
    truth = unweave.Network([w, np.ones((1, 6))], [-t, [0.0]], ["relu", "identity"])
    comparison = unweave.compare(truth, found)
    assert len(comparison.per_layer) == 1
    assert comparison.max_relative_error < 1e-12
    assert found.network is not None
    assert found.network.is_open
    assert "the rest unknown" in found.verdict()
    with pytest.raises(ExportError, match="save"):
        found.export(tmp_path / "layer.onnx")
    again = unweave.load(found.save(tmp_path / "layer.safetensors"))
    assert again.network is not None
    assert again.network.is_open
    assert np.array_equal(again.network.weights[0], found.network.weights[0])
    assert again.verdict() == found.verdict()


def test_relu_units_under_an_unknown_sigmoid(relu_case):
    w, _, x, units = relu_case
    y = 1 / (1 + np.exp(1 - units @ np.linspace(0.5, 1.5, 6)))
    found = unweave.learn(x, y, method=unweave.HighThreshold(unit="relu"))
    assert found.identified, found.verdict()
    assert found.network is not None
    assert worst(w, found.network.weights[0]) < 1e-8


def test_inputs_that_are_not_standard_are_whitened_and_given_back(relu_case):
    w, t, x, units = relu_case
    y = units.sum(axis=1)
    moved = 2.0 * x + 1.0
    found = unweave.learn(moved, y, method="high-threshold", mean=np.ones(6), covariance=4 * np.eye(6))
    truth = unweave.Network([w / 2], [-t - w.sum(axis=1) / 2], ["relu"], upper="unknown")
    assert unweave.compare(truth, found).max_relative_error < 1e-9


def test_step_units_and_wrong_labels():
    rng = np.random.default_rng(12)
    w = directions(5, rng)
    x = rng.standard_normal((60_000, 5))
    labels = np.any(x @ w.T > 1.9, axis=1)
    found = unweave.learn(x, labels.astype(float))
    assert found.method == "high-threshold"
    assert found.identified, found.verdict()
    assert found.network is not None
    assert worst(w, found.network.weights[0]) < 5e-3
    flipped = labels ^ (rng.uniform(size=len(x)) < 0.01)
    fit = fit_labels(x, flipped, rng)
    assert len(fit.union) == 5
    assert 0.005 < fit.flip_rate < 0.02
    assert worst(w, fit.union.normals) < 1e-2


def test_open_ends_are_named_by_unit():
    rng = np.random.default_rng(13)
    w = directions(4, rng)
    x = rng.standard_normal((40_000, 4))
    units = np.maximum(x @ w.T - np.array([1.8, 1.8, 1.8, 5.0]), 0)
    unseen = unweave.learn(x, units.sum(axis=1), method=unweave.HighThreshold("relu", num_units=4))
    assert unseen.outcome is Outcome.PARTLY
    assert any("hardly ever active" in part for part in unseen.undetermined)
    parity = (np.sum(x @ w.T > 1.3, axis=1) % 2).astype(float)
    odd = unweave.learn(x, parity, method=unweave.HighThreshold("step"))
    assert not odd.identified
    assert "not monotone" in odd.verdict()
    low = unweave.learn(x, np.maximum(x @ w.T, 0).sum(axis=1), method=unweave.HighThreshold("relu"))
    assert "too low" in low.verdict()
    close = w.copy()
    close[1] = close[0] + 0.03 * close[1]
    close /= np.linalg.norm(close, axis=1, keepdims=True)
    merged = unweave.learn(
        x, np.maximum(x @ close.T - 1.8, 0).sum(axis=1), method=unweave.HighThreshold("relu")
    )
    assert merged.outcome is not Outcome.IDENTIFIED
    assert "closer than rows tell apart" in merged.verdict()


def test_no_resting_value_ends_with_the_reason():
    rng = np.random.default_rng(14)
    x = rng.standard_normal((5_000, 3))
    found = unweave.learn(x, np.tanh(x @ np.array([1.0, 2.0, 0.5])), method=unweave.HighThreshold("relu"))
    assert found.outcome is Outcome.NOT_IDENTIFIED
    assert "unit='sigmoid'" in found.reason
    with pytest.raises(InputError, match="relu, step, sigmoid"):
        unweave.learn(x, x[:, 0] > 0, method=unweave.HighThreshold("tanh"))


def test_silent_rows_cost_no_products():
    rng = np.random.default_rng(15)
    x = rng.standard_normal((1000, 3))
    labels = x[:, 0] > 2
    moments = label_moments([(x, labels)], 3)
    assert moments.count == 1000
    assert moments.num_used == labels.sum()
    rest = find_resting_value(np.where(labels, x[:, 1], 0.25))
    assert rest.value == 0.25


def test_landscapes_have_true_gradients_and_their_minima_are_the_units():
    rng = np.random.default_rng(16)
    w = directions(4, rng)
    x = rng.standard_normal((150_000, 4))
    labels = np.any(x @ w.T > 2.3, axis=1)
    landscape = Landscape.of(HermiteMoments(4, 4).update(x, labels.astype(float)), 4)
    z, many = rng.standard_normal(4), rng.standard_normal(16)
    for value, slope, at in [
        (landscape.value, landscape.gradient, z),
        (landscape.joint_value, landscape.joint_gradient, many),
    ]:
        assert np.allclose(approx_fprime(at, value, 1e-6), slope(at), rtol=1e-3, atol=1e-3 * abs(value(at)))
    for slope, curve, at in [
        (landscape.gradient, landscape.hessian, z),
        (landscape.joint_gradient, landscape.joint_hessian, many),
    ]:
        expected = curve(at)
        size = np.abs(expected).max()
        assert np.allclose(approx_fprime(at, slope, 1e-6), expected, atol=1e-4 * size)
    minima = minimise_one_by_one(landscape, rng)
    assert len(minima) == 4
    assert all(point.is_minimum for point in minima)
    for kind in ("landscape", "simultaneous"):
        assert worst(w, landscape_starts([(x, labels)], 4, kind, 4, rng)) < 0.25
    assert worst(w, find_starts(label_moments([(x, labels)], 4), 4, rng)) < 0.2


def test_the_simultaneous_landscape_does_not_collapse_with_ten_inputs():
    rng = np.random.default_rng(23)
    w = directions(10, rng, spread=0.5)
    x = rng.standard_normal((300_000, 10))
    labels = np.any(x @ w.T > 2.5, axis=1)
    found = landscape_starts([(x, labels)], 10, "simultaneous", 10, rng)
    assert len(found) == 10
    assert worst(w, found) < 0.4


def test_starts_by_landscape_lead_to_the_same_units(relu_case):
    w, _, x, units = relu_case
    found = unweave.learn(x, units.sum(axis=1), method=unweave.HighThreshold("relu", start="landscape"))
    assert found.network is not None
    assert worst(w, found.network.weights[0]) < 1e-12


def test_the_stated_refinement_estimates_the_angle_and_lowers_it():
    rng = np.random.default_rng(17)
    w = directions(3, rng)
    x = rng.standard_normal((200_000, 3))
    active = np.any(x @ w.T > 1.8, axis=1)
    z = w[0] + 0.15 * np.cross(w[0], w[1])
    z /= np.linalg.norm(z)
    angle = np.arccos(z @ w[0])
    assert abs(np.arctan(estimate_tan_alpha(x, active, z, 0.05)) - angle) < 0.4 * angle
    refined = refine_estimate(x, active, z, rng, epsilon=0.05, max_rounds=150)
    assert refined.angles[-1] < refined.angles[0]
    assert refined.direction @ w[0] > z @ w[0]


def test_sigmoid_units_under_a_free_polynomial():
    rng = np.random.default_rng(18)
    w = directions(3, rng)
    x = rng.standard_normal((20_000, 3))
    h = 1 / (1 + np.exp(-3 * (x @ w.T - 1.5)))
    y = h.sum(axis=1) + 0.8 * h[:, 0] * h[:, 1]
    finding = recover_sigmoid_units(x, y, rng)
    assert finding.network is not None
    rows = finding.network.weights[0]
    error = np.minimum(
        np.linalg.norm(3 * w[:, None] - rows, axis=2), np.linalg.norm(3 * w[:, None] + rows, axis=2)
    )
    assert error.min(axis=1).max() < 1e-9
    assert callable(finding.network.upper)
    assert np.allclose(finding.network(x[:50])[:, 0], y[:50])


def test_inverse_regression_needs_enough_rows():
    assert fit_one_unit(np.zeros((5, 3)), np.zeros(5), 0.0, np.ones(3)) is None


def test_power_iteration_from_rows_counts_units_that_t2_loses_in_noise():
    rng = np.random.default_rng(19)
    w = directions(24, rng, spread=0.5)
    x = rng.standard_normal((80_000, 24))
    labels = np.any(x @ w.T > 2.3, axis=1)
    moments = label_moments([(x, labels)], 24)
    assert num_directions(moments)[0] < 24
    ends = follow_rows(moments, x[labels])
    assert len(ends) == 24
    assert worst(w, ends) < 0.4


def test_the_centre_of_the_separating_halfspaces_beats_the_widest_margin():
    rng = np.random.default_rng(20)
    errors = []
    for _ in range(30):
        w = directions(4, rng)[0]
        x = rng.standard_normal((4_000, 4))
        inside = x @ w > 1.5
        normal, offset, margin = separate(x[~inside], x[inside], w, 1.5) or (w, 1.5, -1.0)
        assert margin > 0
        found = find_centre(x[~inside], x[inside], normal, offset, rng)
        assert found is not None
        centre, moved = found
        assert np.array_equal(x @ centre > moved, inside)
        errors.append([np.linalg.norm(normal - w), np.linalg.norm(centre - w)])
    widest, mean = np.mean(errors, axis=0)
    assert mean < 0.95 * widest


def test_no_centre_without_a_separating_start():
    rng = np.random.default_rng(22)
    x = rng.standard_normal((500, 3))
    inside = x[:, 0] > 1
    assert find_centre(x[inside], x[~inside], np.eye(3)[0], 1.0, rng) is None


def test_samples_fill_a_polytope_evenly():
    rng = np.random.default_rng(21)
    # A thin triangle with its corners at (-1, -0.01), (2, -0.01), (-1, 0.02); its mean is the mean of the corners.
    table = np.array([[-1.0, 0.0], [0.0, -1.0], [0.01, 1.0]])
    points = sample_polytope(table, np.array([1.0, 0.01, 0.01]), rng)
    assert np.all(table @ points.T <= np.array([1.0, 0.01, 0.01])[:, None] + 1e-12)
    assert np.allclose(points.mean(axis=0) / [1.0, 0.01], 0.0, atol=0.1)
