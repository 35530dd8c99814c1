"""How much a search for a student may try: the sizes, the shapes of students, the order; every bound stated.

What is tried follows from the number of points: a student is as wide as a number of residuals per parameter allows,
in one of a few shapes, which were found by trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unweave.students.forms import Form


@dataclass(frozen=True)
class Candidate:
    """An activation and a number of hidden layers to try."""

    activation: str
    depth: int


@dataclass(frozen=True)
class Shape:
    """How wide a student is: residuals per parameter, and the width of each layer over the one below."""

    ratio: float
    aspect: float = 0.5


ACCELERATED_SHAPES: dict[int, tuple[Shape, ...]] = {
    1: (Shape(2.7),),
    2: (Shape(4.5, 0.45), Shape(4.5, 0.14)),
    3: (Shape(4.5, 0.6), Shape(3.5, 0.6)),
}
"""By depth, all of them at every size: few sizes, so each must do."""
STURDY = Shape(6.0, 0.6)
"""Nearly affine answers: patient fits of students with fewer parameters, wide in the second layer."""


@dataclass(frozen=True)
class Effort:
    """Every bound of the search, stated."""

    shapes: tuple[Shape, ...] = ()
    """Used in turn; empty: by depth."""
    growth: float = 1.17
    accelerated_growth: float = 1.5
    """The same on an accelerator, where steps are cheap and every size costs compilations ..."""
    large: int = 4000
    """... up to this many residuals, ..."""
    large_growth: float = 1.25
    """... and beyond, where steps cost more than compilations (and shapes are fewer on the CPU)."""
    num_starts: int = 1
    """Starts of each candidate at each size."""
    num_together: int = 8
    """The same where an accelerator takes several starts at once (``together``): starts of each shape."""
    min_points: int = 8
    max_points: int = 200_000
    max_steps: int = 150
    num_last: int = 4
    """The same once no more points can be had."""
    review: int = 4
    """All candidates are tried at every so many sizes, the two leading ones between."""
    telling: int = 1200
    """From so many residuals on, up to ``large``, half of the activations are tried then: the others predict worse."""
    cheap: int = 1000
    """Below so many residuals the leading candidate has two starts, in different shapes ..."""
    costly: int = 2000
    """... and above this many residuals only it is tried, with its activation at the rival depth."""
    time_limit: float = 600.0

    def shape(self, depth: int, turn: int, num_residuals: int = 0, nearly_affine: bool = False) -> Shape:
        """One after the other; of many residuals, where failures are dear, the likeliest twice as often."""
        shapes = self.shapes
        if not shapes and depth == 1:
            shapes = (Shape(1.8), Shape(2.2))
        elif not shapes and depth == 2 and num_residuals >= self.large:
            shapes = (Shape(4.5, 0.45), Shape(4.5, 0.45), STURDY if nearly_affine else Shape(4.5, 0.14))
        elif not shapes and depth == 2:
            last = STURDY if nearly_affine else Shape(3.0, 0.65)
            shapes = (Shape(3.5, 0.45), Shape(4.5, 0.14), Shape(4.5, 0.45), last)
        elif not shapes:
            shapes = (Shape(3.5, 0.6), Shape(3.0, 0.75))
        return shapes[turn % len(shapes)]

    def growth_at(self, num_residuals: int, accelerated: bool) -> float:
        """The ratio of the next size to this one."""
        if not accelerated:
            return self.growth
        return self.accelerated_growth if num_residuals < self.large else self.large_growth

    def plan(
        self,
        candidates: Sequence[Candidate],
        turn: int,
        num_starts: int,
        num_residuals: int,
        accelerated: bool,
        nearly_affine: bool = False,
    ) -> list[tuple[Candidate, Shape]]:
        """Which candidate to try in which shape at one size, in order.

        One hidden layer is tried at every other large size when there are deeper candidates: its students have
        the most parameters.
        """
        if num_residuals >= self.large and turn % 2 == 1 and max(c.depth for c in candidates) > 1:
            candidates = [c for c in candidates if c.depth > 1]
        if accelerated and not self.shapes:
            shapes = dict(ACCELERATED_SHAPES)
            if nearly_affine:
                shapes[2] = (*shapes[2], STURDY)
            return [(c, shape) for c in candidates for shape in shapes[min(c.depth, 3)]]
        tried = [
            (c, self.shape(c.depth, turn * self.num_starts + start, num_residuals, nearly_affine))
            for start in range(num_starts)
            for c in candidates
        ]
        if num_residuals < self.cheap:  # a second start costs less than the points of the next size
            second = turn * self.num_starts + 1
            tried += [(c, self.shape(c.depth, second, num_residuals, nearly_affine)) for c in candidates[:1]]
        return tried


FRUGAL = Effort(shapes=(Shape(2.9), Shape(2.6), Shape(2.3), Shape(2.0)), growth=1.1, num_starts=4)
"""Few points, many narrow students: for one hidden layer where points cost more than time."""


def widened(hidden: tuple[int, ...]) -> tuple[int, ...]:
    """Student widths for known widths: three quarters more, at least two more."""
    return tuple(max(m + 2, int(np.ceil(1.75 * m))) for m in hidden)


def choose_widths(
    x: np.ndarray, y: np.ndarray, candidate: Candidate, shape: Shape, hidden: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """The widest student with ``shape.ratio`` residuals per parameter, or the known widths made wider."""
    if hidden is not None:
        return widened(hidden)
    num_points, outputs = y.shape
    affordable = num_points * outputs / shape.ratio
    form, widths = Form.of(candidate.activation), (2,) * candidate.depth
    for first in range(2, num_points):
        trial = tuple(max(2, round(first * shape.aspect**k)) for k in range(candidate.depth))
        size = form.layout((x.shape[1], *trial, outputs)).num_parameters
        if size > affordable or 2 * (trial[-1] + 1) > num_points:
            break
        widths = trial
    return widths
