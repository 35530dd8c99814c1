"""What a bounded domain shows of the parameters of a piecewise-linear network, and how well.

A unit that never changes side in the domain, a weight whose input is off wherever its unit is on, and sums of weights
that are always on together leave whole directions of the parameters without any effect on the function there: every
choice along them is the same function in the domain. So do, for rough answers, directions along which no answer of the
domain changes by its own error even if a unit changes by as much as it must be known to. These are counted and set
aside. All other directions must be known: their standard errors follow from the Jacobian at the points asked.

Directions that the answers leave open are looked for on many fresh points of the domain: what none of these shows is
hidden, what one of them shows could be asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.certificates.sight import SHOWING, Sight
from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.solve.information import unit_errors

MOST_PARAMETERS = 1600
"""Larger networks are looked at unit by unit: the cost is cubic."""
MOST_DIRECTIONS = 8000
"""Parameters beyond which the domain is not looked through for what the answers do not show at all."""
ROWS = 4.0
"""Residuals a parameter that the Jacobian is made of, at first."""
MOST_ASKED, FEWER_ASKED = 200_000, 30_000
"""Further answers among which those are looked for that show what is not known yet, of each unit or all together."""
LAST = 300
"""Answers, the last ones, that are always among those at first."""
PASSES, BETTER, TELLING = 3, 12, 12
"""How often answers are looked through for those that tell more, and how many of them, and how many points of the
domain, are taken for each direction."""


@dataclass(frozen=True)
class Visible:
    """Standard errors of what the domain shows."""

    deviations: np.ndarray
    """Largest of each unit's standard errors, relative to its largest parameter, invisible directions set aside."""
    num_hidden: int
    """Directions of the parameters that change nothing in the domain, beside the scales of units."""
    condition: float
    alone: bool = False
    """Whether each unit was looked at with all others held."""
    telling: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Points of the domain, none of them asked, that would tell directions not known well enough."""


def measure_visible(
    network: Network,
    x: np.ndarray,
    domain: Domain,
    noise: float,
    unit: float,
    rng: np.random.Generator,
    limit: float = 1e-2,
    thorough: int = 1,
    strict: float = 1.0,
    others: np.ndarray | None = None,
) -> Visible:
    """From points ``x`` that were asked; what these do not tell is looked for on fresh points of the domain.

    ``limit``: the relative error to which a unit must be known; ``thorough``: how many times as many points of the
    domain are looked at; ``strict``: how many times better than ``limit`` a unit is to be known for none to tell more;
    ``others``: points of the domain that are looked at as well.
    """
    size, k = network.num_parameters, network.output_size
    count = int(ROWS * size / k) + 1
    # the last answers may have been asked for what they tell
    x = np.concatenate([x[-LAST:], x[rng.permutation(max(len(x) - LAST, 0))]])
    alone = size > MOST_PARAMETERS
    count += LAST
    taken, left = x[:count], x[count : count + (MOST_ASKED if alone else FEWER_ASKED)]
    sight = Sight(network, noise, unit, alone)
    if size > MOST_DIRECTIONS:
        sight.look(taken, finely=False)
        return _verdict(network, sight, sight.values == 0, x[:0])
    sight.look(taken)
    for _ in range(PASSES):
        weak = np.flatnonzero(sight.errors > limit / strict / 4)
        if not len(weak) or not len(left):
            break
        # answers that tell more may be among those not taken yet
        shown = sight.part(left, limit)
        steps = sight.steps(weak[shown[weak] | ~sight.dead[weak]], limit)
        if not steps.shape[1]:
            break
        rows, moved = sight.best(left, steps, BETTER)
        best = np.unique(rows[moved > SHOWING])
        if not len(best):
            break
        taken, left = np.concatenate([taken, left[best]]), np.delete(left, best, axis=0)
        sight.look(taken)
    hidden, telling, count = np.zeros(len(sight.values), bool), x[:0], count * thorough
    pool = np.concatenate([domain.sample(count, x.shape[1], rng), domain.edge(count, x.shape[1], rng)])
    pool = pool if others is None else np.concatenate([pool, others])
    sight.part(pool, limit)
    # several directions that are known well enough may not be so together
    known = limit / strict
    for least in (known, known / 4):
        weak = np.flatnonzero((sight.errors > least) & ~hidden)
        if len(weak) and not len(telling) and np.max(unit_errors(network, sight.spread(hidden))) > known:
            steps = sight.steps(weak, limit)
            rows, moved = sight.best(pool, steps, TELLING)
            most = np.max(moved, axis=1)
            # what moves no answer beyond rounding is known only because rounding adds up over many
            hidden[weak] = (most == 0) | (most < 1) & (sight.errors[weak] > limit)
            seen = ~hidden[weak]
            telling = sight.choose(
                pool[np.unique(rows)], steps[:, seen], np.minimum(sight.errors[weak][seen], 1)
            )
    return _verdict(network, sight, hidden, telling)


def _verdict(network: Network, sight: Sight, hidden: np.ndarray, telling: np.ndarray) -> Visible:
    values = sight.values
    shown = values[~hidden & ~sight.dead]
    condition = float(values.max() / shown.min()) if len(shown) else np.inf
    deviations = unit_errors(network, sight.spread(hidden))
    return Visible(deviations, int(np.sum(hidden)), condition, sight.alone, telling)
