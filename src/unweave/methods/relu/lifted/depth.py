"""Whether zero sets end at planes that should bend them: where they seldom do, there are units of a third layer.

A unit of the second layer bends at planes and nowhere else, so nearly every meeting with a plane can be measured. Zero
sets of deeper units turn aside on the way, and are not found there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MEETINGS, CROSSED = 120, 0.28
"""Meetings from which on it shows, and the share of them that is crossed at least where there are two layers: 0.9 to 1
is usual, 0.3 was seen where planes were missing."""


@dataclass
class Meetings:
    """Of zero sets and planes, as they were asked so far."""

    exact: bool = True
    """Whether the answers are; rough ones leave meetings open for other reasons."""
    num_met: int = 0
    num_crossed: int = 0

    def count(self, crossed: np.ndarray) -> None:
        """``crossed``: which of some more were measured."""
        self.num_met += len(crossed)
        self.num_crossed += int(crossed.sum())

    @property
    def tell_of_deeper_units(self) -> bool:
        return self.exact and self.num_met >= MEETINGS and self.num_crossed < CROSSED * self.num_met
