"""Cells of an experiment, where they run, and the tidy table their results are kept in.

The table is a CSV file with one measured number a line: which study, the setting, which column, trial, seed, measure,
where along a curve (``at``), value. The lines of a cell are written together once the cell is finished, the last of
them its seconds; a cell without that line counts as not run. So the file itself says what is left to do.
"""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.engine import Here, one_thread, open_engine
from unweave.core.errors import InputError

if TYPE_CHECKING:
    from unweave.experiments.exhibits import Exhibit

AS_STATED, UNWEAVE = "as stated", "unweave"
LAST = "seconds"
"""The measure every cell ends with: CPU seconds of the method itself."""


@dataclass(frozen=True)
class Cell:
    """One trial of one column in one setting."""

    study: str
    column: str
    parameters: tuple[tuple[str, str], ...]
    """Names and values, by name; values as they are written in the table."""
    trial: int
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(sorted(self.parameters)))

    def __getitem__(self, name: str) -> str:
        return dict(self.parameters)[name]

    def number(self, name: str) -> int:
        return int(self[name])

    @property
    def seeds(self) -> tuple[int, int]:
        """What the random numbers of this trial come from: the same for every column and study."""
        return self.seed, self.trial


@dataclass(frozen=True)
class Measured:
    """One number; ``at`` is the abscissa of a curve."""

    measure: str
    value: float
    at: float | None = None


@dataclass(frozen=True)
class Scope:
    """How much to run: "quick", "usual" or "full", the paper's repetitions; or a number of trials of one's own."""

    size: str = "usual"
    seed: int = 0
    trials: int | None = None

    def num_trials(self, quick: int, usual: int, full: int) -> int:
        if self.trials is not None:
            return self.trials
        return {"quick": quick, "usual": usual, "full": full}[self.size]


