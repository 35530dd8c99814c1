"""What a result has cost: queries and seconds by stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unweave.core.errors import InputError
from unweave.report.canvas import BLUE, MUTED, TEAL, add_axes, in_house_style, new_figure, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.result import Identification

MOST_BARS = 16
"""Further stages are added up in one bar."""


@in_house_style
def ledger(found: Identification) -> Figure:
    """Queries by stage, in the order the stages began, against the budget.

    Parameters
    ----------
    found
        A result that has asked queries.
    """
    counts = {stage: count for stage, count in found.ledger.by_stage.items() if count}
    if not counts:
        raise InputError("no query was asked: there is no ledger to draw")
    total, budget = found.ledger.total, found.ledger.budget
    limit = f"of {budget:,} allowed" if budget is not None else "no budget was set"
    title = f"{total:,} rows" if found.ledger.unit == "rows" else f"{total:,} queries, {limit}"
    if found.ledger.replayed:
        title += f"; {found.ledger.replayed:,} from a journal"
    return _draw_bars(counts, title, BLUE, lambda count: f"{count:,.0f}")


@in_house_style
def timings(found: Identification) -> Figure:
    """Seconds by stage; what lies between the stages is one bar.

    Parameters
    ----------
    found
        A result whose ledger has kept the time.
    """
    seconds = {stage: value for stage, value in found.ledger.seconds.items() if value >= 5e-4}
    if not seconds:
        raise InputError("this result keeps no times by stage; run identify again")
    between = found.seconds - sum(found.ledger.seconds.values())
    if between > 0.01 * found.seconds:
        seconds["computing in between"] = between
    return _draw_bars(seconds, f"{found.seconds:.1f} s in all", TEAL, _seconds)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value:.1g} s"


def _draw_bars(values: Mapping[str, float], title: str, tint: str, label) -> Figure:
    rows = list(values.items())
    if len(rows) > MOST_BARS:
        rest = sum(value for _, value in rows[MOST_BARS - 1 :])
        rows = [*rows[: MOST_BARS - 1], (f"{len(rows) - MOST_BARS + 1} more", rest)]
    figure = new_figure(0.55 + 0.23 * len(rows))
    axes = add_axes(figure)
    largest = max(value for _, value in rows)
    places = list(range(len(rows)))
    axes.barh(places, [value for _, value in rows], height=0.62, color=tint)
    for place, (_, value) in zip(places, rows, strict=True):
        axes.text(value + 0.015 * largest, place, label(value), va="center", fontsize=9, color=MUTED)
    axes.set_yticks(places, [short(name) for name, _ in rows])
    axes.set_xticks([])
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlim(0, 1.22 * largest)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_title(title, loc="left", fontsize=9.5, pad=4)
    return figure
