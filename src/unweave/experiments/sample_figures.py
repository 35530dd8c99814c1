"""Errors against the number of samples, for the two papers that learn from samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unweave.experiments.frame import AS_STATED, UNWEAVE, Results
from unweave.report.canvas import BLUE, TEAL, add_axes, in_house_style, new_figure, positive

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@in_house_style
def draw_errors(results: Results) -> dict[str, Figure]:
    """Median error against N, a line a setting and column."""
    figure = new_figure(3.4)
    axes = add_axes(figure, 1, 1, 1, grid="both")
    settings: dict[tuple[tuple[str, str], ...], None] = {}
    for record in results.records:
        rest = tuple(p for p in record.cell.parameters if p[0] != "N")
        if record.measured.measure == "error" and record.cell["N"].isdigit():
            settings.setdefault(rest)
    for strength, rest in zip(np.linspace(0.4, 1, max(len(settings), 1)), settings, strict=False):
        for column, tint, style in ((AS_STATED, BLUE, "o-"), (UNWEAVE, TEAL, "s:")):
            groups: dict[int, list[float]] = {}
            for record in results.records:
                cell = record.cell
                here = tuple(p for p in cell.parameters if p[0] != "N")
                if (cell.column, record.measured.measure, here) == (column, "error", rest) and cell[
                    "N"
                ].isdigit():
                    groups.setdefault(int(cell["N"]), []).append(record.measured.value)
            at = sorted(groups)
            label = f"{', '.join(f'{k} {v}' for k, v in rest)}: {column}"
            axes.plot(
                at,
                positive([np.median(groups[n]) for n in at]),
                style,
                color=tint,
                alpha=strength,
                label=label,
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("samples N")
    axes.set_ylabel("error of the units")
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7, frameon=False
    )
    return {"errors": figure}
