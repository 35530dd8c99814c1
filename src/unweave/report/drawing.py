"""The network drawn: a column of units for each layer, the weights between them as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unweave.core.errors import InputError
from unweave.core.network import UNKNOWN
from unweave.report.canvas import BLUE, GRID, INK, MUTED, ORANGE, PAPER, add_axes, in_house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.core.network import Network
    from unweave.result import Identification

MOST_UNITS = 9
"""Wider layers show their first and last units with dots between."""
FAINTEST = 0.12
"""Weights below this share of their layer's largest are not drawn."""


@in_house_style
def network(found: Identification | Network) -> Figure:
    """Layers, widths and activations; lines in the weight's sign and size.

    Parameters
    ----------
    found
        A result with a network, or a network.
    """
    net = network_of(found)
    sizes = (net.input_size, *(len(w) for w in net.weights))
    heights = [_places(size) for size in sizes]
    tallest = max(len(h) for h in heights)
    figure = new_figure(0.9 + 0.22 * tallest)
    axes = add_axes(figure)
    axes.set_axis_off()
    for layer, w in enumerate(net.weights):
        _draw_lines(axes, layer, w, heights[layer], heights[layer + 1])
    for column, (size, places) in enumerate(zip(sizes, heights, strict=True)):
        axes.scatter(
            [column] * len(places),
            list(places.values()),
            s=46,
            color=PAPER,
            edgecolor=INK,
            linewidth=1,
            zorder=3,
        )
        if len(places) < size:
            axes.plot([column] * 3, [-0.35, 0, 0.35], ".", color=MUTED, markersize=3.2, zorder=3)
        axes.text(column, -tallest / 2 - 0.4, _caption(net, column, size), ha="center", va="top")
    num_columns = len(sizes)
    if net.is_open:
        _draw_rest(axes, num_columns, heights[-1], "unknown" if net.upper == UNKNOWN else "a function")
        num_columns += 1
    axes.set_xlim(-0.35, num_columns - 0.65)
    axes.set_ylim(-tallest / 2 - 2.4, tallest / 2 + 0.2)
    return figure


def network_of(found: Identification | Network) -> Network:
    """The network of a result, or the reason why there is nothing to draw."""
    from unweave.core.network import Network

    if isinstance(found, Network):
        return found
    if found.network is None:
        raise InputError(f"there is no network to draw: {found.reason or found.outcome}")
    return found.network


def _places(size: int) -> dict[int, float]:
    """The height of each unit that is drawn."""
    if size <= MOST_UNITS:
        return {i: (size - 1) / 2 - i for i in range(size)}
    half = MOST_UNITS // 2
    middle = (MOST_UNITS - 1) / 2
    top = {i: middle - i for i in range(half)}
    return {**top, **{size - 1 - i: i - middle for i in range(half)}}


def _draw_lines(axes, layer: int, w: np.ndarray, left: dict[int, float], right: dict[int, float]) -> None:
    from matplotlib.collections import LineCollection

    largest = max(float(np.max(np.abs(w), initial=0.0)), 1e-300)
    for sign, tint in ((-1, BLUE), (1, ORANGE)):
        lines, widths = [], []
        for out, high in right.items():
            for into, low in left.items():
                share = sign * float(w[out, into]) / largest
                if share > FAINTEST:
                    lines.append([(layer, low), (layer + 1, high)])
                    widths.append(round(0.3 + 1.7 * share, 1))
        if lines:
            axes.add_collection(LineCollection(lines, linewidths=widths, colors=tint, alpha=0.55, zorder=2))
    if not right or not left:
        axes.plot([layer, layer + 1], [0, 0], color=GRID)


def _draw_rest(axes, column: int, places: dict[int, float], word: str) -> None:
    """What stands above the layers of an open network."""
    for height in places.values():
        axes.plot([column - 1, column], [height, 0], color=GRID, linewidth=0.8, zorder=1)
    axes.text(
        column,
        0,
        f"the rest:\n{word}",
        ha="center",
        va="center",
        color=MUTED,
        backgroundcolor=PAPER,
        fontsize=9,
    )


def _caption(net: Network, column: int, size: int) -> str:
    if column == 0:
        return f"{size}\ninput{'s' if size > 1 else ''}"
    if column <= len(net.hidden):
        return f"{size}\n{net.activations[column - 1]}"
    last = "" if net.activations[-1] == "identity" else f"\n{net.activations[-1]}"
    return f"{size}\noutput{'s' if size > 1 else ''}{last}"
