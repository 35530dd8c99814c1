"""Which side every unit of a generation is active on, from chains above it, by trying all sides.

A chain above is the zero set of a row in the outputs ``relu(s_j u_j)`` of the units below, s their sides: units that
are off all along it do not count. So other sides leave other features there, and hardly ever a row that vanishes along
the chain, however little is known of the rows by themselves: one equation that only one choice of sides obeys to
rounding tells them all. Directions in which a unit's own row is open count as features of their own.
A unit that never switches passes on one row more, the same to all chains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.deadline import held
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.maps.count import count_sides
from unweave.methods.relu.maps.sheet import Sheet

MOST = 12
"""Units whose sides are tried one and all."""
EXACT = 1e-9
"""Error beyond which a place of a chain tells nothing, relative to the plane or the edge."""
RANK, FITS = 1e-9, 1e-5
"""Singular values that are zero, and what of a zero set may be left, relative to a step across it."""
FLAT = 1e-3
"""Features smaller than this, relative to the largest on a chain, keep their scale."""
TURNS = 25
"""Gauss-Newton steps for the row that a unit which never switches passes on."""
CLASHES = 0.2
"""Share of the equations that may contradict: chains of higher layers that bend at known units only by chance."""


@dataclass
class Chain:
    """Features (n, p) with a one at places of a chain and along its edges, the last row a step across it.

    ``signs`` (n, units): of the units below at each.
    """

    features: np.ndarray
    signs: np.ndarray


def follow_chain(sheet: Sheet, mine: np.ndarray, base: Known, signs: np.ndarray, extent: float) -> Chain:
    """The edges ``mine`` of a chain in the features of ``base``, with the signs (edges, units) of the units there."""
    edges = sheet.edges
    error, length = edges.error[mine] + 1e-14 * extent, edges.lengths[mine]
    ends = base.features(sheet.ends[edges.ends[mine].ravel()]).reshape(len(mine), 2, -1)
    _, jac = base.jacobian(sheet.middles[mine])
    one, none = np.ones((len(mine), 1)), np.zeros((len(mine), 1))
    middle = np.hstack([ends.mean(axis=1), one])
    along = np.hstack([(ends[:, 1] - ends[:, 0]) / length[:, None], none])
    sharp, straight = error < EXACT * extent, 2 * error < EXACT * length
    longest = int(np.argmax(length))
    normal = edges.normal[mine[longest]] @ sheet.chart.plane.basis
    across = np.append(jac[longest] @ normal, 0.0)
    signs = signs[mine]
    return Chain(
        np.vstack([middle[sharp], along[straight], across]),
        np.vstack([signs[sharp], signs[straight], signs[longest]]),
    )


def see_signs(sheet: Sheet, values: np.ndarray, clear: np.ndarray, zero_sets: list[np.ndarray]) -> np.ndarray:
    """On which side of every unit the edges (n, units) lie, counted across its chains where its value is not clear."""
    signs, chains = np.sign(values), sheet.chains
    for unit in np.flatnonzero(~clear.all(axis=0)):
        mine = np.unique([chains.root(int(root)) for root in zero_sets[unit]]).astype(int)
        if not len(mine):
            continue
        sides, usable = count_sides(chains, len(sheet.chart.cells), mine)
        side, told = np.prod(sides, axis=1)[sheet.beside], usable[sheet.beside] & (sheet.beside >= 0)
        agree = float(np.sum(side * signs[:, unit] * (clear[:, unit] & told)))
        signs[:, unit] = np.where(
            told & ~clear[:, unit] & (agree != 0), np.sign(agree) * side, signs[:, unit]
        )
    return signs


def tell(chains: list[Chain], bases: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray] | None:
    """The signs (units,) that the chains agree with, and what is passed on beside the units; None where nothing tells.

    ``bases``: for every unit the rows (p, directions) that it may have. Without units that never switch nothing is
    passed on, (0, p) rows; with one of them the same row for all chains.
    """
    n = len(bases)
    if not 0 < n <= MOST or not chains:
        return None
    tried = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    left = []
    for chain in chains:
        if held().passed:
            return None
        left.append(_left_over(chain, bases, tried))
    agree, clash = np.zeros(len(tried)), np.zeros(len(tried))
    for ways in left:
        for place, (_, step, count) in enumerate(ways):
            fits = np.linalg.norm(step) <= FITS
            agree[place] += count * fits
            clash[place] += count * (not fits)
    best = int(np.argmax(agree - clash))
    ties = np.flatnonzero(agree - clash == agree[best] - clash[best])
    if len(ties) == 1 and agree[best] and clash[best] <= CLASHES * agree[best]:
        return tried[best], np.zeros((0, chains[0].features.shape[1]))
    shared = [
        None if held().passed else _share([ways[place][:2] for ways in left]) for place in range(len(tried))
    ]
    counts = np.array([0 if one is None else one[1] for one in shared])
    best = int(np.argmax(counts))
    one = shared[best]
    if one is None or counts[best] < 1 or np.sum(counts == counts[best]) > 1:
        return None
    return tried[best], np.append(one[0], 0.0)[None]


def _left_over(
    chain: Chain, bases: list[np.ndarray], tried: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """For every choice of signs: what rows passed on, and the step across, are beside the units; how many equations."""
    x = chain.features
    own = [x @ basis for basis in bases]
    on = [(chain.signs[:, [j]] > 0) * part for j, part in enumerate(own)]
    size = np.linalg.norm(np.hstack([x, *on]), axis=1)[:, None]
    size = np.maximum(size, FLAT * size.max())  # what hardly changes along an edge tells nothing
    u, s, _ = np.linalg.svd(np.hstack([x, *on]) / size, full_matrices=False)
    seen = u[:, s > RANK * s[0]].T / size.T
    one, passed, step = seen @ x[:, -1:], seen @ x[:, :-1], seen[:, -1]
    passed, step = passed / np.linalg.norm(step), step / np.linalg.norm(step)
    sides = [(seen @ (part - there), seen @ there) for part, there in zip(own, on, strict=True)]
    out = []
    for signs in tried:
        a = np.hstack([one, *[pair[int(sign > 0)] for pair, sign in zip(sides, signs, strict=True)]])
        scale = np.linalg.norm(a, axis=0)
        u, s, _ = np.linalg.svd(a[:, scale > RANK * scale.max()] / scale[scale > RANK * scale.max()])
        rest = u[:, int(np.sum(s > RANK * s[0])) :].T
        out.append((rest @ passed, rest @ step, len(rest)))
    return out


def _share(left: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, int] | None:
    """The one row that is passed on to all chains, by Gauss-Newton, and how many equations tell so."""
    left = [(passed, step) for passed, step in left if len(step)]
    if not left:
        return None
    p = left[0][0].shape[1]
    count = sum(len(step) for _, step in left) - len(left) - (p - 1)
    if count < 1:
        return None
    rows = np.array([np.linalg.lstsq(passed, step, rcond=RANK)[0] for passed, step in left])
    told = np.array([len(step) for _, step in left], dtype=float)
    starts = [np.linalg.svd(rows * told[:, None])[2][0], rows[int(np.argmax(told))]]
    for c in starts:
        c = c / (np.linalg.norm(c) + 1e-300)
        for _ in range(TURNS):
            ways = [passed @ c for passed, _ in left]
            shares = [
                float(way @ step) / (float(way @ way) + 1e-300)
                for way, (_, step) in zip(ways, left, strict=True)
            ]
            rest = np.concatenate(
                [step - share * way for share, way, (_, step) in zip(shares, ways, left, strict=True)]
            )
            if np.linalg.norm(rest) <= FITS:
                return c, count
            turn = np.concatenate([share * passed for share, (passed, _) in zip(shares, left, strict=True)])
            stretch = np.zeros((len(turn), len(left)))
            first = 0
            for k, way in enumerate(ways):
                stretch[first : first + len(way), k] = way
                first += len(way)
            move = np.linalg.lstsq(np.hstack([turn, stretch]), rest, rcond=1e-10)[0][:p]
            c = c + move
            c = c / (np.linalg.norm(c) + 1e-300)
    return None
