"""A deadline is one moment for a whole run, and a run keeps to it."""

from __future__ import annotations

import time

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.deadline import Deadline
from unweave.core.errors import InputError, TimeSpent
from unweave.evidence.meter import Meter
from unweave.models.resolve import resolve


def test_a_deadline_runs_out_once():
    late = Deadline(0.01)
    assert 0 < late.left <= 0.01
    time.sleep(0.02)
    assert late.passed
    assert late.left == 0
    assert not Deadline().passed


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_limits_that_make_no_sense_are_refused(seconds):
    with pytest.raises(InputError, match="time_limit"):
        Deadline(seconds)


def test_after_the_deadline_only_certificates_are_asked():
    meter = Meter(resolve(random_network((3, 4, 1))), deadline=Deadline(1e-9))
    with pytest.raises(TimeSpent, match="time_limit="):
        meter.ask(np.zeros((1, 3)))
    with meter.stage("certificate"):
        assert meter.ask(np.zeros((1, 3))).shape == (1, 1)


@pytest.mark.parametrize("domain", [None, unweave.Ball(2.0)])
def test_a_slow_model_ends_a_run_in_time_with_the_reason(domain):
    network = random_network((6, 12, 10, 2))

    def slow(x):
        time.sleep(0.05)
        return network(x) + 0.1 * np.sin(50 * x[:, :1])

    began = time.monotonic()
    found = unweave.identify(slow, input_size=6, domain=domain, time_limit=1.0)
    assert time.monotonic() - began < 3.0
    assert not found.identified
    assert "time limit" in found.reason or "stopped after" in found.reason
