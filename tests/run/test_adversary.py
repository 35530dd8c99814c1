"""A fixed sample of hostile runs: none ends in a wrong claim, a foreign exception, or beyond its limits."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "adversary.py"
SPEC = importlib.util.spec_from_file_location("adversary", PATH)
assert SPEC is not None
assert SPEC.loader is not None
adversary = importlib.util.module_from_spec(SPEC)
sys.modules["adversary"] = adversary
SPEC.loader.exec_module(adversary)

RUNS_A_FAMILY = 20
TIME_LIMIT = 1.0
SLOW_MACHINE = 20.0
"""Seconds that a busy machine may add; the benchmark holds runs to a tenth of their limit."""


@pytest.mark.parametrize("family", list(adversary.FAMILIES))
def test_hostile_runs_end_without_a_fault(family, monkeypatch):
    monkeypatch.setattr(adversary, "SLACK", SLOW_MACHINE)
    faults = []
    for number in range(RUNS_A_FAMILY):
        case = adversary.make_case(number, 2024, family)
        fault, said, seconds = adversary.run_case(case, TIME_LIMIT)
        if fault and fault != adversary.MISSED:
            faults.append(f"run {number} ({case.name}): {fault}; {said}; {seconds:.1f} s")
    assert not faults, "\n".join(faults)
