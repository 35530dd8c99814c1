"""What a reproduction leaves behind: SVG figures, Markdown, one self-contained page: paper | as stated | unweave.

The page shares style sheet, escaping and content security policy with the report of a result: nothing is loaded, no
script runs, everything is escaped.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.experiments.exhibits import Entry, Exhibit, describe_setting
from unweave.experiments.frame import Scope
from unweave.experiments.markdown import render_markdown
from unweave.report.canvas import in_house_style, to_svg
from unweave.report.page import open_template
from unweave.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.experiments.reproduce import Reproduced


@dataclass(frozen=True)
class Block:
    """One exhibit on the page."""

    name: str
    title: str
    note: str
    measures: tuple[Entry, ...]
    rows: list[tuple[str, str, list[tuple[str, ...]]]]
    """Setting, trials, and for every measure the columns shown."""
    pictures: list[tuple[str, Any]]


def write_outputs(done: Sequence[Reproduced], scope: Scope, out: Path, page: str) -> None:
    """Figures, a Markdown file a paper, and the page ``out/page``, of what is finished."""
    template, style = open_template("unweave.experiments", "unweave.report")
    from markupsafe import Markup

    sections = [_section(item, out, Markup) for item in done]
    for item, section in zip(done, sections, strict=True):
        pictures = {block.title: [f"{stem}.svg" for stem, _ in block.pictures] for block in section["blocks"]}
        page_text = render_markdown(item, command(done, scope, out), machine(), pictures)
        (out / f"{item.paper.name}.md").write_text(page_text, encoding="utf-8")
    text = template.render(
        title=f"unweave reproduce: {', '.join(item.paper.name for item in done)}",
        style=style,
        papers=sections,
        command=command(done, scope, out),
        machine=machine(),
        version=__version__,
        seed=scope.seed,
    )
    fresh = out / f"{page}.tmp"
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(out / page)


def command(done: Sequence[Reproduced], scope: Scope, out: Path) -> str:
    """The command that repeats the run."""
    name = done[0].paper.name if len(done) == 1 else "all"
    only = f" {done[0].only}" if done[0].only else ""
    size = "" if scope.size == "usual" else f" --{scope.size}"
    trials = "" if scope.trials is None else f" --trials {scope.trials}"
    seed = f" --seed {scope.seed}" if scope.seed else ""
    return f"unweave reproduce {name}{only}{size}{trials}{seed} --out {out.name}"


def machine() -> str:
    """The machine in words."""
    count = os.cpu_count() or 1
    return (
        f"{count} core{'s' if count > 1 else ''} ({platform.machine()}), Python {platform.python_version()}"
    )


def _section(item: Reproduced, out: Path, markup: Any) -> dict[str, Any]:
    return {
        "name": item.paper.name,
        "title": item.paper.title,
        "reference": item.paper.reference,
        "notes": item.paper.notes,
        "num_left": item.num_left,
        "blocks": [_block(item, e, out, markup) for e in item.exhibits],
    }


def _block(item: Reproduced, exhibit: Exhibit, out: Path, markup: Any) -> Block:
    results = item.for_exhibit(exhibit)
    lines = exhibit.lines(results)
    rows = [
        (
            describe_setting(exhibit.by, line.setting),
            f"{line.num_stated}, {line.num_unweave}",
            [t.texts for t in line.triples],
        )
        for line in lines
    ]
    pictures = []
    if exhibit.draw is not None and lines:
        for name, figure in exhibit.draw(results).items():
            stem = _slug(f"{item.paper.name} {exhibit.name} {name}")
            _save(figure, out / f"{stem}.svg")
            pictures.append((stem, markup(to_svg(figure, stem))))
    note = " ".join(text for text in (exhibit.agreement(lines), exhibit.note) if text)
    return Block(exhibit.name, exhibit.title, note, exhibit.entries, rows, pictures)


@in_house_style
def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
