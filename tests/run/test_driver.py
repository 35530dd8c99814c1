"""Which methods a run goes through: what ends it, and what does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.methods.base import Finding, Serves
from unweave.methods.choose import Choice
from unweave.run import driver

UNTOLD = "layer 1, unit 1: its side"


@dataclass
class Told:
    """A method that was told the answer."""

    network: Network
    undetermined: tuple[str, ...] = ()
    conclusive: bool = False
    calls: list[int] = field(default_factory=list)

    name: ClassVar[str] = "told"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, ("tanh",))

    def suits(self, traits):
        return "told"

    def recover(self, meter, problem):
        self.calls.append(meter.ledger.total)
        return Finding(self.network, undetermined=self.undetermined, conclusive=self.conclusive)


def run_through(monkeypatch, truth, *methods):
    monkeypatch.setattr(driver, "choose", lambda traits: [Choice(m, ("tanh",), "told") for m in methods])
    return unweave.identify(truth, surrogate=False)


@pytest.mark.parametrize("conclusive", [True, False])
def test_a_confirmed_network_of_which_nothing_can_tell_more_ends_the_run(monkeypatch, conclusive):
    truth = random_network((4, 5, 2), "tanh", 1)
    first, second = Told(truth, (UNTOLD,), conclusive), Told(truth)
    found = run_through(monkeypatch, truth, first, second)
    assert len(first.calls) == 1
    assert len(second.calls) == (0 if conclusive else 1)
    assert found.identified is not conclusive
    assert found.network is not None
    assert (UNTOLD in found.undetermined) is conclusive


def test_a_wrong_network_ends_nothing_however_sure_its_method_is(monkeypatch):
    truth = random_network((4, 5, 2), "tanh", 1)
    wrong = Network(
        [truth.weights[0] + 0.1 * np.eye(5, 4), truth.weights[1]], truth.biases, truth.activations
    )
    first, second = Told(wrong, conclusive=True), Told(truth)
    found = run_through(monkeypatch, truth, first, second)
    assert len(second.calls) == 1
    assert found.identified
    assert unweave.compare(truth, found).max_relative_error < 1e-12


@dataclass
class Learning(Told):
    """A method that is nearly right at first, and right once it goes on from there."""

    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, ("tanh",), suspects=True)
    num_wrong: int = 1
    seen: list[object] = field(default_factory=list)

    def recover(self, meter, problem):
        self.seen.append(problem.kept)
        turn = len(self.seen)
        network = self.network
        if turn <= self.num_wrong:
            rare = 1e-3 * np.eye(1, network.weights[0].shape[1])
            network = Network(
                [
                    np.vstack([network.weights[0], 50 * rare]),
                    np.hstack([network.weights[1], [[1e-3], [1e-3]]]),
                ],
                [np.append(network.biases[0], 0.0), network.biases[1]],
                network.activations,
            )
        return Finding(network, kept=turn)


@pytest.mark.parametrize("num_wrong", [1, 2, 9])
def test_a_method_goes_on_from_where_it_was_as_long_as_there_are_suspects(monkeypatch, num_wrong):
    truth = random_network((4, 5, 2), "tanh", 1)
    method = Learning(truth, num_wrong=num_wrong)
    monkeypatch.setattr(driver, "_suspects", lambda side, choice, found: None if found.identified else [0.0])
    found = run_through(monkeypatch, truth, method)
    assert method.seen == [None, 1, 2, 3][: num_wrong + 1]
    assert found.identified is (num_wrong < 9)
