"""A network that is right in a bounded domain, written as narrowly as it can be there.

Many networks are the same function in a domain. A kink that nothing bends at may stand in a higher layer, and one that
bends at nothing in a lower one; each may be on either side. What the units of a layer do not pass on of what is wanted
above is carried by units that are always on, as many as the rank of that rest: so every choice of layers and sides has
its widths. Taken is one whose widest layer is narrowest, of these one of fewest parameters. All of it is arithmetic on
the kinks (``kinks``): no question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, product

import numpy as np

from unweave.core import clock
from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.methods.relu.deep.build import SAME, build, fit_row
from unweave.methods.relu.deep.kinks import Kinks, read_kinks
from unweave.methods.relu.deep.levels import RANK, Level, plan

POINTS, TRIAL, TURNS = 4000, 30_000, 4
"""Points at which a network is written anew, more at which it is tried, and how often wrong ones are added."""
MOST = 256
"""Choices of layers that are looked at."""
BUILDS = 6
"""Choices that are built, the narrowest first."""
MOST_PARTS = 6
"""Units that are found in parts, at most."""
AGAIN = 4
"""Sides with which each of these is built."""
WIDE = 10**9, 10**9
"""Wider than any."""


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
