"""Every example runs, and the model files are what their script writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unweave.models.resolve import resolve_network

EXAMPLES = Path(__file__).parents[1] / "examples"


def _run(script: Path, *arguments: str) -> str:
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _scripts() -> list[Path]:
    return sorted(path for path in EXAMPLES.glob("*.py") if path.name != "make_models.py")


@pytest.mark.parametrize("script", _scripts(), ids=lambda path: path.stem)
def test_every_example_finds_its_network(script):
    shown = _run(script)
    word = {"certified_fit": "certified global minimum"}.get(script.stem, "identified")
    assert word in shown
    assert "not identified" not in shown


def test_the_recorded_rows_are_what_the_script_writes(tmp_path):
    _run(EXAMPLES / "make_models.py", str(tmp_path))
    with np.load(tmp_path / "relu_10_10.npz") as again, np.load(EXAMPLES / "relu_10_10.npz") as kept:
        assert np.array_equal(again["x"], kept["x"])
        assert np.allclose(again["y"], kept["y"], rtol=1e-13, atol=1e-13)


def test_the_model_files_are_what_the_script_writes(tmp_path):
    _run(EXAMPLES / "make_models.py", str(tmp_path))
    written = sorted(tmp_path.glob("*.onnx"))
    assert [path.name for path in written] == sorted(path.name for path in EXAMPLES.glob("*.onnx"))
    for path in written:
        again, kept = resolve_network(path), resolve_network(EXAMPLES / path.name)
        assert again.activations == kept.activations
        assert np.allclose(again.flat(), kept.flat(), rtol=1e-14)
