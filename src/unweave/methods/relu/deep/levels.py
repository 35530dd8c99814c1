"""The units of every layer of a network in a bounded domain, from kinks in chosen layers: sides, and what is carried.

From the last layer down: what a layer's units do not pass on of what is wanted above, with the sides that leave least
of it, is carried by units that are always on. Where a unit is on, kinks that do not cross that part of the domain are
affine or nothing: units of the layer that are on all over it pass on their own argument there, for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.kinks import Kinks
from unweave.methods.relu.lifted.assemble import least_rank

RANK = 1e-7
"""What of a row may be left over, relative to it, that others carry."""
ALL_SIDES = 10
"""Units of a layer whose sides are all tried; of more, those that the least rank has."""


@dataclass(frozen=True)
class Level:
    """The units of one layer: kinks with their sides, and forms that are carried."""

    kinks: np.ndarray
    sides: np.ndarray
    carried: np.ndarray

    @property
    def width(self) -> int:
        return len(self.kinks) + len(self.carried)


@dataclass(frozen=True)
class Wanted:
    """A form that the layer above reads, where it is read, and what of forms counts there."""

    form: np.ndarray
    region: np.ndarray
    turn: np.ndarray


def plan(
    kinks: Kinks, both: np.ndarray, layers: np.ndarray, rng: np.random.Generator | None = None
) -> list[Level]:
    """Sides and what is carried, from the last layer down; of sides that do alike the first, or one by chance."""
    every = np.ones(len(kinks.x), dtype=bool)
    turn = np.eye(kinks.forms.shape[1])
    wanted = [Wanted(form, every, turn) for form in kinks.outputs]
    levels = []
    for layer in range(int(layers.max()), -1, -1):
        mine = np.flatnonzero(layers == layer)
        under = np.flatnonzero(layers < layer)
        sides, carried = choose_sides(kinks, mine, both[mine], under, wanted, rng)
        levels.append(Level(mine, sides, carried))
        wanted = [Wanted(form, every, turn) for form in carried]
        for j, side in zip(mine, sides, strict=True):
            region = kinks.region(int(j), side)
            wanted.append(Wanted(kinks.forms[j], region, kinks.reduce(region)))
    return levels[::-1]


def choose_sides(
    kinks: Kinks, mine: np.ndarray, both: np.ndarray, under: np.ndarray, wanted: list[Wanted], rng
) -> tuple[np.ndarray, np.ndarray]:
    """Sides of the units of a layer with which least has to be carried, and the forms that are."""
    d, a, p = kinks.num_inputs, kinks.leak, kinks.forms.shape[1]
    columns = np.r_[0:d, d + under]
    up, down = -a / (1 - a), 1 / (1 - a)
    base, parts, frees = [], [], []
    for one in wanted:
        form = one.form @ one.turn
        base.append(form[columns])
        own = kinks.forms[mine] @ one.turn
        parts.append(form[d + mine, None] * own[:, columns])
        z = kinks.z[one.region][:, mine]
        on, off = (z > 0).all(axis=0), (z <= 0).all(axis=0)
        frees.append((own[:, columns], on, off))
    base, parts = np.array(base), np.array(parts).reshape(len(wanted), len(mine), len(columns))
    maps = [one.turn[np.ix_(columns, columns)] for one in wanted]
    closed = np.array([bool(np.all(turn == np.eye(len(columns)))) for turn in maps])
    sure = np.array([c and not (on | off).any() for c, (_, on, off) in zip(closed, frees, strict=True)])
    tried = sides_to_try(base[sure], parts[sure], len(mine), up, down)
    tried = np.unique(np.where(both, tried, 1.0), axis=0)[::-1]
    if rng is not None:
        tried = rng.permutation(tried)
    factor = np.where(tried > 0, up, down)
    rests = base[None] + np.einsum("sn,jnp->sjp", factor, parts)
    least = np.zeros(len(tried), dtype=int)
    if sure.any() and len(columns):
        values = np.linalg.svd(rests[:, sure], compute_uv=False)
        least = np.sum(values > RANK * np.max(values, initial=0.0), axis=1)
    scale = float(np.max(np.abs([one.form @ one.turn for one in wanted])))
    best: tuple[int, np.ndarray, np.ndarray] | None = None
    for place in np.argsort(least, kind="stable"):
        if best is not None and best[0] <= least[place]:
            break
        sides, free = tried[place], []
        for own, on, off in frees:
            shown = on | off if a else np.where(sides > 0, on, off)
            free.append(own[shown])
        carried = carry(rests[place], maps, closed, free, scale)
        if best is None or len(carried) < best[0]:
            best = len(carried), sides, carried
    assert best is not None
    out = np.zeros((best[0], p))
    out[:, columns] = best[2]
    return best[1], out


def sides_to_try(base: np.ndarray, parts: np.ndarray, n: int, up: float, down: float) -> np.ndarray:
    if n <= ALL_SIDES:
        return 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    out = [np.ones(n)]
    if base.size:
        ratio = least_rank(base, -np.moveaxis(parts, 1, 0))
        out.append(np.where(ratio > (up + down) / 2, -1.0, 1.0))
    return np.array(out)


def carry(
    rests: np.ndarray, maps: list[np.ndarray], closed: np.ndarray, free: list[np.ndarray], scale: float
) -> np.ndarray:
    """Few forms of which every rest is a combination, up to what is free for it, where it counts."""
    size = np.linalg.norm(rests, axis=1)
    sure = closed & np.array([not len(one) for one in free])
    found = np.zeros((0, rests.shape[1]))
    if sure.any():
        _, s, vt = np.linalg.svd(rests[sure], full_matrices=False)
        found = vt[s > RANK * scale]
    order = sorted(np.flatnonzero(~sure), key=lambda j: len(free[j]) - np.trace(maps[j]))
    for j in order:
        ways = np.vstack([found @ maps[j], free[j]])
        rest = rests[j]
        if len(ways):
            ways = ways / np.maximum(np.linalg.norm(ways, axis=1, keepdims=True), 1e-300)
            rest = rest - ways.T @ np.linalg.lstsq(ways.T, rest, rcond=RANK)[0]
        if np.linalg.norm(rest) > RANK * max(size[j], 1e-3 * scale):
            found = np.vstack([found, rest / np.linalg.norm(rest)])
    return found
