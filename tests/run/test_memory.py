"""What does not fit into memory is refused in words, before its questions are asked."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

import unweave
from unweave.evidence.kinds import Evidence
from unweave.methods.registry import entries
from unweave.run import memory


def test_the_least_memory_grows_with_the_square_of_the_inputs():
    assert memory.least_memory("in-domain", 100_000) == pytest.approx(
        100 * memory.least_memory("in-domain", 10_000), rel=0.01
    )
    assert memory.too_large("in-domain", Evidence.QUERIES, 1_000_000)
    assert memory.least_memory("ridge", 1_000_000) == 10 * memory.least_memory("ridge", 100_000)
    assert not memory.too_large("in-domain", Evidence.QUERIES, 100)
    assert not memory.too_large("in-domain", Evidence.ROWS, 1_000_000)


def test_every_method_that_asks_has_an_estimate():
    assert all(memory.least_memory(entry.name, 1000) > 0 for entry in entries(Evidence.QUERIES))


def test_where_nothing_fits_no_question_is_asked(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 8e9)
    asked = []

    def model(x):
        asked.append(len(x))
        return x[:, :1]

    began = time.process_time()
    found = unweave.identify(model, input_size=1_000_000)
    assert time.process_time() - began < 1.0
    assert sum(asked) == 1  # the one that tells the number of outputs
    assert found.outcome == "not identified"
    assert "takes at least" in found.reason


def test_where_only_a_single_unit_could_be_found_little_is_asked(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2e7)
    rng = np.random.default_rng(0)
    w, a = rng.standard_normal((8, 300)) / 17, rng.standard_normal((8, 1))
    found = unweave.identify(lambda x: np.tanh(x @ w.T) @ a, input_size=300, domain=unweave.Ball(3.0))
    assert found.outcome == "not identified"
    assert found.ledger.total < 100
    assert "takes at least" in found.reason


@pytest.mark.parametrize(
    ("method", "activation"), [("relu-lines", "relu"), ("skeleton", "gelu"), ("linear", None)]
)
def test_the_memory_held_is_within_twice_the_estimate(method, activation):
    """In a process of its own: what was held before counts too."""
    code = f"""
import numpy as np, unweave
from unweave.core import activations as act
from unweave.core.memory import peak_memory
from unweave.run.memory import least_memory
rng = np.random.default_rng(0)
d, unit = 700, {activation!r}
w, a = rng.standard_normal((3, d)) / np.sqrt(d), rng.standard_normal((3, 1))
unweave.identify(lambda x: np.tanh(x.sum(axis=1)), input_size=2)
before = peak_memory()
found = unweave.identify(
    lambda x: (x @ w.T if unit is None else act.get(unit)(x @ w.T + 0.1)) @ a, input_size=d, method={method!r}
)
assert found.identified, found.reason
print((found.peak_memory - before) / least_memory({method!r}, d))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 <= float(done.stdout) < 2


def test_the_verdict_says_how_much_memory_was_held():
    found = unweave.identify(lambda x: np.tanh(x @ np.ones((3, 1))), input_size=3)
    assert found.peak_memory > 2.0**20
    assert "iB at most" in found.verdict()
    assert found.to_json()["peak_memory"] == found.peak_memory
