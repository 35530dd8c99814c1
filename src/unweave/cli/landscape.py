"""``unweave landscape``: how often local search meets no spurious minimum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from unweave.cli.options import Quiet, check_targets, write_json


def landscape(
    *,
    n: str,
    d: str,
    k: str,
    activation: str = "softplus(10)",
    trials: str = "10x10",
    labels: str = "planted",
    solver: str = "descent",
    output_start: str = "signs",
    fixed_output: Annotated[bool, Parameter(negative="")] = False,
    seed: int = 0,
    descent_steps: int = 1000,
    step: float = 0.01,
    polish_steps: int = 400,
    out: Path | None = None,
    figure: Path | None = None,
    json: Path | None = None,
    engine: str | None = None,
    quiet: Quiet = False,
) -> int:
    """Measure over a grid how often every start of a teacher reaches a global minimum.

    Parameters
    ----------
    n, d, k
        Samples, inputs, hidden units: a number, several (8,10,12), or a range with both ends (8:16, 8:16:2).
    activation
        Of teacher and student; softplus means the paper's softplus(10).
    trials
        TEACHERSxSTARTS in every cell.
    labels
        planted by a teacher, or random.
    solver
        descent (adaptive, then Levenberg-Marquardt), levenberg-marquardt, or plain (constant steps, then the same).
    output_start
        Output weights at the start: signs (+1 or -1 by coin) or ones.
    fixed_output
        Hold the output weights at their start.
    seed
        Seed of every teacher and start.
    descent_steps
        Steps of descent before Levenberg-Marquardt takes over.
    step
        Constant step of plain descent.
    polish_steps
        Steps of Levenberg-Marquardt in which a run has to reach the global minimum.
    out
        A CSV file with one row a run; continued where it exists.
    figure
        Write the figure here (.svg).
    json
        Write the table, the crossing and the split by signs as JSON here.
    engine
        threads, processes, or the address of a Dask scheduler.
    """
    from unweave.core.errors import InputError

    pair = trials.lower().split("x")
    if len(pair) != 2 or not all(part.isdecimal() for part in pair):
        raise InputError(f"--trials {trials}: give TEACHERSxSTARTS, such as 10x10")
    check_targets(None, out, figure, json)
    from unweave.core.progress import StageProgress
    from unweave.shallow.grid import landscape as run

    with StageProgress(quiet=quiet) as show:

        def progress(done: int, total: int, seconds: float) -> None:
            show.line(f"{done} of {total} pieces, the last took {seconds:.1f} s")

        grid = run(
            "softplus(10)" if activation == "softplus" else activation,
            n=parse_range(n, "--n"),
            d=parse_range(d, "--d"),
            k=parse_range(k, "--k"),
            trials=(int(pair[0]), int(pair[1])),
            labels=labels,
            solver=solver,
            output_start=output_start,
            train_output=not fixed_output,
            seed=seed,
            descent_steps=descent_steps,
            step=step,
            polish_steps=polish_steps,
            out=out,
            engine=engine,
            progress=progress,
        )
    if figure is not None:
        from unweave.report.landscape import draw_landscape

        draw_landscape(grid, figure)
    if json is not None:
        write_json(json, grid.to_dict())
    print(grid)
    return 0


def parse_range(text: str, option: str) -> list[int]:
    """``10``, ``8,10,12``, ``8:16`` or ``8:16:2``, both ends included."""
    from unweave.core.errors import InputError

    try:
        if ":" not in text:
            return [int(part) for part in text.split(",")]
        first, last, *step = (int(part) for part in text.split(":"))
        if len(step) > 1:
            raise ValueError
        return list(range(first, last + 1, *step))
    except ValueError as error:
        raise InputError(f"{option} {text}: give a number, several (8,10,12) or a range (8:16)") from error
