"""How far from a sharp bend could the units of a kinked network be without showing behind rounded answers?

A unit whose bend is rounded off over a width w, as a steep softplus is, differs from relu most on its zero set, by
``w log 2``, and at a distance z from it by no less than ``w log 2 - |z| / 2``. Each answer bounds the difference there
by what its rounding allows, twice, as a fit may share it between the bend and the rest. The answer that bounds w most
decides; its effect on the outputs is what a verdict has to leave open. Where that is not small beside the spread of
the answers, they do not say that the units have bends at all.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network

CHUNK = 4_000_000
"""Numbers that are held at once."""


def roundest_bend(network: Network, x: np.ndarray, allowed: np.ndarray) -> float:
    """The largest effect of a rounded-off bend of one unit that answers at ``x``, each known to ``allowed``, permit."""
    widths = [np.full(width, np.inf) for width in network.hidden]
    strengths = [np.zeros(width) for width in network.hidden]
    size = len(x) * network.output_size * max(network.hidden, default=1)
    for rows in np.array_split(np.arange(len(x)), size // CHUNK + 1):
        for layer, (heights, effect) in enumerate(_at_units(network, x[rows])):
            with np.errstate(divide="ignore"):
                unseen = np.min(2 * allowed[rows][:, :, None] / effect, axis=1) + np.abs(heights) / 2
            widths[layer] = np.minimum(widths[layer], np.min(unseen, axis=0, initial=np.inf))
            strengths[layer] = np.maximum(strengths[layer], np.max(effect, axis=(0, 1), initial=0.0))
    pairs = zip(np.concatenate(widths), np.concatenate(strengths), strict=True)
    return max((float(width * strength) for width, strength in pairs if strength > 0), default=0.0)


def _at_units(network: Network, x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each hidden layer its units' arguments (n, width), and their effect on outputs (n, outputs, width)."""
    heights, h = [], x
    for weight, bias, name in zip(network.weights, network.biases, network.activations, strict=True):
        heights.append(h @ weight.T + bias)
        h = act.get(name)(heights[-1])
    effects, layers = [], range(len(network.hidden), 0, -1)
    effect = np.eye(network.output_size)[None]
    for layer in layers:
        slope = act.get(network.activations[layer]).first(heights[layer], np)
        effect = (effect * slope[:, None]) @ network.weights[layer]
        effects.append(np.abs(effect))
    return list(zip(heights[:-1], effects[::-1], strict=True))
