"""Cells, the tidy table they are kept in, interruption and resumption."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from unweave.core.errors import InputError
from unweave.experiments import frame
from unweave.experiments.frame import AS_STATED, UNWEAVE, Cell, Measured, Scope, setting


def measure(cell: Cell) -> list[Measured]:
    value = np.random.default_rng([*cell.seeds, cell.number("m")]).standard_normal()
    return [Measured("seconds", 0.25), Measured("error", value), Measured("curve", value**2, 0.5)]


def plan(scope: Scope) -> list[Cell]:
    return [
        Cell("study", column, setting(kind="a, b", m=m), trial, scope.seed)
        for trial in range(scope.num_trials(2, 3, 4))
        for m in (1, 2)
        for column in (AS_STATED, UNWEAVE)
    ]


PAPER = frame.Paper("paper", "A paper", "Somebody (1999)", ("kind", "m", "rest"), plan, measure, ())


def finished(path) -> dict[tuple, float]:
    return {
        (r.cell, r.measured.measure, r.measured.at): r.measured.value
        for r in frame.Results.open(path, PAPER.parameters).records
    }


def test_the_table_is_tidy(tmp_path):
    path, cells = tmp_path / "paper.csv", plan(Scope("quick"))
    results = frame.Results.open(path, PAPER.parameters)
    frame.run_cells(PAPER, cells, results)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(cells)
    assert list(rows[0]) == [
        "study",
        "kind",
        "m",
        "rest",
        "column",
        "trial",
        "seed",
        "measure",
        "at",
        "value",
    ]
    assert [row["measure"] for row in rows[:3]] == ["error", "curve", "seconds"]
    assert {row["kind"] for row in rows} == {"a, b"}
    assert all(np.isfinite(float(row["value"])) for row in rows)
    again = frame.Results.open(path, PAPER.parameters)
    assert again.finished == set(cells)
    assert again.values("study", UNWEAVE, "error", kind="a, b", m="2") == pytest.approx(
        results.values("study", UNWEAVE, "error", kind="a, b", m="2"), rel=1e-9
    )


def test_an_interrupted_run_keeps_its_cells_and_goes_on(tmp_path):
    cells = plan(Scope("quick", seed=3))
    calls: list[Cell] = []

    def stops(cell: Cell) -> list[Measured]:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(cell)
        return measure(cell)

    broken = frame.Paper("paper", "", "", PAPER.parameters, plan, stops, ())
    path = tmp_path / "paper.csv"
    with pytest.raises(KeyboardInterrupt):
        frame.run_cells(broken, cells, frame.Results.open(path, PAPER.parameters))
    assert frame.Results.open(path, PAPER.parameters).finished == set(cells[:3])
    frame.run_cells(PAPER, cells, frame.Results.open(path, PAPER.parameters))
    whole = tmp_path / "whole.csv"
    frame.run_cells(PAPER, cells, frame.Results.open(whole, PAPER.parameters))
    assert finished(path) == finished(whole)
    assert path.read_text() == whole.read_text()


def test_lines_of_a_cell_that_was_cut_off_are_dropped(tmp_path):
    path, cells = tmp_path / "paper.csv", plan(Scope("quick"))
    frame.run_cells(PAPER, cells, frame.Results.open(path, PAPER.parameters))
    text = path.read_text()
    for cut in (len(text) - 5, text.rindex("study,"), text.rindex("study,") - 20):
        path.write_text(text[:cut])
        results = frame.Results.open(path, PAPER.parameters)
        assert results.finished == set(cells[:-1])
        frame.run_cells(PAPER, cells, results)
        assert path.read_text() == text


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_engines_give_the_same_table(tmp_path, engine):
    cells = [Cell("signs", AS_STATED, setting(d=3, m=5, biases="zero"), trial, 0) for trial in range(3)]
    from unweave.experiments.general_relu import PAPER as relu

    tables = []
    for name, kind in (("a.csv", None), ("b.csv", engine)):
        results = frame.Results.open(tmp_path / name, relu.parameters)
        frame.run_cells(relu, cells, results, engine=kind)
        tables.append({k: v for k, v in _values(results).items() if k[1] != "seconds"})
    assert tables[0] == tables[1]


def test_cells_are_known_again_whatever_the_order_of_their_parameters(tmp_path):
    path = tmp_path / "paper.csv"
    cells = [
        Cell("study", UNWEAVE, setting(**where), 0, 0)
        for where in ({"m": 1, "kind": "b"}, {"kind": "b", "m": 1})
    ]
    assert cells[0] == cells[1]
    frame.run_cells(PAPER, cells[:1], frame.Results.open(path, PAPER.parameters))
    path.write_text(path.read_text() + "".join(path.read_text().splitlines(keepends=True)[1:]))
    again = frame.Results.open(path, PAPER.parameters)
    assert again.finished == {cells[1]}
    assert len(again.records) == 3
    assert len(path.read_text().splitlines()) == 4


def test_another_table_is_refused(tmp_path):
    path = tmp_path / "paper.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="--out"):
        frame.Results.open(path, PAPER.parameters)
    assert path.read_text() == "a,b\n1,2\n"


def _values(results: frame.Results) -> dict[tuple, float]:
    return {(r.cell, r.measured.measure, r.measured.at): r.measured.value for r in results.records}
