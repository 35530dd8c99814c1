"""The command line: quick to start, one-line errors, agreed exit statuses, verdict on stdout."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.cli import main
from unweave.exports import export

HEAVY = ("numpy", "scipy", "jax", "torch", "onnx", "onnxruntime", "sklearn", "rich.progress")


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _python("-m", "unweave", *arguments)


def _error(capsys) -> str:
    text = capsys.readouterr().err
    assert text.startswith("unweave: error: ")
    assert text.count("\n") == 1
    return text


def test_help_is_instant():
    def seconds() -> float:
        """CPU time of one start: what it costs on an idle machine, whatever else runs on this one."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = _run("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0
        assert "identify" in done.stdout
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(4)) < 0.5


def test_starting_imports_nothing_heavy():
    code = f"import sys, unweave.cli; print([m for m in {HEAVY} if m in sys.modules])"
    assert _python("-c", code).stdout.strip() == "[]"


def test_a_reader_that_has_had_enough_is_no_error():
    command = f'"{sys.executable}" -m unweave doctor | head -1'
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_version():
    done = _run("--version")
    assert (done.returncode, done.stdout.strip()) == (0, unweave.__version__)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "Unknown command"),
        (["identify"], "MODEL"),
        (["identify", "m.onnx", "--budget", "many"], "--budget"),
        (["identify", "m.onnx", "--hidden", "30;9"], "such as 30,9"),
        (["identify", "m.onnx", "--box", "-1"], "LOW,HIGH"),
        (["identify", "m.onnx", "--box", "1,-1"], "below its high"),
        (["identify", "m.onnx", "--box", "0:40,1"], "LOW:HIGH"),
        (["identify", "m.onnx", "--box", "0:40,-1:x"], "such as"),
        (["identify", "m.onnx", "--radius", "-3"], "positive"),
        (["identify", "m.onnx", "--radius", "3", "--box", "-1,1"], "exclude each other"),
        (["identify", "m.onnx", "--out", "r.pt"], "pickles"),
        (["identify", "m.onnx", "--out", "r.xyz"], ".safetensors"),
        (["identify", "m.onnx", "--out", "no/such/folder/r.onnx"], "create it first"),
        (["identify", "m.onnx", "--json", "no/such/folder/v.json"], "create it first"),
        (["identify", "m.onnx", "--save", "r.json"], ".safetensors"),
        (["identify", "does_not_exist.onnx"], "does_not_exist.onnx"),
        (["identify", "does_not_exist:f"], "does_not_exist"),
        (["compare", "does_not_exist.onnx", "does_not_exist.npz"], "does_not_exist.onnx"),
        (["compare", "a.onnx"], "B"),
    ],
)
def test_bad_usage_and_input_are_one_line_and_status_2(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert words in _error(capsys)
    assert os.listdir(tmp_path) == []


def test_a_broken_file_is_one_line(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"\x00\xff" * 50)
    done = _run("identify", str(tmp_path / "broken.onnx"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("unweave: error: ")
    assert done.stderr.count("\n") == 1


def test_debug_shows_the_traceback(capsys):
    assert main(["identify", "m.onnx", "--out", "r.pt", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_compare_knows_symmetries_and_differences(tmp_path, capsys):
    network = random_network((5, 6, 4, 2), seed=1)
    same = network.permuted(0, np.arange(6)[::-1]).flipped(1, np.array([True, False, True, False]))
    other = network.with_flat(network.flat() + 1e-3)
    for name, item in {"a.npz": network, "b.onnx": same, "c.safetensors": other}.items():
        export(item, tmp_path / name)
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.onnx")]) == 0
    shown = capsys.readouterr().out
    assert "the same network up to symmetry" in shown
    assert len([line for line in shown.splitlines() if line.strip()[:1] in "123"]) == 3
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "c.safetensors")]) == 1
    assert "different networks" in capsys.readouterr().out
    assert (
        main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "c.safetensors"), "--tolerance", "1"]) == 0
    )


