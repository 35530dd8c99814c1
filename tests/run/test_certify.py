"""What a certificate of a run tells the method that is tried again."""

import numpy as np

import unweave
from truth import random_network
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Finding
from unweave.models.resolve import resolve
from unweave.run.certify import MOST_SUSPECTS, Certifying

BOX = unweave.Box(-1.0, 1.0)


def test_answers_that_contradict_the_network_are_suspects():
    drawn, rng = random_network((10, 12, 8, 2), "relu", 1), np.random.default_rng(2)
    rows, biases = drawn.weights[0].copy(), drawn.biases[0].copy()
    rows[0], biases[0] = 1e-4, -9.6e-4  # hardly seen, in one corner of a thousand
    model = Network([rows, *drawn.weights[1:]], [biases, *drawn.biases[1:]], drawn.activations)
    rows = rows.copy()
    rows[0] = 0.0
    without = Network([rows, *drawn.weights[1:]], [biases, *drawn.biases[1:]], drawn.activations)
    meter = Meter(resolve(model), domain=BOX)
    meter.ask(np.concatenate([BOX.sample(200, 10, rng), rng.uniform(0.97, 1.0, (30, 10))]))
    precision = Precision(1e-6, 1.0, "noisy")
    finding = Finding(without, error_bars=lambda x, y: np.full(len(x), 1e-8))
    _, certificate = Certifying(meter, 0, 1).certify(finding, precision)
    assert [check.name for check in certificate.failed] == ["answers asked"]
    suspects = certificate.fresh["suspects"]
    assert 0 < len(suspects) <= MOST_SUSPECTS
    assert np.all(suspects.sum(axis=1) > 9.6)
