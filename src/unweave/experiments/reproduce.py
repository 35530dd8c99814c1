"""Run papers and write what came out: a tidy CSV file a paper, figures as SVG, one page.

``reproduce(["two-layer"], scope, out)`` resumes from the tables already in ``out``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unweave.core.errors import InputError
from unweave.experiments.exhibits import Exhibit, Line, describe_setting
from unweave.experiments.frame import Cell, Paper, Results, Scope, run_cells
from unweave.report import require_parts

PAPERS = {
    "two-layer": "two_layer",
    "general-relu": "general_relu",
    "landscape": "landscape",
    "high-threshold": "high_threshold",
}
"""Names on the command line and the modules that hold them."""


@dataclass(frozen=True)
class Reproduced:
    """One paper: what was asked for and the results that belong to it."""

    paper: Paper
    exhibits: tuple[Exhibit, ...]
    results: Results
    num_left: int
    """Cells not run because of an interruption."""
    only: str = ""
    """The options that chose the exhibits: ``--table 1``."""

    def for_exhibit(self, exhibit: Exhibit) -> Results:
        cells = {c for c in self.results.finished if exhibit.holds(c.study, dict(c.parameters))}
        return self.results.within(cells)


def load_paper(name: str) -> Paper:
    if name not in PAPERS:
        raise InputError(f"{name!r} is no paper here; there are: {', '.join(PAPERS)}, all")
    return importlib.import_module(f"unweave.experiments.{PAPERS[name]}").PAPER


def plan_cells(paper: Paper, exhibits: Sequence[Exhibit], scope: Scope) -> list[Cell]:
    """The cells that the exhibits need."""
    return [c for c in paper.plan(scope) if any(e.holds(c.study, dict(c.parameters)) for e in exhibits)]


def reproduce(
    names: Sequence[str],
    scope: Scope,
    out: Path,
    *,
    table: int | None = None,
    figure: int | None = None,
    engine: Executor | str | None = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> list[Reproduced]:
    """Every cell of the papers that is not in ``out`` yet; then the figures and the page.

    An interruption still writes figures and page of what is finished, and is raised again.
    """
    papers = [load_paper(name) for name in names]
    chosen = [paper.chosen(table, figure) for paper in papers]
    if not any(chosen):
        raise InputError("there is nothing to reproduce under that number")
    only = " ".join(f"--{k} {v}" for k, v in (("table", table), ("figure", figure)) if v is not None)
    require_parts()
    out.mkdir(parents=True, exist_ok=True)
    done: list[Reproduced] = []
    with _told_what_is_kept(out):
        try:
            for paper, exhibits in zip(papers, chosen, strict=True):
                cells = plan_cells(paper, exhibits, scope)
                results = Results.open(out / f"{paper.name}.csv", paper.parameters)
                try:
                    run_cells(paper, cells, results, engine=engine, progress=progress)
                finally:
                    left = len([c for c in cells if c not in results.finished])
                    done.append(Reproduced(paper, exhibits, results.within(cells), left, only))
        finally:
            from unweave.experiments.page import write_outputs

            if done:
                page = f"{names[0]}.html" if len(names) == 1 else "index.html"
                write_outputs(done, scope, out, page)
    return done


@contextmanager
def _told_what_is_kept(out: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"interrupted; finished cells are in {out}, the same command goes on"
        ) from stop


def lines_of_text(item: Reproduced) -> Iterator[str]:
    """The compact table: one line a setting, ``paper | as stated | unweave`` for every measure."""
    for exhibit in item.exhibits:
        lines = exhibit.lines(item.for_exhibit(exhibit))
        if not lines:
            continue
        title = f"{exhibit.name}: {exhibit.title}" if exhibit.names else exhibit.title
        yield f"{item.paper.name}, {title}   (paper | as stated | unweave)"
        labels = [describe_setting(exhibit.by, line.setting) for line in lines]
        width = max(map(len, labels))
        for label, line in zip(labels, lines, strict=True):
            yield f"  {label:{width}}  {'   '.join(_triple_text(line))}"
        agreement = exhibit.agreement(lines)
        if agreement:
            yield f"  {agreement}"
        yield ""


def _triple_text(line: Line) -> Iterator[str]:
    for triple in line.triples:
        yield f"{triple.entry.label} {' | '.join(triple.texts)}"
    yield f"trials {line.num_stated} | {line.num_unweave}"
