"""Where rows come from: arrays, an .npz file, parquet read by row group, a folder of shards, an iterator.

A source knows its number of rows and inputs before it is read, and yields ``(x, y)`` chunks in a fixed order, as
often as asked; only one chunk of a file is in memory at a time. An .npz file holds arrays ``x`` (n, inputs) and
``y`` (n,) or (n, outputs); pickled arrays are refused. A parquet file holds one number a column: the outputs are the
columns ``y``, ``y0``, ``y1``, ... and the inputs are all others, in their order. A folder holds .npz or parquet
shards of one layout, read in the order of their names. An iterator of ``(x, y)`` chunks can be read once, so it is
kept in memory.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from unweave.core.errors import InputError, MissingExtra

Chunk = tuple[np.ndarray, np.ndarray]
CHUNK_ROWS = 65_536


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


def open_source(x: Any, y: Any = None) -> Source:
    """The source that ``learn(x, y)`` means: arrays, or with ``y=None`` a path or an iterable of chunks."""
    if isinstance(x, str | os.PathLike):
        if y is not None:
            raise InputError("give either a file or arrays x and y, not both")
        return open_file(Path(x))
    if y is not None:
        return ArraySource(*_as_pair(x, y, "the arrays"))
    if isinstance(x, np.ndarray) or not isinstance(x, Iterable):
        raise InputError("x came without y; give learn(x, y), or a file that holds both")
    return _collect(x)


def open_file(path: Path) -> Source:
    """An .npz or .parquet file, or a folder of such shards."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_dir():
        shards = sorted(p for p in path.iterdir() if p.suffix in (".npz", ".parquet"))
        if not shards:
            raise InputError(f"{path}: the folder holds no .npz or .parquet shards")
        return ShardedSource(tuple(open_file(shard) for shard in shards), path.name)
    if path.suffix == ".npz":
        return ArraySource(*_read_npz(path), name=path.name)
    if path.suffix == ".parquet":
        return _open_parquet(path)
    raise InputError(f"{path}: give an .npz file, a .parquet file or a folder of such shards")


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

    def __post_init__(self):
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


def _read_npz(path: Path) -> Chunk:
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            missing = {"x", "y"} - set(file.files)
            if missing:
                held = ", ".join(sorted(file.files)) or "nothing"
                raise InputError(f"{path}: the file must hold arrays x and y; it holds {held}")
            x, y = file["x"], file["y"]
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise _damaged(path, error) from error
    return _as_pair(x, y, str(path))


def _open_parquet(path: Path) -> ParquetSource:
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
    outputs = tuple(name for name in names if re.fullmatch(r"y_?\d*", name))
    inputs = tuple(name for name in names if name not in outputs)
    if not outputs or not inputs:
        raise InputError(f"{path}: want columns y (or y0, y1, ...) and inputs; found {', '.join(names)}")
    return ParquetSource(path, inputs, outputs, num_rows)


def _collect(chunks: Iterable[Any]) -> ArraySource:
    """Everything an iterator yields, in memory: it cannot be read twice."""
    pairs = []
    for chunk in chunks:
        if not isinstance(chunk, tuple) or len(chunk) != 2:
            raise InputError("the iterator must yield pairs (x, y) of arrays")
        pairs.append(_as_pair(*chunk, "a chunk of the iterator"))
    if not pairs:
        raise InputError("the iterator yielded no rows")
    if len({(x.shape[1], y.shape[1]) for x, y in pairs}) > 1:
        raise InputError("the chunks of the iterator differ in their numbers of inputs or outputs")
    return ArraySource(
        np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs]), "iterator"
    )


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
