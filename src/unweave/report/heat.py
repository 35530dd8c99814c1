"""Weights as heat maps: what was found, and beside a reference before and after alignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.report.canvas import (
    GRID,
    MUTED,
    WIDTH,
    add_axes,
    in_house_style,
    new_figure,
    shades,
    signed_shades,
)
from unweave.report.drawing import network_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.comparison import Comparison
    from unweave.core.network import Network
    from unweave.result import Identification

MOST_CELLS = (96, 128)
"""Rows and columns of the largest picture; beyond that a cell shows the strongest of several weights."""
FINEST = 16
"""Differences of 1e-16 and less are drawn as nothing."""


@in_house_style
def weights(found: Identification | Network, reference: Any = None) -> Figure:
    """Every layer's weights and biases as a heat map; with ``reference``, before and after alignment.

    Parameters
    ----------
    found
        A result with a network, or a network.
    reference
        A network, or anything that resolves to one. Each layer then has four pictures: the reference, what
        was found as returned, the same with its units in the reference's order and sign, and the difference.
    """
    net = network_of(found)
    if reference is None:
        return _draw_layers(net)
    from unweave.comparison import compare

    return _draw_beside(net.normalised(), compare(reference, net))


def _draw_layers(net: Network) -> Figure:
    blocks = [_with_bias(net, layer) for layer in range(net.num_layers)]
    heights = [_height(block, WIDTH - 0.8) for block in blocks]
    figure = new_figure(sum(heights) + 0.62 * len(heights) + 0.35)
    grid = figure.add_gridspec(len(blocks) + 1, 1, height_ratios=[*heights, 0.1], hspace=0.02)
    for layer, block in enumerate(blocks):
        axes = add_axes(figure, grid[layer])
        out, into = net.weights[layer].shape
        title = f"Layer {layer + 1}: {out} × {into} {net.activations[layer]}"
        _draw_block(axes, block, title + _merged(net.weights[layer]))
    _draw_scale(add_axes(figure, grid[len(blocks)]))
    return figure


def _draw_beside(found: Network, comparison: Comparison) -> Figure:
    reference, aligned = comparison.reference, comparison.aligned
    num_layers = min(reference.num_layers, aligned.num_layers)
    rows = []
    for layer in range(num_layers):
        blocks = [_with_bias(net, layer, reference) for net in (reference, found, aligned)]
        rows.append((layer, blocks, max(_height(block, WIDTH / 2 - 0.5) for block in blocks)))
    figure = new_figure(2 * sum(row[2] for row in rows) + 1.2 * len(rows))
    grid = figure.add_gridspec(
        2 * len(rows), 2, height_ratios=np.repeat([row[2] for row in rows], 2), hspace=0.02, wspace=0.04
    )
    for i, (layer, (first, second, third), _) in enumerate(rows):
        names = (f"Layer {layer + 1}, reference", "found, as returned", "found, aligned")
        for place, (block, name) in enumerate(zip((first, second, third), names, strict=True)):
            axes = add_axes(figure, grid[2 * i + place // 2, place % 2])
            _draw_block(axes, block, name)
        axes = add_axes(figure, grid[2 * i + 1, 1])
        if first.shape == third.shape:
            difference = np.abs(first - third)
            depth = np.clip((np.log10(np.maximum(difference, 1e-300)) + FINEST) / FINEST, 0, 1)
            worst = float(np.nanmax(difference, initial=0.0))
            _draw_block(axes, depth, f"difference, ≤ {worst:.1e}", signed=False)
        else:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "other widths:\nno difference", ha="center", va="center", color=MUTED)
    return figure


def _with_bias(net: Network, layer: int, measure: Network | None = None) -> np.ndarray:
    """Weights, an empty column, and the biases; each kind in units of the largest of its kind in ``measure``.

    Large matrices are reduced to their strongest entries.
    """
    measure = net if measure is None else measure
    w = _strongest(net.weights[layer]) / _largest(measure.weights[layer])
    b = _strongest(net.biases[layer][:, None]) / _largest(measure.biases[layer])
    return np.hstack([w, np.full((len(w), max(1, w.shape[1] // 30)), np.nan), b])


def _strongest(w: np.ndarray) -> np.ndarray:
    """The entry of largest magnitude in each of at most ``MOST_CELLS`` blocks."""
    for axis in (0, 1):
        size = -(-w.shape[axis] // MOST_CELLS[axis])
        if size > 1:
            parts = np.split(w, range(size, w.shape[axis], size), axis=axis)
            picked = [
                np.take_along_axis(p, np.argmax(np.abs(p), axis=axis, keepdims=True), axis) for p in parts
            ]
            w = np.concatenate(picked, axis=axis)
    return w


def _merged(w: np.ndarray) -> str:
    rows, columns = (-(-size // most) for size, most in zip(w.shape, MOST_CELLS, strict=True))
    return f", the strongest of {rows} × {columns}" if rows * columns > 1 else ""


def _largest(values: np.ndarray) -> float:
    """The largest magnitude; a layer of rounding errors alone is not blown up."""
    largest = float(np.max(np.abs(values), initial=0.0))
    return largest if largest > 1e-12 else 1.0


def _height(block: np.ndarray, width: float) -> float:
    """Inches for a picture this wide: square cells, within reason."""
    return float(np.clip(width * block.shape[0] / block.shape[1], 0.16, 0.75 * width))


def _draw_block(axes, block: np.ndarray, title: str, *, signed: bool = True) -> None:
    axes.imshow(
        block,
        cmap=signed_shades() if signed else shades(),
        vmin=-1.0 if signed else 0.0,
        vmax=1.0,
        interpolation="none",
        aspect="auto",
    )
    axes.set_title(title, loc="left", fontsize=9.5, pad=4)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(GRID)


def _draw_scale(axes) -> None:
    axes.imshow(np.linspace(-1, 1, 65)[None], cmap=signed_shades(), interpolation="none", aspect="auto")
    axes.spines[:].set_visible(False)
    axes.set_yticks([])
    axes.set_xticks([0, 32, 64], ["−largest", "0", "largest of the layer"])
    for label, side in zip(axes.get_xticklabels(), ("left", "center", "right"), strict=True):
        label.set_horizontalalignment(side)
    axes.tick_params(length=0)
