"""Figures 2 to 6 of the two-layer paper, drawn from a table of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unweave.experiments.frame import AS_STATED, UNWEAVE, Results
from unweave.report.canvas import BLUE, MUTED, ORANGE, TEAL, add_axes, in_house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@in_house_style
def draw_spans(results: Results) -> dict[str, Figure]:
    """The projection error of the span, a bar a setting; unweave's is rounding and has no bar to see."""
    where = _settings(results, "weights")
    figure = new_figure(0.5 + 0.24 * max(len(where), 4))
    axes = add_axes(figure, 1, 1, 1, grid="x")
    values = [
        np.mean(results.values("weights", AS_STATED, "projection error", None, **_named(w))) for w in where
    ]
    places = np.arange(len(where))[::-1]
    axes.barh(places, values, height=0.6, color=BLUE)
    axes.set_yticks(places, [f"{s} {m0}, {m1}" for s, m0, m1 in where])
    axes.set_xlabel("projection error as stated (unweave: rounding)")
    return {"span": figure}


@in_house_style
def draw_rates(results: Results) -> dict[str, Figure]:
    """Recovery rates and false positives against the threshold, one figure a scenario."""
    figures = {}
    for scenario in dict.fromkeys(s for s, _, _ in _settings(results, "weights")):
        sizes = [w for w in _settings(results, "weights") if w[0] == scenario]
        figure = new_figure(1.9 * len(sizes) + 0.3)
        for i, where in enumerate(sizes):
            axes = add_axes(figure, len(sizes), 1, i + 1, grid="both")
            for measure, colour in (
                ("recovered first", BLUE),
                ("recovered second", ORANGE),
                ("false positives", MUTED),
            ):
                for study, column, line in (("weights", AS_STATED, "-"), ("identify", UNWEAVE, ":")):
                    at, values = curve(results, study, column, measure, **_named(where))
                    axes.plot(at, values, line, color=colour, linewidth=1.6, label=f"{measure}, {column}")
            axes.set_xscale("log")
            axes.set_ylim(-0.03, 1.03)
            axes.set_title(f"{scenario}, m0 = {where[1]}, m1 = {where[2]}", fontsize=9.5, loc="left")
        axes.set_xlabel("threshold on the squared distance")
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8, frameon=False
        )
        figures[scenario.lower().replace("/", "-")] = figure
    return figures


@in_house_style
def draw_trajectories(results: Results) -> dict[str, Figure]:
    """Median and range of ``|grad f(t w)|`` over the weights of each layer."""
    where = _settings(results, "trajectories")
    figure = new_figure(1.9 * max(len(where), 1) + 0.3)
    for i, one in enumerate(where):
        axes = add_axes(figure, len(where), 1, i + 1, grid="both")
        for layer, colour in (("first", BLUE), ("second", ORANGE)):
            at, middle = curve(results, "trajectories", AS_STATED, f"{layer} middle", **_named(one))
            _, low = curve(results, "trajectories", AS_STATED, f"{layer} low", **_named(one))
            _, high = curve(results, "trajectories", AS_STATED, f"{layer} high", **_named(one))
            axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(at, middle, color=colour, linewidth=1.6, label=f"{layer} layer, as stated")
            at, exact = curve(results, "trajectories", UNWEAVE, f"{layer} middle", **_named(one))
            axes.plot(
                at, exact, ":", color=TEAL if layer == "first" else MUTED, label=f"{layer} layer, unweave"
            )
        axes.set_title(f"{one[0]}, m0 = {one[1]}, m1 = {one[2]}", fontsize=9.5, loc="left")
    if where:
        axes.set_xlabel("t")
        figure.legend(
            *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8, frameon=False
        )
    return {"trajectories": figure}


def curve(
    results: Results, study: str, column: str, measure: str, **where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Abscissae and means over trials of a measure."""
    groups: dict[float, list[float]] = {}
    for record in results.records:
        cell, m = record.cell, record.measured
        if (
            m.at is not None
            and (cell.study, cell.column, m.measure) == (study, column, measure)
            and all(cell[name] == value for name, value in where.items())
        ):
            groups.setdefault(m.at, []).append(m.value)
    at = sorted(groups)
    return np.array(at), np.array([np.mean(groups[t]) for t in at])


def _settings(results: Results, study: str) -> list[tuple[str, str, str]]:
    seen = {(c["scenario"], c["m0"], c["m1"]) for c in (r.cell for r in results.records) if c.study == study}
    return sorted(seen, key=lambda w: (w[0], int(w[1]), int(w[2])))


def _named(where: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("scenario", "m0", "m1"), where, strict=True))
