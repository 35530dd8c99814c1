"""fit: every method, exact saddles as starts, fixed output weights, and refusals in one line."""

from __future__ import annotations

import numpy as np
import pytest

from unweave import fit
from unweave.core.errors import InputError
from unweave.core.network import Network


def _data(n: int, d: int, seed: int = 0):
    rng = np.random.default_rng([seed, n, d])
    return rng.standard_normal((n, d)), rng.standard_normal(n)


@pytest.mark.parametrize("n", [10, 54, 55, 56, 400])
def test_random_labels_with_quadratic_units_are_certified_at_any_number_of_samples(n):
    x, y = _data(n, 10)
    found = fit(x, y, activation="quadratic", width=20, output_weights=np.repeat([1.0, -1.0], 10))
    assert found.method == "closed-form"
    assert found.certified
    assert found.certificate.relative_gap <= 1e-8


def _saddle(x, y) -> Network:
    """One unit at its own best, all others at zero: every gradient vanishes."""
    one = fit(x, y, activation="quadratic", width=1, output_weights=[1.0], num_starts=1, thorough=False)
    weights = np.zeros((2 * x.shape[1], x.shape[1]))
    weights[0] = one.network.weights[0][0]
    output = np.repeat([1.0, -1.0], x.shape[1])
    return Network([weights, output[None]], [None, None], ["quadratic", "identity"])


@pytest.mark.parametrize("method", ["levenberg-marquardt", "trust-region"])
@pytest.mark.parametrize("n", [6, 20, 60])
def test_exact_saddles_are_left(method, n):
    x, y = _data(n, 6)
    for start in (
        _saddle(x, y),
        Network(
            [np.zeros((12, 6)), np.repeat([[1.0, -1.0]], 6, axis=1)], [None] * 2, ["quadratic", "identity"]
        ),
    ):
        output = start.weights[1][0]
        found = fit(
            x,
            y,
            activation="quadratic",
            width=12,
            output_weights=output,
            method=method,
            start=start,
            thorough=False,
        )
        assert found.certified, str(found)


def test_descent_lowers_the_loss_and_shows_it():
    x, y = _data(20, 5)
    shown = []
    found = fit(
        x,
        y,
        activation="softplus(10)",
        width=8,
        method="descent",
        max_steps=500,
        num_starts=1,
        progress=lambda *figures: shown.append(figures),
    )
    assert found.history[-1] < 0.5 * found.history[0]
    assert shown
    assert shown[0][0] == "descent"
    constant = fit(
        x, y, activation="softplus(10)", width=8, method="descent", step=0.05, max_steps=500, num_starts=1
    )
    assert constant.history[-1] < constant.history[0]


def test_perturbed_descent_reaches_a_certified_optimum():
    x, y = _data(6, 4)
    output = np.repeat([1.0, -1.0], 4)
    start = Network([np.zeros((8, 4)), output[None]], [None, None], ["quadratic", "identity"])
    found = fit(
        x, y, activation="quadratic", width=8, output_weights=output, method="perturbed-descent", start=start
    )
    assert found.certified


def test_many_parameters_take_the_matrix_free_trust_region():
    x, y = _data(60, 30)
    found = fit(x, y, activation="tanh", width=20, method="trust-region", num_starts=1, thorough=False)
    assert found.certified


def test_the_same_seed_gives_the_same_network_and_another_start_continues():
    x, y = _data(30, 5)
    a, b = (fit(x, y, width=8, seed=3, thorough=False) for _ in range(2))
    assert np.array_equal(a.network.flat(), b.network.flat())
    assert fit(x, y, width=8, start=a.network, thorough=False).certified


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"width": 0}, "width=0"),
        ({"width": 4, "method": "magic"}, "one of auto"),
        ({"width": 4, "output_weights": [1.0]}, "4 finite numbers"),
        ({"width": 4, "output_weights": "fixed"}, "'train' or 4 numbers"),
        ({"width": 4, "activation": "tanh", "method": "closed-form"}, "quadratic units"),
        ({"width": 2, "activation": "quadratic", "method": "closed-form"}, "raise the width"),
        ({"width": 4, "activation": "relu", "method": "trust-region"}, "second derivatives"),
        ({"width": 4, "num_starts": 0}, "num_starts=0"),
        ({"width": 4, "method": "descent", "step": 1e9, "activation": "quadratic"}, "smaller step"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, named):
    x, y = _data(30, 5)
    with pytest.raises(InputError, match=named) as caught:
        fit(x, y, **options)
    assert "\n" not in str(caught.value)
