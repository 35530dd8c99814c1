"""Hermite tensors of any source of rows, here or on workers that return sums, not rows.

``accumulate(source)`` takes arrays ``(x, y)``, a path (.npz, .parquet by row group, a folder of shards), an iterator
of ``(x, y)`` chunks, or a list of *pieces*: picklable functions without arguments that yield chunks, such as
``functools.partial(draw_rows, seed)``. With ``engine=`` (threads, processes, a Dask scheduler, an Executor) each piece
is one task; files are cut into pieces by row group or shard, so that only names travel out and sums travel back. Sums
are merged in the order of the pieces: the result does not depend on who finished first.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.engine import one_thread, open_engine
from unweave.core.errors import InputError
from unweave.evidence.sources import ParquetSource, ShardedSource, Source, open_file, open_source
from unweave.moments.hermite import HermiteMoments, Quadratic

Chunk = tuple[np.ndarray, np.ndarray]
Piece = Callable[[], Iterable[Chunk]]
PIECE_ROWS = 65_536
MOST_WAITING = 16
"""Pieces handed out ahead of the merge."""


@dataclass(frozen=True)
class Recipe:
    """What to sum up, apart from the number of inputs and outputs, which the first chunk tells."""

    order: int = 4
    baseline: float | Quadratic = 0.0
    prepare: Callable[[np.ndarray, np.ndarray], Chunk] | None = None


def accumulate(
    source: Any,
    *,
    order: int = 4,
    baseline: float | Quadratic = 0.0,
    prepare: Callable[[np.ndarray, np.ndarray], Chunk] | None = None,
    engine: Executor | str | None = None,
) -> HermiteMoments:
    """Moments of all rows of ``source``.

    Parameters
    ----------
    source
        Arrays ``(x, y)``, a path, an opened ``evidence.sources.Source``, an iterable of ``(x, y)`` chunks, or a
        sequence of pieces.
    baseline
        Taken off y and put back into the tensors (``HermiteMoments``).
    prepare
        Applied to each chunk on the worker, e.g. to whiten x; picklable if the engine is another process.
    """
    recipe = Recipe(order, baseline, prepare)
    total: HermiteMoments | None = None
    with one_thread(), open_engine(engine) as pool:
        for sums in _in_order(pool, pieces_of(source), recipe):
            if total is None:
                total = sums
            elif sums is not None:
                total.merge(sums)
    if total is None:
        raise InputError("the source held no rows")
    return total


def sum_piece(piece: Piece, recipe: Recipe) -> HermiteMoments | None:
    """The sums of one piece; None when it is empty. This is what runs on a worker."""
    total: HermiteMoments | None = None
    # threads of this process were limited by the caller; a limit set in each of them would outlive the others
    with one_thread() if parent_process() is not None else nullcontext():
        for x, y in piece():
            if recipe.prepare is not None:
                x, y = recipe.prepare(x, y)
            x, y = np.asarray(x), np.asarray(y)
            if total is None:
                num_outputs = y.shape[1] if y.ndim == 2 else 1
                total = HermiteMoments(
                    x.shape[-1], recipe.order, num_outputs=num_outputs, baseline=recipe.baseline
                )
            total.update(x, y)
    return total


def pieces_of(source: Any) -> Iterator[Piece]:
    """The source as functions that yield chunks; those of files and lists of pieces can be asked for again."""
    if isinstance(source, str | os.PathLike):
        source = open_file(Path(source))
    if isinstance(source, ParquetSource):
        yield from _row_groups(source)
    elif isinstance(source, ShardedSource):
        for shard in source.shards:
            yield from pieces_of(shard)
    elif isinstance(source, tuple) and len(source) == 2 and not callable(source[0]):
        opened = open_source(*source)
        yield from (Given(chunk) for chunk in opened.chunks())
    elif isinstance(source, Sequence) and source and callable(source[0]):
        yield from source
    elif isinstance(source, Iterable):
        yield from (Given(chunk) for chunk in source)
    else:
        opened: Source = source
        yield from (Given(chunk) for chunk in opened.chunks())


@dataclass(frozen=True)
class Given:
    """A chunk that is in memory already; it travels with the task, so prefer files or seeds for other processes."""

    chunk: Any

    def __call__(self) -> Iterator[Chunk]:
        if not isinstance(self.chunk, tuple) or len(self.chunk) != 2:
            raise InputError("the iterator must yield pairs (x, y) of arrays")
        yield self.chunk


@dataclass(frozen=True)
class ParquetRows:
    """Some row groups of a parquet file: a name and numbers, read where the work is done."""

    source: ParquetSource
    groups: tuple[int, ...]

    def __call__(self) -> Iterator[Chunk]:
        import pyarrow
        import pyarrow.parquet

        columns = [*self.source.inputs, *self.source.outputs]
        num_inputs = len(self.source.inputs)
        try:
            with pyarrow.parquet.ParquetFile(self.source.path) as file:
                for batch in file.iter_batches(PIECE_ROWS, row_groups=list(self.groups), columns=columns):
                    rows = np.empty((len(columns), batch.num_rows))
                    for i, name in enumerate(columns):
                        rows[i] = batch.column(name).to_numpy(zero_copy_only=False)
                    yield rows[:num_inputs].T, rows[num_inputs:].T
        except (pyarrow.ArrowException, OSError) as error:
            text = " ".join(str(error).split())[:120]
            raise InputError(f"{self.source.path} cannot be read ({text}); write the file again") from error


def _row_groups(source: ParquetSource) -> Iterator[Piece]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(source.path) as file:
        sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    groups: list[int] = []
    num_rows = 0
    for group, size in enumerate(sizes):
        groups.append(group)
        num_rows += size
        if num_rows >= PIECE_ROWS or group == len(sizes) - 1:
            yield ParquetRows(source, tuple(groups))
            groups, num_rows = [], 0


def _in_order(pool: Executor, pieces: Iterator[Piece], recipe: Recipe) -> Iterator[HermiteMoments | None]:
    waiting: deque[Future[HermiteMoments | None]] = deque()
    for piece in pieces:
        waiting.append(pool.submit(sum_piece, piece, recipe))
        if len(waiting) >= MOST_WAITING:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
