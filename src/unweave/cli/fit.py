"""``unweave fit``: a shallow network from samples, with a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from unweave.cli.options import Quiet, check_targets, parse_numbers, write_json


def fit(
    data: Path,
    /,
    *,
    width: int,
    activation: str = "softplus(10)",
    output_weights: Annotated[str, Parameter(allow_leading_hyphen=True)] = "train",
    method: str = "auto",
    num_starts: int = 5,
    step: float | None = None,
    max_steps: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    json: Path | None = None,
    quiet: Quiet = False,
) -> int:
    """Fit a network with one hidden layer to samples and say what is proved about it.

    Parameters
    ----------
    data
        An .npz file with arrays x (n, inputs) and y (n,), or parquet with a column y.
    width
        Hidden units.
    activation
        Of the hidden units, such as softplus(10), quadratic, tanh or relu.
    output_weights
        train, or the numbers to hold fixed, comma separated.
    method
        auto, closed-form, levenberg-marquardt, trust-region, descent or perturbed-descent.
    num_starts
        Random starts tried at most.
    step
        Constant step of descent; adaptive when not given.
    max_steps
        Steps of one start at most.
    seed
        Seed of the starts.
    out
        Write the network here: .safetensors, .npz or .onnx.
    json
        Write method and certificate as JSON here.
    """
    check_targets(out, json)
    from unweave.core.progress import StageProgress
    from unweave.shallow.data import read_samples
    from unweave.shallow.fitting import fit as run

    x, y = read_samples(data)
    fixed: Any = output_weights
    if output_weights != "train":
        fixed = parse_numbers(output_weights, float, "--output-weights", "1,1,-1")
    with StageProgress(quiet=quiet) as show:

        def progress(name: str, loss: float, gradient: float, curvature: float | None) -> None:
            bent = "" if curvature is None else f", curvature {curvature:.1e}"
            show.line(f"{name}: loss {loss:.3e}, gradient {gradient:.1e}{bent}")

        found = run(
            x,
            y,
            activation=activation,
            width=width,
            output_weights=fixed,
            method=method,
            num_starts=num_starts,
            seed=seed,
            step=step,
            max_steps=max_steps,
            progress=progress,
        )
    if out is not None:
        from unweave.formats.write import export

        export(found.network, out)
    if json is not None:
        write_json(json, found.to_dict())
    print(found)
    return found.certificate.verdict.exit_status
