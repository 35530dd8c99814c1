"""Shared settings: one BLAS thread a worker, so that parallel runs do not fight over the cores; known certificates."""

from __future__ import annotations

import os

import pytest

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


@pytest.fixture(autouse=True)
def known_certificates(monkeypatch):
    """Certificates ask the same questions in every test run, as with ``certificate_seed=1``."""
    monkeypatch.setattr("unweave.run.signatures.fresh_entropy", lambda: 1)
