"""An ONNX file in, its weights out, under a budget and inside a ball: what an auditor of a file would run."""

from pathlib import Path

import unweave

model = Path(__file__).parent / "gelu_10_16.onnx"
found = unweave.identify(model, domain=unweave.Ball(6.0), budget=20_000)
print(found.verdict())
print(f"worst parameter error: {unweave.compare(model, found.network).max_relative_error:.1e}")
