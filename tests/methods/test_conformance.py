"""What every registered method is held to, by being registered.

Whatever the model: the budget is never exceeded, the domain never left, every query belongs to a stage, the same seed
gives the same network, a journal replays exactly, held-out rows are not seen, and nothing but an outcome comes out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.errors import BudgetSpent, InputError, Outcome
from unweave.evidence.kinds import Evidence
from unweave.methods.base import Finding, Method, Serves, Traits
from unweave.methods.choose import Choice
from unweave.methods.in_domain.method import InDomain
from unweave.methods.registry import REGISTRY, Entry, entries
from unweave.probes.growth import Growth
from unweave.run import driver

ASKING = [pytest.param(entry, id=entry.name) for entry in entries(Evidence.QUERIES)]
READING = [pytest.param(entry, id=entry.name) for entry in entries(Evidence.ROWS)]
EVERY = [pytest.param(entry, id=f"{entry.name}-{entry.evidence}") for entry in REGISTRY]
BALL = unweave.Ball(2.5)


def small_network(method: Method) -> unweave.Network:
    """A network of three units of the kind the method serves."""
    activation = (*method.serves.activations, "tanh")[0]
    if activation == "step":
        rows = np.random.default_rng(0).standard_normal((3, 4))
        return unweave.Network([rows, np.ones((1, 3))], [-np.ones(3), [-0.5]], ["step", "step"])
    return random_network((4, 3, 1), activation, 1)


@dataclass
class Model:
    """A function that remembers what it was asked."""

    function: Any
    asked: list[np.ndarray] = field(default_factory=list)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.asked.extend(x.copy())
        return self.function(x)

    def identify(self, entry: Entry, **options) -> unweave.Identification:
        return unweave.identify(self, input_size=4, method=entry.name, **options)


@pytest.mark.parametrize("entry", EVERY)
def test_a_method_states_what_it_serves(entry):
    method = entry.load()
    assert method.name == entry.name
    assert method.serves.evidence is entry.evidence
    for growth in Growth:
        for activation in ("auto", "tanh", "relu", "step"):
            for answers in ({"two_valued": True}, {"piecewise_linear": True}, {"piecewise_linear": False}):
                traits = Traits(entry.evidence, 40, activation=activation, growth=growth, **answers)
                reason = method.suits(traits)
                assert reason is None or (reason and traits.candidates(method.serves))


@pytest.mark.parametrize("entry", ASKING)
@pytest.mark.parametrize("budget", [3, 45, 300])
def test_no_budget_is_exceeded(entry, budget):
    model = Model(small_network(entry.load()))
    found = model.identify(entry, budget=budget, domain=BALL)
    assert len(model.asked) <= budget
    assert found.ledger.total <= budget
    assert not found.identified or found.certificate is not None


@pytest.mark.parametrize("entry", ASKING)
def test_domain_stages_seed_and_journal(entry, tmp_path):
    network = small_network(entry.load())
    domain = None if entry.name == "far-field" else BALL
    options = {"domain": domain, "seed": 5, "budget": 4000}
    model = Model(network)
    first = model.identify(entry, journal=tmp_path / "journal", **options)
    asked = np.array(model.asked)
    assert domain is None or np.all(np.linalg.norm(asked, axis=1) <= 2.5 * (1 + 1e-9))
    assert "queries" not in first.ledger.by_stage
    assert len({row.tobytes() for row in asked}) + 1 >= len(asked) == first.ledger.total
    again, replayed = Model(network), Model(network)
    second = again.identify(entry, **options)
    third = replayed.identify(entry, journal=tmp_path / "journal", **options)
    assert np.array_equal(again.asked, asked)
    assert len(replayed.asked) <= 6
    stages = {name: count for name, count in third.ledger.by_stage.items() if name in first.ledger.by_stage}
    assert first.ledger.by_stage == second.ledger.by_stage == stages
    for other in (second, third):
        assert (other.outcome, other.reason) == (first.outcome, first.reason)
        assert (other.network is None) == (first.network is None)
        if first.network is not None and other.network is not None:
            assert np.array_equal(first.network.flat(), other.network.flat())


def _noise(x: np.ndarray) -> np.ndarray:
    return np.modf(np.sin(1e4 * x.sum(axis=1, keepdims=True)) * 1e4)[0]


ODD_MODELS = {
    "always inactive": lambda x: np.maximum(x[:, :1] - 100.0, 0.0),
    "almost always inactive": lambda x: np.maximum(x[:, :1] - 2.2, 0.0),
    "affine": lambda x: x[:, :1] - x[:, 1:2] + 1,
    "jumps": lambda x: np.floor(x[:, :1]),
    "noise": _noise,
}


@pytest.mark.parametrize("entry", ASKING)
@pytest.mark.parametrize("kind", ODD_MODELS)
def test_an_odd_model_ends_as_an_outcome(entry, kind):
    found = Model(ODD_MODELS[kind]).identify(entry, budget=150, domain=BALL)
    assert found.outcome is not Outcome.IDENTIFIED or kind in ("affine", "almost always inactive")
    assert found.reason
    assert "broke off" not in found.reason, found.details.get("traceback")
    assert kind != "always inactive" or "widen the domain" in found.reason


@pytest.mark.parametrize("entry", READING)
def test_rows_seed_and_odd_rows(entry):
    method = entry.load()
    network = small_network(method)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 4))
    seen: list[Any] = []
    first, second = (unweave.learn(x, network(x), method=_Watched(method, seen), seed=3) for _ in range(2))
    assert (first.outcome, first.reason) == (second.outcome, second.reason)
    if first.network is not None and second.network is not None:
        assert np.array_equal(first.network.flat(), second.network.flat())
    assert len(seen[0].x) + first.ledger.by_stage["held out"] == 150
    if first.certificate is not None and "answers" in first.certificate.fresh:
        assert not set(seen[0].y.ravel()) & set(first.certificate.fresh["answers"].ravel())
    for y in (rng.standard_normal(150), x[:, 0] > 0, np.ones(150), x @ np.ones(4)):
        found = unweave.learn(x, y, method=entry.name)
        assert found.reason or found.identified
        assert "broke off" not in found.reason, found.details.get("traceback")


@dataclass(frozen=True)
class _Watched:
    """A method with an eye on what it is given."""

    method: Method
    seen: list

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def serves(self) -> Serves:
        return self.method.serves

    def suits(self, traits: Traits) -> str | None:
        return self.method.suits(traits)

    def recover(self, evidence, problem) -> Finding:
        self.seen.append(evidence)
        return self.method.recover(evidence, problem)


@dataclass(frozen=True)
class _Raises:
    error: BaseException
    name: str = "broken"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES)

    def suits(self, traits: Traits) -> str | None:
        return None

    def recover(self, meter, problem) -> Finding:
        raise self.error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "ran out of memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes"), "ran out of memory"),
        (ValueError("cannot reshape array of size 0"), "broke off .ValueError: cannot reshape"),
        (np.linalg.LinAlgError("SVD did not converge"), "broke off"),
        (BudgetSpent("budget spent: raise the budget"), "raise the budget"),
    ],
)
def test_a_method_that_fails_ends_as_an_outcome(error, words):
    found = unweave.identify(random_network((4, 3, 1)), method=_Raises(error))
    assert found.outcome is Outcome.NOT_IDENTIFIED
    assert found.method == "broken"
    assert re.search(words, found.reason)


def test_a_method_that_fails_is_not_passed_over_in_silence(monkeypatch):
    truth = random_network((4, 3, 1), "tanh", 1)
    choices = [Choice(_Raises(MemoryError()), (), "first"), Choice(InDomain(), ("tanh",), "second")]
    monkeypatch.setattr(driver, "choose", lambda traits: choices)
    found = unweave.identify(truth)
    assert found.identified
    assert any("broken ran out of memory" in warning for warning in found.warnings)


@dataclass(frozen=True)
class _Endless:
    """Asks for ever."""

    name: str = "endless"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, queries=500, queries_a_size=10)

    def suits(self, traits: Traits) -> str | None:
        return None

    def recover(self, meter, problem) -> Finding:
        rng = problem.rng("for ever")
        while True:
            meter.ask(rng.standard_normal((40, meter.input_size)))


def test_an_attempt_costs_no_more_than_the_method_states(monkeypatch):
    truth = random_network((4, 3, 1), "tanh", 1)
    found = unweave.identify(truth, method=_Endless())
    assert found.outcome is Outcome.NOT_IDENTIFIED
    assert "endless has spent the queries" in found.reason
    assert found.ledger.by_stage["queries"] == 520  # 13 times 40 of 500 + 10 (4 + 1)
    choices = [Choice(_Endless(), (), "first"), Choice(InDomain(), ("tanh",), "second")]
    monkeypatch.setattr(driver, "choose", lambda traits: choices)
    assert unweave.identify(truth).identified


def test_methods_of_the_other_kind_are_refused():
    with pytest.raises(InputError, match="learns from queries"):
        unweave.learn(np.eye(8), np.ones(8), method=_Raises(ValueError()))
    with pytest.raises(KeyboardInterrupt):
        unweave.identify(random_network((4, 3, 1)), method=_Raises(KeyboardInterrupt()))
