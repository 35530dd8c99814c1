"""Where rows come from: arrays, tables, .npz and .csv files, parquet by row group, folders of shards, iterators.

A source knows its number of rows and inputs before it is read, and yields ``(x, y)`` chunks in a fixed order, as
often as asked; only one chunk of a parquet file is in memory at a time. An .npz file holds arrays ``x`` (n, inputs)
and ``y`` (n,) or (n, outputs), or two others of which ``target`` names the answers; pickled arrays are refused. Tables
(parquet, CSV, DataFrames) hold one number a column, see ``tables``. A folder holds shards of one layout, read in the
order of their names. Data sets and loaders of torch, and iterators of ``(x, y)`` chunks, are read once and kept in
memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from unweave.core.errors import InputError, MissingExtra
from unweave.core.npz import open_npz
from unweave.evidence import tables
from unweave.evidence.tables import Target

Chunk = tuple[np.ndarray, np.ndarray]
CHUNK_ROWS = 65_536
_SUFFIXES = (".npz", ".parquet", ".csv", ".tsv")


class Source(Protocol):
    """Rows (x, y) of a known number and shape that can be read again and again."""

    @property
    def name(self) -> str: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def input_size(self) -> int: ...

    @property
    def output_size(self) -> int: ...

    def chunks(self) -> Iterator[Chunk]:
        """All rows in order, as float64 arrays x (n, inputs) and y (n, outputs)."""
        ...


def open_source(x: Any, y: Any = None, *, target: Target | None = None) -> Source:
    """The source that ``learn(x, y)`` means: arrays, or with ``y=None`` a path, a table, a pair or chunks of rows.

    ``target`` names the columns of a table, or the array of an .npz file, that are the answers.
    """
    if isinstance(x, str | os.PathLike):
        if y is not None:
            raise InputError("give either a file or arrays x and y, not both")
        return open_file(Path(x), target)
    if y is not None:
        return ArraySource(*_as_pair(x, y, "the arrays"))
    if tables.is_table(x):
        return ArraySource(*_as_pair(*tables.from_table(x, target), "the table"), name=type(x).__name__)
    if isinstance(x, tuple) and len(x) == 2 and all(hasattr(part, "shape") for part in x):
        return ArraySource(*_as_pair(*x, "the arrays"))
    if isinstance(x, np.ndarray) or not (isinstance(x, Iterable) or _is_indexed(x)):
        raise InputError("x came without y; give learn(x, y), or a file or table that holds both")
    return _collect(_items(x) if _is_indexed(x) else x)


def open_file(path: Path, target: Target | None = None) -> Source:
    """An .npz, .csv or .parquet file, or a folder of such shards."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_dir():
        shards = sorted(p for p in path.iterdir() if p.suffix.lower() in _SUFFIXES)
        if not shards:
            raise InputError(f"{path}: the folder holds no .npz, .csv or .parquet shards")
        return ShardedSource(tuple(open_file(shard, target) for shard in shards), path.name)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return ArraySource(*_read_npz(path, target), name=path.name)
    if suffix in (".csv", ".tsv"):
        return ArraySource(*_as_pair(*tables.read_csv(path, target), str(path)), name=path.name)
    if suffix == ".parquet":
        return _open_parquet(path, target)
    raise InputError(f"{path}: give an .npz, .csv or .parquet file or a folder of such shards")


