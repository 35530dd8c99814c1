"""Which side every unit of a generation is active on, from chains above it, by trying all sides.

A chain above is the zero set of a row in the outputs ``relu(s_j u_j)`` of the units below, s their sides: units that
are off all along it do not count. So other sides leave other features there, and hardly ever a row that vanishes along
the chain, however little is known of the rows by themselves: one equation that only one choice of sides obeys to
rounding tells them all. Directions in which a unit's own row is open count as features of their own.
Layers that pass on what is linear below them, by units that never switch, have no such row: nothing is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.maps.sheet import Sheet

MOST = 12
"""Units whose sides are tried one and all."""
EXACT = 1e-9
"""Error beyond which a place of a chain tells nothing, relative to the plane or the edge."""
RANK, FITS = 1e-9, 1e-5
"""Singular values that are zero, and what of a zero set may be left, relative to a step across it."""
CLASHES = 0.2
"""Share of the equations that may contradict: chains of higher layers that bend at known units only by chance."""


@dataclass
class Chain:
    """Features (n, p) with a one at places of a chain and along its edges, the last row a step across it.

    ``signs`` (n, units): of the units below at each.
    """

    features: np.ndarray
    signs: np.ndarray


def follow_chain(sheet: Sheet, mine: np.ndarray, base: Known, rows: np.ndarray, extent: float) -> Chain:
    """The edges ``mine`` of a chain in the features of ``base``, with the signs of units ``rows`` over these."""
    edges = sheet.edges
    error, length = edges.error[mine] + 1e-14 * extent, edges.lengths[mine]
    ends = base.features(sheet.ends[edges.ends[mine].ravel()]).reshape(len(mine), 2, -1)
    at, jac = base.jacobian(sheet.middles[mine])
    one, none = np.ones((len(mine), 1)), np.zeros((len(mine), 1))
    signs = np.sign(np.hstack([at, one]) @ rows.T)
    middle = np.hstack([ends.mean(axis=1), one])
    along = np.hstack([(ends[:, 1] - ends[:, 0]) / length[:, None], none])
    sharp, straight = error < EXACT * extent, 2 * error < EXACT * length
    longest = int(np.argmax(length))
    normal = edges.normal[mine[longest]] @ sheet.chart.plane.basis
    across = np.append(jac[longest] @ normal, 0.0)
    return Chain(
        np.vstack([middle[sharp], along[straight], across]),
        np.vstack([signs[sharp], signs[straight], signs[longest]]),
    )


def tell(chains: list[Chain], bases: list[np.ndarray]) -> np.ndarray | None:
    """The signs (units,) that the chains agree with; None where they do not tell all of them.

    ``bases``: for every unit the rows (p, directions) that it may have.
    """
    n = len(bases)
    if not 0 < n <= MOST or not chains:
        return None
    tried = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    agree, clash = np.zeros(len(tried)), np.zeros(len(tried))
    for chain in chains:
        count, fits = _try(chain, bases, tried)
        agree += np.where(fits, count, 0)
        clash += np.where(fits, 0, count)
    best = int(np.argmax(agree - clash))
    ties = np.flatnonzero(agree - clash == agree[best] - clash[best])
    if len(ties) > 1 or not agree[best] or clash[best] > CLASHES * agree[best]:
        return None
    return tried[best]


def _try(chain: Chain, bases: list[np.ndarray], tried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many equations every choice of signs has to obey on a chain, and whether it obeys them."""
    x = chain.features
    own = [x @ basis for basis in bases]
    on = [(chain.signs[:, [j]] > 0) * part for j, part in enumerate(own)]
    size = np.maximum(np.linalg.norm(np.hstack([x, *on]), axis=1), 1e-300)[:, None]
    u, s, _ = np.linalg.svd(np.hstack([x, *on]) / size, full_matrices=False)
    seen = u[:, s > RANK * s[0]].T / size.T
    one, step = seen @ x[:, -1:], seen[:, -1]
    sides = [(seen @ (part - there), seen @ there) for part, there in zip(own, on, strict=True)]
    count, fits = np.zeros(len(tried)), np.zeros(len(tried), dtype=bool)
    for place, signs in enumerate(tried):
        a = np.hstack([one, *[pair[int(sign > 0)] for pair, sign in zip(sides, signs, strict=True)]])
        scale = np.linalg.norm(a, axis=0)
        a = a[:, scale > RANK * scale.max()] / scale[scale > RANK * scale.max()]
        u, s, _ = np.linalg.svd(a, full_matrices=False)
        u = u[:, s > RANK * s[0]]
        left = step - u @ (u.T @ step)
        count[place] = len(step) - u.shape[1]
        fits[place] = np.linalg.norm(left) <= FITS * np.linalg.norm(step)
    return count, fits
