"""The user's own rows as the place where questions may be asked.

Columns are of three kinds. *Numbers* vary between their least and largest value. *Constants* stay as they are.
*Categories* (text, truth values, two different numbers, or what the user or the model's own encoder names) take the
values they have in the rows and no others, and only in combinations that occur there. A network takes numbers, so text
and codes of more than two levels are *encoded*: one input a level, 1 where the row has it and 0 elsewhere; two-valued
numbers stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.arguments import one_of, shown
from unweave.core.clouds import ellipsoid, hull
from unweave.core.domains import Box, Domain
from unweave.core.errors import InputError
from unweave.evidence import tables

SHAPES = ("box", "hull", "density")
FEWEST = 8
"""Rows without which nothing can be said about where the data are."""


@dataclass(frozen=True)
class Column:
    """One column of the rows: its name, its values, and the levels of a category."""

    name: str
    values: np.ndarray = field(repr=False)
    """float64, or text."""
    category: bool = False

    @cached_property
    def levels(self) -> tuple[Any, ...]:
        """The different values, in order."""
        return tuple(np.unique(self.values).tolist())

    @property
    def is_text(self) -> bool:
        return self.values.dtype.kind != "f"

    @property
    def constant(self) -> bool:
        return len(self.levels) == 1

    @property
    def coded(self) -> bool:
        """Whether a network sees it as one input a level."""
        return self.is_text or (self.category and len(self.levels) > 2)

    @property
    def varies(self) -> bool:
        """Whether any number between its least and largest value may be asked."""
        return not (self.category or self.constant or self.is_text)

    def encode(self) -> np.ndarray:
        """The inputs (n, k) a network takes for this column."""
        return one_hot(self.values, self.levels) if self.coded else self.values[:, None]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of these inputs."""
        return tuple(f"{self.name}={level}" for level in self.levels) if self.coded else (self.name,)


class Data:
    """Rows of inputs: questions stay where they are, and a claim is also checked on them.

    Parameters
    ----------
    rows
        Inputs as an array (n, inputs), a DataFrame or other table, or a file: ``.csv``, ``.parquet``, ``.npz``.
    within
        "box": between the least and the largest value of every column; "hull": what half spaces leave that touch the
        rows; "density": the ellipsoid of their covariance. The last two follow correlations.
    categories
        Columns, by name or number, whose values are categories though they are numbers. Text, truth values and
        columns of two different values always are.
    target
        Columns to leave out, such as the answers.

    Raises
    ------
    InputError
        If there are fewer than eight complete rows, or a column is unknown.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> unweave.Data(np.random.default_rng(0).normal(size=(100, 3)))
    Data(100 rows, 3 columns, within='box')
    """

    has_names: bool
    columns: tuple[Column, ...]

    def __init__(
        self,
        rows: Any,
        *,
        within: str = "box",
        categories: Iterable[str | int] = (),
        target: tables.Target | None = None,
    ):
        one_of("within", within, SHAPES)
        named = _read(rows)
        if target is not None:
            kept = tables.split_columns([name for name, _ in named], target, "the data")[0]
            named = [(name, values) for name, values in named if name in kept]
        self.within = within
        self.has_names = not isinstance(rows, np.ndarray)
        self.columns = _columns(named, set(_numbers_of(categories, [name for name, _ in named])))
        if self.num_rows < FEWEST:
            raise InputError(f"the data hold {self.num_rows} complete rows; give at least {FEWEST}")

    def __repr__(self) -> str:
        count = sum(column.category for column in self.columns)
        told = f", {count} of them categories" if count else ""
        return f"Data({self.num_rows} rows, {len(self.columns)} columns{told}, within={self.within!r})"

    @property
    def num_rows(self) -> int:
        """How many complete rows there are."""
        return len(self.columns[0].values) if self.columns else 0

    @property
    def input_size(self) -> int:
        """Number of inputs of a network on these columns."""
        return len(self.inputs)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of a network's inputs: of the columns, and of the levels of coded categories."""
        return tuple(name for column in self.columns for name in column.inputs)

    @cached_property
    def encoded(self) -> np.ndarray:
        """The rows as a network takes them, (n, input_size)."""
        return np.concatenate([column.encode() for column in self.columns], axis=1)

    @cached_property
    def moving(self) -> np.ndarray:
        """Which inputs may take any number between two others."""
        return np.concatenate([np.full(len(c.inputs), c.varies) for c in self.columns])

    def encode(self, rows: Any) -> np.ndarray:
        """Other rows of the same columns, as a network takes them."""
        return encode_rows(rows, [(c.name, c.levels if c.coded else None) for c in self.columns])

    def decode(self, x: np.ndarray) -> np.ndarray:
        """Rows as the model takes them, from those a network takes; of objects where there is text."""
        pieces, start = [], 0
        for column in self.columns:
            part = x[:, start : start + len(column.inputs)]
            start += part.shape[1]
            chosen = np.array(column.levels)[np.argmax(part, axis=1)] if column.coded else part[:, 0]
            pieces.append(chosen.astype(object) if column.is_text else chosen)
        if not any(column.is_text for column in self.columns):
            return np.column_stack(pieces)
        rows = np.empty((len(x), len(pieces)), dtype=object)
        for i, piece in enumerate(pieces):
            rows[:, i] = piece
        return rows

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        """Some of the rows, as the model takes them."""
        self.check_size(input_size, "the model")
        return self.decode(self.encoded[rng.integers(self.num_rows, size=num_points)])

    def drawn(self, num_points: int, rng: np.random.Generator) -> np.ndarray:
        """Rows as a network takes them, their numbers moved within the data; other inputs as in some row."""
        x = self.encoded[rng.integers(self.num_rows, size=num_points)]
        numbers = x[:, self.moving]
        if numbers.shape[1] and num_points:
            low, high = self.numbers.min(axis=0), self.numbers.max(axis=0)
            shape = self.shape(low * 0, np.ones(len(low)), low, high)
            x[:, self.moving] = shape.sample(num_points, len(low), rng)
        return x

    @property
    def numbers(self) -> np.ndarray:
        """The inputs that move, (n, k)."""
        return self.encoded[:, self.moving]

    def shape(self, middle: np.ndarray, unit: np.ndarray, low: np.ndarray, high: np.ndarray) -> Domain:
        """Where questions may be asked, in coordinates ``(numbers - middle) / unit``, between ``low`` and ``high``."""
        a, b = (low - middle) / unit, (high - middle) / unit
        if self.within == "box":
            return Box(a, b)
        points = np.clip((self.numbers - middle) / unit, a, b)
        rank = np.linalg.matrix_rank(points - points.mean(axis=0), tol=1e-9 * np.sqrt(points.size))
        if rank < points.shape[1]:
            raise InputError(
                f"within={self.within!r}: the rows span {rank} of {points.shape[1]} dimensions; give within='box'"
            )
        return hull(points, a, b) if self.within == "hull" else ellipsoid(points, a, b)

    def with_categories(self, names: Iterable[str | int]) -> Data:
        """The same rows with further columns as categories."""
        more = set(_numbers_of(names, [column.name for column in self.columns]))
        return self._with(replace(c, category=c.category or i in more) for i, c in enumerate(self.columns))

    def ordered(self, names: Sequence[str]) -> Data:
        """The columns of these names in this order, where the rows have all of them; the rows as they are otherwise."""
        found = {column.name: column for column in self.columns}
        known = self.has_names and all(name in found for name in names)
        return self._with(found[name] for name in names) if known else self

    def check_size(self, input_size: int, name: str) -> None:
        """Refuse rows of another number of columns than the model's."""
        if input_size != len(self.columns):
            raise InputError(
                f"the data have {len(self.columns)} columns, but {name} takes {input_size} inputs; leave columns out "
                f"with target="
            )

    def _with(self, columns: Iterable[Column]) -> Data:
        other = object.__new__(Data)
        other.within, other.has_names, other.columns = self.within, self.has_names, tuple(columns)
        return other


