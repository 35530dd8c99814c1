"""A deadline is one moment for a whole run, and a run keeps to it."""

from __future__ import annotations

import time

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core import clock
from unweave.core.deadline import Deadline, held, hold
from unweave.core.errors import InputError, TimeSpent
from unweave.evidence.meter import Meter
from unweave.models.resolve import resolve
from unweave.solve.descend import End
from unweave.solve.fit import fit_network


def test_a_deadline_runs_out_once():
    late = Deadline(0.01)
    assert 0 < late.left <= 0.01
    with clock.waiting():
        time.sleep(0.02)
    assert late.passed
    assert late.left == 0
    assert not Deadline().passed


def test_what_is_told_of_no_deadline_keeps_to_that_of_its_run():
    assert held().seconds == float("inf")
    x = np.random.default_rng(0).standard_normal((400, 5))
    y = random_network((5, 8, 2), "tanh", 1)(x)
    start = random_network((5, 8, 2), "tanh", 2)
    with hold(Deadline(1e-9)):
        assert held().passed
        with pytest.raises(TimeSpent, match="time_limit="):
            held().check()
        assert fit_network(start, x, y).end is End.TIME
    assert held().seconds == float("inf")
    assert fit_network(start, x, y).end is not End.TIME


def test_other_work_on_the_machine_does_not_count():
    """Only processor time of this process, or waiting for somebody else, brings a limit closer."""
    limit = Deadline(10.0)
    time.sleep(0.3)
    assert limit.left > 9.9
    with clock.waiting():
        time.sleep(0.3)
    assert limit.left < 9.75
    began, used = limit.left, time.process_time()
    while time.process_time() < used + 0.1:
        np.linalg.inv(np.eye(60))
    assert 0.05 < began - limit.left < 0.3


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
        return network(x) + 0.1 * np.sin(50 * np.tanh(x[:, :1]))

    began = clock.now()
    found = unweave.identify(slow, input_size=6, domain=domain, time_limit=1.0)
    assert clock.now() - began < 2.0
    assert not found.identified
    assert "allow more with time_limit=" in found.reason
