"""Every example runs, and the model files are what their script writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unweave.oracles.resolve import resolve_network

EXAMPLES = Path(__file__).parents[1] / "examples"


def _run(script: Path, *arguments: str) -> str:
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("identify_*.py")), ids=lambda path: path.stem)
def test_identifying_examples_find_the_model(script):
    shown = _run(script)
    assert shown.startswith("identified")
    assert float(shown.split()[-1]) < 1e-6


def test_the_model_files_are_what_the_script_writes(tmp_path):
    _run(EXAMPLES / "make_models.py", str(tmp_path))
    written = sorted(tmp_path.glob("*.onnx"))
    assert [path.name for path in written] == sorted(path.name for path in EXAMPLES.glob("*.onnx"))
    for path in written:
        again, kept = resolve_network(path), resolve_network(EXAMPLES / path.name)
        assert again.activations == kept.activations
        assert np.allclose(again.flat(), kept.flat(), rtol=1e-14)


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "make_models.py",
        "identify_torch.py",
        "identify_sklearn.py",
    }
