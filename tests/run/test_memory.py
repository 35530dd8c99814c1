"""What does not fit into memory is refused in words, before its questions are asked."""

from __future__ import annotations

import time

import numpy as np

import unweave
from unweave.evidence.kinds import Evidence
from unweave.run import memory


def test_the_least_memory_grows_with_the_square_of_the_inputs():
    assert memory.least_memory("in-domain", 10_000) == 100 * memory.least_memory("in-domain", 1000)
    assert memory.too_large("in-domain", Evidence.QUERIES, 1_000_000)
    assert not memory.too_large("ridge", Evidence.QUERIES, 1_000_000)
    assert not memory.too_large("in-domain", Evidence.QUERIES, 100)
    assert not memory.too_large("in-domain", Evidence.ROWS, 1_000_000)


def test_a_method_that_does_not_fit_is_not_begun(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    rng = np.random.default_rng(0)
    w, a = rng.standard_normal((8, 300)) / 17, rng.standard_normal((8, 1))
    began = time.monotonic()
    found = unweave.identify(lambda x: np.tanh(x @ w.T) @ a, input_size=300, domain=unweave.Ball(3.0))
    assert time.monotonic() - began < 5
    assert found.outcome == "not identified"
    assert found.ledger.total < 200
    assert "takes at least" in found.reason


def test_the_verdict_says_how_much_memory_was_held():
    found = unweave.identify(lambda x: np.tanh(x @ np.ones((3, 1))), input_size=3)
    assert found.peak_memory > 2.0**20
    assert "iB at most" in found.verdict()
    assert found.to_json()["peak_memory"] == found.peak_memory
