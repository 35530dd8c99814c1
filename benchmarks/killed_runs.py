"""Runs of a served model that are killed again and again: is an answer on disk ever paid for twice?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from hostile_doors import Served
from hostile_models import draw_net

import unweave

BATCH = 8
"""Rows a request; those of the request under way when the run is killed are lost."""
SEAM = 2
"""Rows that a run asks again where its journal ends, beside those that every repetition asks: its opening and a spot
check, which are counted."""


def kill_runs(num_kills: int, seed: int = 0) -> dict[str, float]:
    """Kill ``num_kills`` runs one after the other, let the last end, and count what the server answered.

    Again are only asked: what opens a run, the spot checks, and the request under way when it was killed.
    """
    net = draw_net(np.random.default_rng(seed), (6, 8, 2), "tanh")
    rng, killed = np.random.default_rng(seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = Served(net)
        _run(alone.url, folder / "other", folder / "whole.safetensors").wait()
        total = alone.num_rows
        _run(alone.url, folder / "other", folder / "whole.safetensors").wait()
        alone.end()
        repetition = alone.num_rows - total + SEAM
        server = Served(net, delay=0.01)
        while killed < num_kills:
            run = _run(server.url, folder / "journal", folder / "last.safetensors")
            more = repetition + int(rng.integers(1, max(total // num_kills, 2)))
            _wait(server, server.num_rows + more, run)
            if run.poll() is not None:
                break  # it has come to its end before it could be killed
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            killed += 1
        status = _run(server.url, folder / "journal", folder / "last.safetensors").wait()
        server.end()
        whole, last = (unweave.load(folder / f"{name}.safetensors").network for name in ("whole", "last"))
    assert whole is not None
    assert last is not None
    counts = Counter(row.tobytes() for x in server.seen for row in x)
    return {
        "kills": killed,
        "status": status,
        "rows of an uninterrupted run": total,
        "rows paid in all": server.num_rows,
        "rows asked again": server.num_rows - len(counts),
        "allowed again": killed * (repetition + BATCH) + repetition,
        "largest difference of the networks": float(np.max(np.abs(whole.flat() - last.flat()))),
    }


def report_kills(num_kills: int, seed: int) -> str:
    return "\n".join(f"| {name} | {value:g} |" for name, value in kill_runs(num_kills, seed).items())


CALL = """
import sys, unweave
model = unweave.ServedModel(sys.argv[1], batch_size=int(sys.argv[4]))
found = unweave.identify(model, input_size=6, journal=sys.argv[2], certificate_seed=1, surrogate=False)
found.save(sys.argv[3])
"""


def _run(url: str, journal: Path, result: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CALL, url, str(journal), str(result), str(BATCH)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _wait(server: Served, num_rows: int, run: subprocess.Popen[bytes]) -> None:
    for _ in range(6000):
        if server.num_rows >= num_rows or run.poll() is not None:
            return
        time.sleep(0.005)
