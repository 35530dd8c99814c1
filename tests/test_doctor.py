"""The doctor: everything a bug report needs, nothing it should not show."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

from unweave.cli import main
from unweave.doctor import CORE, EXTRAS, describe, examine, healthy
from unweave.solve.devices import has_accelerator


def test_the_record_is_json_and_says_what_a_bug_report_needs(capsys):
    assert main(["doctor", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["packages"].keys() == set(CORE)
    assert record["jax"]["float64"] is True
    assert record["jax"]["devices"]
    assert record["linear_algebra"][0]["num_threads"] >= 1
    assert record["self_test"]["outcome"] == "identified"
    assert record["extras"]["torch"]["torch"].startswith("2.")


def test_the_text_has_no_secrets_and_no_home(capsys, monkeypatch):
    home = os.path.expanduser("~")
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={home}/dump")
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert f"{home}/dump" not in shown
    assert "XLA_FLAGS=--xla_dump_to=~/dump" in shown
    assert "float64 on" in shown


def test_what_is_missing_is_named_with_its_remedy(monkeypatch):
    record = examine()
    assert healthy(record)
    record["extras"]["onnx"]["onnxruntime"] = None
    assert "onnxruntime missing; for onnxruntime: pip install 'unweave[onnx]'" in describe(record)
    record["jax"] = {"error": "RuntimeError: no device"}
    assert "jax: RuntimeError: no device" in describe(record)
    record["self_test"] = {"outcome": "not identified"}
    assert "self test: not identified" in describe(record)
    assert not healthy(record)


def test_without_jax_everything_else_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    has_accelerator.cache_clear()
    assert not has_accelerator()
    has_accelerator.cache_clear()
    record = examine()
    assert record["jax"] == {"error": "not installed, so fits run on the CPU"}
    assert healthy(record)


def test_every_extra_of_the_project_is_known():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"docs", "dev", "all"}
    for name, packages in EXTRAS.items():
        declared = " ".join(extras[name]).lower()
        assert all(package in declared for package in packages), name
    assert all(any(d.startswith(name) for d in project["dependencies"]) for name in CORE)
