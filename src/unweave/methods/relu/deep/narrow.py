"""A network that is right in a bounded domain, written with as few parameters as it takes there.

Many networks are the same function in a domain. A kink that nothing bends at may stand in a higher layer, and one that
bends at nothing in a lower one; each may be on either side. What the units of a layer do not pass on of what is wanted
above is carried by units that are always on, as many as the rank of that rest: so every choice of layers and sides has
its widths, and the choice of least parameters is taken. All of it is arithmetic on the kinks (``kinks``): no question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, product

import numpy as np

from unweave.core import clock
from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.methods.relu.deep.kinks import Kinks, read_kinks
from unweave.methods.relu.deep.tracks import keep_signs
from unweave.methods.relu.lifted.assemble import least_rank

POINTS, TRIAL, TURNS = 4000, 30_000, 4
"""Points at which a network is written anew, more at which it is tried, and how often wrong ones are added."""
RANK = 1e-7
"""What of a row may be left over, relative to it, that others carry."""
ALL_SIDES = 10
"""Units of a layer whose sides are all tried; of more, those that the least rank has."""
MOST = 256
"""Choices of layers that are looked at."""
BUILDS = 12
"""Choices that are built, the narrowest first."""
MOST_PARTS = 6
"""Units that are found in parts, at most."""
AGAIN = 8
"""Sides with which each of these is built."""
WIDE = 10**9, 10**9
"""Wider than any."""
SAME = 1e-9
"""How far the network may be from the one it is to be, relative to the spread of the outputs."""
FLAT = 1e-10
"""Singular values below this share of the largest are zero."""
PROGRAMS, HELD = 8, 400
"""Linear programs that keep a unit off where it is not on, and points that the next one takes in."""


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


@dataclass(frozen=True)
class Narrow:
    """The network, and how many units of every layer, the last of it, only carry what is affine below."""

    network: Network
    num_carried: tuple[int, ...]

    def warnings(self) -> tuple[str, ...]:
        return tuple(
            f"layer {layer}: the last {count} units stand for what is affine in this domain"
            for layer, count in enumerate(self.num_carried, start=1)
            if count
        )


def write_narrow(
    network: Network, domain: Domain, asked: np.ndarray, rng: np.random.Generator, deadline: float
) -> Narrow | None:
    """A narrower network, the same all over the domain and at the points ``asked``; None where none is found."""
    d = network.input_size
    x = np.concatenate([domain.sample(POINTS, d, rng), domain.edge(POINTS // 4, d, rng)])
    x = np.concatenate([x, asked[rng.permutation(len(asked))[:POINTS]]])
    trial = np.concatenate([domain.sample(TRIAL, d, rng), domain.edge(TRIAL // 4, d, rng), asked])
    y = network(trial)
    for _ in range(TURNS):
        found = narrow(network, x, deadline)
        if found is None:
            return None
        wrong = trial[np.max(np.abs(found.network(trial) - y), axis=1) > 10 * SAME * np.std(y)]
        if not len(wrong):
            return found
        x = np.concatenate([x, wrong[:POINTS]])
    return None


def narrow(network: Network, x: np.ndarray, deadline: float) -> Narrow | None:
    """A narrower network that agrees with a relu network at the points x; None where none is found."""
    kinks = read_kinks(network, x)
    if kinks is None:
        return None
    least = max(network.hidden), network.num_parameters
    best: Narrow | None = None
    for _ in range(MOST_PARTS):
        found = narrow_kinks(kinks, network, least, deadline)
        best = best if found is None else found
        least = least if found is None else size_of(found.network)
        for united in unite_parts(kinks, len(network.hidden)):
            found = narrow_kinks(united, network, least, deadline)
            if found is not None:
                best, least, kinks = found, size_of(found.network), united
                break
        else:
            break
    return best


def size_of(network: Network) -> tuple[int, int]:
    return max(network.hidden), network.num_parameters


def bends_of(kinks: Kinks) -> list[np.ndarray]:
    """For every kink those that it has to stand above."""
    return [
        np.array([i for i in kinks.reads(j) if kinks.without(j, int(i)) is None], dtype=int)
        for j in range(len(kinks))
    ]


def unite_parts(kinks: Kinks, depth: int) -> Iterator[Kinks]:
    """Two kinks that only the outputs read as one, where they can be the zero sets of one unit on two sides."""
    d, bends = kinks.num_inputs, bends_of(kinks)
    low, high = choose_range(bends, depth)
    apart = set_apart(kinks, [kinks.reads(j) for j in range(len(kinks))], high)
    kinks = kinks if apart is None else apart[0]
    unread = np.flatnonzero(~np.any(kinks.forms[:, d:-1] != 0, axis=0))
    features = kinks.features
    for i, j in combinations(unread, 2):
        a, b = kinks.outputs[:, d + i], kinks.outputs[:, d + j]
        ratio = float(a @ b) / float(a @ a)
        if ratio <= 0 or np.linalg.norm(b - ratio * a) > RANK * np.linalg.norm(b):
            continue
        use = np.r_[0:d, d + np.setdiff1d(np.flatnonzero(low < depth - 1), (i, j)), d + len(kinks)]
        for one, two in product((1.0, -1.0), repeat=2):
            own, other = one * kinks.z[:, i], ratio * two * kinks.z[:, j]
            if np.any((own > 0) & (other > 0)):
                continue
            z = np.where(own > 0, own, np.where(other > 0, other, np.minimum(own, other)))
            row = fit_row(features[:, use], z, z > 0)
            if row is not None:
                form = np.zeros(features.shape[1])
                form[use] = row
                yield kinks.united(int(i), int(j), one, two, form)


def narrow_kinks(kinks: Kinks, network: Network, least: tuple[int, int], deadline: float) -> Narrow | None:
    """A network of these kinks that is narrower than ``least``: its greatest width, and its parameters."""
    reads, bends, depth = [kinks.reads(j) for j in range(len(kinks))], bends_of(kinks), len(network.hidden)
    plans: dict[tuple[int, ...], tuple[Kinks, np.ndarray, list[Level]]] = {}

    def cost(layers: tuple[int, ...]) -> tuple[int, int]:
        if layers not in plans:
            free = set_apart(kinks, reads, np.array(layers))
            if free is None:
                return WIDE
            plans[layers] = *free, plan(*free, np.array(layers))
        return size_of_levels(kinks, plans[layers][-1])

    search_layers(choose_range(bends, depth), bends, cost, deadline)
    for layers in sorted(plans, key=cost)[:BUILDS]:
        free, both, levels = plans[layers]
        for again in range(
            AGAIN
        ):  # of sides that take the same width some cannot keep units off where they are
            if size_of_levels(free, levels) >= least or clock.now() > deadline:
                break
            found = build(free, levels, network.activations)
            if found is not None:
                return Narrow(found, tuple(len(level.carried) for level in levels))
            levels = plan(free, both, np.array(layers), np.random.default_rng(again))
    return None


def size_of_levels(kinks: Kinks, levels: list[Level]) -> tuple[int, int]:
    """The greatest width, and how many parameters."""
    widths = [kinks.num_inputs, *(level.width for level in levels), len(kinks.outputs)]
    return max(widths[1:-1]), sum((a + 1) * b for a, b in pairwise(widths))


def choose_range(bends: list[np.ndarray], depth: int) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest layer of every kink."""
    low, high = np.zeros(len(bends), dtype=int), np.full(len(bends), depth - 1)
    for j, below in enumerate(bends):
        low[j] = max((low[i] + 1 for i in below), default=0)
    for j in range(len(bends) - 1, -1, -1):
        high[bends[j]] = np.minimum(high[bends[j]], high[j] - 1)
    return low, high


