"""A fixed sample of hostile runs: none ends in a wrong claim, a foreign exception, or beyond its limits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import adversary

RUNS_A_FAMILY = 13
"""208 runs in all."""
TIME_LIMIT = 0.6
SLOW_MACHINE = 20.0
"""Seconds that a busy machine may add; the benchmark holds runs to a tenth of their limit."""


@pytest.mark.parametrize("family", list(adversary.FAMILIES))
def test_hostile_runs_end_without_a_fault(family, monkeypatch):
    monkeypatch.setattr(adversary, "SLACK", SLOW_MACHINE)
    faults = []
    for seed in range(2024, 2024 + RUNS_A_FAMILY):
        record = adversary.run_case(adversary.make_case(seed, family), TIME_LIMIT, seed)
        if record.fault and record.fault != adversary.MISSED:
            faults.append(
                f"run {seed} ({record.name}): {record.fault}; {record.said}; {record.processor:.1f} s"
            )
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("seed", "time_limit"),
    [
        pytest.param(30873, 4.0, id="one unit and something affine read as a leak"),
        pytest.param(31011, 4.0, id="large negative answers with noise read as log-probabilities"),
        pytest.param(31833, 8.0, id="a segment without an end"),
        pytest.param(50666, 6.0, id="a map beyond a ball"),
    ],
)
def test_runs_that_once_had_a_fault(seed, time_limit, monkeypatch):
    monkeypatch.setattr(adversary, "SLACK", SLOW_MACHINE)
    record = adversary.run_case(adversary.make_case(seed), time_limit, seed)
    assert record.fault in ("", adversary.MISSED), record.said
