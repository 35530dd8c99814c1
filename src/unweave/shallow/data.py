"""Samples from a file: all rows in memory, one label a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unweave.core.errors import InputError
from unweave.evidence.sources import open_file


def read_samples(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """x (n, inputs) and y (n,) of an .npz or .parquet file, or a folder of such shards."""
    source = open_file(path)
    if source.output_size != 1:
        raise InputError(f"{path}: y has {source.output_size} columns; give one label a row")
    chunks = list(source.chunks())
    if not chunks:
        raise InputError(f"{path}: the file holds no rows")
    return np.concatenate([x for x, _ in chunks]), np.concatenate([y for _, y in chunks])[:, 0]
