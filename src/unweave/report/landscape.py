"""A landscape grid drawn: how often no spurious minimum is met, along one axis of the grid or over two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unweave.core.errors import ExportError, InputError
from unweave.report.canvas import (
    BLUE,
    GRID,
    INK,
    MUTED,
    ORANGE,
    add_axes,
    in_house_style,
    new_figure,
    set_whole_ticks,
    shades,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES = {"n": "samples n", "d": "inputs d", "k": "hidden units k"}


class Grid(Protocol):
    """What ``unweave.landscape`` returns: summaries of cells, the fitted crossing, success by signs of the start."""

    @property
    def axis(self) -> str | None: ...

    def cells(self) -> Sequence[Any]: ...

    def crossing(self) -> Any: ...

    def by_signs(self) -> Sequence[dict[str, Any]]: ...


@in_house_style
def landscape(grid: Grid) -> Figure:
    """The probability of no spurious minimum with its fitted curve, and success by the signs of the start.

    Parameters
    ----------
    grid
        What ``unweave.landscape`` returns. Where two of n, d, k vary, the probability is drawn over both.
    """
    cells = grid.cells()
    varying = [name for name in AXES if len({getattr(cell, name) for cell in cells}) > 1]
    if len(varying) == 2:
        return _draw_plane(cells, varying[1], varying[0])
    if len(varying) != 1:
        raise InputError(f"{len(varying)} of n, d, k vary on this grid; a figure needs one or two of them")
    figure = new_figure(4.6)
    _draw_probability(add_axes(figure, 2, 1, 1, grid="y"), grid, cells, varying[0])
    _draw_signs(add_axes(figure, 2, 1, 2, grid="y"), grid, varying[0])
    return figure


@in_house_style
def draw_landscape(grid: Grid, path: str | Path) -> None:
    """Write the figure to ``path`` (.svg, .pdf or .png); the same results give the same file, without a date."""
    path = Path(path)
    figure = landscape(grid)
    try:
        figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise ExportError(
            f"{path}: {error}; give a name that ends in .svg in a folder that exists"
        ) from error


def _draw_probability(axes: Axes, grid: Grid, cells: Sequence[Any], axis: str) -> None:
    t = np.array([getattr(cell, axis) for cell in cells], dtype=np.float64)
    axes.plot(t, [cell.run_fraction for cell in cells], "o", color=MUTED, markersize=3.5, label="single runs")
    axes.plot(
        t,
        [cell.probability for cell in cells],
        "o",
        color=BLUE,
        markersize=5,
        label="all starts of a teacher",
    )
    crossing = grid.crossing()
    title = f"A global minimum is reached, {sum(cell.num_runs for cell in cells):,} runs"
    if crossing is not None:
        fine = np.linspace(t.min(), t.max(), 200)
        axes.plot(fine, crossing(fine), color=BLUE, linewidth=1.4)
        low, high = max(crossing.low, t.min()), min(crossing.high, t.max())
        axes.axvspan(low, high, color=GRID, alpha=0.6, linewidth=0, zorder=0)
        axes.axvline(crossing.crossing, color=ORANGE, linewidth=1.2, linestyle=(0, (3, 2)))
        title = f"One half at {axis} = {crossing.crossing:.2f}, {sum(cell.num_runs for cell in cells):,} runs"
    axes.set_title(title, loc="left", fontsize=9.5, pad=4)
    axes.set_xlabel(AXES[axis])
    axes.set_ylabel("probability")
    axes.set_ylim(-0.04, 1.04)
    set_whole_ticks(axes)
    axes.legend(fontsize=8.5, frameon=False, labelcolor=INK, loc="best", handletextpad=0.2)


def _draw_signs(axes: Axes, grid: Grid, axis: str) -> None:
    rows = grid.by_signs()
    values = sorted({row[axis] for row in rows})
    tints = _between(BLUE, ORANGE, len(values))
    for value, tint in zip(values, tints, strict=True):
        part = [row for row in rows if row[axis] == value]
        shares = [row["num_reached"] / row["num_runs"] for row in part]
        label = f"{axis} = {value}" if value in (values[0], values[-1]) else None
        where = [row["num_negative"] / row["k"] for row in part]
        axes.plot(where, shares, ".-", color=tint, markersize=4, linewidth=1, label=label)
    axes.set_xlabel("share of negative output weights at the start")
    axes.set_ylabel("runs that succeed")
    axes.set_ylim(-0.04, 1.04)
    axes.legend(fontsize=8.5, frameon=False, labelcolor=INK, loc="best", handletextpad=0.2)


def _draw_plane(cells: Sequence[Any], across: str, up: str) -> Figure:
    xs = sorted({getattr(cell, across) for cell in cells})
    ys = sorted({getattr(cell, up) for cell in cells})
    table = np.full((len(ys), len(xs)), np.nan)
    for cell in cells:
        table[ys.index(getattr(cell, up)), xs.index(getattr(cell, across))] = cell.probability
    figure = new_figure(float(np.clip(0.9 + 0.34 * len(ys), 1.6, 4.6)))
    axes = add_axes(figure)
    axes.imshow(
        table, cmap=shades(), vmin=0, vmax=1, interpolation="none", aspect="auto", origin="lower", alpha=0.8
    )
    for (i, j), value in np.ndenumerate(table):
        if np.isfinite(value) and table.size <= 120:
            axes.text(j, i, f"{value:.2f}".removeprefix("0"), ha="center", va="center", fontsize=8.5)
    axes.set_xticks(range(len(xs)), [str(x) for x in xs])
    axes.set_yticks(range(len(ys)), [str(y) for y in ys])
    axes.set_xlabel(AXES[across])
    axes.set_ylabel(AXES[up])
    axes.set_title("Probability that every start succeeds", loc="left", fontsize=9.5, pad=4)
    return figure


def _between(first: str, last: str, count: int) -> list[str]:
    """``count`` tints from one to the other."""
    from matplotlib.colors import to_hex, to_rgb

    a, b = np.array(to_rgb(first)), np.array(to_rgb(last))
    return [first] if count < 2 else [to_hex(a + (b - a) * s) for s in np.linspace(0, 1, count)]
