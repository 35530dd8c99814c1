"""``unweave learn``: from recorded rows to weights."""

from __future__ import annotations

from unweave.cli.options import NOWHERE, Debug, Outputs, Quiet, parse_numbers


def learn(
    data: str,
    /,
    *,
    activation: str = "auto",
    hidden: str | None = None,
    method: str = "auto",
    noise: float | None = None,
    held_out: int | None = None,
    seed: int = 0,
    engine: str | None = None,
    outputs: Outputs = NOWHERE,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Recover a network from recorded inputs and answers, without access to the model.

    Exit status: 0 identified, 3 partly identified, 4 not identified, 2 bad usage or input.

    Parameters
    ----------
    data
        An .npz file with arrays x and y, a .parquet file (outputs y or y0, y1, ...; all other columns are inputs),
        or a folder of such shards.
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
    seed
        Seed of every random choice; the same seed gives the same result.
    engine
        Where independent pieces run, for methods that have any: threads, processes, or the address of a Dask scheduler.
    """
    outputs.check()
    widths = parse_numbers(hidden, int, "--hidden", "30,9")

    from unweave.core.progress import StageProgress
    from unweave.learning import learn as run

    with StageProgress(quiet=quiet, unit="rows") as progress:
        found = run(
            data,
            activation=activation,
            hidden=widths,
            method=method,
            noise=noise,
            held_out=held_out,
            seed=seed,
            engine=engine,
            progress=progress,
        )
    return outputs.write(found)
