"""The networks of Fornasier, Klock and Rauchensteiner (2019, sec. 4), and what their tables measure on them.

``f(x) = sum_l phi(b_l . phi(A' x + theta) + tau_l)`` with d = m0 and phi = tanh or sigmoid - 1/2. A scenario is a
geometry of the weights ("POD": perturbed orthogonal; "sphere": independent uniform) and an activation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.models.python_callable import CallableOracle

SCENARIOS = ("POD/sigmoid", "POD/tanh", "sphere/sigmoid", "sphere/tanh")


def paper_network(m0: int, m1: int, geometry: str, activation: str, seed: int) -> Network:
    """A random network of the class.

    ``geometry`` is "sphere" (independent uniform columns) or "pod" (an orthogonal matrix whose singular values
    are perturbed until their distance from one is 0.3 in the l2 norm). Biases are N(0, 0.01).
    """
    rng = np.random.default_rng([seed, m0, m1])
    first, second = _columns(m0, m0, geometry, rng), _columns(m0, m1, geometry, rng)
    theta, tau = 0.1 * rng.standard_normal(m0), 0.1 * rng.standard_normal(m1)
    if activation == "tanh":
        return Network(
            [first.T, second.T, np.ones((1, m1))], [theta, tau, np.zeros(1)], ["tanh", "tanh", "identity"]
        )
    # sigmoid - 1/2 in both layers: the halves go into the next biases
    shift = tau - second.sum(axis=0) / 2
    weights = [first.T, second.T, np.ones((1, m1))]
    return Network(weights, [theta, shift, np.array([-m1 / 2])], ["sigmoid", "sigmoid", "identity"])


@dataclass(frozen=True)
class Truth:
    """A network of the class with its weights as the paper writes them."""

    network: Network
    activation: str

    @staticmethod
    def draw(scenario: str, m0: int, m1: int, seed: int) -> Truth:
        geometry, activation = scenario.lower().split("/")
        return Truth(paper_network(m0, m1, geometry, activation, seed), activation)

    def oracle(self) -> CallableOracle:
        """The function evaluated as the paper writes it, each unit centred.

        The same function as ``network``, whose biases hold the halves of sigmoid - 1/2, but with smaller sums: second
        differences of step 1e-5 see their rounding.
        """
        (a, b, _), theta, tau = self.network.weights, self.theta, self.tau
        phi = np.tanh if self.activation == "tanh" else _centred_sigmoid

        def answer(x: np.ndarray) -> np.ndarray:
            return np.sum(phi(phi(x @ a.T + theta) @ b.T + tau), axis=1, keepdims=True)

        return CallableOracle(f"network {self.network.describe()}", a.shape[1], 1, "float64", answer)

    @property
    def rows(self) -> np.ndarray:
        """``a_i`` (m0, m0)."""
        return self.network.weights[0]

    @property
    def entangled(self) -> np.ndarray:
        """``v_l = A G_0 b_l``, normalised (m1, m0)."""
        return entangle(self.network)

    @property
    def theta(self) -> np.ndarray:
        return self.network.biases[0]

    @property
    def tau(self) -> np.ndarray:
        return second_shifts(self.network)


def entangle(network: Network) -> np.ndarray:
    """``v_l`` of a network with two hidden layers, normalised."""
    slopes = act.get(network.activations[0]).first(network.biases[0], np)
    vectors = (network.weights[1] * slopes) @ network.weights[0]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def second_shifts(network: Network) -> np.ndarray:
    """``tau``: the second layer's shifts when the activation is centred (sigmoid - 1/2)."""
    centre = float(act.get(network.activations[0])(np.zeros(1))[0])
    return network.biases[1] + centre * network.weights[1].sum(axis=1)


def squared_distances(vectors: np.ndarray, others: np.ndarray) -> np.ndarray:
    """``min |u -+ w|^2`` over unit vectors w in ``others``, for each unit vector u."""
    return 2 - 2 * np.minimum(np.max(np.abs(vectors @ others.T), axis=1), 1.0)


def _centred_sigmoid(s: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # far out it is 0 - 1/2, as it should
        return 1 / (1 + np.exp(-s)) - 0.5


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
