"""Three hidden layers inside a box: units found without their sides, and the plain network made of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.methods.relu.deep.compose import compose
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.unite import unite

BOX = Box(-3.0, 3.0)


def he_network(sizes: tuple[int, ...], seed: int) -> Network:
    rng = np.random.default_rng([seed, *sizes])
    weights = [rng.standard_normal((n, m)) * np.sqrt(2 / m) for m, n in pairwise(sizes)]
    biases = [0.3 * rng.standard_normal(n) for n in sizes[1:]]
    return Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


def test_three_layers_in_a_box_of_two_inputs_come_back_as_a_function():
    network = he_network((2, 5, 4, 3, 1), 0)
    found = unweave.identify(network, domain=BOX, seed=0, method="relu-layers", certificate_seed=2)
    assert found.identified
    assert found.network is not None
    assert len(found.network.hidden) == 3
    x = BOX.sample(5000, 2, np.random.default_rng(7))
    np.testing.assert_allclose(found.network(x), network(x), atol=1e-12)


def test_a_spent_budget_keeps_the_planes_of_the_first_layer():
    network = he_network((2, 5, 4, 3, 1), 0)
    found = unweave.identify(network, domain=BOX, seed=0, method="relu-layers", budget=1500, surrogate=False)
    assert not found.identified
    assert found.network is not None
    assert found.network.is_open
    ours, theirs = (
        np.hstack([n.weights[0], n.biases[0][:, None]]) / np.linalg.norm(n.weights[0], axis=1, keepdims=True)
        for n in (found.network, network)
    )
    away = np.minimum(
        np.linalg.norm(ours[:, None] - theirs, axis=2), np.linalg.norm(ours[:, None] + theirs, axis=2)
    )
    assert np.max(np.min(away, axis=1)) < 1e-8


@pytest.mark.parametrize("leak", [0.0, 0.1])
def test_a_plain_network_without_its_sides_is_put_together_again(leak):
    """Rows over (x, |u|) of a network whose units all switch: sides and leak come out, nothing has to be carried."""
    rng = np.random.default_rng(3)
    w1, b1 = rng.standard_normal((6, 2)), 0.3 * rng.standard_normal(6)
    w2, b2 = rng.standard_normal((5, 6)), 0.3 * rng.standard_normal(5)
    w3, b3 = rng.standard_normal((2, 5)), rng.standard_normal(2)
    name = f"leaky_relu({leak})" if leak else "relu"
    truth = Network([w1, w2, w3], [b1, b2, b3], [name, name, "identity"])
    up, down = (1 + leak) / 2, (1 - leak) / 2
    turned = rng.choice([-1.0, 1.0], size=6)
    first = turned[:, None] * np.hstack([w1, b1[:, None]])
    # h = up u + down |u|
    second = np.hstack([up * w2 @ w1, down * w2, (up * w2 @ b1 + b2)[:, None]])
    top = np.hstack(
        [
            up * w3 @ second[:, :2],
            up * w3 @ second[:, 2:8],
            down * w3,
            (up * w3 @ second[:, -1] + b3)[:, None],
        ]
    )
    found = compose(Known(2), [first, second], top.T, BOX, rng)
    x = BOX.sample(500, 2, rng)
    np.testing.assert_allclose(found.network(x), truth(x), atol=1e-9)
    assert found.network.hidden == (6, 5)
    assert found.num_carriers == (0, 0)
    assert unweave.compare(truth, found.network).max_relative_error < 1e-9


def test_one_unit_beside_something_affine_tells_no_leak():
    """``a x + c |u|`` has a leak for every share of a x along u; relu, with the rest carried, claims nothing."""
    rng = np.random.default_rng(5)
    first, tilt = np.append(rng.standard_normal(3), 0.2)[None], rng.standard_normal(3)
    top = np.array([*tilt, 0.3, 1.0])[:, None]
    found = compose(Known(3), [first], top, BOX, rng)
    assert found.network.activations[0] == "relu"
    x = BOX.sample(500, 3, rng)
    wanted = x @ tilt + 0.3 * np.abs(x @ first[0, :3] + 0.2) + 1.0
    np.testing.assert_allclose(found.network(x)[:, 0], wanted, atol=1e-9)


def test_parts_of_one_unit_are_united_and_others_are_not():
    rng = np.random.default_rng(0)
    row, other = rng.standard_normal((2, 8))

    def part(of: np.ndarray, num: int) -> Trace:
        told = rng.standard_normal((num, 8))
        told -= np.outer(told @ of, of) / (of @ of)
        basis = np.linalg.svd(np.vstack([told, of]))[2]
        gauge = of / (of @ of)
        return Trace(
            0, np.zeros((1, 2)), gauge, told, np.full(num, 1e-12), basis[: num + 1].T, basis[num + 1 :].T
        )

    both = unite(part(row, 5), part(row, 4))
    assert both is not None
    assert not both.null.shape[1]
    assert abs(both.row @ row) > (1 - 1e-9) * np.linalg.norm(both.row) * np.linalg.norm(row)
    assert unite(part(row, 5), part(other, 4)) is None


@pytest.mark.parametrize("seed", [10, 3501])
def test_three_layers_of_eight_units_come_back_at_few_queries_and_no_wider(seed):
    """The second: of its ten kinks four could stand in several layers, and one shows in two parts."""
    rng = np.random.default_rng([seed, 2, 8, 8, 8, 1])
    weights, biases = [], []
    for m, n in pairwise((2, 8, 8, 8, 1)):
        weights.append(rng.uniform(-(m**-0.5), m**-0.5, size=(n, m)))
        biases.append(rng.uniform(-(m**-0.5), m**-0.5, size=n))
    network = Network(weights, biases, ["relu"] * 3 + ["identity"])
    box = Box(-1.0, 1.0)
    found = unweave.identify(network, domain=box, seed=seed, method="relu-layers", certificate_seed=2)
    assert found.identified
    assert found.network is not None
    x = box.sample(5000, 2, np.random.default_rng(7))
    np.testing.assert_allclose(found.network(x), network(x), atol=1e-9)
    assert max(found.network.hidden) <= 8
    assert found.ledger.total - found.ledger.by_stage["certificate"] < 40 * network.num_parameters


@pytest.mark.parametrize("seed", [2, 4])
def test_noisy_answers_of_smooth_units_end_with_a_reason(seed):
    truth, rng = random_network((2, 5, 1), "softplus", seed), np.random.default_rng(seed)
    found = unweave.identify(
        lambda x: truth(x) + 4e-7 * rng.standard_normal((len(x), 1)),
        input_size=2,
        domain=Box(-2.0, 2.0),
        method="relu-layers",
        seed=seed,
        surrogate=False,
        time_limit=10,
    )
    assert not found.identified
    assert "broke off" not in found.reason
