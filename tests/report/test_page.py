"""The page: one file that loads nothing and runs nothing, says what matters, and cannot be broken out of."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import unweave
from report.results import EVIL, certificate, hostile, result
from truth import random_network
from unweave.core.errors import ExportError, Outcome
from unweave.evidence.ledger import Ledger
from unweave.report import render_page

VOID = {"meta", "br", "img", "hr", "link", "input", "source"}


class Outline(HTMLParser):
    """Tags, attributes, ids and text of a page; unbalanced tags are an error."""

    def __init__(self, page: str):
        HTMLParser.__init__(self)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] not in ("style",):
            self.text += data

    def values(self, name: str) -> list[str]:
        return [value or "" for _, attribute, value in self.attributes if attribute == name]


def _assert_harmless(page: str) -> Outline:
    outline = Outline(page)
    assert not {
        "script",
        "iframe",
        "object",
        "embed",
        "link",
        "img",
        "form",
        "base",
        "foreignobject",
        "a",
    } & set(outline.tags)
    assert not [name for _, name, _ in outline.attributes if name.startswith("on") or name == "src"]
    assert all(v.startswith(("#", "data:image/png;base64,")) for v in outline.values("href"))
    assert all(f"url(#{target})" not in page or f'id="{target}"' in page for target in outline.values("id"))
    assert "http" not in page.replace("http-equiv", "")
    policy = outline.values("content")[0]
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page))
    assert {a or b for a, b in used} <= set(ids)
    return outline


def test_a_hostile_model_stays_text():
    page = render_page(hostile(), reference=random_network((5, 6, 3, 2), "tanh", seed=2))
    outline = _assert_harmless(page)
    assert "<script>alert(1)</script>" in outline.text
    assert "A <b> & c." in outline.text
    assert "49" not in outline.text.split("{{7*7}}")[0][-3:]
    assert page.count("</style>") == 1
    assert EVIL not in page


def test_the_page_says_what_matters():
    page = render_page(result(warnings=("the model computes in float16",)))
    text = " ".join(_assert_harmless(page).text.split())
    for part in (
        "The network behind this model was recovered.",
        "5-6-3-2 tanh",
        "200 fresh points",
        "1.0e-12",
        "at most 3.0 % of the domain",
        "the order of hidden units, the signs of units",
        "300 of 1,000",
        "The model computes in float16. What helps: Ask a float32",
        "unweave identify m.onnx --budget 1000 --method hessian-span --seed 7",
        "unweave.identify('m.onnx', budget=1000, method='hessian-span', seed=7)",
        "@article{fornasier2019",
        "gap 1.0e+08",
        "seed 7",
    ):
        assert part in text, part


def test_every_figure_is_there_and_no_other():
    names = ("outputs", "network", "weights", "spectrum", "residuals", "units", "ledger", "timings")
    page = render_page(result())
    assert [n for n in names if f'id="figure-{n}"' in page] == list(names)
    empty = result(
        network=None,
        certificate=None,
        outcome=Outcome.NOT_IDENTIFIED,
        reason="a tree; use a smooth model",
        ledger=Ledger(),
        alternatives={},
        details={},
        method="",
    )
    bare = render_page(empty)
    assert "figure-" not in bare
    text = _assert_harmless(bare).text
    assert "A tree; use a smooth model." in text
    assert "there is no network to check" in text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"outcome": Outcome.PARTLY, "undetermined": ("layer 1, unit 3: sign",)}, "not all of it is certain"),
        ({"certificate": None}, "It was not checked on fresh points"),
        ({"certificate": certificate(random_network((5, 6, 3, 2), "tanh", seed=1), fresh={})}, "3.0 %"),
        ({"ledger": Ledger(None, {"fit": 900, "held out": 100}, unit="rows")}, "200 held-out rows"),
        ({"undetermined": tuple(f"unit {i}: determined only to 4%" for i in range(40))}, "and 28 more"),
        ({"details": {"asked": {"call": "learn", "noise": 0.1}}}, "unweave.learn(x, y, noise=0.1, seed=7)"),
        (
            {
                "details": {
                    "asked": {"call": "learn", "model": "a.npz", "method": "HighThreshold(num_units=3)"}
                }
            },
            "unweave.learn('a.npz', method=unweave.HighThreshold(num_units=3), seed=7)",
        ),
    ],
)
def test_results_of_every_kind_have_a_page(changes, part):
    assert part in _assert_harmless(render_page(result(**changes))).text


def test_a_reference_is_drawn_before_and_after_alignment():
    found = result()
    shuffled = found.network.permuted(0, np.arange(6)[::-1])
    text = _assert_harmless(render_page(found, reference=shuffled)).text
    assert "worst relative error of a parameter is 0.0e+00" in text
    for part in ("Layer 1, reference", "found, as returned", "found, aligned", "difference, ≤ 0.0e+00"):
        assert part in text
    other = _assert_harmless(render_page(found, reference=random_network((5, 4, 2), "tanh", seed=0))).text
    assert "The architectures differ" in other


def test_the_page_repeats_to_the_letter(tmp_path):
    found = result()
    assert render_page(found) == render_page(found)
    again = unweave.load(found.save(tmp_path / "found.safetensors"))
    assert render_page(again) == render_page(found)


def test_pages_stay_small():
    assert len(render_page(result())) < 150_000
    wide = result((784, 128, 10), details={}, certificate=None)
    assert len(render_page(wide, reference=wide.network)) < 400_000


def test_a_real_run_is_reported(tmp_path):
    network = random_network((4, 3, 1), "tanh", seed=5)

    def f(x):
        return network(x)

    found = unweave.identify(f, input_size=4, seed=3)
    page = found.report(tmp_path / "r.html", reference=network)
    text = _assert_harmless(page.read_text(encoding="utf-8")).text
    assert "unweave.identify(model, input_size=4, certificate_seed=1, seed=3)" in text
    assert {"answers", "outputs", "errors"} <= found.certificate.fresh.keys()
    assert sum(found.ledger.seconds.values()) <= found.seconds
    with pytest.raises(ExportError, match="does not exist"):
        found.report(tmp_path / "nowhere" / "r.html")
    with pytest.raises(unweave.UnweaveError):
        replace(found).report(tmp_path / "s.html", reference="nothing.onnx")


def test_the_command_line_writes_the_page(tmp_path, capsys):
    from unweave.cli import main
    from unweave.formats.write import export

    export(random_network((4, 3, 1), "tanh", seed=5), tmp_path / "m.npz")
    arguments = ["identify", str(tmp_path / "m.npz"), "--quiet", "--report"]
    assert main([*arguments, str(tmp_path / "r.html")]) == 0
    _assert_harmless((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert main([*arguments, str(tmp_path / "no" / "r.html")]) == 2
    assert "does not exist" in capsys.readouterr().err
