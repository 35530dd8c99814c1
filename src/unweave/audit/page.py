"""An audit as one self-contained HTML page: a table, a figure, what each defence bought. Everything is escaped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unweave.core.errors import InputError, Outcome
from unweave.report import canvas
from unweave.report.page import open_template
from unweave.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.audit.cases import Audit

_TONES = {Outcome.IDENTIFIED: canvas.ORANGE, Outcome.PARTLY: canvas.BLUE, Outcome.NOT_IDENTIFIED: canvas.TEAL}
_LEAST = 1e-16


def write_page(audit: Audit, path: Path) -> Path:
    """Write the page to ``path`` and return it."""
    if not audit.cases:
        raise InputError("the audit has no cases: there is nothing to write")
    template, style = open_template("unweave.audit", "unweave.report")
    from markupsafe import Markup

    identified = sum(case.outcome is Outcome.IDENTIFIED for case in audit.cases)
    path.write_text(
        template.render(
            title=f"audit: {audit.model}",
            audit=audit,
            style=style,
            figure=Markup(canvas.to_svg(draw(audit), "audit")),
            identified=identified,
            tone="not" if identified == 0 else "partly" if identified < len(audit.cases) else "identified",
            version=__version__,
        ),
        encoding="utf-8",
    )
    return path


@canvas.in_house_style
def draw(audit: Audit) -> Figure:
    """Left: the share of units that came back behind each defence. Right: how far the outputs of the copy are off."""
    cases = audit.cases[::-1]
    places = np.arange(len(cases))
    figure = canvas.new_figure(1.0 + 0.3 * len(cases), 8.6)
    left = canvas.add_axes(figure, 1, 2, 1, grid="x")
    left.barh(places, [case.recovered for case in cases], color=[_TONES[case.outcome] for case in cases])
    left.set_yticks(places, [canvas.short(case.defence, 30) for case in cases])
    left.set_xlim(0, 1)
    left.set_title("share of units recovered")
    right = canvas.add_axes(figure, 1, 2, 2, grid="x")
    for place, case in zip(places, cases, strict=True):
        if case.fidelity is not None:
            right.plot(max(case.fidelity, _LEAST), place, "o", color=_TONES[case.outcome])
        else:
            right.text(0.9, float(place), "no copy", color=canvas.MUTED, ha="right", va="center")
    canvas.set_log_scale(right, "x", np.array([_LEAST, 1.0]))
    right.set_yticks(places, [""] * len(cases))
    right.set_ylim(left.get_ylim())
    right.set_title("error of the copy's outputs")
    return figure
