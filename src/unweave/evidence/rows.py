"""Rows ready for a method: checked, split into fitting and held-out rows, inputs whitened.

Rows with NaN or infinity are left out and counted. Held-out rows are drawn before anything else looks at the data;
rows that repeat one of their inputs are kept from the fit too. A source too large for memory is sampled: methods see
a random subset in ``x`` and ``y`` and can read every fitting row through ``batches``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np

from unweave.core.errors import InputError
from unweave.evidence.gaussianity import Gaussianity
from unweave.evidence.meter import Progress
from unweave.evidence.sources import ArraySource, Chunk, Source
from unweave.evidence.whitening import Whitening

MOST_NUMBERS = 100_000_000
"""Larger sources are not held in memory whole (0.8 GB)."""
FEWEST_HELD_OUT, MOST_HELD_OUT, SHARE_HELD_OUT = 16, 1000, 0.1


@dataclass(frozen=True)
class Samples:
    """What a method fits: whitened inputs ``x`` (n, d) and answers ``y`` (n, outputs), none of them held out."""

    x: np.ndarray
    y: np.ndarray
    num_rows: int
    """Fitting rows in all; more than ``len(x)`` when the source does not fit into memory."""
    whitening: Whitening
    gaussianity: Gaussianity | None = None
    """How the inputs compare with a Gaussian; None when there were too few rows to say."""
    engine: Executor | str | None = None
    """Where independent pieces may run (``engine.open_engine``)."""
    source: _Rows | None = field(default=None, repr=False)
    progress: Progress | None = field(default=None, repr=False)

    @property
    def input_size(self) -> int:
        return self.x.shape[1]

    @property
    def output_size(self) -> int:
        return self.y.shape[1]

    @property
    def in_memory(self) -> bool:
        return self.num_rows == len(self.x)

    def batches(self, max_rows: int = 65_536) -> Iterator[Chunk]:
        """Every fitting row once, in chunks of bounded size, inputs whitened."""
        if self.in_memory or self.source is None:
            for start in range(0, len(self.x), max_rows):
                yield self.x[start : start + max_rows], self.y[start : start + max_rows]
            return
        for x, y in self.source.fitting_chunks():
            for start in range(0, len(x), max_rows):
                yield self.whitening(x[start : start + max_rows]), y[start : start + max_rows]

    def report(self, stage: str) -> None:
        """Tell whoever watches which stage is at work."""
        if self.progress is not None:
            self.progress(stage, self.num_rows, None)


@dataclass(frozen=True)
class Split:
    """Rows of a source in their original inputs: those to fit, those held out, and what was noticed."""

    x: np.ndarray
    y: np.ndarray
    held_x: np.ndarray
    held_y: np.ndarray
    num_rows: int
    """Fitting rows in all."""
    rows: _Rows
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Rows:
    """The fitting rows of a source, chunk by chunk."""

    source: Source
    held: np.ndarray
    """Sorted indices of the rows held out."""

    def fitting_chunks(self) -> Iterator[Chunk]:
        for x, y, is_held in self.marked_chunks():
            yield x[~is_held], y[~is_held]

    def marked_chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Finite rows with whether each is held out."""
        start = 0
        for x, y in self.source.chunks():
            inside = self.held[np.searchsorted(self.held, start) : np.searchsorted(self.held, start + len(x))]
            is_held = np.zeros(len(x), dtype=bool)
            is_held[inside - start] = True
            start += len(x)
            good = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
            yield (x, y, is_held) if good.all() else (x[good], y[good], is_held[good])


def split_rows(source: Source, rng: np.random.Generator, *, num_held_out: int | None = None) -> Split:
    """Read a source: held-out rows at random, the rest to fit, with one-line refusals for unusable data."""
    n, d = source.num_rows, source.input_size
    if n == 0 or d == 0 or source.output_size == 0:
        raise InputError(f"{source.name}: there are no rows, no inputs or no outputs")
    count = _num_held_out(n) if num_held_out is None else int(num_held_out)
    if num_held_out is None and n < 4:
        raise InputError(f"{source.name}: {n} rows are too few to hold some out; give more rows")
    if not 0 < count < n:
        raise InputError(f"held_out={num_held_out}: hold out at least 1 and fewer than the {n} rows")
    rows = _Rows(source, np.sort(rng.choice(n, count, replace=False)))
    most = max(MOST_NUMBERS // (d + source.output_size), 1)
    kept_share = min(1.0, most / n)
    parts: list[Chunk] = []
    held: list[Chunk] = []
    num_finite = 0
    for x, y, is_held in rows.marked_chunks():
        num_finite += len(x)
        held.append((x[is_held], y[is_held]))
        fits = ~is_held if kept_share == 1 else ~is_held & (rng.uniform(size=len(x)) < kept_share)
        parts.append((x[fits], y[fits]) if not fits.all() else (x, y))
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    held_x, held_y = (np.concatenate(part) for part in zip(*held, strict=True))
    warnings = []
    if num_finite < n / 2 or not len(x) or not len(held_x):
        raise InputError(
            f"{source.name}: {n - num_finite} of {n} rows contain NaN or infinity; clean the data first"
        )
    if num_finite < n:
        warnings.append(f"{n - num_finite} of {n} rows contain NaN or infinity and were left out")
    num_fit = num_finite - len(held_x)
    again = _repeats(x, held_x)
    if again.all():
        raise InputError(
            f"{source.name}: every row repeats the input of a held-out row; give more distinct rows"
        )
    if again.any():
        x, y = x[~again], y[~again]
        num_fit -= int(again.sum())
        if kept_share == 1:
            rows = _Rows(ArraySource(x, y, source.name), np.zeros(0, dtype=int))
        warnings.append(f"{int(again.sum())} rows repeat the input of a held-out row and were left out")
    if kept_share < 1:
        warnings.append(f"{len(x):,} of {num_fit:,} rows fit into memory; the rest is read as a stream")
    return Split(x, y, held_x, held_y, num_fit if kept_share < 1 else len(x), rows, tuple(warnings))


def _num_held_out(n: int) -> int:
    return min(int(np.clip(SHARE_HELD_OUT * n, FEWEST_HELD_OUT, MOST_HELD_OUT)), max(n // 2, 1))


def _repeats(x: np.ndarray, held_x: np.ndarray) -> np.ndarray:
    """Which rows of x are equal to a held-out row."""
    if not len(x) or not len(held_x):
        return np.zeros(len(x), dtype=bool)
    first = np.isin(x[:, 0], held_x[:, 0])
    candidates = np.flatnonzero(first)
    known = {row.tobytes() for row in np.ascontiguousarray(held_x + 0.0)}
    repeats = np.zeros(len(x), dtype=bool)
    repeats[candidates] = [row.tobytes() in known for row in np.ascontiguousarray(x[candidates] + 0.0)]
    return repeats