@dataclass(frozen=True)
class Paper:
    """The experiments of one paper: which cells there are, how one is run, and what is shown of them."""

    name: str
    title: str
    reference: str
    parameters: tuple[str, ...]
    """Columns of the table that make a setting."""
    plan: Callable[[Scope], list[Cell]]
    run: Callable[[Cell], list[Measured]]
    exhibits: tuple[Exhibit, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know about the settings."""

    def chosen(self, table: int | None, figure: int | None) -> tuple[Exhibit, ...]:
        """The exhibits asked for; all of them by default."""
        wanted = [f"{kind} {n}" for kind, n in (("Table", table), ("Figure", figure)) if n is not None]
        if not wanted:
            return self.exhibits
        found = tuple(e for e in self.exhibits if any(name in e.names for name in wanted))
        if len(wanted) > len(found):
            known = ", ".join(dict.fromkeys(name for e in self.exhibits for name in e.names)) or "none"
            raise InputError(
                f"{self.name} has no {' or '.join(wanted).lower()} to reproduce; there are: {known}"
            )
        return found


class Stopwatch:
    """CPU seconds spent inside ``with watch:``, by this thread."""

    seconds: float

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.thread_time() - began


def setting(**values: Any) -> tuple[tuple[str, str], ...]:
    """Parameters of a cell, written as in the table."""
    return tuple((name, str(value)) for name, value in values.items())


@dataclass(frozen=True)
class Record:
    """One line of the table."""

    cell: Cell
    measured: Measured


@dataclass
class Results:
    """The table of one paper: read from a file, added to cell by cell."""

    parameters: tuple[str, ...]
    path: Path | None = None
    records: list[Record] = field(default_factory=list)
    finished: set[Cell] = field(default_factory=set)

    @property
    def header(self) -> list[str]:
        return ["study", *self.parameters, "column", "trial", "seed", "measure", "at", "value"]

    @staticmethod
    def open(path: Path, parameters: tuple[str, ...]) -> Results:
        """The finished cells in ``path``; the lines of a cell that was cut off are dropped from the file."""
        results = Results(parameters, path)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(",".join(results.header) + "\n", encoding="utf-8")
            return results
        text = path.read_text(encoding="utf-8")
        lines = list(csv.reader(io.StringIO(text)))
        if not lines or lines[0] != results.header:
            raise InputError(f"{path} is not a table of this experiment; name another folder with --out")
        pending: list[Record] = []
        for line in lines[1:]:
            record = results._record(line)
            if record is None or (pending and record.cell != pending[0].cell):
                pending = []
            if record is not None:
                pending.append(record)
                if record.measured.measure == LAST:
                    if record.cell in results.finished:
                        pending = []
                    results.records.extend(pending)
                    results.finished.add(record.cell)
                    pending = []
        if len(results.records) != len(lines) - 1 or not text.endswith("\n"):
            results._rewrite()
        return results

    def add(self, cell: Cell, measured: Sequence[Measured]) -> None:
        """Keep a finished cell, in the file before anywhere else."""
        records = [Record(cell, m) for m in measured]
        if self.path is not None:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                file.write(self._text(records))
                file.flush()
                os.fsync(file.fileno())
        self.records.extend(records)
        self.finished.add(cell)

    def within(self, cells: Iterable[Cell]) -> Results:
        """Only what belongs to ``cells``: a file may hold more than was asked for."""
        wanted = set(cells)
        return Results(
            self.parameters, None, [r for r in self.records if r.cell in wanted], self.finished & wanted
        )

    def values(
        self, study: str, column: str, measure: str, /, at: float | None = None, **where: str
    ) -> np.ndarray:
        """All trials of a measure in a setting."""
        return np.array(
            [
                r.measured.value
                for r in self.records
                if r.measured.measure == measure
                and r.measured.at == at
                and r.cell.study == study
                and r.cell.column == column
                and all(r.cell[name] == value for name, value in where.items())
            ]
        )

    def _record(self, line: list[str]) -> Record | None:
        try:
            study, *values = line[: 1 + len(self.parameters)]
            column, trial, seed, measure, at, value = line[1 + len(self.parameters) :]
            named = tuple((n, v) for n, v in zip(self.parameters, values, strict=True) if v != "")
            cell = Cell(study, column, named, int(trial), int(seed))
            return Record(cell, Measured(measure, float(value), float(at) if at else None))
        except ValueError:
            return None

    def _text(self, records: Sequence[Record]) -> str:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        for record in records:
            cell, m = record.cell, record.measured
            given = dict(cell.parameters)
            where = [given.get(name, "") for name in self.parameters]
            at = "" if m.at is None else f"{m.at:.10g}"
            number = f"{m.value:.10g}"
            writer.writerow([cell.study, *where, cell.column, cell.trial, cell.seed, m.measure, at, number])
        return buffer.getvalue()

    def _rewrite(self) -> None:
        assert self.path is not None
        fresh = self.path.with_suffix(".tmp")
        fresh.write_text(",".join(self.header) + "\n" + self._text(self.records), encoding="utf-8")
        fresh.replace(self.path)


def run_cell(run: Callable[[Cell], list[Measured]], cell: Cell) -> list[Measured]:
    """One cell, its seconds last; what travels to workers."""
    with one_thread():
        measured = run(cell)
    last = [m for m in measured if m.measure == LAST]
    if len(last) != 1:
        raise ValueError(f"{cell.study} must measure its {LAST} once")
    return [*(m for m in measured if m.measure != LAST), *last]


def run_cells(
    paper: Paper,
    cells: Sequence[Cell],
    results: Results,
    *,
    engine: Executor | str | None = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> None:
    """Run what is not finished yet; an interruption keeps every finished cell."""
    left = [cell for cell in cells if cell not in results.finished]
    done = len(cells) - len(left)

    def note(cell: Cell) -> None:
        if progress is not None:
            progress(f"{paper.name}: {cell.study}, {cell.column}", done, len(cells))

    with open_engine(engine) as executor:
        if isinstance(executor, Here):
            for cell in left:
                note(cell)
                results.add(cell, run_cell(paper.run, cell))
                done += 1
            return
        futures = {executor.submit(run_cell, paper.run, cell): cell for cell in left}
        try:
            for future in as_completed(futures):
                results.add(futures[future], future.result())
                done += 1
                note(futures[future])
        finally:
            for future in futures:
                future.cancel()
