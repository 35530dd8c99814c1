"""Where to look at one unit alone: points on its zero set with room around them and a strong kink.

Only the relu skeleton is used, no query. Points are drawn at a given radius and carried onto the unit's zero set by
Newton steps; of those, the one is kept where every other unit's zero set is farthest and the kink shows best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.network import Network


@dataclass(frozen=True)
class Place:
    """A point on a unit's zero set."""

    point: np.ndarray
    normal: np.ndarray
    """Unit vector towards the side on which the unit is active."""
    slope: float
    """Growth of the unit's argument along the normal."""
    room: float
    """Distance to the nearest zero set of another unit."""


def find_place(
    skeleton: Network, layer: int, unit: int, radius: float, rng: np.random.Generator, num_tries: int = 96
) -> Place | None:
    """The best of ``num_tries`` places of a unit at about ``radius``; None where its zero set was not met."""
    x = rng.standard_normal((num_tries, skeleton.input_size))
    x *= radius / np.linalg.norm(x, axis=1, keepdims=True)
    for _ in range(10):
        arguments = _arguments(skeleton, x)
        slope = _slope(skeleton, arguments, layer, unit)
        square = np.maximum(np.einsum("nd,nd->n", slope, slope), 1e-300)
        step = (arguments[layer][:, unit] / square)[:, None] * slope
        length = np.linalg.norm(step, axis=1, keepdims=True)
        x = x - step * (3 * radius / np.maximum(length, 3 * radius))
    arguments = _arguments(skeleton, x)
    slope = _slope(skeleton, arguments, layer, unit)
    size = np.linalg.norm(slope, axis=1)
    on = (np.abs(arguments[layer][:, unit]) <= 1e-7 * radius * size) & (size > 0)
    on &= np.linalg.norm(x, axis=1) < 30 * radius
    if not on.any():
        return None
    x, slope, size = x[on], slope[on], size[on]
    normal = slope / size[:, None]
    room = _room(skeleton, [z[on] for z in arguments], layer, unit)
    reach = 0.3 * room[:, None] * normal
    jump = np.linalg.norm(skeleton(x + reach) + skeleton(x - reach) - 2 * skeleton(x), axis=1)
    strength = jump / np.maximum(0.3 * room, 1e-300)
    # a kink somewhat weaker than the strongest is as good as that
    score = room * np.minimum(strength / max(float(np.max(strength)), 1e-300), 0.3)
    best = int(np.argmax(score))
    if not score[best] > 0:
        return None
    return Place(x[best], normal[best], float(size[best]), float(room[best]))


def _arguments(skeleton: Network, x: np.ndarray) -> list[np.ndarray]:
    """Pre-activations of every hidden layer."""
    found, h = [], x
    for w, b in zip(skeleton.weights[:-1], skeleton.biases[:-1], strict=True):
        found.append(h @ w.T + b)
        h = np.maximum(found[-1], 0.0)
    return found


def _slope(skeleton: Network, arguments: list[np.ndarray], layer: int, unit: int) -> np.ndarray:
    """The gradient of one unit's argument, (n, inputs)."""
    back = np.broadcast_to(
        skeleton.weights[layer][unit], (len(arguments[0]), skeleton.weights[layer].shape[1])
    )
    for below in range(layer - 1, -1, -1):
        back = (back * (arguments[below] > 0)) @ skeleton.weights[below]
    return back


def _room(skeleton: Network, arguments: list[np.ndarray], layer: int, unit: int) -> np.ndarray:
    """The distance of each point to the nearest zero set but the unit's own, above which gradients may bend."""
    num = len(arguments[0])
    room = np.full(num, np.inf)
    gradients = np.broadcast_to(skeleton.weights[0], (num, *skeleton.weights[0].shape))
    for at, z in enumerate(arguments):
        if at:
            active = (arguments[at - 1] > 0).astype(float)
            if at - 1 == layer:  # on either side of its zero set the unit may count or not
                active[:, unit] = 1.0
            gradients = np.matmul(skeleton.weights[at] * active[:, None, :], gradients)
        away = np.abs(z) / np.maximum(np.linalg.norm(gradients, axis=2), 1e-300)
        if at == layer:
            away[:, unit] = np.inf
        room = np.minimum(room, away.min(axis=1))
    return room
