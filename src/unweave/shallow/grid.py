"""``landscape``: the empirical probability of no spurious minimum over a grid of (n, d, k).

Every cell draws teachers and starts from its own seeds, so cells, teachers and the order of work do not matter: pieces
run anywhere (``engine=``), a file of results grows a piece at a time, and a second call with the same file does only
what is missing. A teacher counts as *clean* when every start reached a global minimum.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.arguments import file, listener, shown, whole
from unweave.core.engine import Here, one_thread, open_engine
from unweave.core.errors import InputError
from unweave.shallow.logistic import LogisticFit, fit_logistic
from unweave.shallow.trials import Cell, Recipe, Run, run_piece

TEACHERS_A_PIECE = 5
PIECES_HANDED_OUT = 32
Progress = Callable[[int, int, float], None]
_SETTINGS = tuple(f.name for f in fields(Recipe))
_COLUMNS = tuple(f.name for f in fields(Run))


@dataclass(frozen=True)
class CellSummary:
    """One row of the table."""

    n: int
    d: int
    k: int
    num_teachers: int
    num_runs: int
    num_clean: int
    """Teachers all of whose starts reached a global minimum."""
    probability: float
    run_fraction: float
    """Runs that reached a global minimum."""
    num_global: int
    """Runs at a global minimum, however long it took."""
    num_spurious: int
    num_escaping: int
    num_undecided: int
    seconds: float


@dataclass(frozen=True, eq=False)
class LandscapeGrid:
    """Every run, and what follows from them."""

    recipe: Recipe
    runs: tuple[Run, ...]

    def cells(self) -> list[CellSummary]:
        """One summary a cell, in order."""
        groups: dict[Cell, list[Run]] = defaultdict(list)
        for run in self.runs:
            groups[Cell(run.n, run.d, run.k)].append(run)
        return [_summarise(cell, groups[cell]) for cell in sorted(groups)]

    @property
    def axis(self) -> str | None:
        """The one of n, d, k that varies; None when none or several do."""
        varying = [name for name in ("n", "d", "k") if len({getattr(c, name) for c in self.cells()}) > 1]
        return varying[0] if len(varying) == 1 else None

    def crossing(self, of: str = "clean") -> LogisticFit | None:
        """Where the fitted probability is 1/2 along the axis that varies.

        ``of``: ``"clean"`` teachers, as the paper counts; ``"runs"`` that reached a global minimum; ``"eventually"``
        teachers all of whose starts got there however long it took.
        """
        axis, cells = self.axis, self.cells()
        if axis is None:
            return None
        t = np.array([getattr(cell, axis) for cell in cells])
        if of == "clean":
            counts, totals = [c.num_clean for c in cells], [c.num_teachers for c in cells]
        elif of == "runs":
            counts = [round(c.run_fraction * c.num_runs) for c in cells]
            totals = [c.num_runs for c in cells]
        elif of == "eventually":
            counts = [self._num_eventually(cell) for cell in cells]
            totals = [c.num_teachers for c in cells]
        else:
            raise InputError(f"of={of!r}; known: clean, runs, eventually")
        return fit_logistic(t, np.array(counts), np.array(totals))

    def by_signs(self) -> list[dict[str, Any]]:
        """Success by the number of negative output weights at the start: one row a cell and pattern."""
        groups: dict[tuple[Cell, int], list[Run]] = defaultdict(list)
        for run in self.runs:
            groups[Cell(run.n, run.d, run.k), run.num_negative].append(run)
        return [
            {
                **asdict(cell),
                "num_negative": negative,
                "num_runs": len(runs),
                "num_reached": sum(run.reached for run in runs),
            }
            for (cell, negative), runs in sorted(groups.items())
        ]

    def to_dict(self) -> dict[str, Any]:
        crossing = self.crossing()
        return {
            "recipe": asdict(self.recipe),
            "axis": self.axis,
            "crossing": None if crossing is None else crossing.to_dict(),
            "cells": [asdict(cell) for cell in self.cells()],
            "by_signs": self.by_signs(),
        }

    def __str__(self) -> str:
        lines = [
            f"{'n':>5} {'d':>4} {'k':>4} {'teachers':>8} {'clean':>6} {'P(clean)':>8} {'P(run)':>7} {'global':>7} "
            f"{'spurious':>8} {'escaping':>8} {'undecided':>9}"
        ]
        lines.extend(
            f"{c.n:>5} {c.d:>4} {c.k:>4} {c.num_teachers:>8} {c.num_clean:>6} {c.probability:>8.2f} "
            f"{c.run_fraction:>7.3f} {c.num_global:>7} {c.num_spurious:>8} {c.num_escaping:>8} {c.num_undecided:>9}"
            for c in self.cells()
        )
        crossing = self.crossing()
        if crossing is not None:
            level = "1/2" if crossing.plateau > 0.995 else f"half of its plateau {crossing.plateau:.2f}"
            lines.append(f"P(clean) crosses {level} at {self.axis} = {crossing}")
        return "\n".join(lines)

    def _num_eventually(self, cell: CellSummary) -> int:
        fates: dict[int, bool] = defaultdict(lambda: True)
        for run in self.runs:
            if (run.n, run.d, run.k) == (cell.n, cell.d, cell.k):
                fates[run.teacher] &= run.label == "global"
        return sum(fates.values())


def landscape(
    activation: str = "softplus(10)",
    *,
    n: int | Iterable[int],
    d: int | Iterable[int],
    k: int | Iterable[int],
    trials: tuple[int, int] = (10, 10),
    labels: str = "planted",
    solver: str = "descent",
    output_start: str = "signs",
    train_output: bool = True,
    seed: int = 0,
    descent_steps: int = 1000,
    step: float = 0.01,
    polish_steps: int = 400,
    out: str | Path | None = None,
    engine: Executor | str | None = None,
    progress: Progress | None = None,
) -> LandscapeGrid:
    """Run ``trials`` = (teachers, starts) in every cell of the grid.

    Parameters
    ----------
    activation
        Of teacher and students.
    n, d, k
        Samples, inputs and hidden units, one number or several of each: the grid.
    trials
        (teachers, starts) in every cell.
    labels
        "planted" by a teacher, or "random".
    solver
        "descent" (adaptive, then Levenberg-Marquardt), "levenberg-marquardt" from the start, or "plain" (constant
        ``step``, then the same polish).
    output_start, train_output
        Output weights "signs" or "ones" at the start, and whether they are trained.
    seed
        Same seed, same runs.
    descent_steps, step, polish_steps
        Of the solver.
    out
        A CSV file, one row a run, continued when it exists.
    engine
        Where independent runs go.
    progress
        Called with (done, total, seconds) after every piece.

    Returns
    -------
    LandscapeGrid
        Every run, the table of cells, and where the probability of success crosses one half.

    Raises
    ------
    UnweaveError
        ``InputError`` for settings that cannot be used, or a file of another recipe.

    Examples
    --------
    >>> import unweave
    >>> unweave.landscape("quadratic", n=12, d=2, k=2, trials=(1, 2)).cells()[0].num_runs
    2
    """
    listener("progress", progress)
    num_teachers, num_starts = _check_trials(trials)
    recipe = Recipe(
        activation=activation,
        labels=labels,
        solver=solver,
        output_start=output_start,
        train_output=train_output,
        num_starts=num_starts,
        seed=seed,
        descent_steps=descent_steps,
        step=step,
        polish_steps=polish_steps,
    )
    axes = [_numbers(name, values) for name, values in (("n", n), ("d", d), ("k", k))]
    cells = [Cell(a, b, c) for a in axes[0] for b in axes[1] for c in axes[2]]
    path = None if out is None else file("out", out)
    known = [] if path is None else _read(path, recipe)
    pieces = _missing(cells, num_teachers, known)
    runs = [run for run in known if Cell(run.n, run.d, run.k) in set(cells) and run.teacher < num_teachers]
    total, done = len(pieces), 0
    # Cells differ in cost; spreading them keeps every worker busy to the end.
    pieces.sort(key=lambda piece: (piece[1][0], piece[0]))
    with open_engine(engine) as pool:
        for found in _results(pool, recipe, pieces):
            runs.extend(found)
            if path is not None:
                _append(path, recipe, found)
            done += 1
            if progress is not None:
                progress(done, total, sum(run.seconds for run in found))
    runs.sort(key=lambda run: (run.n, run.d, run.k, run.teacher, run.start))
    return LandscapeGrid(recipe, tuple(runs))


def _results(
    pool: Executor, recipe: Recipe, pieces: Sequence[tuple[Cell, tuple[int, ...]]]
) -> Iterator[list[Run]]:
    """Each piece as it ends; only so many are handed out at a time, so that a result is never kept waiting long."""
    most = 1 if isinstance(pool, Here) else PIECES_HANDED_OUT
    left, waiting = list(reversed(pieces)), set()
    while left or waiting:
        while left and len(waiting) < most:
            waiting.add(pool.submit(_run_piece, recipe, *left.pop()))
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in ended:
            yield future.result()


def _run_piece(recipe: Recipe, cell: Cell, teachers: tuple[int, ...]) -> list[Run]:
    with one_thread():
        return run_piece(recipe, cell, teachers)


def _summarise(cell: Cell, runs: Sequence[Run]) -> CellSummary:
    clean: dict[int, bool] = defaultdict(lambda: True)
    for run in runs:
        clean[run.teacher] &= run.reached
    labels = [run.label for run in runs]
    return CellSummary(
        **asdict(cell),
        num_teachers=len(clean),
        num_runs=len(runs),
        num_clean=sum(clean.values()),
        probability=sum(clean.values()) / max(len(clean), 1),
        run_fraction=sum(run.reached for run in runs) / max(len(runs), 1),
        num_global=labels.count("global"),
        num_spurious=labels.count("spurious"),
        num_escaping=labels.count("escaping"),
        num_undecided=labels.count("undecided") + labels.count("diverged"),
        seconds=sum(run.seconds for run in runs),
    )


def _missing(
    cells: Sequence[Cell], num_teachers: int, known: Sequence[Run]
) -> list[tuple[Cell, tuple[int, ...]]]:
    """Cells with the teachers not in the file yet, a few a piece."""
    done: dict[Cell, set[int]] = defaultdict(set)
    for run in known:
        done[Cell(run.n, run.d, run.k)].add(run.teacher)
    pieces = []
    for cell in cells:
        left = [t for t in range(num_teachers) if t not in done[cell]]
        pieces.extend(
            (cell, tuple(left[i : i + TEACHERS_A_PIECE])) for i in range(0, len(left), TEACHERS_A_PIECE)
        )
    return pieces


def _append(path: Path, recipe: Recipe, runs: Sequence[Run]) -> None:
    """Add the rows of a piece in one write, so that an interrupted run leaves whole pieces."""
    settings = asdict(recipe)
    fresh = not path.exists() or path.stat().st_size == 0
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*_COLUMNS, *_SETTINGS])
        if fresh:
            writer.writeheader()
        writer.writerows({**run.to_dict(), **settings} for run in runs)


def _read(path: Path, recipe: Recipe) -> list[Run]:
    """The whole teachers of an earlier run with the same recipe; another recipe is refused."""
    if not path.exists() or path.stat().st_size == 0:
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        runs = [_parse(row) for row in rows]
        recipes = {tuple(row[name] for name in _SETTINGS) for row in rows}
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path} is not a file of landscape results ({error}); give another name") from error
    wanted = tuple(str(value) for value in asdict(recipe).values())
    if recipes - {wanted}:
        raise InputError(f"{path} holds runs with other settings; give another name, or remove it")
    starts: dict[tuple[Cell, int], dict[int, Run]] = defaultdict(dict)
    for run in runs:
        starts[Cell(run.n, run.d, run.k), run.teacher][run.start] = run
    whole = [group for group in starts.values() if len(group) == recipe.num_starts]
    return [run for group in whole for run in group.values()]


def _parse(row: dict[str, str]) -> Run:
    kinds = {"int": int, "float": float, "str": str, "bool": lambda text: text == "True"}
    return Run(**{f.name: kinds[str(f.type)](row[f.name]) for f in fields(Run)})


def _check_trials(trials: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(trials, tuple | list) or len(trials) != 2:
        raise InputError(f"trials={shown(trials)}: give (teachers, starts), at least one of each")
    teachers, starts = (whole("trials=(teachers, starts)", count, 1) for count in trials)
    return teachers, starts


def _numbers(name: str, values: int | Iterable[int]) -> list[int]:
    several = (
        list(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else [values]
    )
    found = [whole(name, value, 1) for value in several]
    if not found:
        raise InputError(f"{name}={shown(values)}: give one positive whole number, or several")
    return sorted(set(found))
