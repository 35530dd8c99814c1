"""What importing costs: nothing is loaded before it is used, and the core needs no framework."""

from __future__ import annotations

import subprocess
import sys


def _python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


def test_importing_unweave_is_instant():
    code = "import time; began = time.process_time(); import unweave; print(time.process_time() - began)"
    assert min(float(_python(code)) for _ in range(3)) < 0.3


def test_identify_loads_no_framework():
    frameworks = ("jax", "torch", "onnx", "onnxruntime", "sklearn", "matplotlib", "rich.progress")
    code = f"import sys, unweave; unweave.identify; print([m for m in {frameworks} if m in sys.modules])"
    assert _python(code) == "[]"
