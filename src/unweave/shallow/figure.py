"""The figure of a landscape: probabilities with the fitted curve, and success by the signs of the start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unweave.errors import ExportError, InputError, MissingExtra

if TYPE_CHECKING:
    from unweave.shallow.grid import LandscapeGrid


def draw_landscape(grid: LandscapeGrid, path: str | Path) -> None:
    """Write the figure to ``path`` (.svg, .pdf or .png); one axis of the grid has to vary."""
    path = Path(path)
    axis = grid.axis
    if axis is None:
        raise InputError("a figure needs exactly one of n, d, k to vary; draw from a smaller grid")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "report") from error
    cells = grid.cells()
    t = np.array([getattr(cell, axis) for cell in cells])
    # A fixed salt and no date: the same results give the same file.
    with rc_context({"svg.hashsalt": "unweave", "svg.fonttype": "path"}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(t, [cell.probability for cell in cells], "o", label="no spurious minimum met")
        left.plot(
            t, [cell.run_fraction for cell in cells], "x", color="0.6", label="runs at a global minimum"
        )
        crossing = grid.crossing()
        if crossing is not None:
            fine = np.linspace(t.min(), t.max(), 400)
            left.plot(fine, crossing(fine), "-", color="C0")
            left.axvline(crossing.crossing, linestyle="--", color="0.3")
            low, high = max(crossing.low, t.min()), min(crossing.high, t.max())
            left.axvspan(low, high, color="0.9", zorder=0)
            left.set_title(f"crosses 1/2 at {axis} = {crossing.crossing:.2f}")
        left.set(xlabel=axis, ylabel="probability", ylim=(-0.04, 1.04))
        left.legend(fontsize="small")
        rows = grid.by_signs()
        for value in t:
            part = [row for row in rows if row[axis] == value]
            shares = [row["num_reached"] / row["num_runs"] for row in part]
            right.plot(
                [row["num_negative"] / row["k"] for row in part], shares, ".-", label=f"{axis} = {value}"
            )
        right.set(
            xlabel="share of negative output weights at the start",
            ylabel="runs that succeed",
            ylim=(-0.04, 1.04),
        )
        right.legend(fontsize="x-small", ncols=2)
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        except (OSError, ValueError) as error:
            raise ExportError(
                f"{path}: {error}; give a name that ends in .svg in a folder that exists"
            ) from error
