"""Every paper: its plan, one cell of every study, its exhibits; and the command line."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.cli import main
from unweave.core.errors import InputError
from unweave.experiments.frame import AS_STATED, UNWEAVE, Cell, Measured, Results, Scope, run_cell, setting
from unweave.experiments.landscape import find_crossing
from unweave.experiments.reproduce import PAPERS, load_paper, plan_cells

SMALL = {
    "general-relu": [
        ("units", AS_STATED, {"order": 1, "d": 4, "m": 3, "N": "exact"}),
        ("units", UNWEAVE, {"order": 1, "d": 4, "m": 3, "N": 2000}),
        ("far biases", AS_STATED, {"d": 4, "m": 4, "far": 1, "N": 20_000}),
        ("far biases", UNWEAVE, {"d": 4, "m": 4, "far": 1, "N": 4000}),
        ("signs", AS_STATED, {"d": 3, "m": 5, "biases": "zero"}),
        ("signs", UNWEAVE, {"d": 3, "m": 5, "biases": "zero"}),
        ("signs", UNWEAVE, {"d": 3, "m": 5, "biases": "free"}),
    ],
    "landscape": [
        ("planted", AS_STATED, {"panel": "3a", "d": 20, "k": 9, "starts": 2}),
        ("planted", UNWEAVE, {"panel": "2a", "d": 10, "k": 16, "starts": 2}),
        ("random labels", AS_STATED, {"panel": "4b", "d": 20, "k": 10, "steps": 300, "outputs": "trained"}),
        ("random labels", UNWEAVE, {"panel": "4b", "d": 20, "k": 20, "outputs": "trained"}),
    ],
    "high-threshold": [
        ("landscape", AS_STATED, {"unit": "step", "N": 40_000, "t": 2.5, "d": 5}),
        ("refinement", AS_STATED, {"unit": "step", "N": 40_000, "t": 2.5, "d": 5, "rounds": 10}),
        ("learn", UNWEAVE, {"unit": "relu", "N": 20_000, "t": 2.0, "d": 5}),
        ("halfspaces", UNWEAVE, {"access": "questions", "N": "asked", "t": 2.0, "d": 5}),
    ],
}
BOUNDS = {
    ("general-relu", "units", AS_STATED): ("error", 1e-8),
    ("general-relu", "units", UNWEAVE): ("error", 1e-8),
    ("general-relu", "far biases", UNWEAVE): ("error", 1e-6),
    ("general-relu", "signs", UNWEAVE): ("error", 1e-8),
    ("landscape", "random labels", UNWEAVE): ("RMSE", 1e-8),
    ("high-threshold", "landscape", AS_STATED): ("error", 0.2),
    ("high-threshold", "refinement", AS_STATED): ("error", 0.2),
    ("high-threshold", "learn", UNWEAVE): ("error", 1e-8),
    ("high-threshold", "halfspaces", UNWEAVE): ("error", 1e-10),
}


@pytest.mark.parametrize(
    ("name", "study", "column", "where"), [(n, *case) for n, cases in SMALL.items() for case in cases]
)
def test_a_small_cell_of_every_study(name, study, column, where):
    paper = load_paper(name)
    lines = run_cell(paper.run, Cell(study, column, setting(**where), 0, 0))
    values = {m.measure: m.value for m in lines if m.at is None}
    assert lines[-1].measure == "seconds"
    assert all(np.isfinite(v) for v in values.values())
    if (name, study, column) in BOUNDS:
        measure, bound = BOUNDS[name, study, column]
        assert values[measure] < bound
    if study == "signs":
        assert values["told"] == 1.0
    if study == "planted":
        assert values["clean"] == 1.0


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("size", ["quick", "usual", "full"])
def test_plans_hold_what_the_exhibits_show(name, size, tmp_path):
    paper = load_paper(name)
    cells = paper.plan(Scope(size))
    assert len(set(cells)) == len(cells)
    assert {p for c in cells for p, _ in c.parameters} <= set(paper.parameters)
    assert plan_cells(paper, paper.exhibits, Scope(size)) == cells
    some = cells[:: len(cells) // 20 + 1]
    written = Results.open(tmp_path / "cells.csv", paper.parameters)
    for cell in some:
        written.add(cell, [Measured("seconds", 0.0)])
    assert Results.open(tmp_path / "cells.csv", paper.parameters).finished == set(some)
    for exhibit in paper.exhibits:
        needed = plan_cells(paper, (exhibit,), Scope(size))
        assert {c.column for c in needed} == {AS_STATED, UNWEAVE}


def test_tables_and_figures_by_number():
    paper = load_paper("two-layer")
    assert [e.name for e in paper.chosen(1, None)] == ["Table 1"]
    assert [e.name for e in paper.chosen(2, 6)] == ["Table 2", "Figure 6"]
    needed = plan_cells(paper, paper.chosen(1, None), Scope("quick"))
    assert {c.study for c in needed} == {"weights", "identify"}
    with pytest.raises(InputError, match="Table 1, Table 2"):
        paper.chosen(9, None)


def test_the_crossing_is_read_off_all_teachers():
    results = Results(("panel", "d", "k", "outputs", "starts", "steps"))
    for k in range(8, 16):
        for trial in range(20):
            clean = float(k > 11 or (k == 11 and trial % 2))
            cell = Cell("planted", AS_STATED, setting(panel="2a", d=10, k=k, starts=10), trial, 0)
            results.add(cell, [Measured("clean", clean), Measured("seconds", 0.0)])
    assert find_crossing(results, AS_STATED, {"panel": "2a"})["crossing"] == pytest.approx(11.0, abs=0.1)
    assert find_crossing(results, UNWEAVE, {"panel": "2a"}) == {}


def test_one_command_writes_table_figures_and_page_and_resumes(tmp_path, capsys):
    command = ["reproduce", "landscape", "--figure", "3", "--quick", "--trials", "1", "--out", str(tmp_path)]
    assert main(command) == 0
    first = capsys.readouterr()
    assert "Figure 3" in first.out
    assert "crossing 5.5 |" in first.out
    assert "landscape.html" in first.err
    assert {p.suffix for p in tmp_path.iterdir()} == {".csv", ".svg", ".html", ".md"}
    table = (tmp_path / "landscape.csv").read_text()
    assert main(command) == 0
    assert capsys.readouterr().out == first.out
    assert (tmp_path / "landscape.csv").read_text() == table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "two-layer"),
        (["two-layer", "--table", "7"], "Table 1"),
        (["all", "--table", "1"], "need one paper"),
        (["two-layer", "--quick", "--full"], "exclude each other"),
        (["two-layer", "--trials", "0"], "at least 1"),
    ],
)
def test_wrong_usage_is_one_line(arguments, words, capsys):
    assert main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("unweave: error: ")
    assert words in error
    assert error.count("\n") == 1
