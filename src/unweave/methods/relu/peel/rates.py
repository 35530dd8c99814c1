"""How often a trace's zero set is seen where the lines of the pool cross it: without questions."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.tracks import is_dark
from unweave.methods.relu.peel.sides import break_up

PLACE = 1e-6
"""How far from its crossing a kink may be seen, relative to the line."""


class Lookout:
    """The features along the lines of a pool."""

    def __init__(self, pool: Pool, features: Known | Lifted):
        lines = pool.lines
        assert lines is not None
        self.pool, self.lines = pool, lines
        starts = lines.origins + lines.low[:, None] * lines.directions
        ends = lines.origins + lines.high[:, None] * lines.directions
        self.owner, share, h = break_up(features, starts, ends)
        self.t = lines.low[self.owner] + share * (lines.high - lines.low)[self.owner]
        self.features = np.hstack([h, np.ones((len(h), 1))])

    def rate(self, trace: Trace) -> tuple[int, int]:
        """How many crossings are seen, and how many there are where the answers change at all."""
        z, dark = self.features @ trace.row, is_dark(trace, self.features)
        crossed = (self.owner[:-1] == self.owner[1:]) & ((z[:-1] > 0) != (z[1:] > 0)) & ~dark[:-1] & ~dark[1:]
        at = np.flatnonzero(crossed)
        if not len(at):
            return 0, 0
        t = self.t[at] + (self.t[at + 1] - self.t[at]) * z[at] / (z[at] - z[at + 1])
        line = self.owner[at]
        length = (self.lines.high - self.lines.low)[line]
        hit = self.pool.is_border(line, t, PLACE * length)
        flat = self.pool.is_flat(line, t)
        return int(hit.sum()), int((hit | ~flat).sum())
