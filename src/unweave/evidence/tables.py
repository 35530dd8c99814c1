"""Tables as rows: CSV files, DataFrames (pandas, polars), Arrow tables, Hugging Face datasets, dictionaries of columns.

A table has named columns. The outputs are those the user names as ``target``; without that the columns ``y``, ``y0``,
``y1``, ... or ``target``. All others are inputs, in their order. Columns that do not hold numbers are refused by name:
what a category means as a number is not ours to guess.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.arguments import shown
from unweave.core.errors import InputError, MissingExtra
from unweave.core.npz import open_npz

Target = str | int | Sequence[str]
_OUTPUT = re.compile(r"y_?\d*|target_?\d*", re.IGNORECASE)
_DELIMITERS = ",;\t|"


def split_columns(
    names: Sequence[str], target: Target | None, what: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the inputs and of the outputs among the columns of a table."""
    if target is None:
        outputs = tuple(name for name in names if _OUTPUT.fullmatch(name))
    elif isinstance(target, int):
        if not -len(names) <= target < len(names):
            raise InputError(f"{what}: target={target} is no column; there are {len(names)}")
        outputs = (names[target],)
    else:
        if not isinstance(target, str | list | tuple):
            raise InputError(
                f"target={shown(target)}: give the name or the number of a column, or several names"
            )
        outputs = (target,) if isinstance(target, str) else tuple(target)
        unknown = [name for name in outputs if name not in names]
        if unknown:
            raise InputError(f"{what}: there is no column {unknown[0]!r}; there are {_listed(names)}")
    inputs = tuple(name for name in names if name not in outputs)
    if not outputs:
        raise InputError(
            f"{what}: which column is the answer? name it with target=; there are {_listed(names)}"
        )
    if not inputs:
        raise InputError(f"{what}: every column is an answer, none is an input")
    return inputs, outputs


def read_csv(path: Path, target: Target | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs of a text table; without a header the last column is the answer."""
    columns, has_header = _read_text(path)
    if target is None and not has_header:
        target = len(columns) - 1
    inputs, outputs = split_columns(list(columns), target, str(path))
    return from_columns(columns, inputs, outputs, str(path))


def read_columns(path: Path) -> dict[str, Any]:
    """The columns of a .csv, .tsv or .parquet file, or of the array of inputs in an .npz file, by name."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return _read_text(path)[0]
    if suffix == ".parquet":
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise MissingExtra("pyarrow", "parquet") from error
        try:
            return columns_of(pyarrow.parquet.read_table(path))
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path} cannot be read ({error}); write it again") from error
    if suffix == ".npz":
        with open_npz(path) as file:
            wide = [name for name in file.names if name.lower() in ("x", "inputs", "data")]
            if not wide and len(file.names) != 1:
                raise InputError(
                    f"{path}: name the array of inputs x; there are {_listed(sorted(file.names))}"
                )
            array = file.read((wide or list(file.names))[0])
        return {f"column {i}": array[:, i] for i in range(array.shape[1])}
    raise InputError(f"{path}: give rows as .csv, .tsv, .parquet or .npz")


def _read_text(path: Path) -> tuple[dict[str, Any], bool]:
    """Columns of a text table by name, and whether it names them itself."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        head = file.readline()
        if not head.strip():
            raise InputError(f"{path}: the file is empty")
        delimiter = max(_DELIMITERS, key=head.count)
        first = next(csv.reader([head], delimiter=delimiter))
        has_header = not all(_is_number(text) for text in first)
        if not has_header:
            file.seek(0)
        names = [name.strip() for name in first] if has_header else [f"column {i}" for i in range(len(first))]
        if len(set(names)) < len(names):
            raise InputError(f"{path}: two columns have the same name; rename one")
        rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
    ragged = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
    if ragged is not None:
        raise InputError(
            f"{path}: row {ragged + 1} has {len(rows[ragged])} fields, the first line {len(names)}"
        )
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {n: () for n in names}
    return columns, has_header


def is_table(value: Any) -> bool:
    """Whether ``value`` has named columns: a DataFrame, an Arrow table, a Hugging Face dataset, a dictionary."""
    return isinstance(value, Mapping) or _names(value) is not None


def from_table(table: Any, target: Target | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs of anything ``is_table`` accepts."""
    what = f"the {type(table).__name__}"
    if isinstance(table, Mapping) and (pair := _named_pair(table, target)) is not None:
        return pair
    names = [str(name) for name in (table if isinstance(table, Mapping) else _names(table) or ())]
    inputs, outputs = split_columns(names, target, what)
    return from_columns(columns_of(table), inputs, outputs, what)


def columns_of(table: Any) -> dict[str, Any]:
    """The columns of a table by name."""
    return {str(name): table[name] for name in (table if isinstance(table, Mapping) else _names(table) or ())}


def from_columns(
    columns: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str], what: str
) -> tuple[np.ndarray, np.ndarray]:
    """The named columns side by side as float64; empty fields are NaN, text is refused by name."""
    x, y = (
        np.column_stack([_as_numbers(columns[name], name, what) for name in names])
        for names in (inputs, outputs)
    )
    return x, y


def _named_pair(table: Mapping[str, Any], target: Target | None) -> tuple[np.ndarray, np.ndarray] | None:
    """``{"x": ..., "y": ...}`` and its likes: one array of inputs, one of outputs."""
    if len(table) != 2:
        return None
    arrays = {str(name): np.asarray(value) for name, value in table.items()}
    given = target if isinstance(target, str) else None
    last = given or next((n for n in arrays if n.lower() in _ANSWERS), None)
    if last is None or last not in arrays:
        return None
    (first,) = (name for name in arrays if name != last)
    return (arrays[first], arrays[last]) if arrays[first].ndim == 2 else None


_ANSWERS = ("y", "target", "targets", "output", "outputs", "label", "labels", "answers")


def pick_pair(names: Sequence[str], target: Target | None, what: str) -> tuple[str, str]:
    """Which arrays of a file are inputs and answers: x and y, or the only two, ``target`` the answers."""
    if target is None and {"x", "y"} <= set(names):
        return "x", "y"
    given = target if isinstance(target, str) else next((n for n in names if n.lower() in _ANSWERS), None)
    others = [name for name in names if name != given]
    if given is None or given not in names or len(others) != 1:
        held = _listed(names) if names else "nothing"
        raise InputError(
            f"{what}: the file must hold arrays x and y; it holds {held}: keep two and name the answers with "
            f"target="
        )
    return others[0], given


def _names(table: Any) -> list[Any] | None:
    """Column names of a frame-like object, or None."""
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and not callable(names) and hasattr(table, "__getitem__"):
            names = list(names)
            return names if all(isinstance(name, str | int) for name in names) else None
    return None


def _as_numbers(values: Any, name: str, what: str) -> np.ndarray:
    try:
        return as_column(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{what}: column {name!r} does not hold numbers; encode it first, or leave the column out"
        ) from error


def as_column(values: Any) -> np.ndarray:
    """A column as an array; empty fields read "nan"."""
    to_numpy = getattr(values, "to_numpy", None)
    column = np.asarray(to_numpy() if callable(to_numpy) else values)
    if column.dtype.kind not in "OUS":
        return column
    return np.array(["nan" if _is_missing(value) else value for value in column.tolist()])


def _is_missing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:12]))
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