def search_layers(
    allowed: tuple[np.ndarray, np.ndarray],
    bends: list[np.ndarray],
    cost: Callable[[tuple[int, ...]], tuple[int, int]],
    deadline: float,
) -> None:
    """Kinks moved from layer to layer, one by one, as long as that narrows; from the lowest and the highest."""
    low, high = allowed
    if np.any(low > high):
        return
    left = MOST
    for start in (low, high):
        now, moved = tuple(int(v) for v in start), True
        least = cost(now)
        while moved:
            moved = False
            for j in range(len(low)):
                for layer in range(low[j], high[j] + 1):
                    trial = (*now[:j], layer, *now[j + 1 :])
                    if layer == now[j] or not is_above(trial, bends):
                        continue
                    left -= 1
                    if left < 0 or clock.now() > deadline:
                        return
                    if cost(trial) < least:
                        now, least, moved = trial, cost(trial), True


def is_above(layers: tuple[int, ...], bends: list[np.ndarray]) -> bool:
    return all(layers[i] < layers[j] for j, below in enumerate(bends) for i in below)


def set_apart(kinks: Kinks, reads: list[np.ndarray], layers: np.ndarray) -> tuple[Kinks, np.ndarray] | None:
    """The kinks such that none reads another of its own layer or of a higher one, and which may be turned round."""
    for j, others in enumerate(reads):
        for i in others:
            if layers[i] >= layers[j]:
                free = kinks.without(j, int(i))
                if free is None:
                    return None
                kinks = free
    both = np.ones(len(kinks), dtype=bool)
    for j in range(len(kinks)):
        free = kinks.spread(j, layers)
        both[j] = free is not None
        kinks = kinks if free is None else free
    return kinks, both


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


