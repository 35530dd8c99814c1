"""Figures 2 to 4 of the landscape paper, drawn from a table of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unweave.experiments.frame import AS_STATED, UNWEAVE, Results
from unweave.experiments.two_layer_figures import curve
from unweave.report.canvas import BLUE, ORANGE, TEAL, add_axes, in_house_style, new_figure
from unweave.shallow.logistic import fit_logistic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TINTS = {AS_STATED: BLUE, UNWEAVE: TEAL}


@in_house_style
def draw_probabilities(results: Results) -> dict[str, Figure]:
    """Shares of clean teachers with their logistic curves, one figure a panel."""
    figures = {}
    for panel in sorted({r.cell["panel"] for r in results.records if r.cell.study == "planted"}):
        axis = "k" if panel.endswith("a") else "d"
        figure = new_figure(2.4)
        axes = add_axes(figure, 1, 1, 1, grid="both")
        for column, tint in TINTS.items():
            groups = clean_shares(results, panel, column, axis)
            at = np.array(sorted(groups))
            if not len(at):
                continue
            axes.plot(at, [np.mean(groups[t]) for t in at], "o", color=tint, label=column)
            counts = np.array([sum(groups[t]) for t in at]), np.array([len(groups[t]) for t in at])
            fitted = fit_logistic(at, *counts)
            if fitted is not None:
                fine = np.linspace(at[0], at[-1], 200)
                axes.plot(fine, fitted(fine), color=tint)
                axes.axvline(fitted.crossing, color=tint, linestyle="--", linewidth=0.9)
        axes.set_xlabel(axis)
        axes.set_ylabel("share of clean teachers")
        axes.set_title(f"panel {panel}", fontsize=9.5, loc="left")
        axes.legend(frameon=False, fontsize=8)
        figures[panel] = figure
    return figures


@in_house_style
def draw_losses(results: Results) -> dict[str, Figure]:
    """RMSE against steps, output weights trained: descent as stated (solid), fit (dotted)."""
    figures = {}
    for panel in sorted({r.cell["panel"] for r in results.records if r.cell.study == "random labels"}):
        widths = sorted({int(r.cell["k"]) for r in results.records if r.cell["panel"] == panel})
        figure = new_figure(2.8)
        axes = add_axes(figure, 1, 1, 1, grid="both")
        for k, strength in zip(widths, np.linspace(0.35, 1, len(widths)), strict=True):
            where = {"panel": panel, "k": str(k), "outputs": "trained"}
            at, values = curve(results, "random labels", AS_STATED, "RMSE along", **where)
            axes.plot(
                at + 1, np.maximum(values, 1e-12), color=BLUE, alpha=strength, label=f"k = {k}, as stated"
            )
            at, values = curve(results, "random labels", UNWEAVE, "RMSE along", **where)
            axes.plot(
                at + 1, np.maximum(values, 1e-12), ":", color=ORANGE, alpha=strength, label=f"k = {k}, fit"
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("steps")
        axes.set_ylabel("RMSE")
        axes.set_title(f"panel {panel}", fontsize=9.5, loc="left")
        axes.legend(frameon=False, fontsize=7.5, ncols=2)
        figures[panel] = figure
    return figures


def clean_shares(results: Results, panel: str, column: str, axis: str) -> dict[float, list[float]]:
    """For every place on the axis, 1 for each teacher without a spurious minimum and 0 for the others."""
    groups: dict[float, list[float]] = {}
    for record in results.records:
        cell = record.cell
        if (cell.study, cell.column, cell["panel"]) == (
            "planted",
            column,
            panel,
        ) and record.measured.measure == "clean":
            groups.setdefault(float(cell[axis]), []).append(record.measured.value)
    return groups
