"""Second-layer units followed through a box, and the network composed from them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import unweave
from unweave.certificates.visible import measure_visible
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.methods.relu.lifted.search import Search
from unweave.models.python_callable import from_callable
from unweave.probes.inquiry import open_inquiry


def draw_network(sizes, seed: int) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairs]
    biases = [rng.uniform(-1, 1, b) for _, b in pairs]
    return Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


def open_search(network: Network, box: unweave.Box, seed: int = 0, dtype: str = "float64") -> Search:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)

    def answer(x: np.ndarray) -> np.ndarray:
        return network(x.astype(kind).astype(float)).astype(kind).astype(float)

    meter = Meter(from_callable(answer, input_size=network.input_size, domain=box), domain=box)
    inquiry = open_inquiry(meter, measure_precision(meter, rng), rng)
    return Search(inquiry, rng, float("inf"), lambda text: None)


def test_planes_and_weights_are_those_of_the_network():
    network, box = draw_network((3, 12, 8, 2), 0), unweave.Box(-2.0, 2.0)
    search = open_search(network, box)
    search.draw(12)
    search.find_planes()
    search.explain()
    lengths = np.linalg.norm(network.weights[0], axis=1)
    truth = np.hstack([network.weights[0], network.biases[0][:, None]]) / lengths[:, None]
    found = np.hstack([search.planes.normals, search.planes.offsets[:, None]])
    apart = np.minimum(
        np.linalg.norm(found[:, None] - truth, axis=2), np.linalg.norm(found[:, None] + truth, axis=2)
    )
    assert np.all(apart.min(axis=1) < 1e-10)
    assert search.follower is not None
    traces = search.follower.traces
    weights = network.weights[1] * lengths * np.linalg.norm(network.weights[2], axis=0)[:, None] / 2
    weights = weights[:, apart.argmin(axis=1)]
    for beta, known in zip(traces.beta, traces.known, strict=True):
        misses = [
            np.max(np.abs(sign * row - beta)[known], initial=0.0) for row in weights for sign in (1, -1)
        ]
        assert min(misses) < 1e-7 * np.max(np.abs(weights))
    assert np.sum(traces.known.sum(axis=1) > 3) >= 4


@pytest.mark.parametrize(("sizes", "seed"), [((2, 12, 10, 1), 0), ((4, 16, 12, 2), 1)])
def test_two_layers_come_back_in_a_box(sizes, seed):
    network, box = draw_network(sizes, seed), unweave.Box(-2.0, 2.0)
    found = unweave.identify(lambda x: network(x), input_size=sizes[0], domain=box, seed=1)
    assert found.identified, found.reason
    x = box.sample(4000, sizes[0], np.random.default_rng(9))
    assert np.max(np.abs(found.network(x) - network(x))) < 1e-9 * np.std(network(x))


def test_what_a_domain_does_not_show_is_counted():
    """A unit that is off in the whole box has no effect there."""
    shown = draw_network((2, 4, 3, 1), 3)
    biases = [b.copy() for b in shown.biases]
    box, rng = unweave.Box(-1.0, 1.0), np.random.default_rng(0)
    x = box.sample(500, 2, rng)
    everything = measure_visible(shown, x, box, 1e-15, 2e-16, rng)
    biases[1][0] = -1e3
    dead = Network(shown.weights, biases, shown.activations)
    part = measure_visible(dead, x, box, 1e-15, 2e-16, rng)
    assert everything is not None
    assert part is not None
    assert part.num_hidden > everything.num_hidden
    assert np.all(np.isfinite(part.deviations))
