"""Fresh means fresh: what a certificate asks was seen by no fit, and no fit sees it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

import unweave
from truth import random_network, relu_in_float32, remote_network
from unweave.certificates.certificate import NUM_POINTS
from unweave.certificates.queries import certify
from unweave.core.domains import Ball, Box
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Finding, Method, Serves
from unweave.methods.choose import Choice
from unweave.methods.registry import entries
from unweave.models.resolve import resolve
from unweave.run import certify as certifying
from unweave.run import driver, signatures


def rows_of(x: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in np.ascontiguousarray(x)}


class Spy(Meter):
    """A meter that notes what a certificate asked, and everything any fit was given: by asking, or as a transcript."""

    certified: ClassVar[set[bytes]] = set()
    fitted: ClassVar[set[bytes]] = set()

    def ask(self, x):
        (self.certified if self._stage == "certificate" else self.fitted).update(rows_of(self.snap(x)))
        return super().ask(x)

    def transcript(self, *stages):
        x, y = super().transcript(*stages)
        self.fitted.update(rows_of(x))
        return x, y


@pytest.fixture
def spy(monkeypatch):
    monkeypatch.setattr(signatures, "Meter", Spy)
    Spy.certified, Spy.fitted = set(), set()
    return Spy


def model_for(method: Method) -> unweave.Network:
    """A small network of the kind the method serves."""
    activation = method.serves.activations[0]
    if activation == "step":
        rows = np.random.default_rng(0).standard_normal((2, 3))
        return unweave.Network([rows, np.ones((1, 2))], [-np.ones(2), [-0.5]], ["step", "step"])
    if method.name == "linear":
        return unweave.Network([np.ones((1, 4))], [[0.5]], ["identity"])
    if method.name == "corners":
        return remote_network(0)
    sizes = {
        "relu-layers": (4, 3, 2, 1),
        "relu-features": (24, 10, 6, 4),
        "ridge": (6, 1, 1),
        "hessian-span": (6, 5, 1),
    }
    return random_network(sizes.get(method.name, (4, 3, 1)), activation, 1)


@dataclass
class Narrowly:
    """A method that is off by a little, so that the run certifies, sharpens and certifies again."""

    network: unweave.Network
    name: str = "narrowly"
    num_points: int = field(default=40)
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES)

    def suits(self, traits):
        return ""

    def recover(self, meter, problem):
        with meter.stage("points"):
            meter.ask(problem.rng("points").standard_normal((self.num_points, meter.input_size)))
        return Finding(self.network)


def test_two_methods_that_narrowly_fail_are_judged_on_points_of_their_own(spy, monkeypatch):
    truth = random_network((4, 5, 1), "tanh", 3)
    wrong = truth.with_flat(truth.flat() * (1 + 1e-5 * np.random.default_rng(0).standard_normal(31)))
    choices = [
        Choice(Narrowly(wrong, "first"), ("tanh",), ""),
        Choice(Narrowly(wrong, "second"), ("tanh",), ""),
    ]
    monkeypatch.setattr(driver, "choose", lambda traits: choices)
    monkeypatch.setattr(certifying, "weighted_polish", lambda network, x, y, *rest, **options: network)
    found = unweave.identify(truth)
    assert not found.identified
    assert found.ledger.by_stage["certificate"] == 4 * 200
    assert len(spy.certified) == 4 * 200
    assert not spy.certified & spy.fitted


@pytest.mark.parametrize("entry", entries(Evidence.QUERIES), ids=lambda entry: entry.name)
def test_no_fit_of_a_method_sees_a_point_of_the_certificate(spy, entry):
    domain = Box(0.0, 1.0) if entry.name == "corners" else None
    model = model_for(entry.load())
    asked = relu_in_float32(model) if entry.name == "relu-features" else model
    found = unweave.identify(asked, input_size=model.input_size, method=entry.name, domain=domain)
    assert found.certificate is not None, found.verdict()
    assert spy.certified
    assert not spy.certified & spy.fitted


def test_one_input_whose_edge_is_two_points_is_certified_on_distinct_ones():
    truth = random_network((1, 3, 1), "tanh", 1)
    meter = Meter(resolve(truth), domain=Ball(3.0))
    seen = np.array([[-3.0], [0.0], [3.0]])
    meter.ask(seen)
    certificate = certify(truth, meter, Precision(1e-16, 1.0, "float64"), np.random.default_rng(0))
    assert certificate.num_points == NUM_POINTS == meter.ledger.by_stage["certificate"]
    assert np.array_equal(meter.transcript()[0], seen)
