"""A reproduction as a Markdown page: the same tables and figures as the HTML page, for documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unweave.experiments.exhibits import Exhibit, describe_setting

if TYPE_CHECKING:
    from unweave.experiments.reproduce import Reproduced


def render_markdown(item: Reproduced, command: str, machine: str, pictures: dict[str, list[str]]) -> str:
    """One paper; ``pictures`` names the SVG files of each exhibit by its title."""
    lines = [
        f"# {_plain(item.paper.title)}",
        "",
        f"{_plain(item.paper.reference)}.",
        "",
        f"`{command}`, {machine}. Every experiment was run twice on the same networks or data: by the algorithm as the "
        "paper states it and by unweave's default. *Paper* is what the paper prints; a dash stands for nothing printed "
        "or nothing run. Seconds are CPU time of one trial, trials those of the two computed columns.",
        "",
    ]
    lines += [f"{_plain(note)}\n" for note in item.paper.notes]
    for exhibit in item.exhibits:
        lines += _exhibit(item, exhibit, pictures.get(exhibit.title, []))
    return "\n".join(lines).rstrip() + "\n"


def _exhibit(item: Reproduced, exhibit: Exhibit, pictures: list[str]) -> Iterator[str]:
    lines = exhibit.lines(item.for_exhibit(exhibit))
    yield "## " + _plain(f"{exhibit.name}: {exhibit.title}" if exhibit.names else exhibit.title)
    yield ""
    heads = ["setting", "trials"]
    for entry in exhibit.entries:
        columns = ("as stated", "unweave") if entry.is_cost else ("paper", "as stated", "unweave")
        heads += [f"{_plain(entry.label)}, {column}" for column in columns]
    yield f"| {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * (len(heads) - 1)}"
    for line in lines:
        cells = [describe_setting(exhibit.by, line.setting), f"{line.num_stated}, {line.num_unweave}"]
        cells += [text for triple in line.triples for text in triple.texts]
        yield f"| {' | '.join(_plain(c) for c in cells)} |"
    yield ""
    note = " ".join(text for text in (exhibit.agreement(lines), exhibit.note) if text)
    if note:
        yield f"{_plain(note)}\n"
    for name in pictures:
        yield f"![{_plain(exhibit.title)}]({name})"
    if pictures:
        yield ""


def _plain(text: str) -> str:
    """Nothing that Markdown would take for markup."""
    for mark in "\\`*_<>|[]":
        text = text.replace(mark, f"\\{mark}")
    return text
