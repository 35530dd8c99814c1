"""How often a network with one unit missing or wrong passes the certificate, with and without the search.

    python benchmarks/disagreement.py --quick         5 networks a row
    python benchmarks/disagreement.py                 25 networks a row (two minutes)

Every row changes one thing that random points rarely meet: a second-layer unit active on 0.01 % to 0.2 % of all
directions is left out (of trained networks one that training has left so rare, of random ones one made so rare), two
units that differ by 1e-4 are taken for one, a bump between three parallel units is left out, a unit active on 0.02 % of
a box is left out. *random*: what the certificate sees without the search; *search*: what the search sees; *alarms*: how
often the search doubts the true network. Questions are means over the networks.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scenarios import open_parser

from unweave.certificates.disagreement import SEARCH, search_disagreement
from unweave.certificates.queries import certify
from unweave.core.domains import Box, Domain
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.models.resolve import resolve

EXACT = Precision(1e-16, 1.0, "float64")
Case = tuple[Network, Network, Domain | None]


def random_relu(
    sizes: tuple[int, ...], rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """He-initialised weights, biases N(0, 0.3^2)."""
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(sizes)]
    return weights, [0.3 * rng.standard_normal(b) for b in sizes[1:]]


def relu(weights: list[np.ndarray], biases: list[np.ndarray]) -> Network:
    return Network(weights, biases, ["relu"] * (len(weights) - 1) + ["identity"])


def without_unit(network: Network, layer: int, unit: int) -> Network:
    weights, biases = list(network.weights), list(network.biases)
    keep = np.arange(len(weights[layer])) != unit
    weights[layer], biases[layer] = weights[layer][keep], biases[layer][keep]
    weights[layer + 1] = weights[layer + 1][:, keep]
    return relu(weights, biases)


def share_of_directions(network: Network, num: int, rng: np.random.Generator) -> np.ndarray:
    """How often each second-layer unit is active far out."""
    h = np.maximum(rng.standard_normal((num, network.input_size)) @ network.weights[0].T, 0)
    return np.mean(h @ network.weights[1].T > 0, axis=0)


def rare_in_random(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng([1, seed])
    sizes = [(10, 32, 32, 2), (20, 24, 16, 1), (6, 20, 12, 1)][seed % 3]
    weights, biases = random_relu(sizes, rng)
    h = np.maximum(rng.standard_normal((200_000, sizes[0])) @ weights[0].T, 0)
    h = h[np.any(h > 0, axis=1)]
    typical = np.mean(h / np.linalg.norm(h, axis=1, keepdims=True), axis=0)
    share = 10 ** rng.uniform(-4, -2.7)
    weights[1][0] -= np.quantile(h @ weights[1][0] / (h @ typical), 1 - share) * typical
    truth = relu(weights, biases)
    yield truth, without_unit(truth, 1, 0), None


def rare_in_trained(seed: int) -> Iterator[Case]:
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng([2, seed])
    sizes = [(10, 32, 32, 2), (20, 32, 32, 1)][seed % 2]
    x = rng.standard_normal((1000, sizes[0]))
    y = (
        np.tanh(x @ rng.standard_normal((sizes[0], 6)) / 2) @ rng.standard_normal((6, sizes[-1]))
        + x[:, :1] * x[:, 1:2]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPRegressor(
            hidden_layer_sizes=sizes[1:-1], learning_rate_init=1e-2, max_iter=150, random_state=seed
        ).fit(x, y)
    truth = relu([w.T for w in model.coefs_], list(model.intercepts_))
    shares = share_of_directions(truth, 400_000, rng)
    for unit in np.flatnonzero((shares > 2e-5) & (shares < 2e-3))[:1]:
        yield truth, without_unit(truth, 1, int(unit)), None


def twins(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng([3, seed])
    weights, biases = random_relu((6, 8, 1), rng)
    row, bias = weights[0][0] + 1e-4 * rng.standard_normal(6), biases[0][0] + 1e-4
    first, second = rng.uniform(0.5, 1.5, size=2)
    out = np.hstack([[[first]], weights[1][:, 1:], [[second]]])
    truth = relu([np.vstack([weights[0], row]), out], [np.append(biases[0], bias), biases[1]])
    one, middle = weights[0].copy(), biases[0].copy()
    one[0] = (first * one[0] + second * row) / (first + second)
    middle[0] = (first * middle[0] + second * bias) / (first + second)
    yield truth, relu([one, np.hstack([[[first + second]], weights[1][:, 1:]])], [middle, biases[1]]), None


def slab(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng([4, seed])
    weights, biases = random_relu((4, 6, 1), rng)
    plain = relu(weights, biases)
    width = 1e-2 * float(np.std(plain(rng.standard_normal((500, 4)))))
    normal, offset = rng.standard_normal(4), rng.uniform(-0.5, 0.5)
    normal /= np.linalg.norm(normal)
    three = np.append(biases[0], offset + np.array([width, 0.0, -width]))
    bump = np.hstack([weights[1], [[1.0, -2.0, 1.0]]])
    yield relu([np.vstack([weights[0], [normal] * 3]), bump], [three, biases[1]]), plain, None


def corner(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng([5, seed])
    d = [4, 10, 30][seed % 3]
    weights, biases = random_relu((d, 8, 1), rng)
    row = rng.standard_normal(d)
    bias = -np.quantile(rng.uniform(-1, 1, size=(200_000, d)) @ row, 1 - 2e-4)
    more = [np.vstack([weights[0], row]), np.hstack([weights[1], [[1.0]]])]
    yield relu(more, [np.append(biases[0], bias), biases[1]]), relu(weights, biases), Box(-1, 1)


ROWS = {
    "rare second-layer unit, random": rare_in_random,
    "rare second-layer unit, trained": rare_in_trained,
    "twins 1e-4 apart, one layer": twins,
    "slab of 1e-2 of the spread, one layer": slab,
    "unit in a corner of a box, one layer": corner,
}


def main() -> None:
    arguments = open_parser(__doc__).parse_args()
    num = 5 if arguments.quick else 25
    print(f"| {'left out or wrong':38} | networks | random | search | questions | alarms | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, make in ROWS.items():
        seen = {"random": 0, "search": 0, "alarms": 0}
        cases, seed, asked, seconds = 0, 0, 0, 0.0
        while cases < num and seed < 10 * num:
            for truth, wrong, domain in make(seed):
                cases += 1
                certificate = certify(
                    wrong, Meter(resolve(truth), domain=domain), EXACT, np.random.default_rng(seed)
                )
                seen["random"] += not certificate.points_agree or any(
                    c.name != SEARCH for c in certificate.failed
                )
                meter = Meter(resolve(truth), domain=domain)
                began = time.process_time()
                seen["search"] += search_disagreement(
                    wrong, meter, EXACT, np.random.default_rng([seed, 1])
                ).found
                seconds += time.process_time() - began
                asked += meter.ledger.total
                again = Meter(resolve(truth), domain=domain)
                seen["alarms"] += search_disagreement(
                    truth, again, EXACT, np.random.default_rng([seed, 2])
                ).found
            seed += 1
        figures = " | ".join(
            str(value) for value in (seen["random"], seen["search"], asked // cases, seen["alarms"])
        )
        print(f"| {name:38} | {cases} | {figures} | {seconds / cases:.2f} |", flush=True)


if __name__ == "__main__":
    main()
