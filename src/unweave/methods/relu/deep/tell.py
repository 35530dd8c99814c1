"""The sides of a layer of few units from rows above it, by trying all of them.

A row above a layer is ``gamma . h + sum_i beta_i |u_i| + const`` with ``gamma = lambda sum_i s_i beta_i r_i``, s the
sides. Every row tells as many equations as it is known in; since the sides are signs, a few exact equations leave one
choice, where least squares would need as many as there are units. Rows that are not of the next layer contradict and
are outvoted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.methods.relu.deep.lift import Lifted, Told, rows_above, side_equations
from unweave.methods.relu.deep.trace import Trace

MOST = 14
"""Units whose sides are tried one and all."""
FITS = 1e-7
"""What a row may leave, relative to its size."""
FEWEST = 3
"""Equations besides which one for every four units has to agree."""
COUNTS = 1e-6
"""An entry below this tells no side."""


def try_sides(
    lifted: Lifted, traces: list[Trace], say: Callable[[str], None] = lambda text: None
) -> Told | None:
    """The sides that most equations agree with; None where they do not tell all of them."""
    n = len(lifted.rows)
    if n > MOST:
        return None
    systems = [side_equations(lifted, trace) for trace in traces if trace.crossed]
    systems = [(a, y) for a, y in systems if len(y)]
    if not systems:
        return None
    signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    votes = np.zeros(len(signs))
    fits = []
    for a, y in systems:
        worst = np.max(np.abs(signs @ a.T - y), axis=1)
        fits.append(worst <= FITS)
        # as many equations as the row is known in, less where entries hardly count
        votes += fits[-1] * int(np.sum(np.linalg.svd(a)[1] > COUNTS))
    best = int(np.argmax(votes))
    ties = np.flatnonzero(votes == votes[best])
    say(
        f"  sides: {votes[best]:.0f} equations of {sum(len(y) for _, y in systems)} agree, {len(ties)} ways, {n} units"
    )
    if votes[best] < FEWEST + n / 4 or len(ties) > 1:
        return None
    kept = [trace for trace in traces if trace.crossed and len(side_equations(lifted, trace)[1])]
    kept = [trace for trace, fit in zip(kept, fits, strict=True) if fit[best]]
    return Told(signs[best], 0.0, rows_above(lifted, kept, signs[best], 0.0))
