"""An audit: a case for each defence, a policy, a page, the command."""

from __future__ import annotations

import json

import numpy as np
import pytest

from truth import random_network
from unweave.audit import audit
from unweave.audit.policy import parse_policy
from unweave.cli import main
from unweave.core.errors import InputError, Outcome
from unweave.exports import export

NETWORK = random_network((6, 4, 1))


@pytest.fixture(scope="module")
def result():
    return audit(NETWORK, defences=["none", "decimals=1", "labels"], limits=[0.2], time_limit=6.0, cost=0.01)


def test_without_a_defence_everything_comes_back(result):
    case = result.cases[0]
    assert case.outcome is Outcome.IDENTIFIED
    assert case.recovered == 1
    assert case.parameter_error < 1e-8
    assert case.fidelity < 1e-8
    assert case.price == pytest.approx(0.01 * case.queries)


def test_a_coarse_defence_and_few_queries_leave_less(result):
    assert [case.defence for case in result.cases] == [
        "none",
        "decimals=1",
        "labels",
        "at most 20% of the queries",
    ]
    assert all(case.outcome is not Outcome.IDENTIFIED for case in result.cases[1:])
    assert all(case.reason for case in result.cases[1:])
    assert result.cases[3].queries <= 0.2 * result.cases[0].queries


def test_a_policy_names_the_cases_that_break_it(result):
    assert [case.defence for case in parse_policy("recovered > 0.5").breaches(result)][:1] == ["none"]
    assert parse_policy("identified").breaches(result) == result.cases[:1]
    assert parse_policy("queries < 1").breaches(result) == ()
    for text in ("recovered", "units > 1", "recovered > many", ""):
        with pytest.raises(InputError, match="fail-if"):
            parse_policy(text)


def test_the_page_is_one_file_with_everything_escaped(result, tmp_path):
    from dataclasses import replace

    page = replace(result, model="<script>alert(1)</script>").report(tmp_path / "audit.html").read_text()
    assert "<script>" not in page
    assert "mathdefault" not in page
    assert "&lt;script&gt;" in page
    assert "decimals=1" in page
    assert "<svg" in page


def test_the_command_prints_a_table_and_fails_by_policy(tmp_path, capsys):
    path = export(NETWORK, tmp_path / "mine.onnx")
    record = tmp_path / "audit.json"
    command = [
        "audit",
        str(path),
        "--defences",
        "none",
        "--time-limit",
        "6",
        "--json",
        str(record),
        "--quiet",
    ]
    assert main([*command, "--fail-if", "recovered > 0.5"]) == 1
    shown = capsys.readouterr()
    assert "identified" in shown.out
    assert "recovered > 0.5 (none)" in shown.err
    cases = json.loads(record.read_text())["cases"]
    assert np.isclose(cases[0]["recovered"], 1)
