"""Where a weight between two units could be wrong: where both are as they hardly ever are together. No questions.

A weight shows in the answers only where the unit that reads it is active, on either side of the unit that it is read
from. Where points of the domain hardly ever show one of these states, whoever found the network had next to nothing to
find the weight by. Nor can the network itself tell such a place: with the right weight the unit may be active where it
says that it is not. So the reading unit is followed as it is on the other side, bent by as much as another of its
weights would bend it, to where it gets farthest; it is linear between the hyperplanes of the first layer.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.climb import Climb
from unweave.core import activations as act
from unweave.core.domains import Box, Domain
from unweave.core.network import Network

NUM_SAMPLES = 3000
SELDOM = 2
"""Of the samples, up to which a state is hardly ever met."""
STARTS, SHRINK = 4, 4
"""Samples that climbs begin at, and by how much fewer each is the best of."""
BEYOND = 0.01
"""How far beyond a hyperplane, of all that lies there, climbs begin."""
MOST_BENDS, BENDS = 8, (0.4, 0.8)
"""How many bends are tried for each pair, and between which quantiles of the sizes of all weights of the unit."""
INSIDE = 1e-3
"""How far the points lie from the corners that climbs end at, relative to where they began."""


def find_rare_pairs(
    network: Network, num_points: int, domain: Domain, rng: np.random.Generator
) -> np.ndarray:
    """Points (up to num_points, d) of a box at which a unit of the second layer and one of the first may meet.

    None elsewhere, and none of networks of another depth or of units that are not linear on either side.
    """
    d = network.input_size
    if not isinstance(domain, Box) or len(network.hidden) != 2 or not network.is_piecewise_linear:
        return np.zeros((0, d))
    low, high = np.broadcast_to(domain.low, d), np.broadcast_to(domain.high, d)
    third = NUM_SAMPLES // 3
    samples = np.concatenate([domain.sample(2 * third, d, rng), domain.edge(third, d, rng)])
    u = samples @ network.weights[0].T + network.biases[0]
    z = Network(network.weights[:2], network.biases[:2], (network.activations[0], "identity"))(samples)
    pairs = _seldom(z > 0, u > 0)
    pairs = pairs[rng.permutation(len(pairs))[:num_points]]
    if not len(pairs):
        return np.zeros((0, d))
    middle, half = (low + high) / 2, (high - low) / 2
    num_bends = int(np.clip(num_points // len(pairs), 1, MOST_BENDS))
    # how much a unit bends decides where it gets farthest: small weights and the largest are left out
    shares = BENDS[0] + (BENDS[1] - BENDS[0]) * (np.arange(num_bends) + rng.uniform()) / num_bends
    t = (samples - middle) / half
    found = [_follow(network, pairs, share, t, middle, half, rng) for share in shares]
    return middle + half * np.concatenate(found)


def _seldom(on: np.ndarray, below: np.ndarray) -> np.ndarray:
    """(n, 4): units of a layer and of that below, and sides +-1 of each, that hardly ever come together.

    Of the lower unit's two sides only the rarer: otherwise the upper one itself hardly ever is on its side.
    """
    found = []
    for side, mine in ((1, on), (-1, ~on)):
        counts = np.stack([mine.T.astype(float) @ part.astype(float) for part in (below, ~below)])
        rarer = np.argmin(counts, axis=0)
        ever = below.any(axis=0) & ~below.all(axis=0)
        unit, other = np.nonzero((np.min(counts, axis=0) <= SELDOM) & ever)
        turns = on[:, unit].any(axis=0) & ~on[:, unit].all(axis=0)
        unit, other = unit[turns], other[turns]
        found.append(np.stack([unit, other, np.full(len(unit), side), 1 - 2 * rarer[unit, other]], axis=1))
    return np.concatenate(found)


def _follow(
    network: Network,
    pairs: np.ndarray,
    share: float,
    t: np.ndarray,
    middle: np.ndarray,
    half: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """For each pair the point on the lower unit's side where the upper one gets farthest to its own.

    ``t`` are samples in coordinates in which the box is [-1, 1], ``share`` is the quantile that the bend is.
    """
    unit, other, side, below = pairs.T
    many = np.arange(len(pairs))
    rows, offsets = network.weights[0] * half, network.weights[0] @ middle + network.biases[0]
    length = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    rows, offsets = rows / length[:, None], offsets / length
    weights = side[:, None] * network.weights[1][unit] * length
    own = weights[many, other].copy()
    weights[many, other] = 0.0
    bend = np.quantile(np.abs(weights), share, axis=1)
    leak = float(act.get(network.activations[0]).first(np.array([-1.0]), np)[0])
    # above zero w u, below it leak w u: |u| and u in equal parts
    ridges, linear = (1 - leak) / 2 * weights, (1 + leak) / 2 * weights
    linear[many, other] = np.where(below > 0, leak, 1.0) * own + below * bend
    u = t @ rows.T + offsets
    values = np.abs(u) @ ridges.T + u @ linear.T
    corner = np.sign(below[:, None] * rows[other])  # as far on the lower unit's side as may be
    best, height = np.zeros((len(pairs), t.shape[1])), np.full(len(pairs), -np.inf)
    for turn in range(STARTS):
        # the best of all samples, then of fewer
        some = rng.permutation(len(t))[: len(t) // SHRINK**turn]
        start = t[some[np.argmax(values[some], axis=0)]]
        start = _onto_side(start, corner, below[:, None] * rows[other], below * offsets[other])
        climb = Climb.begin(rows, offsets, start)
        # held on its side, which it may still have to reach
        climb.sign[many, other], climb.counts[many, other] = below, True
        climb.rise(linear @ rows, ridges)
        end = climb.run(start)
        v = end @ rows.T + offsets
        value = np.einsum("qn,qn->q", np.abs(v), ridges) + np.einsum("qn,qn->q", v, linear)
        value = np.where(below * v[many, other] > 0, value, -np.inf)
        better = value > height
        best = np.where(better[:, None], end + INSIDE * (start - end), best)
        height = np.where(better, value, height)
    return best[np.isfinite(height)]


def _onto_side(start: np.ndarray, corner: np.ndarray, rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The points, those below ``rows . t + offsets = 0`` moved towards their corners until they are above it."""
    low, high = (np.einsum("qd,qd->q", t, rows) + offsets for t in (start, corner))
    share = np.where(low < 0, -low / np.maximum(high - low, 1e-300), 0.0)
    share = np.where(low < 0, share + BEYOND * (1 - share), 0.0)
    return start + np.clip(share, 0.0, 1.0)[:, None] * (corner - start)
