"""Weights that nothing has shown, of all units that read one feature at once, from how the answers bend at its border.

Where a feature begins to be on, the answers bend by its rate times ``sum_u D_u w_u``: w_u are the weights with which
units read it, D_u the derivatives of the answers by the arguments of these units. The layers above tell D, so every
place of the border at which units stand differently is a linear equation for the weights that are open. Places are
found offline, at which the network is right where the feature is off. Of weights that show in one sum only, because
their units are always on together there, the shortest are taken.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.extremes import spread_points
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.top import Top

NUM_STARTS, NUM_NEWTON, NEAREST = 3000, 8, 4
"""Points that are moved to a border, in so many steps, and of how many times as many gradients are looked at."""
NUM_WAYS, NUM_TURNS = 24, 10
"""Ways along a border to the zero set of a unit, and their steps."""
TWICE = 2
"""Times that every combination of weights is told, by places of its own."""
FITS = 1e-7
"""Miss, relative to the answers' change, below which the network is right, or weights fulfil an equation."""
TOLD = 1e-7
"""Largest error to expect of a weight, relative to the longest of its row, that is taken."""
MOST_LOST = 0.5
"""Share of the equations that something else which is missing may spoil."""

Opened = dict[int, tuple[tuple[int, int], ...]]
"""(unit, feature) of open entries of every layer, layers counted from 1."""


def ask_borders(pool: Pool, known: Known, top: Top, opened: Opened) -> tuple[Known, Opened]:
    """The layers with open entries that the borders of their features tell, and those that are open still."""
    opened = dict(opened)
    for layer in range(2, known.depth + 1):
        for feature in sorted({i for _, i in opened.get(layer, ())}):
            units = np.array(sorted(u for u, i in opened[layer] if i == feature))
            values = _read_weights(pool, known, top, layer - 1, feature, units)
            told = np.isfinite(values)
            if told.any():
                known = _with_entries(known, layer - 1, feature, units[told], values[told])
                done = {(int(u), feature) for u in units[told]}
                opened[layer] = tuple(pair for pair in opened[layer] if pair not in done)
    return known, opened


def _with_entries(known: Known, layer: int, feature: int, units: np.ndarray, values: np.ndarray) -> Known:
    weights = list(known.weights)
    weights[layer] = weights[layer].copy()
    weights[layer][units, feature] = values
    return replace(known, weights=tuple(weights))


def _read_weights(
    pool: Pool, known: Known, top: Top, layer: int, feature: int, units: np.ndarray
) -> np.ndarray:
    """Weights of ``units`` of a layer (counted from 0) for one feature; not a number where no place tells them."""
    values = np.full(len(units), np.nan)
    x = _begin(pool, known, layer - 1, feature)
    x = np.concatenate([x, _towards(pool, known, layer, feature, units, x)])
    x, normal, rate, room = _places(pool, known, layer - 1, feature, x)
    if not len(x):
        return values
    slopes = derivatives(known, top.coefficients[:-1].T, layer, x)
    step = np.minimum(0.3 * room, 0.05 * (1 + np.linalg.norm(x, axis=1)))
    loud = step * rate / (1 + np.linalg.norm(x, axis=1))  # how well a place tells a bend
    chosen = _choose(slopes[:, :, units] * np.minimum(loud, 1e-3)[:, None, None])
    if not len(chosen):
        return values
    seen = np.setdiff1d(np.arange(slopes.shape[2]), units)
    bend, error, right = _ask(pool, known, top, x[chosen], normal[chosen], step[chosen])
    chosen, bend, error = chosen[right], bend[right], error[right]
    target = bend / rate[chosen, None] - slopes[chosen][:, :, seen] @ known.weights[layer][seen, feature]
    weight = rate[chosen] / np.maximum(error, 1e-300)
    size = np.max(np.abs(known.weights[layer]), axis=1)[units]
    return solve_weights(slopes[chosen][:, :, units], target, weight, size)