@dataclass(frozen=True)
class ArraySource:
    """Rows in memory."""

    x: np.ndarray
    y: np.ndarray
    name: str = "arrays"

    @property
    def num_rows(self) -> int:
        return len(self.x)

    @property
    def input_size(self) -> int:
        return self.x.shape[1]

    @property
    def output_size(self) -> int:
        return self.y.shape[1]

    def chunks(self) -> Iterator[Chunk]:
        for start in range(0, len(self.x), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            yield self.x[part], self.y[part]


@dataclass(frozen=True)
class ParquetSource:
    """A parquet file, read one row group at a time."""

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    num_rows: int

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def input_size(self) -> int:
        return len(self.inputs)

    @property
    def output_size(self) -> int:
        return len(self.outputs)

    def chunks(self) -> Iterator[Chunk]:
        import pyarrow
        import pyarrow.parquet

        columns = [*self.inputs, *self.outputs]
        try:
            with pyarrow.parquet.ParquetFile(self.path) as file:
                for group in range(file.num_row_groups):
                    for batch in file.iter_batches(CHUNK_ROWS, row_groups=[group], columns=columns):
                        rows = np.column_stack(
                            [
                                batch.column(c).to_numpy(zero_copy_only=False).astype(np.float64)
                                for c in columns
                            ]
                        )
                        yield rows[:, : len(self.inputs)], rows[:, len(self.inputs) :]
        except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
            raise _damaged(self.path, error) from error


@dataclass(frozen=True)
class ShardedSource:
    """Several sources of one layout, one after the other."""

    shards: tuple[Source, ...]
    name: str

    def __post_init__(self) -> None:
        first = self.shards[0]
        for shard in self.shards:
            if (shard.input_size, shard.output_size) != (first.input_size, first.output_size):
                raise InputError(
                    f"{self.name}: shard {shard.name} has {shard.input_size} inputs and {shard.output_size} outputs, "
                    f"{first.name} has {first.input_size} and {first.output_size}; keep shards of one layout"
                )

    @property
    def num_rows(self) -> int:
        return sum(shard.num_rows for shard in self.shards)

    @property
    def input_size(self) -> int:
        return self.shards[0].input_size

    @property
    def output_size(self) -> int:
        return self.shards[0].output_size

    def chunks(self) -> Iterator[Chunk]:
        for shard in self.shards:
            yield from shard.chunks()


def _read_npz(path: Path, target: Target | None) -> Chunk:
    with open_npz(path) as file:
        inputs, answers = tables.pick_pair(sorted(file.names), target, str(path))
        x, y = file.read(inputs), file.read(answers)
    return _as_pair(x, y, str(path))


def _open_parquet(path: Path, target: Target | None) -> ParquetSource:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names, num_rows = list(file.schema_arrow.names), file.metadata.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise _damaged(path, error) from error
    inputs, outputs = tables.split_columns(names, target, str(path))
    return ParquetSource(path, inputs, outputs, num_rows)


def _collect(chunks: Iterable[Any]) -> ArraySource:
    """Everything an iterator yields, in memory: it cannot be read twice."""
    pairs = []
    for chunk in chunks:
        if not isinstance(chunk, tuple | list) or len(chunk) != 2:
            raise InputError("the iterator must yield pairs (x, y) of arrays")
        x, y = chunk
        pairs.append(_as_pair(x, y, "a chunk of the iterator"))
    if not pairs:
        raise InputError("the iterator yielded no rows")
    if len({(x.shape[1], y.shape[1]) for x, y in pairs}) > 1:
        raise InputError("the chunks of the iterator differ in their numbers of inputs or outputs")
    return ArraySource(
        np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs]), "iterator"
    )


def _is_indexed(value: Any) -> bool:
    """Whether ``value`` gives one row for each index, as the datasets of torch do."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, list | tuple)


def _items(rows: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of an indexed data set as chunks of one."""
    for index in range(len(rows)):
        item = rows[index]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InputError("the data set must give a pair (x, y) for each row")
        x, y = (np.asarray(part) for part in item)
        yield x.reshape(1, -1), y.reshape(1, -1)


def _as_pair(x: Any, y: Any, what: str) -> Chunk:
    """x (n, inputs) and y (n, outputs) as float64, or one line about their shapes."""
    try:
        a, b = np.asarray(x), np.asarray(y)
        if a.dtype.kind not in "biuf" or b.dtype.kind not in "biuf":
            raise ValueError(f"entries of kind {a.dtype} and {b.dtype}")
        a, b = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
    except ValueError as error:
        raise InputError(f"{what}: x and y must be arrays of real numbers ({error})") from error
    if a.ndim != 2:
        raise InputError(f"{what}: x must have shape (rows, inputs), got {a.shape}")
    if b.ndim not in (1, 2) or len(b) != len(a):
        raise InputError(f"{what}: y must have one row for each of the {len(a)} rows of x, got {b.shape}")
    return a, b.reshape(len(b), -1)


def _damaged(path: Path, error: Exception) -> InputError:
    text = " ".join(str(error).split())[:120]
    return InputError(
        f"{path} cannot be read ({text}); the file is damaged or of another kind: write it again"
    )
