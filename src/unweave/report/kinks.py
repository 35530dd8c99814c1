"""A relu network along one line: its output, and the places where units switch, layer by layer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from unweave.core import activations as act
from unweave.core.errors import InputError
from unweave.methods.relu.deep.known import Known
from unweave.probes.lines import Lines
from unweave.report import canvas
from unweave.report.drawing import network_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.core.network import Network
    from unweave.result import Identification

TINTS = (canvas.BLUE, canvas.ORANGE, canvas.TEAL, canvas.INK)
FAR = 1e3
"""How far out kinks are looked for, in lengths of a typical input."""


@canvas.in_house_style
def kinks(found: Identification | Network, seed: int = 0) -> Figure:
    """The output along a random line, with the kinks of every hidden layer in a tint of its own.

    Parameters
    ----------
    found
        A result, or a relu network.
    seed
        Which line.
    """
    network = network_of(found)
    if network.is_open or not network.is_piecewise_linear:
        raise InputError("only whole networks of relu units have kinks to draw")
    origin, direction, layers = find_kinks_by_layer(network, seed)
    places = np.concatenate(layers)
    if not len(places):
        raise InputError("no unit switches along the line")
    low, high = np.quantile(places, [0.1, 0.9])
    room = 0.15 * (high - low) or 1.0
    low, high = low - room, high + room
    t = np.union1d(np.linspace(low, high, 200), places[(places > low) & (places < high)])
    values = network(origin + t[:, None] * direction)[:, 0]
    figure = canvas.new_figure(2.2)
    axes = canvas.add_axes(figure, 1, 1, 1)
    axes.plot(t, values, color=canvas.MUTED, linewidth=1.0)
    for layer, mine in enumerate(layers):
        mine = mine[(mine > low) & (mine < high)]
        heights = network(origin + mine[:, None] * direction)[:, 0]
        tint = TINTS[layer % len(TINTS)]
        label = f"layer {layer + 1}: {len(mine)}"
        axes.plot(mine, heights, "o", markersize=4.0, markeredgewidth=0, color=tint, label=label)
    axes.set_xlim(low, high)
    axes.set_xlabel("along the line")
    axes.set_ylabel("output")
    axes.legend(frameon=False, fontsize=8.5, handletextpad=0.2, loc="best")
    return figure


def find_kinks_by_layer(network: Network, seed: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """A random line (origin, direction) and the parameters at which the units of each hidden layer switch on it."""
    rng = np.random.default_rng(seed)
    d = network.input_size
    origin, direction = rng.standard_normal(d), rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    far = FAR * np.sqrt(d)
    line = Lines(origin[None], direction[None], np.array([-far]), np.array([far]), np.ones(1))
    num = len(network.hidden)
    leaks = tuple(act.split_name(name)[1] or 0.0 for name in network.hidden_activations)
    known = Known(d, tuple(network.weights[:num]), tuple(network.biases[:num]), leaks)
    breaks = [known.first(depth).breaks(line, 0) for depth in range(num + 1)]
    return (
        origin,
        direction,
        [_fresh(before, after) for before, after in pairwise(breaks)],
    )


def _fresh(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The breaks of a layer: those that the layers below it do not have."""
    return np.setdiff1d(after, before)