def encode_rows(rows: Any, columns: Sequence[tuple[str, Sequence[Any] | None]]) -> np.ndarray:
    """Rows as a network takes them; ``columns`` are names, and the levels of those that are coded."""
    named = _read(rows)
    if len(named) != len(columns):
        found = dict(named)
        if not all(name in found for name, _ in columns):
            raise InputError(f"expected rows of {len(columns)} columns, got {len(named)}")
        named = [(name, found[name]) for name, _ in columns]
    parts = []
    for (name, levels), (_, values) in zip(columns, named, strict=True):
        if levels is None and values.dtype.kind != "f":
            raise InputError(f"column {name!r} does not hold numbers")
        parts.append(values[:, None] if levels is None else one_hot(values, levels))
    return np.concatenate(parts, axis=1)


def one_hot(values: np.ndarray, levels: Sequence[Any]) -> np.ndarray:
    """One column a level; no 1 for what is none of them."""
    return np.column_stack([values == level for level in levels]).astype(np.float64)


def _columns(named: list[tuple[str, np.ndarray]], categories: set[int]) -> tuple[Column, ...]:
    """Complete rows of each column, and which of them are categories."""
    complete = np.ones(len(named[0][1]) if named else 0, dtype=bool)
    for _, values in named:
        complete &= np.isfinite(values) if values.dtype.kind == "f" else values != ""
    columns = [Column(name, values[complete]) for name, values in named]
    return tuple(
        replace(c, category=c.is_text or i in categories or (complete.any() and len(c.levels) == 2))
        for i, c in enumerate(columns)
    )


def _read(rows: Any) -> list[tuple[str, np.ndarray]]:
    """Names and values of the columns: numbers where all are, text elsewhere."""
    if isinstance(rows, str | os.PathLike):
        columns = tables.read_columns(Path(rows))
    elif tables.is_table(rows):
        columns = tables.columns_of(rows)
    else:
        array = np.asarray(rows)
        if array.ndim != 2:
            raise InputError(f"the data must have shape (rows, columns), got {array.shape}")
        columns = {f"column {i}": array[:, i] for i in range(array.shape[1])}
    if not all(np.ndim(values) == 1 for values in columns.values()):
        raise InputError("every column of the data must be a list of values")
    if len({len(values) for values in columns.values()}) > 1:
        raise InputError("the columns of the data have different lengths")
    return [(name, _plain(values)) for name, values in columns.items()]


def _plain(values: Any) -> np.ndarray:
    """A column as float64, or as text with nothing for what is missing."""
    column = tables.as_column(values)
    if column.dtype.kind == "b":
        return column.astype(np.float64)
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return np.array(["" if value == "nan" else str(value) for value in column.tolist()])


def _numbers_of(chosen: Iterable[str | int], names: Sequence[str]) -> list[int]:
    """Columns by number, from their names or numbers."""
    if isinstance(chosen, str | bytes) or not isinstance(chosen, Iterable):
        raise InputError(f"categories={shown(chosen)}: give names or numbers of columns, in a list")
    found = []
    for what in chosen:
        if isinstance(what, str) and what in names:
            found.append(names.index(what))
        elif isinstance(what, int | np.integer) and -len(names) <= what < len(names):
            found.append(int(what) % len(names))
        else:
            raise InputError(f"categories: there is no column {what!r} in the data")
    return found
