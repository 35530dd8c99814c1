"""The commands fit, certify and landscape end to end."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unweave.cli import main
from unweave.formats.write import load_network


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "data.npz"
    np.savez(path, x=rng.standard_normal((30, 5)), y=rng.standard_normal(30))
    return path


def test_fit_writes_a_network_that_certify_accepts(tmp_path, data, capsys):
    out, report = tmp_path / "net.safetensors", tmp_path / "fit.json"
    status = main(["fit", str(data), "--width", "8", "--quiet", "--out", str(out), "--json", str(report)])
    assert status == 0
    assert "certified global minimum" in capsys.readouterr().out
    assert json.loads(report.read_text())["certificate"]["verdict"] == "certified global minimum"
    assert main(["certify", str(out), str(data), "--json", str(report)]) == 0
    assert "exact interpolant" in capsys.readouterr().out
    weights = load_network(out)
    moved = tmp_path / "moved.npz"
    arrays = {"weight_0": weights.weights[0] * 1.1, "weight_1": weights.weights[1]}
    np.savez(
        moved, activations=np.array(weights.activations), bias_0=np.zeros(8), bias_1=np.zeros(1), **arrays
    )
    assert main(["certify", str(moved), str(data)]) == 1
    assert "certified not a minimum" in capsys.readouterr().out


def test_fixed_output_weights_and_methods_come_through(data, capsys):
    arguments = ["fit", str(data), "--width", "2", "--activation", "quadratic", "--output-weights", "-1,-1"]
    status = main([*arguments, "--num-starts", "1", "--quiet"])
    assert status in (0, 3)
    assert "5-2-1 quadratic by levenberg-marquardt" in capsys.readouterr().out


def test_bad_files_are_one_line(tmp_path, data, capsys):
    empty = tmp_path / "none.npz"
    np.savez(empty, x=np.ones((3, 2)))
    two = tmp_path / "two.npz"
    np.savez(two, x=np.ones((3, 2)), y=np.ones((3, 2)))
    missing = tmp_path / "missing.npz"
    for path, named in ((empty, "x and y"), (two, "one label a row"), (missing, "no such file")):
        assert main(["fit", str(path), "--width", "2"]) == 2
        error = capsys.readouterr().err
        assert named in error
        assert error.count("\n") == 1


def test_landscape_writes_a_table_and_a_figure(tmp_path, capsys):
    table, figure, record = tmp_path / "grid.csv", tmp_path / "grid.svg", tmp_path / "grid.json"
    arguments = [
        "landscape",
        "--activation",
        "quadratic",
        "--n",
        "9",
        "--d",
        "6",
        "--k",
        "1:13:6",
        "--trials",
        "2x2",
    ]
    arguments += ["--out", str(table), "--figure", str(figure), "--json", str(record), "--quiet"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert len(table.read_text().splitlines()) == 1 + 3 * 4
    assert "<svg" in figure.read_text()
    assert [cell["k"] for cell in json.loads(record.read_text())["cells"]] == [1, 7, 13]
    assert main(arguments) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("option", "value"), [("--trials", "5"), ("--k", "a:b"), ("--k", "3:4:1:1"), ("--engine", "moon")]
)
def test_bad_options_are_one_line(option, value, capsys):
    options = {
        "--n": "9",
        "--d": "3",
        "--k": "4",
        "--trials": "1x1",
        "--activation": "quadratic",
        option: value,
    }
    assert main(["landscape", *(text for pair in options.items() for text in pair)]) == 2
    error = capsys.readouterr().err
    assert value in error
    assert error.count("\n") == 1
