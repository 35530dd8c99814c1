"""The meter and the ledger: nothing beyond the budget or the domain is asked, nothing is paid for twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truth import random_network
from unweave.core.domains import Ball, Box
from unweave.core.errors import BeyondRange, BudgetSpent, InputError, OracleError, OutsideDomain
from unweave.core.outputs import Squashing
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Meter
from unweave.models.python_callable import CallableOracle


class Recorder:
    """A network that remembers what it was asked."""

    def __init__(self, sizes=(3, 4, 2), dtype="float64"):
        self.network = random_network(sizes)
        self.asked: list[np.ndarray] = []
        self.oracle = CallableOracle("recorder", sizes[0], sizes[-1], dtype, self.answer)

    def answer(self, x: np.ndarray) -> np.ndarray:
        self.asked.extend(x.copy())
        return self.network(x)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    budget=st.integers(1, 30),
    batches=st.lists(st.lists(st.integers(0, 15), min_size=0, max_size=10), max_size=8),
    batch_size=st.integers(1, 7),
)
def test_the_budget_is_never_exceeded_and_no_answer_is_paid_twice(budget, batches, batch_size):
    recorder = Recorder()
    meter = Meter(recorder.oracle, budget=budget, batch_size=batch_size)
    points = np.random.default_rng(0).standard_normal((16, 3))
    known: set[int] = set()
    for batch in batches:
        x = points[batch].reshape(-1, 3)
        if len(known | set(batch)) > budget:
            before = len(recorder.asked)
            with pytest.raises(BudgetSpent, match="raise the budget"):
                meter.ask(x)
            assert len(recorder.asked) == before
        else:
            assert np.allclose(meter.ask(x), recorder.network(x), rtol=1e-14, atol=1e-14)
            known |= set(batch)
        assert meter.ledger.total == len(known) == len(recorder.asked) <= budget
    x, y = meter.transcript()
    assert x.shape == (len(known), 3)
    assert np.allclose(y, recorder.network(x), rtol=1e-14, atol=1e-14)


def test_the_domain_is_enforced_before_anything_is_asked():
    for domain in (Ball(1.0), Box(-0.5, 0.5)):
        recorder = Recorder()
        meter = Meter(recorder.oracle, domain=domain)
        with pytest.raises(OutsideDomain, match="1 of 2 questions"):
            meter.ask(np.array([[0.1, 0.2, 0.3], [0.0, 0.0, 1.1]]))
        assert recorder.asked == []
        assert meter.ledger.total == 0


def test_float32_models_may_be_asked_at_the_edge():
    for domain in (Ball(1.7), Box(np.array([0.1, -0.3, 1000.1]), np.array([0.7, 0.9, 1000.7]))):
        recorder = Recorder(dtype="float32")
        meter = Meter(recorder.oracle, domain=domain)
        x = domain.edge(200, 3, np.random.default_rng(0))
        assert meter.ask(x).shape == (200, 2)
        assert np.array_equal(meter.ask(meter.snap(x)), meter.ask(x))
        assert np.array_equal(np.array(recorder.asked, dtype=np.float32), np.array(recorder.asked))
        with pytest.raises(OutsideDomain):
            meter.ask(x + 1e-2 * np.abs(x).max())


def test_stages_are_charged_separately_and_in_order():
    recorder = Recorder()
    heard = []
    meter = Meter(recorder.oracle, budget=20, progress=lambda *news: heard.append(news))
    x = np.random.default_rng(0).standard_normal((9, 3))
    with meter.stage("first"):
        meter.ask(x[:4])
        with meter.stage("inner"):
            meter.ask(x[4:6])
        meter.ask(x[:7])
    meter.ask(x)
    assert meter.ledger.by_stage == {"first": 5, "inner": 2, "queries": 2}
    assert meter.ledger.left == 11
    assert np.array_equal(meter.transcript("first")[0], x[[0, 1, 2, 3, 6]])
    assert heard[0] == ("first", 0, 20)
    assert heard[-1] == ("queries", 9, 20)


def test_a_stage_ends_when_it_fails():
    meter = Meter(Recorder().oracle, budget=1)
    with pytest.raises(BudgetSpent), meter.stage("greedy"):
        meter.ask(np.eye(3))
    meter.ask(np.zeros((1, 3)))
    assert meter.ledger.by_stage == {"queries": 1}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_answers_that_are_no_numbers_are_refused(bad):
    def answer(x):
        y = np.zeros((len(x), 1))
        y[-1] = bad
        return y

    meter = Meter(CallableOracle("broken", 2, 1, "float64", answer))
    with pytest.raises(OracleError, match="NaN or infinity to 1 of 3"):
        meter.ask(np.arange(6.0).reshape(3, 2))
    assert len(meter.transcript()[0]) == 0


def test_failing_and_misshapen_oracles_are_named():
    def fail(x):
        raise ZeroDivisionError("no\nway")

    with pytest.raises(OracleError, match=r"failing failed .* ZeroDivisionError: no way"):
        Meter(CallableOracle("failing", 2, 1, "float64", fail)).ask(np.zeros((1, 2)))
    for shape in [(2, 3), (5, 1), ()]:
        oracle = CallableOracle("misshapen", 2, 1, "float64", lambda x, shape=shape: np.zeros(shape))
        with pytest.raises(OracleError, match="misshapen answered"):
            Meter(oracle).ask(np.eye(2))


def test_wrong_questions_are_refused():
    recorder = Recorder()
    meter = Meter(recorder.oracle)
    for x, message in [
        (np.zeros((2, 4)), r"\(n, 3\)"),
        (np.zeros(3), r"\(n, 3\)"),
        (np.array([[0, np.nan, 0]]), "NaN or infinity"),
    ]:
        with pytest.raises((InputError, OutsideDomain), match=message):
            meter.ask(x)
    assert recorder.asked == []
    assert meter.ask(np.zeros((0, 3))).shape == (0, 2)


def test_minus_zero_is_zero():
    recorder = Recorder()
    meter = Meter(recorder.oracle)
    meter.ask(np.array([[0.0, 1.0, 2.0]]))
    meter.ask(np.array([[-0.0, 1.0, 2.0]]))
    assert meter.ledger.total == 1


def test_the_ledger_refuses_what_it_cannot_pay():
    ledger = Ledger(5)
    ledger.charge("a", 3)
    with pytest.raises(BudgetSpent, match="needs 3 queries more but only 2 of 5"):
        ledger.charge("b", 3)
    assert ledger.by_stage == {"a": 3}
    assert Ledger().left == float("inf")
    with pytest.raises(InputError, match="at least 1"):
        Ledger(0)


def test_answers_of_a_certificate_are_no_evidence():
    recorder = Recorder()
    meter = Meter(recorder.oracle)
    x = np.random.default_rng(0).standard_normal((6, 3))
    with meter.stage("lines"):
        meter.ask(x[:2])
    with meter.stage("certificate"):
        meter.ask(x)
    assert np.array_equal(meter.transcript()[0], x[:2])
    assert len(meter.transcript("certificate")[0]) == 0
    assert not meter.is_new(x).any()
    assert meter.is_new(np.vstack([x + 1, x[:1] + 1])).tolist() == [True] * 6 + [False]
    with meter.stage("lines"):
        meter.ask(x[3:4])
    assert np.array_equal(meter.transcript("lines")[0], x[[0, 1, 3]])
    assert len(recorder.asked) == 6


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "domain", [Ball(1.0), Ball(0.3, centre=np.array([5.0, 1 / 3, -7.0])), Box(-0.1, 1 / 3), Box(1e6, 1e6 + 1)]
)
def test_rounding_never_carries_a_question_out_of_the_domain(domain, dtype):
    seen = []

    class Listening:
        name, input_size, output_size, notes = "listening", 3, 1, ()

        def __init__(self):
            self.dtype = dtype

        def __call__(self, x):
            seen.append(x.copy())
            return x[:, :1]

    meter = Meter(Listening(), domain=domain)
    rng = np.random.default_rng(0)
    x = np.concatenate([domain.edge(300, 3, rng), domain.sample(100, 3, rng)])
    outward = x + 1e-16 * np.abs(x)
    meter.ask(np.concatenate([x, outward]))
    asked = np.concatenate(seen)
    assert np.all(domain.contains(asked, 0.0))
    assert np.array_equal(meter.snap(asked), asked)
    if isinstance(domain, Ball):
        centre = 0.0 if domain.centre is None else domain.centre
        assert np.max(np.sqrt(np.sum((asked - centre) ** 2, axis=1))) <= domain.radius


def test_a_model_may_work_in_place_and_answer_from_one_buffer():
    buffer = np.zeros((50, 1))

    def model(x):
        x -= 1.0
        buffer[: len(x), 0] = x.sum(axis=1)
        x[:] = np.nan
        return buffer[: len(x)]

    meter = Meter(CallableOracle("in place", 3, 1, "float64", model))
    x = np.random.default_rng(0).standard_normal((20, 3))
    for rows in (x[:10], x[10:], x):
        assert np.allclose(meter.ask(rows)[:, 0], rows.sum(axis=1) - 3)
    asked, answers = meter.transcript()
    assert np.allclose(asked.sum(axis=1) - 3, answers[:, 0])


def test_complex_answers_are_refused():
    with pytest.raises(OracleError, match="complex numbers"):
        Meter(CallableOracle("complex", 2, 1, "float64", lambda x: x[:, :1] * 1j)).ask(np.ones((3, 2)))


def test_a_progress_that_raises_is_noted_and_not_called_again():
    calls = []

    def progress(*what):
        calls.append(what)
        raise ValueError("no screen")

    meter = Meter(CallableOracle("sum", 2, 1, "float64", lambda x: x[:, :1]), progress=progress)
    for _ in range(3):
        meter.ask(np.random.default_rng(len(calls)).standard_normal((3, 2)))
    assert len(calls) == 1
    assert meter.warnings == ("progress raised ValueError: no screen and was not called again",)


def test_an_answer_beyond_the_range_of_a_squashing_refutes_it_to_a_method():
    meter = Meter(CallableOracle("line", 1, 1, "float64", lambda x: 0.5 * x))
    meter.look_through(Squashing("tanh"), 0.0, 2.0**-53)
    assert meter.ask(np.array([[2.0 + 1e-3]])).shape == (
        1,
        1,
    )  # outside of methods both readings are still open
    with meter.allow("method", 10):
        assert np.isfinite(meter.ask(np.array([[1.0], [2.0]]))).all()
        assert not meter.refuted
        with pytest.raises(BeyondRange, match="tanh"):
            meter.ask(np.array([[2.5]]))
    assert meter.refuted
    meter.look_through(None)
    assert not meter.refuted


def test_the_transcript_grows_and_is_the_callers_own():
    meter = Meter(CallableOracle("sum", 2, 1, "float64", lambda x: x.sum(axis=1, keepdims=True)))
    assert len(meter.transcript()[0]) == 0
    first = np.arange(6.0).reshape(3, 2)
    meter.ask(first)
    x, y = meter.transcript()
    x[:], y[:] = 0.0, 0.0
    with meter.stage("certificate"):
        meter.ask(-first - 1)
    meter.ask(first + 10)
    x, y = meter.transcript()
    np.testing.assert_array_equal(x, np.concatenate([first, first + 10]))
    np.testing.assert_array_equal(y, x.sum(axis=1, keepdims=True))
    assert len(meter.answers()[0]) == 9
