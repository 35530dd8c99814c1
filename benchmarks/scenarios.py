"""Networks the benchmarks are run on: the scenarios of the paper, random real networks, trained ones."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from unweave import Network
from unweave.experiments.scenarios import paper_network

__all__ = ["paper_network", "random_mlp", "trained_regressor"]


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


def open_parser(text: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the file's docstring as it stands, with ``--quick``."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, few trials")
    return parser
