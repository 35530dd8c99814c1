"""The command line: parsing and printing only.

Exit status: 0 identified, 3 partly identified, 4 not identified; ``compare`` 0 same, 1 different; ``certify`` and
``fit`` 0 global minimum, 1 not a minimum, 3 stationary, 4 undecided; 2 bad usage
or input; 70 an error of ours; 130 interrupted. Verdicts go to stdout; progress and errors, one line each, to
stderr. One file a command; nothing heavy is imported before a command runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cyclopts import App, CycloptsError

from unweave.version import __version__

app: App = App(
    name="unweave",
    help="Take a neural network apart from the outside: from f(x) back to its weights, with a certificate. "
    "--debug behind any command shows tracebacks.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)

COMMANDS = {
    "identify": "Recover the weights of a model from its answers alone.",
    "learn": "Recover a network from recorded inputs and answers, without access to the model.",
    "compare": "Compare two networks up to the symmetries no observer can see.",
    "fit": "Fit a network with one hidden layer to samples, with a certificate of global optimality.",
    "certify": "Say whether a trained network is a global minimum of its training loss.",
    "landscape": "Measure how often local search meets no spurious minimum, over a grid.",
    "audit": "Identify a model behind one defence after the other and say how much of it comes back.",
    "serve": "Put a model behind an address on this machine, with or without a defence, to try an attack on it.",
    "demo": "Hide a network behind a function, find it again, and compare.",
    "reproduce": "Compute the tables and figures of the papers, as stated and by unweave.",
    "doctor": "Show what a bug report needs to know about this installation.",
}
"""Each is the function of that name in the module of that name, loaded when it is called."""

for _name, _summary in COMMANDS.items():
    app.command(f"unweave.cli.{_name}:{_name}", name=_name, help=_summary)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    _limit_threads()
    from unweave.core.errors import UnweaveError

    tokens = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in tokens
    tokens = [token for token in tokens if token != "--debug"]
    try:
        with _hearing_interrupts():
            status = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        return status if isinstance(status, int) else 0
    except CycloptsError as error:
        return _fail(f"{str(error).rstrip('. ')}; see unweave --help", 2, debug)
    except UnweaveError as error:
        from unweave.cli.wording import with_flags

        return _fail(with_flags(str(error)), 2, debug)
    except KeyboardInterrupt as stop:
        return _fail(
            str(stop)
            or "interrupted; nothing more was written, and what a --journal has kept is not asked again",
            130,
            debug,
        )
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        hint = "" if debug else "; --debug shows where"
        return _fail(f"unexpected {type(error).__name__}: {error}{hint}", 70, debug)


@contextmanager
def _hearing_interrupts() -> Iterator[None]:
    """SIGINT and SIGTERM end the command in one line, also when it was started where they are ignored (nohup, cron)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        for name in before:
            signal.signal(name, signal.default_int_handler)
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


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
