"""The journal: killed, interrupted and failed runs go on where they stopped, and no answer is paid for twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unweave
from models.graphs import dense_model
from models.http_server import serving
from truth import random_network
from unweave.core.domains import Ball, Box
from unweave.core.errors import BudgetSpent, InputError, JournalError, OracleError
from unweave.evidence.journal import Journal, run_facts
from unweave.evidence.meter import Meter
from unweave.models.python_callable import CallableOracle

NETWORK = random_network((4, 5, 1), seed=3)


class Counted:
    """A network that counts the questions it answers and may stop at one of them."""

    def __init__(
        self, network=NETWORK, stop_at: float = np.inf, stop: type[BaseException] = KeyboardInterrupt
    ):
        self.truth, self.num_asked, self.stop_at, self.stop = network, 0, stop_at, stop

    def __call__(self, x):
        if self.num_asked + len(x) > self.stop_at:
            raise self.stop("the machine broke")
        self.num_asked += len(x)
        return self.truth(x)


@pytest.fixture(scope="module")
def whole() -> unweave.Identification:
    found = unweave.identify(Counted(), input_size=4)
    assert found.identified
    return found


def same(found: unweave.Identification, whole: unweave.Identification) -> bool:
    assert found.network is not None
    assert whole.network is not None
    return found.identified and np.allclose(found.network.flat(), whole.network.flat(), rtol=1e-9, atol=1e-12)


def test_a_repeated_run_costs_its_opening_and_a_spot_check(whole, tmp_path):
    journal = tmp_path / "run.journal"
    first, second = Counted(), Counted()
    found = unweave.identify(first, input_size=4, journal=journal)
    assert same(found, whole)
    assert found.ledger.by_stage == whole.ledger.by_stage
    assert found.ledger.replayed == 0
    again = unweave.identify(second, input_size=4, journal=journal)
    assert same(again, whole)
    assert second.num_asked == 5
    assert again.ledger.replayed == found.ledger.total
    assert again.ledger.total == found.ledger.total + 5
    assert again.ledger.by_stage["spot check"] == 4
    assert f"{found.ledger.total:,} replayed from the journal, 5 new" in again.verdict()
    assert again.to_json()["replayed"] == found.ledger.total
    again.save(tmp_path / "again.safetensors")
    assert unweave.load(tmp_path / "again.safetensors").ledger == again.ledger
    assert not list(tmp_path.glob("*-wal"))


@pytest.mark.parametrize("stop_at", [3, 30, 200])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_a_stopped_run_resumes(whole, tmp_path, stop_at, stop):
    journal = tmp_path / "run.journal"
    first, second = Counted(stop_at=stop_at, stop=stop), Counted()
    kind = KeyboardInterrupt if stop is KeyboardInterrupt else OracleError
    with pytest.raises(kind, match=r"answers are kept in .*run\.journal: run the same again to resume"):
        unweave.identify(first, input_size=4, journal=journal)
    assert 0 < first.num_asked <= stop_at
    found = unweave.identify(second, input_size=4, journal=journal)
    assert same(found, whole)
    assert found.ledger.total == first.num_asked + second.num_asked
    assert found.ledger.replayed == first.num_asked
    assert first.num_asked + second.num_asked <= whole.ledger.total + 1 + 6


def test_another_run_is_refused(tmp_path):
    journal = tmp_path / "run.journal"
    options = {"input_size": 4, "journal": journal, "domain": Ball(5.0), "budget": 60}
    unweave.identify(Counted(), **options)
    wide = random_network((4, 5, 2))
    for change, message in [
        (
            {"seed": 1},
            r"run with seed 0, and this one has 1; repeat that run, name another journal, or delete",
        ),
        ({"activation": "relu"}, 'activation "auto".*"relu"'),
        ({"hidden": [5]}, r"hidden null.*\[5\]"),
        ({"method": "in-domain"}, "method"),
        ({"domain": Ball(6.0)}, r"domain .*radius=5\.0.*radius=6\.0"),
        ({"domain": Box(np.zeros(4), np.ones(4))}, "domain"),
    ]:
        model = Counted()
        with pytest.raises(InputError, match=message):
            unweave.identify(model, **{**options, **change})
        assert model.num_asked == 1
    with pytest.raises(InputError, match="output size 1, and this one has 2"):
        unweave.identify(Counted(wide), **options)


def test_a_model_that_has_changed_is_noticed(tmp_path):
    journal = tmp_path / "run.journal"
    with pytest.raises(KeyboardInterrupt):
        unweave.identify(Counted(stop_at=200), input_size=4, journal=journal)
    other = NETWORK.weights[0].copy()
    other[0, 0] += 1e-6
    changed = Counted(type(NETWORK)([other, *NETWORK.weights[1:]], NETWORK.biases, NETWORK.activations))
    with pytest.raises(JournalError, match=r"no longer answers as .*run\.journal.*name another journal"):
        unweave.identify(changed, input_size=4, journal=journal)
    assert changed.num_asked == 5
    assert unweave.identify(Counted(), input_size=4, journal=journal).identified


def test_a_noisy_model_is_no_changed_model(tmp_path):
    rng = np.random.default_rng(0)

    def noisy(x):
        return NETWORK(x) + 1e-3 * rng.standard_normal((len(x), 1))

    options = {"input_size": 4, "journal": tmp_path / "run.journal", "budget": 300}
    first = unweave.identify(noisy, **options)
    again = unweave.identify(noisy, **{**options, "budget": 400})
    assert first.precision == again.precision
    assert again.ledger.by_stage["spot check"] >= 4


def test_all_runs_together_stay_within_the_budget(whole, tmp_path):
    total = whole.ledger.total
    asked = 0
    for budget in (40, 40, total // 2, total + 20):
        model = Counted()
        found = unweave.identify(model, input_size=4, journal=tmp_path / "run.journal", budget=budget)
        asked += model.num_asked
        assert found.ledger.total == asked
        # Each run after the first opens the model once more, which only the next budget can pay for.
        assert asked <= budget + 1
    assert same(found, whole)
    assert "the journal was not checked against the model: the budget is spent" not in found.warnings


def test_a_finished_run_is_replayed_although_its_budget_is_spent(whole, tmp_path):
    options = {"input_size": 4, "journal": tmp_path / "run.journal", "budget": whole.ledger.total}
    assert same(unweave.identify(Counted(), **options), whole)
    model = Counted()
    again = unweave.identify(model, **options)
    assert same(again, whole)
    assert model.num_asked == 1
    assert "the journal was not checked against the model: the budget is spent" in again.warnings


def test_a_journal_serves_one_run_at_a_time(tmp_path):
    path = tmp_path / "run.journal"

    def busy(x):
        with pytest.raises(JournalError, match="in use by another run; wait for its end"):
            unweave.identify(Counted(), input_size=4, journal=path)
        return NETWORK(x)

    oracle = CallableOracle("busy", 4, 1, "float64", busy)
    assert unweave.identify(oracle, journal=path, budget=30).ledger.total > 0


def test_what_is_no_journal_is_refused_and_left_alone(tmp_path):
    text, other, torn = tmp_path / "notes.txt", tmp_path / "other.db", tmp_path / "torn.journal"
    text.write_text("nothing of this may be lost\n" * 100)
    database = sqlite3.connect(other)
    database.execute("create table mine (x)")
    database.close()
    unweave.identify(Counted(), input_size=4, journal=torn, budget=100)
    torn.write_bytes(torn.read_bytes()[: 4096 + 100])
    for path, message in [
        (text, "is no journal; name another file"),
        (other, "another program; name another journal"),
        (torn, "cannot be used .*; name another journal, or delete it"),
        (tmp_path, "must be a file"),
        (tmp_path / "no" / "folder", "folder that exists"),
    ]:
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(InputError, match=message):
            unweave.identify(Counted(), input_size=4, journal=path)
        if before is not None:
            assert path.read_bytes() == before
    assert unweave.identify(Counted(), input_size=4, journal=tmp_path / "new", budget=30).ledger.total > 0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    runs=st.lists(st.lists(st.lists(st.integers(0, 19), max_size=8), max_size=5), min_size=1, max_size=4),
    budget=st.integers(1, 25),
)
def test_whatever_is_asked_no_answer_is_paid_twice(runs, budget, tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "run.journal"
    points = np.random.default_rng(0).standard_normal((20, 4))
    asked: list[bytes] = []

    def answer(x):
        asked.extend(row.tobytes() for row in x)
        return NETWORK(x)

    oracle = CallableOracle("recorder", 4, 1, "float64", answer)
    for batches in runs:
        with Journal(path, run_facts(oracle, None, 0, {})) as journal:
            meter = Meter(oracle, budget=budget, journal=journal, batch_size=3)
            meter.charge_probes(0)
            for batch in batches:
                x = points[batch].reshape(-1, 4)
                try:
                    assert np.allclose(meter.ask(x), NETWORK(x), rtol=1e-13, atol=1e-13)
                except BudgetSpent:
                    continue
            assert len(asked) == len(set(asked)) == len(journal) <= budget
            assert meter.ledger.total <= budget


@pytest.mark.parametrize("kind", ["torch", "onnx", "sklearn"])
def test_every_kind_of_model_is_replayed(kind, tmp_path):
    network = random_network((3, 3, 1), seed=1)
    model = {"torch": _torch, "onnx": dense_model, "sklearn": _sklearn}[kind](network)
    first = unweave.identify(model, journal=tmp_path / "run.journal")
    again = unweave.identify(model, journal=tmp_path / "run.journal")
    assert first.identified
    assert again.identified
    assert again.ledger.replayed == first.ledger.total
    assert again.ledger.total <= first.ledger.total + 5


def _torch(network):
    from unweave.formats.torch import to_torch

    return to_torch(network)


def _sklearn(network):
    from unweave.formats.sklearn import to_sklearn

    return to_sklearn(network)


def _command(url: str, journal: Path) -> list[str]:
    options = ["--input-size", "4", "--journal", str(journal), "--batch-size", "8", "--quiet"]
    return [sys.executable, "-m", "unweave", "identify", url, *options]


def _wait(server, num_rows: int) -> None:
    for _ in range(3000):
        if server.num_rows >= num_rows:
            return
        time.sleep(0.01)
    raise AssertionError("the run did not come so far")


def test_killed_and_interrupted_runs_of_a_served_model_resume(whole, tmp_path):
    """One run killed by SIGKILL, the next by Ctrl-C, the third finishes; the server counts what it answered."""
    journal = tmp_path / "run.journal"
    with serving(NETWORK, 4, delay=0.02) as server:
        url = server.origin + "/v2/models/net"
        killed = subprocess.Popen(_command(url, journal), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _wait(server, 60)
        with pytest.raises(JournalError, match="in use by another run"):
            unweave.identify(url, input_size=4, journal=journal)
        paid_beside = 1
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        kept = server.num_rows - paid_beside - 8

        stopped = subprocess.Popen(
            _command(url, journal), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        _wait(server, 130)
        stopped.send_signal(signal.SIGINT)
        _, errors = stopped.communicate()
        assert stopped.returncode == 130
        assert errors.count("\n") == 1
        assert "answers are kept in" in errors
        assert "run the same again to resume" in errors

        server.delay = 0.0
        done = subprocess.run(_command(url, journal), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "replayed from the journal" in done.stdout
        assert kept > 40
        # What an uninterrupted run pays, two more openings and spot checks, and the requests under way.
        assert server.num_rows <= whole.ledger.total + paid_beside + 2 * (1 + 6) + 2 * 8
