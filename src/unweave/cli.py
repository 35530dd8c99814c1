"""The command line: parsing and printing only.

Exit status: 0 identified, 3 partly identified, 4 not identified; ``compare`` 0 same, 1 different; 2 bad usage
or input; 70 an error of ours; 130 interrupted. Verdicts go to stdout; progress and errors, one line each, to
stderr. Nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from unweave.version import __version__

if TYPE_CHECKING:
    from unweave.comparison import Comparison
    from unweave.result import Identification

app = App(
    name="unweave",
    help="Take a neural network apart from the outside: from f(x) back to its weights, with a certificate.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    _limit_threads()
    from unweave.errors import UnweaveError

    tokens = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in tokens
    try:
        status = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        return status if isinstance(status, int) else 0
    except CycloptsError as error:
        return _fail(f"{str(error).rstrip('. ')}; see unweave --help", 2, debug)
    except UnweaveError as error:
        return _fail(str(error), 2, debug)
    except KeyboardInterrupt:
        return _fail("interrupted; nothing more was written", 130, debug)
    except Exception as error:
        hint = "" if debug else "; --debug shows where"
        return _fail(f"unexpected {type(error).__name__}: {error}{hint}", 70, debug)


@app.command
def identify(
    model: str,
    /,
    *,
    activation: str = "auto",
    hidden: str | None = None,
    budget: int | None = None,
    radius: float | None = None,
    box: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    method: str = "auto",
    input_size: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    json: Path | None = None,
    save: Path | None = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    allow_pickle: Annotated[bool, Parameter(negative="")] = False,
    debug: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Recover the weights of a model from its answers alone.

    Exit status: 0 identified, 3 partly identified, 4 not identified, 2 bad usage or input.

    Parameters
    ----------
    model
        An .onnx file, a saved network (.safetensors, .npz), module:attribute or file.py:attribute.
    activation
        The hidden activation, such as tanh, relu, gelu or softplus(10); auto tries the known ones.
    hidden
        Widths of the hidden layers, comma separated: 30,9. Found when not given.
    budget
        Most queries that may be asked; never exceeded.
    radius
        Ask only inside the ball of this radius around the origin.
    box
        Ask only where every input lies in LOW,HIGH: -1,1.
    method
        One method by name; auto chooses.
    input_size
        Number of inputs, where the model does not tell.
    seed
        Seed of every random choice; the same seed gives the same result.
    out
        Write the recovered network here: .onnx, .safetensors or .npz.
    json
        Write the verdict as JSON here.
    save
        Write network, certificate and ledger here, in one .safetensors file.
    quiet
        Show no progress.
    allow_pickle
        Load pickled models too; a pickle can run any code.
    debug
        Show tracebacks.
    """
    _check_targets(out, json, save)
    domain = _domain(radius, box)
    widths = _numbers(hidden, int, "--hidden", "30,9")

    from unweave.pipeline import identify as run
    from unweave.progress import StageProgress

    with StageProgress(quiet=quiet) as progress:
        found = run(
            model,
            activation=activation,
            hidden=widths,
            budget=budget,
            domain=domain,
            method=method,
            input_size=input_size,
            seed=seed,
            progress=progress,
            allow_pickle=allow_pickle,
        )
    _write(found, out, json, save)
    print(found.verdict())
    return found.outcome.exit_status


