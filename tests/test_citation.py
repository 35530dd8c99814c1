"""What to cite: well-formed BibTeX for every method, and a citation file that agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unweave
from unweave.citations import BY_METHOD, ENTRIES, SOFTWARE, bibtex
from unweave.core.errors import Outcome
from unweave.evidence.precision import Precision
from unweave.methods.registry import REGISTRY
from unweave.result import Identification

ROOT = Path(__file__).parents[1]


def _found(method: str, **changes) -> Identification:
    return Identification(outcome=Outcome.IDENTIFIED, method=method, **changes)


@pytest.mark.parametrize("entry", [SOFTWARE, *ENTRIES.values()], ids=["software", *ENTRIES])
def test_entries_are_well_formed(entry):
    assert re.match(r"@(software|article|inproceedings)\{\w+,\n", entry)
    assert entry.count("{") == entry.count("}")
    assert entry.endswith("\n}")
    fields = set(re.findall(r"^  (\w+) *= \{", entry, flags=re.MULTILINE))
    assert {"title", "author", "year"} <= fields
    assert {"journal", "booktitle", "version"} & fields


def test_every_method_is_cited():
    assert {entry.name for entry in REGISTRY} <= set(BY_METHOD)
    assert all(key in ENTRIES for keys in BY_METHOD.values() for key in keys)


def test_a_result_is_cited_by_what_it_used(capsys):
    assert unweave.citation(_found("relu-lines")) is None
    shown = capsys.readouterr().out
    assert "@software{unweave" in shown
    assert "carlini2020" in shown
    assert "fornasier2019" not in shown
    assert "more2011" not in shown
    assert "more2011" in bibtex(_found("relu-lines", precision=Precision(1e-16, 1.0, "float64")))
    assert bibtex(_found("a method of one's own")) == SOFTWARE
    unweave.citation()
    shown = capsys.readouterr().out
    assert all(f"{{{key}," in shown for key in ENTRIES)


def test_the_citation_file_agrees():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {unweave.__version__}\n" in text
    titles = [re.sub(r"[{}]", "", t) for t in re.findall(r"title += \{(.+)\},", "\n".join(ENTRIES.values()))]
    quoted = re.findall(r"^    title: (.+)$", text, flags=re.MULTILINE)
    assert len(quoted) == 4
    assert set(quoted) <= set(titles)
