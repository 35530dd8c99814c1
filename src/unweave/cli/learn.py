"""``unweave learn``: from recorded rows to weights."""

from __future__ import annotations

from unweave.cli.options import NOWHERE, Outputs, Quiet, parse_numbers


def learn(
    data: str,
    /,
    *,
    activation: str = "auto",
    hidden: str | None = None,
    method: str = "auto",
    noise: float | None = None,
    held_out: int | None = None,
    target: str | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    engine: str | None = None,
    outputs: Outputs = NOWHERE,
    quiet: Quiet = False,
) -> int:
    """Recover a network from recorded inputs and answers, without access to the model.

    Parameters
    ----------
    data
        An .npz file with arrays x and y, a .csv or .parquet file (outputs y or y0, y1, ..., or those --target names;
        all other columns are inputs), or a folder of such shards.
    activation
        The hidden activation, such as relu, tanh or gelu; auto finds it.
    hidden
        Widths of the hidden layers, comma separated: 30,9. Found when not given.
    method
        One method by name; auto chooses.
    noise
        Standard deviation of the error of one answer, if known; estimated otherwise.
    held_out
        Rows kept from every fit for the certificate; a tenth, 16 to 1000, when not given.
    target
        Which columns of a table, comma separated, or which array of an .npz file are the answers.
    time_limit
        Seconds for the whole run; it ends with the best of what is known.
    seed
        Seed of every random choice; the same seed gives the same result.
    engine
        Where independent pieces run, for methods that have any: threads, processes, or the address of a Dask scheduler.
    """
    outputs.check()
    widths = parse_numbers(hidden, int, "--hidden", "30,9")

    from unweave.core.progress import StageProgress
    from unweave.run import learn as run

    with StageProgress(quiet=quiet, unit="rows", time_limit=time_limit) as progress:
        found = run(
            data,
            activation=activation,
            hidden=widths,
            method=method,
            noise=noise,
            held_out=held_out,
            target=_names(target),
            time_limit=time_limit,
            seed=seed,
            engine=engine,
            progress=progress,
        )
    return outputs.write(found)


def _names(target: str | None) -> str | list[str] | None:
    """One name, or several separated by commas."""
    return target.split(",") if target is not None and "," in target else target
