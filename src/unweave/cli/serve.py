"""``unweave serve``: a model behind an address on this machine."""

from __future__ import annotations

import re
import signal
import sys
import threading
from pathlib import Path

from unweave.cli.options import AllowPickle


def serve(
    model: str,
    /,
    *,
    port: int = 8080,
    name: str | None = None,
    defence: str = "none",
    input_size: int | None = None,
    allow_pickle: AllowPickle = False,
) -> int:
    """Serve a model on this machine (127.0.0.1) in the Open Inference Protocol v2, to try an attack on it.

    Stop it with Ctrl-C. Then, in another terminal: unweave identify http://127.0.0.1:8080/v2/models/NAME

    Parameters
    ----------
    model
        What unweave identify takes: an .onnx file, a saved network, module:attribute, ...
    port
        Where to listen; 0 takes any free port.
    name
        Name of the model in its address; the name of the file when not given.
    defence
        Answer less: decimals=3, noise=1e-3, float32, clip=1, top=2 or labels.
    input_size
        Number of inputs, where the model does not tell.
    """
    from unweave.core.errors import InputError
    from unweave.models.defended import Defended, parse_defence
    from unweave.models.resolve import resolve
    from unweave.models.server import served

    oracle = Defended(
        resolve(model, input_size=input_size, allow_pickle=allow_pickle), parse_defence(defence)
    )
    called = name or re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(model.split(":")[0]).stem) or "model"
    try:
        with served(oracle, called, port) as server:
            print(f"serving {oracle.name} at {server.address}; Ctrl-C ends it", file=sys.stderr, flush=True)
            done = threading.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: done.set())
            done.wait()
            print(f"answered {server.num_rows:,} rows", file=sys.stderr)
    except OSError as error:
        raise InputError(f"port {port} cannot be used ({error.strerror}); choose another: --port") from error
    return 0
