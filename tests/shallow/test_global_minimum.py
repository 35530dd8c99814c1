"""certify: every verdict on points whose standing is known, and never "global" for one that is not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unweave import certify, fit
from unweave.algebra.symmetric_forms import design
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.shallow.global_minimum import GAP, Verdict


def _shallow(weights, output, name="quadratic") -> Network:
    return Network([weights, np.atleast_2d(output)], [None, None], [name, "identity"])


def _loss(network: Network, x, y) -> float:
    return float(np.mean((network(x)[:, 0] - y) ** 2) / 2)


def _least_quadratic(x, y) -> float:
    rows = design(x)
    rest = y - rows @ np.linalg.lstsq(rows, y, rcond=None)[0]
    return float(np.mean(rest**2) / 2)


@pytest.mark.parametrize("n", [5, 14, 15, 16, 40, 100])
def test_the_gap_bound_holds_around_the_known_optimum_and_is_never_called_zero_when_it_is_not(n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((n, 5)), rng.standard_normal(n)
    best, zero = _least_quadratic(x, y), float(np.mean(y**2) / 2)
    found = fit(x, y, activation="quadratic", width=10, output_weights=np.repeat([1.0, -1.0], 5))
    assert found.certified
    assert found.certificate.gap <= GAP * zero
    for size in 10.0 ** np.arange(-7, 1):
        weights = found.network.weights[0] + size * rng.standard_normal((10, 5))
        moved = _shallow(weights, found.network.weights[1])
        certificate = certify(moved, x, y, output_weights="fixed", thorough=False)
        gap = _loss(moved, x, y) - best
        assert certificate.gap >= gap * (1 - 1e-6) - 1e-15 * zero
        if gap > GAP * zero:
            assert certificate.verdict is not Verdict.GLOBAL


def test_output_weights_of_one_sign_are_certified_against_the_cone_and_not_beyond():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((30, 1)), rng.standard_normal(30) + 2.0
    best = float(np.sum(x[:, 0] ** 2 * y) / np.sum(x[:, 0] ** 4))
    assert best > 0.1
    for scale in (0.0, 0.5, 0.99, 1.0, 1.01, 2.0):
        network = _shallow([[np.sqrt(scale * best)]], [1.0])
        verdict = certify(network, x, y, output_weights="fixed").verdict
        assert (verdict is Verdict.GLOBAL) == (scale == 1.0)
    negative = -np.abs(y)
    assert certify(_shallow([[0.0]], [1.0]), x, negative, output_weights="fixed").certified
    assert not certify(_shallow([[0.0]], [1.0]), x, negative, output_weights="train").certified


def test_a_spurious_minimum_of_too_few_units_is_not_called_global():
    """Labels of diag(4, 1), one unit: both axes hold a local minimum, and one is sixteen times worse."""
    x, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]]), np.array([4.0, 1.0, 5.0, 5.0])
    worse, better = _shallow([[0.0, np.sqrt(11 / 3)]], [1.0]), _shallow([[np.sqrt(14 / 3), 0.0]], [1.0])
    assert _loss(worse, x, y) > 15 * _loss(better, x, y)
    for network in (worse, better):
        assert certify(network, x, y, output_weights="fixed").verdict is Verdict.STATIONARY


def test_a_saddle_is_certified_as_no_minimum_with_a_direction_that_descends():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 5)), rng.standard_normal(40)
    saddle = _shallow(np.zeros((10, 5)), np.repeat([1.0, -1.0], 5))
    certificate = certify(saddle, x, y, output_weights="fixed")
    assert certificate.verdict is Verdict.NOT_A_MINIMUM
    assert certificate.descent.kind == "negative curvature"
    moved = _shallow(certificate.descent.weights, saddle.weights[1])
    assert _loss(moved, x, y) == pytest.approx(certificate.descent.after)
    assert certificate.descent.after < _loss(saddle, x, y)


@pytest.mark.parametrize("name", ["softplus(10)", "tanh", "relu", "gelu"])
def test_an_interpolant_is_certified_and_lies_within_the_stated_radius(name):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
    found = fit(x, y, activation=name, width=10)
    assert found.certified
    check = next(c for c in found.certificate.checks if c.name.startswith("exact interpolant"))
    assert check.holds
    assert check.value < 1e-8
    again = fit(x, y, activation=name, width=10, start=found.network, thorough=False)
    assert again.certified
    assert again.certificate.theorems == ()


def test_contradicting_labels_are_never_certified():
    """The same input with two labels: the least possible loss is known and not zero."""
    rng = np.random.default_rng(2)
    x = np.repeat(rng.standard_normal((10, 4)), 2, axis=0)
    y = rng.standard_normal(20)
    pairs = y.reshape(10, 2)
    floor = float(np.sum((pairs - pairs.mean(axis=1, keepdims=True)) ** 2) / 40)
    for name in ("softplus(10)", "tanh"):
        found = fit(x, y, activation=name, width=8, num_starts=2, thorough=False)
        assert found.loss >= floor * (1 - 1e-12)
        assert found.certificate.verdict is not Verdict.GLOBAL
    # Quadratic units reach the floor, and the bound knows it.
    found = fit(x, y, activation="quadratic", width=8)
    assert found.loss == pytest.approx(floor)
    assert found.certified


def test_an_unfinished_fit_is_no_minimum_and_relu_makes_no_second_order_claim():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 6)), rng.standard_normal(50)
    start = _shallow(rng.standard_normal((4, 6)), np.ones(4), "softplus(10)")
    assert certify(start, x, y).verdict is Verdict.NOT_A_MINIMUM
    relu = fit(x, y, activation="relu", width=2, num_starts=1)
    check = next(c for c in relu.certificate.checks if c.name == "second-order stationary")
    assert check.holds is None
    assert relu.certificate.verdict in (Verdict.UNDECIDED, Verdict.NOT_A_MINIMUM)


def test_a_local_minimum_is_called_stationary_and_the_numbers_come_along():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    y = np.tanh(x[:, 0] - 0.5 * x[:, 1]) + 0.1 * rng.standard_normal(60)
    found = fit(x, y, activation="tanh", width=1, num_starts=1)
    certificate = found.certificate
    assert certificate.verdict is Verdict.STATIONARY
    assert certificate.curvature > -1e-6
    record = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert record["verdict"] == "second-order stationary, not certified global"
    assert {theorem["name"] for theorem in record["theorems"]} >= {
        "Theorem 2.1",
        "Theorem 2.2",
        "Theorem 2.5",
    }


def test_hypotheses_are_those_of_the_theorems():
    rng = np.random.default_rng(0)
    truth = _shallow(rng.standard_normal((6, 5)) / 2, np.ones(6))
    x = rng.standard_normal((12, 5))
    y = truth(x)[:, 0]
    found = fit(x, y, activation="quadratic", width=6, output_weights=np.ones(6))
    assert found.certified
    theorems = {t.name: t for t in certify(found.network, x, y, output_weights="fixed", truth=truth).theorems}
    assert theorems["Theorem 2.2"].holds
    assert theorems["Theorem 2.1"].holds is False
    signs = _shallow(rng.standard_normal((10, 5)), np.repeat([1.0, -1.0], 5))
    theorems = {t.name: t for t in certify(signs, x, y, output_weights="fixed").theorems}
    assert theorems["Theorem 2.1"].holds
    assert theorems["Theorem 2.1, second part"].holds
    many = rng.standard_normal((40, 5))
    theorems = {t.name: t for t in certify(signs, many, np.ones(40), output_weights="fixed").theorems}
    assert theorems["Theorem 2.1"].holds
    assert theorems["Theorem 2.1, second part"].holds is False
    smooth = _shallow(rng.standard_normal((6, 5)), np.ones(6), "tanh")
    checks = {c.name: c for c in certify(smooth, x, y).theorems[-1].checks}
    assert checks["mu(s) zero everywhere or nowhere"].holds
    assert "zero" in checks["gamma(s) zero everywhere or nowhere"].text
    assert checks["phi' and phi'' bounded"].holds
    relu = _shallow(rng.standard_normal((6, 5)), np.ones(6), "relu")
    checks = {c.name: c for c in certify(relu, x, y).theorems[-1].checks}
    assert checks["phi' and phi'' bounded"].holds is False


def test_wrong_input_is_refused_in_one_line():
    x, y = np.ones((4, 3)), np.ones(4)
    deep = Network(
        [np.ones((2, 3)), np.ones((2, 2)), np.ones((1, 2))], [None] * 3, ["tanh", "tanh", "identity"]
    )
    for network, named in ((deep, "one hidden layer"), (_shallow(np.ones((2, 5)), [1, 1]), "5")):
        with pytest.raises(InputError, match=named) as caught:
            certify(network, x, y)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="train, fixed"):
        certify(_shallow(np.ones((2, 3)), [1, 1]), x, y, output_weights="both")
