"""A signal at any moment of any method ends a command with one line, and its journal goes on where it stopped."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from types import ModuleType

import numpy as np
import pytest

from truth import random_network
from unweave.cli import main
from unweave.evidence.kinds import Evidence
from unweave.methods.registry import entries

MOMENTS = (0.1, 0.35, 0.6, 0.85)
"""When a run is interrupted, as shares of the time that it takes."""


class Model:
    """A network of the kind that a method serves, which counts what it is asked."""

    def __init__(self, activation: str):
        if activation == "step":
            rows = np.random.default_rng(0).standard_normal((3, 4))
            self.network = lambda x: (np.max(x @ rows.T - 1, axis=1, keepdims=True) > 0).astype(float)
        else:
            self.network = random_network((4, 3, 1), activation, 1)
        self.asked = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.asked += len(x)
        return self.network(x)


@pytest.fixture(autouse=True)
def no_callbacks_of_the_collector():
    """A signal that arrives inside one, such as Hypothesis has, is lost, and pytest complains of it."""
    kept = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks.extend(kept)


@pytest.mark.parametrize("entry", entries(Evidence.QUERIES), ids=lambda entry: entry.name)
def test_a_signal_is_one_line_and_the_journal_goes_on(entry, tmp_path, monkeypatch, capsys):
    model = Model((*entry.load().serves.activations, "tanh")[0])
    place = ModuleType("interrupted_model")
    place.model = model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "interrupted_model", place)
    command = ["identify", "interrupted_model:model", "--input-size", "4", "--method", entry.name, "--quiet"]
    command += ["--no-surrogate", "--certificate-seed", "1"]
    command += [] if entry.name == "far-field" else ["--radius", "2.5"]
    began = time.monotonic()
    status = main([*command, "--journal", str(tmp_path / "whole")])
    seconds, whole = time.monotonic() - began, model.asked
    said = capsys.readouterr().out
    model.asked, stopped = 0, 0
    for i, moment in enumerate(MOMENTS):
        chosen = signal.SIGTERM if i % 2 else signal.SIGINT
        heard = threading.Timer(moment * seconds, os.kill, (os.getpid(), chosen))
        previous = signal.signal(chosen, signal.SIG_IGN)  # should it come after the end
        heard.start()
        try:
            ended = main([*command, "--journal", str(tmp_path / "journal")])
        finally:
            heard.cancel()
            heard.join()
            signal.signal(chosen, previous)
        errors = capsys.readouterr().err
        if ended == 130:
            stopped += 1
            assert errors.count("\n") == 1
            assert errors.startswith("unweave: error: interrupted")
        else:
            assert ended == status, errors
    assert stopped
    assert main([*command, "--journal", str(tmp_path / "journal")]) == status
    assert capsys.readouterr().out.splitlines()[0] == said.splitlines()[0]
    assert model.asked <= whole + (len(MOMENTS) + 1) * 8  # openings and spot checks
