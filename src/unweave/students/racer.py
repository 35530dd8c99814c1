"""A student on its way among others: what its fresh residuals say about whether to go on, to prune it, to give it up.

Fresh residuals are those at points that no fit sees, relative to what bends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.solve.layout import Layout

SMALL, KEEN_FROM = 2000, 0.1
"""Parameters up to which, and fresh residual, relative to what bends, from which on steps are exact."""
STALLED, STALLED_KEEN, PATIENCE = 0.95, 0.6, 3
"""A student is given up whose fresh residual has not fallen to this fraction, that of one with exact steps to the
other, over so many rounds ..."""
LATE, STALLED_LATE = 8, 0.8
"""... and, after so many, to this one."""
TELLING, TELLING_LATE = 1e-3, 4e-2
"""Fresh residual, relative to what bends, from which on activations of one kind have students of their own; of a large
student, or one that has stalled."""
NEAR, NEAR_LARGE = 2e-3, 2e-2
"""The same at which a student may have found the units, and a large one, for which rounds are costly; one that had not
is asked again at half of it ..."""
FALLING, SLOW, FOUND = 0.75, 0.9, 1e-6
"""... and none while its rounds still bring the residual to this fraction: rounds are cheap beside removals in vain.
Above the second fraction it does not fall at all; at the third it is finished whether it falls or not."""


@dataclass
class Racer:
    """A student on its way, in standard coordinates."""

    activations: list[str]
    """Those it may still turn out to have, its own first."""
    layout: Layout
    parameters: np.ndarray
    fresh: list[float] = field(default_factory=list)
    num_turns: int = 0
    finished: float = np.inf
    """Its fresh residual when it was last pruned, in vain."""
    keen: bool = False
    """Whether it begins near the units and takes exact steps from the beginning."""

    @property
    def depth(self) -> int:
        return len(self.layout.hidden)

    @property
    def is_large(self) -> bool:
        return self.layout.num_parameters > SMALL

    @property
    def is_keen(self) -> bool:
        """Whether it takes exact steps."""
        return self.keen or (not self.is_large and self.last < KEEN_FROM)

    @property
    def last(self) -> float:
        """Its fresh residual now."""
        return self.fresh[-1] if self.fresh else np.inf

    def may_finish(self, leads: bool) -> bool:
        """Whether it may have found the units; the leader is given the chance before it is given up."""
        near = self.last < (NEAR_LARGE if self.is_large else NEAR)
        near |= leads and self.has_stalled and self.tells
        ready = len(self.activations) == 1 and near and self.last < self.finished / 2
        return ready and (self.last < FOUND or not self.is_falling)

    @property
    def is_falling(self) -> bool:
        """Whether its last round of exact steps gained much."""
        return self.is_keen and len(self.fresh) > 1 and self.last < FALLING * self.fresh[-2]

    @property
    def has_stalled(self) -> bool:
        limit = STALLED_KEEN if self.is_keen else STALLED if len(self.fresh) < LATE else STALLED_LATE
        return len(self.fresh) > PATIENCE and self.last > limit * self.fresh[-1 - PATIENCE]

    @property
    def tells(self) -> bool:
        """Whether it tells activations of one kind apart."""
        late = self.is_large or self.has_stalled or self.is_slow
        return self.last < (TELLING_LATE if late else TELLING)

    @property
    def is_slow(self) -> bool:
        """Whether its last round of exact steps gained next to nothing."""
        return self.is_keen and len(self.fresh) > 2 and self.last > SLOW * self.fresh[-2]
