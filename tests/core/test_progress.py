"""Progress is shown on a terminal, and only there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

CODE = """
import sys
from unweave.core.progress import StageProgress
with StageProgress(quiet={quiet}) as progress:
    progress("far [circle]", 1234, 5000)
    import time
    time.sleep(0.3)
"""


def _on_terminal(quiet: bool) -> str:
    master, slave = pty.openpty()
    command = [sys.executable, "-c", CODE.format(quiet=quiet)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stderr=slave, stdout=subprocess.DEVNULL, env=environment) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(master)
    assert process.returncode == 0
    return shown.decode()


def test_a_terminal_shows_stage_and_queries():
    shown = _on_terminal(quiet=False)
    assert "far [circle]: 1,234 of 5,000 queries" in shown


def test_quiet_shows_nothing():
    assert _on_terminal(quiet=True) == ""


def test_nothing_is_shown_without_a_terminal():
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(quiet=False)], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
