"""Points at which one unit of a known first layer is heard alone: all others off, or as few on as there may be.

Far on their left side units of relu, gelu, silu, softplus and mish add nothing to an answer, and with nothing they add
no rounding. Of n hyperplanes in d dimensions most patterns of sides exist somewhere, but points drawn at random show
few of them. A linear program finds one: least load of the units that are on, at a given argument of the unit that is to
be heard. What several of its points have off all points between them have off.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import scipy.optimize

from unweave.core.network import Network

LEVELS = (-1.0, 0.0, 1.0, 10.0, 100.0)
"""Arguments of the unit that is heard: across its window, and on its active side, where its row shows."""
MARGINS, REACHES = (2.0, 8.0, 16.0), (30.0, 300.0, 3000.0)
"""How far off the others are, in their arguments, and the largest coordinate of the points."""
NUM_BETWEEN, FEW = 300, 0.1
"""Points between those of the linear programs, and the concentration of their shares: a few have most of it."""
ASIDE = 1e-4
"""Weight of a random direction, beside the least load of one, that tells points apart where all others are off."""


def points_alone(network: Network, unit: int, rng: np.random.Generator) -> np.ndarray:
    """Points (n, inputs) at which first-layer unit ``unit`` of ``network`` is heard best, and points between them."""
    rows, biases = network.weights[0], network.biases[0]
    loads = np.linalg.norm(network.weights[1], axis=0)
    others, (count, d) = np.arange(len(rows)) != unit, rows.shape
    loads = loads[others] / max(float(np.max(loads[others], initial=0.0)), 1e-300)
    off = np.hstack([rows[others], -np.eye(count - 1)])
    on = np.append(rows[unit], np.zeros(count - 1))[None]
    found = []
    for level, margin, reach in product(LEVELS, MARGINS, REACHES):
        aside = ASIDE * rng.standard_normal(d) / reach
        solved = scipy.optimize.linprog(
            np.append(aside, loads),
            A_ub=off,
            b_ub=-biases[others] - margin,
            A_eq=on,
            b_eq=[level - biases[unit]],
            bounds=[(-reach, reach)] * d + [(0, None)] * (count - 1),
            method="highs",
        )
        if solved.status == 0:
            found.append(solved.x[:d])
    if not found:
        return np.zeros((0, d))
    ends = np.array(found)
    return np.concatenate([ends, rng.dirichlet(np.full(len(ends), FEW), NUM_BETWEEN) @ ends])
