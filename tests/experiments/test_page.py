"""The page and the printed table: three columns, everything escaped, nothing loaded."""

from __future__ import annotations

import re

import numpy as np

from unweave.experiments import frame
from unweave.experiments.exhibits import Entry, Exhibit
from unweave.experiments.frame import AS_STATED, UNWEAVE, Cell, Measured, Scope, setting
from unweave.experiments.page import write_outputs
from unweave.experiments.reproduce import Reproduced, lines_of_text
from unweave.report.canvas import add_axes, in_house_style, new_figure

HOSTILE = '<script>alert("x")</script>'


@in_house_style
def draw(results: frame.Results):
    figure = new_figure(1.5)
    add_axes(figure, 1, 1, 1).set_title(HOSTILE)
    return {HOSTILE: figure}


def measure(cell: Cell) -> list[Measured]:
    value = cell.trial + (10.0 if cell.column == UNWEAVE else 0.0)
    return [Measured("rate", value), Measured("seconds", 1.0)]


def reproduced(num_left: int = 0) -> Reproduced:
    cells = [
        Cell("study", column, setting(kind=HOSTILE, m=3), trial, 0)
        for column in (AS_STATED, UNWEAVE)
        for trial in (0, 1)
    ]
    exhibit = Exhibit(
        ("Table 7",),
        HOSTILE,
        ("kind", "m"),
        (
            Entry("rate & more", "rate", "study", "study"),
            Entry("twice", "twice", "study", "study"),
            Entry("CPU s", "seconds", "study", "study", style="seconds"),
        ),
        {(HOSTILE, "3"): {"rate & more": "0.87"}},
        draw=draw,
        note=HOSTILE,
        derive=lambda results, column, where: {
            "twice": 2 * float(np.sum(results.values("study", column, "rate", m=where["m"])))
        },
    )
    paper = frame.Paper(
        "paper", HOSTILE, HOSTILE, ("kind", "m"), lambda scope: cells, measure, (exhibit,), (HOSTILE,)
    )
    results = frame.Results(paper.parameters)
    frame.run_cells(paper, cells, results)
    return Reproduced(paper, paper.exhibits, results, num_left, "--table 7")


def test_everything_on_the_page_is_escaped(tmp_path):
    write_outputs([reproduced()], Scope("quick"), tmp_path, "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert len(page) < 500_000


def test_three_columns_with_their_numbers_of_trials(tmp_path):
    item = reproduced()
    (line,) = item.exhibits[0].lines(item.results)
    assert [t.texts for t in line.triples] == [
        ("0.87", "0.50", "10.50"),
        ("–", "2.00", "42.00"),
        ("1", "1"),
    ]
    assert (line.num_stated, line.num_unweave) == (2, 2)
    text = "\n".join(lines_of_text(item))
    assert "rate & more 0.87 | 0.50 | 10.50" in text
    assert "trials 2 | 2" in text
    write_outputs([item], Scope("quick"), tmp_path, "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for words in ("0.87", "10.50", "unweave reproduce paper --table 7 --quick", "core", "rate &amp; more"):
        assert words in page


def test_figures_are_files_and_parts_of_the_page(tmp_path):
    write_outputs([reproduced()], Scope("quick"), tmp_path, "page.html")
    (figure,) = tmp_path.glob("*.svg")
    assert re.fullmatch(r"[a-z0-9-]+\.svg", figure.name)
    assert "<script" not in figure.read_text(encoding="utf-8")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") == 1


def test_markdown_has_the_same_table_and_no_markup_of_its_own(tmp_path):
    write_outputs([reproduced()], Scope("quick"), tmp_path, "page.html")
    text = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert "<script" not in text.replace("\\<", "")
    (figure,) = tmp_path.glob("*.svg")
    assert f"]({figure.name})" in text
    assert "| 2, 2 | 0.87 | 0.50 | 10.50 | – | 2.00 | 42.00 | 1 | 1 |" in text


def test_an_interrupted_run_says_so(tmp_path):
    write_outputs([reproduced(num_left=5)], Scope("quick"), tmp_path, "page.html")
    assert "5 cells were not run" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_rates_are_judged_against_the_printed_ones():
    from unweave.experiments.exhibits import Summary, Triple

    entry = Entry("rate", "rate", trials_of="m")
    near, far = (Triple(entry, "0.87", Summary(v, 0.0, 10), None) for v in (0.85, 0.75))
    assert near.agrees({"m": "30"})
    assert far.agrees({"m": "30"}) is False
    assert far.agrees({"m": "1"})
    assert Triple(entry, "–", Summary(0.5, 0.0, 10), None).agrees({"m": "30"}) is None