@app.command
def compare(
    a: str,
    b: str,
    /,
    *,
    tolerance: float = 1e-6,
    seed: int = 0,
    allow_pickle: Annotated[bool, Parameter(negative="")] = False,
    debug: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare two networks up to the symmetries no observer can see.

    Exit status: 0 when the worst relative parameter error is within the tolerance, 1 when it is not.

    Parameters
    ----------
    a, b
        Files that hold networks: .onnx, .safetensors, .npz, or module:attribute.
    tolerance
        Largest relative parameter error that counts as the same network.
    seed
        Seed of the 200 standard normal points on which the outputs are compared as well.
    allow_pickle
        Load pickled models too; a pickle can run any code.
    debug
        Show tracebacks.
    """
    import numpy as np

    from unweave.comparison import compare as align
    from unweave.oracles.resolve import resolve_network

    first, second = (resolve_network(name, allow_pickle=allow_pickle) for name in (a, b))
    points = None
    if (first.input_size, first.output_size) == (second.input_size, second.output_size):
        points = np.random.default_rng(seed).standard_normal((200, first.input_size))
    comparison = align(first, second, points=points)
    print(f"a: {first.describe()}")
    print(f"b: {second.describe()}")
    _print_layers(comparison)
    same = comparison.max_relative_error <= tolerance
    word = "the same network up to symmetry" if same else "different networks"
    worst = comparison.max_relative_error
    print(f"{word}: worst relative parameter error {worst:.1e} (tolerance {tolerance:g})")
    return 0 if same else 1


@app.command
def demo(
    *,
    seed: int = 0,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    debug: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Hide a network with 1,219 parameters behind a function, find it again, and compare.

    Parameters
    ----------
    seed
        Seed of the hidden network and of the search.
    quiet
        Show no progress.
    debug
        Show tracebacks.
    """
    from unweave.comparison import compare as align
    from unweave.demo import paper_network
    from unweave.pipeline import identify as run
    from unweave.progress import StageProgress

    truth = paper_network(seed=seed)
    print(
        f"A random network, {truth.describe()}, {truth.num_parameters:,} parameters, is hidden behind f(x)."
    )
    print("unweave may only ask for values of f; it is not told the widths or the activation.")

    def f(x: Any) -> Any:
        return truth(x)

    f.__qualname__ = "f"
    with StageProgress(quiet=quiet) as progress:
        found = run(f, input_size=truth.input_size, seed=seed, progress=progress)
    print()
    print(found.verdict())
    if found.network is not None:
        comparison = align(truth, found.network)
        print()
        print("Beside the truth, up to what no observer can see:")
        _print_layers(comparison)
        print(f"worst relative error of a parameter: {comparison.max_relative_error:.1e}")
    return found.outcome.exit_status


def _limit_threads() -> None:
    """One BLAS thread unless the environment says otherwise; works only before NumPy is loaded.

    The matrices are small, and BLAS threads that wait for each other on a busy machine cost twenty times more
    than they save.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


def _fail(message: str, status: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"unweave: error: {' '.join(message.split())}", file=sys.stderr)
    return status


def _check_targets(out: Path | None, json: Path | None, save: Path | None) -> None:
    """Refuse impossible destinations before a single query is spent."""
    from unweave.errors import ExportError
    from unweave.exports.write import check_target, require_writable

    if out is not None:
        check_target(out)
    if json is not None:
        require_writable(json)
    if save is not None:
        require_writable(save)
        if save.suffix != ".safetensors":
            raise ExportError(f"--save {save}: the name must end in .safetensors")


def _domain(radius: float | None, box: str | None) -> Any:
    from unweave.domains import Ball, Box
    from unweave.errors import InputError

    if radius is not None and box is not None:
        raise InputError("--radius and --box exclude each other; give one of them")
    if radius is not None:
        return Ball(radius)
    bounds = _numbers(box, float, "--box", "-1,1")
    if bounds is None:
        return None
    if len(bounds) != 2:
        raise InputError(f"--box {box}: give two numbers, LOW,HIGH, such as -1,1")
    return Box(*bounds)


def _numbers(text: str | None, kind: Any, option: str, example: str) -> tuple[Any, ...] | None:
    from unweave.errors import InputError

    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} {text}: give numbers separated by commas, such as {example}") from error


def _write(found: Identification, out: Path | None, json: Path | None, save: Path | None) -> None:
    if json is not None:
        from json import dumps

        json.write_text(dumps(found.to_json(), indent=2, allow_nan=False) + "\n")
    if save is not None:
        found.save(save)
    if out is None:
        return
    if found.network is None:
        print(f"unweave: nothing was written to {out}: no network was found", file=sys.stderr)
    else:
        found.export(out)
        note = "" if found.identified else f", {found.outcome} only"
        print(f"unweave: wrote {out} (re-evaluated against the network{note})", file=sys.stderr)


def _print_layers(comparison: Comparison) -> None:
    print(f"{'layer':>5}  {'matched':>7}  {'unmatched':>9}  {'max rel. error':>14}  {'rms':>8}")
    for i, layer in enumerate(comparison.per_layer):
        print(
            f"{i + 1:>5}  {layer.num_matched:>7}  {layer.num_unmatched:>9}  "
            f"{layer.max_relative_error:>14.1e}  {layer.rms_relative_error:>8.1e}"
        )
    if comparison.functional_error is not None:
        print(
            f"largest difference of outputs on 200 points: {comparison.functional_error:.1e} of their spread"
        )
