"""Networks the benchmarks are run on: the scenarios of the paper, random real networks, trained ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from unweave import Network


def paper_network(m0: int, m1: int, geometry: str, activation: str, seed: int) -> Network:
    """``f(x) = sum_l phi(b_l . phi(A' x + theta) + tau_l)`` with d = m0, phi = tanh or sigmoid - 1/2.

    ``geometry`` is "sphere" (independent uniform columns) or "pod" (an orthogonal matrix whose singular values
    are perturbed until their distance from one is 0.3 in the l2 norm). Biases are N(0, 0.01).
    """
    rng = np.random.default_rng([seed, m0, m1])
    first, second = _columns(m0, m0, geometry, rng), _columns(m0, m1, geometry, rng)
    theta, tau = 0.1 * rng.standard_normal(m0), 0.1 * rng.standard_normal(m1)
    if activation == "tanh":
        return Network(
            [first.T, second.T, np.ones((1, m1))], [theta, tau, [0.0]], ["tanh", "tanh", "identity"]
        )
    # sigmoid - 1/2 in both layers: the halves go into the next biases
    shift = tau - second.sum(axis=0) / 2
    weights = [first.T, second.T, np.ones((1, m1))]
    return Network(weights, [theta, shift, [-m1 / 2]], ["sigmoid", "sigmoid", "identity"])


def random_mlp(sizes: Sequence[int], activation: str, seed: int) -> Network:
    """A dense network with free row norms (doubled for sigmoid), biases and output weights, linear outputs."""
    rng = np.random.default_rng([seed, *sizes])
    gain = 2.0 if activation == "sigmoid" else 1.0
    last = len(sizes) - 2
    weights, biases = [], []
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        rows = rng.standard_normal((fan_out, fan_in))
        rows *= rng.uniform(0.7, 1.6, size=(fan_out, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
        weights.append(rows * (np.sqrt(fan_in) if i == last else gain))
        biases.append(0.3 * rng.standard_normal(fan_out))
    return Network(weights, biases, [activation] * last + ["identity"])


def trained_regressor(data: str, activation: str, hidden: tuple[int, ...], solver: str, seed: int):
    """A scikit-learn pipeline: StandardScaler and an MLPRegressor trained on a real or Friedman data set."""
    from sklearn.datasets import load_diabetes, load_digits, make_friedman1
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    load = {
        "diabetes": lambda: load_diabetes(return_X_y=True),
        "digits": lambda: load_digits(return_X_y=True),
        "friedman": lambda: make_friedman1(600, 10, noise=0.1, random_state=seed),
    }
    x, y = load[data]()
    regressor = MLPRegressor(
        hidden_layer_sizes=hidden, activation=activation, solver=solver, max_iter=300, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(StandardScaler(), regressor).fit(x, (y - y.mean()) / y.std())


def _columns(dimension: int, count: int, geometry: str, rng: np.random.Generator) -> np.ndarray:
    """Unit columns in the given geometry."""
    if geometry == "sphere":
        columns = rng.standard_normal((dimension, count))
        return columns / np.linalg.norm(columns, axis=0)
    left, _ = np.linalg.qr(rng.standard_normal((dimension, count)))
    right, _ = np.linalg.qr(rng.standard_normal((count, count)))
    deviations = rng.standard_normal(count)
    columns = left * (1 + 0.3 * deviations / np.linalg.norm(deviations)) @ right.T
    return columns / np.linalg.norm(columns, axis=0)
