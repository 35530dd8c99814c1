"""``unweave identify``: from a model to its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from unweave.cli.options import (
    NO_ROWS,
    NOWHERE,
    AllowPickle,
    Outputs,
    Quiet,
    Rows,
    parse_domain,
    parse_numbers,
)
from unweave.cli.served import ServedOptions
from unweave.methods.served import served_lines

_PLAIN = ServedOptions()


def identify(
    model: str,
    /,
    *,
    activation: str = "auto",
    hidden: str | None = None,
    budget: int | Literal["auto", "none"] = "auto",
    time_limit: float | None = None,
    surrogate: bool | None = None,
    radius: float | None = None,
    box: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    rows: Rows = NO_ROWS,
    method: str = "auto",
    input_size: int | None = None,
    seed: int = 0,
    certificate_seed: int | None = None,
    outputs: Outputs = NOWHERE,
    journal: Path | None = None,
    served: ServedOptions = _PLAIN,
    quiet: Quiet = False,
    allow_pickle: AllowPickle = False,
) -> int:
    """Recover the weights of a model from its answers alone.

    Parameters
    ----------
    model
        An .onnx file, a saved network (.safetensors, .npz), module:attribute or file.py:attribute, or the
        address of a served model: http://host:port/v2/models/NAME.
    activation
        The hidden activation, such as tanh, relu, gelu or softplus(10); auto tries the known ones. {served}
    hidden
        Widths of the hidden layers, comma separated: 30,9. Found when not given.
    budget
        Most queries that may be asked; never exceeded. auto: 10,000 of a served model, any number of one at hand;
        none: any number.
    time_limit
        Seconds of work for the whole run, waiting for the model included; it ends with the best of what is known.
    surrogate
        Where nothing is identified, --out gets a copy of the function, with its fidelity. On by default unless the
        model is known not to be a network; --surrogate: then too; --no-surrogate: never.
    radius
        Ask only inside the ball of this radius around the origin.
    box
        Ask only where every input lies in LOW,HIGH: -1,1; or each in its own LOW:HIGH: 0:40,-1:1.
    method
        One method by name; auto chooses.
    input_size
        Number of inputs, where the model does not tell.
    seed
        Seed of every random choice but the certificate's; the same seed gives the same network.
    certificate_seed
        Seed of the certificate's questions; drawn from the system's entropy when not given, and recorded.
    journal
        Keep every paid answer in this file; the same command resumes from it and pays for nothing twice.
    """
    outputs.check()
    domain = parse_domain(radius, box, rows)
    widths = parse_numbers(hidden, int, "--hidden", "30,9")

    from unweave.core.progress import StageProgress
    from unweave.run import identify as run

    with StageProgress(quiet=quiet, time_limit=time_limit) as progress:
        found = run(
            served.serve(model),
            activation=activation,
            hidden=widths,
            budget=None if budget == "none" else budget,
            time_limit=time_limit,
            surrogate=surrogate,
            domain=domain,
            method=method,
            input_size=input_size,
            seed=seed,
            certificate_seed=certificate_seed,
            progress=progress,
            allow_pickle=allow_pickle,
            journal=journal,
        )
    return outputs.write(found)


assert identify.__doc__ is not None
identify.__doc__ = identify.__doc__.replace(
    "{served}", f"What each method serves: {'. '.join(served_lines())}."
)