def build(kinks: Kinks, levels: list[Level], names) -> Network | None:
    """The network with these levels; None where the units of a layer do not give what is wanted above."""
    features, h = kinks.features, kinks.x
    weights, biases = [], []
    for level in levels:
        base = np.hstack([h, np.ones((len(h), 1))])
        rows = []
        for j, side in zip(level.kinks, level.sides, strict=True):
            row = fit_row(base, side * kinks.z[:, j], kinks.region(int(j), side))
            if row is None:
                return None
            rows.append(row)
        every = np.ones(len(h), dtype=bool)
        for form in level.carried:
            value = features @ form
            row = fit_row(base, value, every)
            if row is None:
                return None
            row[-1] += 1.0 * max(np.ptp(value), 1e-3) - value.min()
            rows.append(row)
        rows = np.array(rows)
        z = base @ rows.T
        weights.append(rows[:, :-1])
        biases.append(rows[:, -1])
        h = np.maximum(z, kinks.leak * z)
    y = features @ kinks.outputs.T
    base = np.hstack([h, np.ones((len(h), 1))])
    top = least(base, y)[0]
    if np.max(np.abs(base @ top - y)) > SAME * np.std(y):
        return None
    weights.append(top[:-1].T)
    biases.append(top[-1])
    return Network(weights, biases, [*names[: len(levels)], "identity"])


def least(base: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least squares, and the directions (p, n) that are open in it."""
    p, y = base.shape[1], y.reshape(len(base), -1)
    scale = np.linalg.norm(base, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    both = np.vstack([np.hstack([base / scale, y]), np.zeros((p, p + y.shape[1]))])
    r = np.asarray(np.linalg.qr(both, mode="r"))
    u, s, vt = np.linalg.svd(r[:p, :p])
    kept = s > FLAT * max(s[0], 1e-300)
    solution = vt[kept].T @ ((u[:, kept].T @ r[:p, p:]) / s[kept][:, None]) / scale[:, None]
    return solution, vt[~kept].T / scale[:, None]


def fit_row(base: np.ndarray, z: np.ndarray, region: np.ndarray) -> np.ndarray | None:
    """The row with these values in a region and none above zero elsewhere; None where there is none."""
    solution, null = least(base[region], z[region])
    row = solution[:, 0]
    size = float(np.max(np.abs(z)))
    if np.max(np.abs(base[region] @ row - z[region])) > SAME * size:
        return None
    off = np.flatnonzero(~region)
    wrong = off[base[off] @ row > SAME * size]
    taken = off[:: 1 + len(off) // HELD]
    for _ in range(PROGRAMS):
        if not len(wrong):
            return row
        if not null.shape[1]:
            return None
        taken = np.union1d(taken, wrong[:: 1 + len(wrong) // HELD])
        row = keep_signs(row, null, base[taken], -np.ones(len(taken)), np.ones(len(taken)), room=0.1)
        wrong = off[base[off] @ row > SAME * size]
    return None
