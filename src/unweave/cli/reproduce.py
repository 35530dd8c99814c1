"""``unweave reproduce``: the tables and figures of the papers, beside what unweave reaches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from unweave.cli.options import Quiet


def reproduce(
    paper: str,
    /,
    *,
    table: int | None = None,
    figure: int | None = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    full: Annotated[bool, Parameter(negative="")] = False,
    trials: int | None = None,
    out: Path = Path("results"),
    seed: int = 0,
    engine: str | None = None,
    quiet: Quiet = False,
) -> int:
    """Compute the tables and figures of a paper twice: as the paper states it, and by unweave's default.

    Writes a tidy CSV file and a Markdown page for each paper, the figures as SVG, and one HTML page. A run that was
    interrupted goes on where it stopped when the same command is given again.

    Parameters
    ----------
    paper
        two-layer, general-relu, landscape, high-threshold, or all.
    table
        Only the table of this number.
    figure
        Only the figure of this number.
    quick
        Few trials of the small settings: minutes for all papers.
    full
        Every setting with the repetitions of the paper: hours.
    trials
        So many trials a setting instead.
    out
        The folder to write to, and to resume from.
    seed
        Seed of the networks and of the searches.
    engine
        Where cells run: threads, processes, or the address of a Dask scheduler.
    """
    from unweave.core.errors import InputError
    from unweave.core.progress import StageProgress
    from unweave.experiments.frame import Scope
    from unweave.experiments.reproduce import PAPERS, lines_of_text
    from unweave.experiments.reproduce import reproduce as run

    if quick and full:
        raise InputError("--quick and --full exclude each other; give one of them")
    if trials is not None and trials < 1:
        raise InputError(f"--trials {trials}: give at least 1")
    if paper == "all" and (table is not None or figure is not None):
        raise InputError("--table and --figure need one paper, such as two-layer")
    names = list(PAPERS) if paper == "all" else [paper]
    scope = Scope("quick" if quick else "full" if full else "usual", seed, trials)
    with StageProgress(quiet=quiet, unit="cells") as progress:
        done = run(names, scope, out, table=table, figure=figure, engine=engine, progress=progress)
    for item in done:
        for line in lines_of_text(item):
            print(line)
    page = out / ("index.html" if paper == "all" else f"{paper}.html")
    print(f"unweave: wrote {page}; tables and figures are beside it", file=sys.stderr)
    return 0