def _begin(pool: Pool, known: Known, layer: int, unit: int) -> np.ndarray:
    """Points on the border of a unit, from those asked that are nearest to it and from random ones."""
    asked = pool.inquiry.meter.transcript()[0]
    near = np.abs(known.first(layer + 1).arguments(asked)[layer][:, unit]) / (
        1e-3 + np.linalg.norm(asked, axis=1)
    )
    asked = asked[np.argsort(near)[: NEAREST * NUM_STARTS]]
    z, g = (part[layer][:, unit] for part in known.first(layer + 1).gradients(asked))
    near = np.abs(z) / np.maximum(np.linalg.norm(g, axis=1), 1e-300) / (1e-3 + np.linalg.norm(asked, axis=1))
    more = spread_points(pool.inquiry.meter.domain, NUM_STARTS // 3, known.input_size, pool.rng, 0.7)
    return _onto(known, layer, unit, np.concatenate([asked[np.argsort(near)[:NUM_STARTS]], more]), NUM_NEWTON)


def _onto(known: Known, layer: int, unit: int, x: np.ndarray, num_steps: int) -> np.ndarray:
    """The points moved to the border of a unit."""
    for _ in range(num_steps):
        z, g = (part[layer][:, unit] for part in known.first(layer + 1).gradients(x))
        x = x - (z / np.maximum(np.sum(g**2, axis=1), 1e-12))[:, None] * g
    return x


def _towards(
    pool: Pool, known: Known, layer: int, feature: int, units: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Points of the border of a feature beyond zero sets of units that read it, as far as ways along it lead there."""
    below = known.first(layer + 1)
    z = below.arguments(x)[layer - 1][:, feature]
    x = x[np.abs(z) < 1e-9 * (1 + np.linalg.norm(x, axis=1))]
    if not len(x):
        return x
    owner = np.repeat(units, NUM_WAYS)
    x = x[pool.rng.integers(len(x), size=len(owner))]
    at, places = np.arange(len(x)), []
    for _ in range(NUM_TURNS):
        zs, gs = below.gradients(x)
        g, own, up = gs[layer - 1][:, feature], zs[layer][at, owner], gs[layer][at, owner]
        v = up - (np.sum(up * g, axis=1) / np.maximum(np.sum(g**2, axis=1), 1e-300))[:, None] * g
        way = 1.3 * own / np.maximum(np.sum(v * up, axis=1), 1e-12)
        size = np.abs(way) * np.linalg.norm(v, axis=1)
        most = 0.5 * (1e-3 + np.linalg.norm(x, axis=1))
        x = _onto(
            known,
            layer - 1,
            feature,
            x - (way * np.minimum(1.0, most / np.maximum(size, 1e-300)))[:, None] * v,
            4,
        )
        places.append(x)
    return np.concatenate(places)


def _places(pool: Pool, known: Known, layer: int, unit: int, x: np.ndarray):
    """Which points are on the border of a unit, its normals there, how fast it grows, and the room to other borders."""
    domain = pool.inquiry.meter.domain
    zs, gs = known.gradients(x)
    rate = np.linalg.norm(gs[layer][:, unit], axis=1)
    at = np.abs(zs[layer][:, unit]) / np.maximum(rate, 1e-300)
    room = np.full(len(x), np.inf)
    for number, (z, g) in enumerate(zip(zs, gs, strict=True)):
        length = np.linalg.norm(g, axis=2)
        apart = np.where(length > 1e-12, np.abs(z) / np.maximum(length, 1e-300), np.inf)
        if number == layer:
            apart[:, unit] = np.inf
        room = np.minimum(room, apart.min(axis=1, initial=np.inf))
    size = 1 + np.linalg.norm(x, axis=1)
    good = (at < 1e-11 * size) & (rate > 1e-9) & (room > 1e-5 * size) & (size < 1e4)
    good &= np.all(np.isfinite(x), axis=1) & domain.contains(np.where(np.isfinite(x), x, 0.0))
    return x[good], gs[layer][good, unit] / rate[good, None], rate[good], np.minimum(room, size)[good]


def derivatives(known: Known, output: np.ndarray, layer: int, x: np.ndarray) -> np.ndarray:
    """Derivatives (n, outputs, units) of the outputs by the arguments of a layer; ``output``: the output weights."""
    zs = known.arguments(x)
    out = np.broadcast_to(output, (len(x), *output.shape))
    for number in range(known.depth - 1, layer - 1, -1):
        if number < known.depth - 1:
            out = out @ known.weights[number + 1]
        out = out * np.where(zs[number] > 0, 1.0, known.leaks[number])[:, None, :]
    return out


def _choose(slopes: np.ndarray) -> np.ndarray:
    """Places whose equations together tell as many combinations of the weights as there are, each twice."""
    left, chosen = np.ones(len(slopes), dtype=bool), []
    limit = 1e-6 * np.max(np.linalg.norm(slopes, axis=(1, 2)), initial=0.0)
    for _ in range(TWICE):
        rest = slopes.copy()
        for _ in range(slopes.shape[2] + 1):
            size = np.where(left, np.linalg.norm(rest, axis=(1, 2)), 0.0)
            best = int(np.argmax(size))
            if not size[best] > limit:
                break
            chosen.append(best)
            left[best] = False
            _, s, vt = np.linalg.svd(rest[best], full_matrices=False)
            vt = vt[s > 0.1 * s[0]]
            rest = rest - (rest @ vt.T) @ vt
    return np.array(chosen, dtype=int)


def _ask(pool: Pool, known: Known, top: Top, x: np.ndarray, normal: np.ndarray, step: np.ndarray):
    """How much the slopes on both sides differ, the errors of that, and where the network is right on the off side."""
    shares = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    points = x[None] + (shares[:, None] * step)[:, :, None] * normal
    inside = np.all(pool.inquiry.meter.domain.contains(points.reshape(-1, x.shape[1])).reshape(5, -1), axis=0)
    points = np.where(inside[:, None], points, points[2])
    answers, bars = pool.inquiry.ask(points.reshape(-1, x.shape[1]))
    y, bar = answers.reshape(5, len(x), -1), bars.reshape(5, len(x)).max(axis=0)
    features = known.features(points.reshape(-1, x.shape[1])).reshape(5, len(x), -1)
    told = features @ top.coefficients[:-1] + top.coefficients[-1]
    change = np.max(np.abs(y - y[2]), axis=(0, 2))
    off = np.max(np.abs((y - y[2] - told + told[2])[:2]), axis=(0, 2))
    straight = np.maximum(*(np.max(np.abs(y[2] + y[a] - 2 * y[b]), axis=1) for a, b in ((0, 1), (4, 3))))
    allowed = 30 * bar + FITS * change
    right = inside & (off < allowed) & (straight < allowed)
    bend = (y[4] + y[0] - 2 * y[2]) / step[:, None]
    return bend, (4 * bar + 1e-11 * change) / step, right


def solve_weights(
    slopes: np.ndarray, target: np.ndarray, weight: np.ndarray, size: np.ndarray, told: float = TOLD
) -> np.ndarray:
    """Weights that most equations agree on, the shortest; not a number where they have no part in any.

    ``told``: the largest error to expect of one that is taken, relative to ``size``.
    """
    values, num = np.full(slopes.shape[2], np.nan), len(slopes)
    kept = np.ones(num, dtype=bool)
    while kept.sum() >= max(1, (1 - MOST_LOST) * num) and num:
        a = (slopes[kept] * weight[kept, None, None]).reshape(-1, slopes.shape[2])
        scale = np.maximum(np.linalg.norm(a, axis=0), 1e-300)
        u, s, vt = np.linalg.svd(a / scale, full_matrices=False)
        used = s > 1e-6 * s[0]
        if not used.any() or not s[0] > 0:
            break
        u, s, vt = u[:, used], s[used], vt[used]
        solution = (vt.T @ ((u.T @ (target[kept] * weight[kept, None]).ravel()) / s)) / scale
        change = np.abs(target[kept]).max(axis=1) + np.max(np.abs(slopes[kept] * solution), axis=(1, 2))
        miss = np.max(np.abs(slopes[kept] @ solution - target[kept]), axis=1)
        bad = miss / (30 / weight[kept] + FITS * change)
        if bad.max() <= 1:
            if len(a) > used.sum():  # an equation to spare
                error = np.linalg.norm(vt.T / s, axis=1) / scale
                good = (error < told * np.maximum(size, np.abs(solution))) & (scale > 1e-300)
                values[good] = solution[good]
            break
        kept[np.flatnonzero(kept)[int(np.argmax(bad))]] = False
    return values
