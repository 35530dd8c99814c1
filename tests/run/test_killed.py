"""Runs of a served model that are killed over and over pay for no stored answer twice and end at the same network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from killed_runs import kill_runs


def test_killed_runs_pay_nothing_twice():
    found = kill_runs(3)
    assert found["kills"] == 3
    assert found["status"] == 0
    assert found["rows asked again"] <= found["allowed again"]
    assert found["largest difference of the networks"] == 0