def test_compare_of_different_shapes(tmp_path, capsys):
    export(random_network((5, 6, 1)), tmp_path / "a.npz")
    export(random_network((4, 7, 2)), tmp_path / "b.npz")
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]) == 1
    assert "different networks" in capsys.readouterr().out


def test_identify_from_end_to_end(tmp_path, capsys):
    model = str(export(random_network((6, 5, 1), seed=4), tmp_path / "model.onnx"))
    recovered, verdict, saved = (str(tmp_path / name) for name in ("r.onnx", "v.json", "s.safetensors"))
    status = main(["identify", model, "--out", recovered, "--json", verdict, "--save", saved])
    shown = capsys.readouterr()
    assert status == 0, shown.out
    assert len(shown.out.strip().splitlines()) == 5
    assert shown.out.startswith("identified")
    with open(verdict) as file:
        record = json.load(file)
    assert record["identified"] is True
    assert record["hidden"] == [5]
    assert record["queries"] == sum(record["queries_by_stage"].values())
    assert record["certificate"]["num_points"] >= 200
    assert main(["compare", model, recovered]) == 0
    assert main(["compare", model, saved]) == 0
    assert unweave.load(saved).verdict() == shown.out.strip()


def test_a_spent_budget_is_not_identified_and_writes_nothing(tmp_path, capsys):
    model = str(export(random_network((6, 5, 1), seed=4), tmp_path / "model.onnx"))
    status = main(["identify", model, "--budget", "40", "--out", str(tmp_path / "r.onnx")])
    shown = capsys.readouterr()
    assert status == 4
    assert "budget" in shown.out
    assert "nothing was written" in shown.err
    assert not (tmp_path / "r.onnx").exists()


def test_nothing_is_identified_without_fresh_queries(tmp_path, capsys):
    model = str(export(random_network((6, 5, 1), seed=4), tmp_path / "model.onnx"))
    verdict = tmp_path / "v.json"
    assert main(["identify", model, "--json", str(verdict)]) == 0
    spent = json.loads(verdict.read_text())["queries_by_stage"]
    before = sum(spent.values()) - spent["certificate"]
    for left in (0, 5):
        assert main(["identify", model, "--budget", str(before + left), "--json", str(verdict)]) in (3, 4)
        assert json.loads(verdict.read_text())["queries"] <= before + left


def test_the_demonstration_finds_its_network(capsys):
    assert main(["demo", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "identified" in shown.out
    assert float(shown.out.split()[-1]) < 1e-6
    assert shown.err == ""


def test_interruption_is_one_line_and_status_130(tmp_path):
    code = (
        "import sys, unweave.run as p\n"
        "import _thread\n"
        "from unweave.cli import main\n"
        "def f(x):\n"
        "    _thread.interrupt_main()\n"
        "    return x.sum(axis=1)\n"
        "sys.modules['model'] = type(sys)('model')\n"
        "sys.modules['model'].f = f\n"
        "sys.exit(main(['identify', 'model:f', '--input-size', '3']))\n"
    )
    done = _python("-c", code)
    assert done.returncode == 130
    assert (
        done.stderr
        == "unweave: error: interrupted; nothing more was written, and what a --journal has kept is not asked again\n"
    )


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("before", ["SIG_IGN", "SIG_DFL"])
def test_signals_are_heard_wherever_the_command_was_started(name, before):
    code = (
        "import os, signal, sys\n"
        f"signal.signal(signal.{name}, signal.{before})\n"
        "from unweave.cli import main\n"
        "def f(x):\n"
        f"    os.kill(os.getpid(), signal.{name})\n"
        "    return x.sum(axis=1)\n"
        "sys.modules['model'] = type(sys)('model')\n"
        "sys.modules['model'].f = f\n"
        "status = main(['identify', 'model:f', '--input-size', '3'])\n"
        f"assert signal.getsignal(signal.{name}) == signal.{before}\n"
        "sys.exit(status)\n"
    )
    done = _python("-c", code)
    assert done.returncode == 130, done.stderr
    assert (
        done.stderr
        == "unweave: error: interrupted; nothing more was written, and what a --journal has kept is not asked again\n"
    )
