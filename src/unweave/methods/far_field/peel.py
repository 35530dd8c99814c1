"""Two and more hidden layers on top of a saturated first layer, from far vertices alone.

At a far vertex the first layer's hidden vector h in {-1, +1}^m is known exactly, whatever stands above, and with it
``f = T(h)`` is a network of one layer less on inputs that are known, bounded and nearly uncorrelated. Over-wide
students (``students.student``) recover T there, widths and depth unknown: at every size one of each likely depth,
and where one comes close, more of its depth. It needs neither exact rows nor biases of the first layer: those are
read through T afterwards. A first layer wider than the input shows fewer sign patterns, but mostly far more than a
student needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from unweave.core import clock
from unweave.core.activations import Activation
from unweave.methods.far_field.top import Top
from unweave.solve.descend import End
from unweave.solve.devices import fits_memory
from unweave.students.effort import Candidate, Shape, choose_widths
from unweave.students.forms import Form
from unweave.students.overwide import Pool
from unweave.students.student import Attempt, Recovered, try_student

GROWTH, LARGE, LARGE_GROWTH = 1.17, 1500, 1.25
"""Ratio of one size to the one before, and from so many answers on."""
MOST_VERTICES = 60_000
SHAPES: dict[int, tuple[Shape, ...]] = {
    1: (Shape(2.8),),
    2: (Shape(3.5, 0.65), Shape(3.5, 1.0), Shape(3.5, 0.45)),
    3: (Shape(3.5, 0.75), Shape(3.5, 1.0), Shape(3.5, 0.6)),
    4: (Shape(3.3, 0.8), Shape(3.3, 1.0)),
}
"""Residuals per parameter and aspect, by depth, in turn."""
RARELY = 3
"""Unlikely depths are tried at every so many sizes."""
PROMISING, CLOSE = 0.05, 0.4
"""A residual below the first, below this fraction of all earlier ones of its depth, and the least of all depths, says
which depth to try."""
NEARLY = 1e-3
"""A student below this that does not become exact has a layer too many, or was unlucky."""
MISSES = 4
"""Students after which a depth that does not come closer no longer leads."""
LAST = 2
"""Rounds of all depths once there are no more vertices."""
PATIENCE, SHARE = 5.0, 0.7
"""One student may take so many seconds, or this share of what all before it took: one with a layer too many comes close
and narrows for long."""


def peel(
    pool: Pool,
    activation: Activation,
    *,
    hidden: tuple[int, ...] | None,
    max_depth: int,
    noise: float,
    rng: np.random.Generator,
    deadline: float,
    shallow: bool = True,
    first: tuple[np.ndarray, np.ndarray] | None = None,
    max_vertices: int = MOST_VERTICES,
) -> Top:
    """The network above the first layer; ``hidden`` are its widths when given, else ``max_depth`` bounds their number.

    ``shallow``: one hidden layer is as likely as more; False where it was tried before. With ``first``, weights and
    biases of the first layer as far as they are known, the pool holds ordinary points x instead of vertices, and the
    whole network is returned: its students start from that layer.
    """
    depths = [d for d in ((1, 2, 3, 4) if shallow else (2, 3, 1, 4)) if d <= max_depth]
    plan = _Plan(hidden, depths, None if first is None else len(first[0]))
    num_vertices, attempts, reason, began = len(pool.x), [], "", clock.now()
    while not reason:
        patterns, values = pool.take(num_vertices)
        exhausted = len(patterns) < num_vertices or num_vertices >= max_vertices
        before = len(attempts)
        for depth, widths in plan.students(patterns, values, activation, LAST if exhausted else 1):
            if clock.now() > deadline:
                reason = "the time limit was reached while fitting the layers above the first"
                break
            now = clock.now()
            until = min(deadline, now + max(PATIENCE, SHARE * (now - began)))
            found, attempt = try_student(
                patterns, values, activation.name, widths, rng=rng, noise=noise, deadline=until, known=first
            )
            attempts.append(attempt)
            plan.record(depth, attempt.rms)
            if found is not None and found.minimal and attempt.end is not End.TIME:
                return _top(found, attempts, len(patterns))
        if len(attempts) == before and not reason:
            reason = f"no student fitted {before and attempts[-1].num_points:,} far vertices, wider ones exceed memory"
        if exhausted:
            where = "far vertices" if first is None else "points"
            reason = reason or f"no layers above the first fit {len(patterns):,} {where}"
        growth = LARGE_GROWTH if values.size > LARGE else GROWTH
        num_vertices = min(int(np.ceil(growth * num_vertices)), max_vertices)
    return _top(None, attempts, len(pool.x), reason)


@dataclass
class _Plan:
    """Which depths to try at each size, from how close each has come."""

    hidden: tuple[int, ...] | None
    depths: list[int]
    """The likely ones first."""
    num_units: int | None = None
    """Of a first layer that students share."""
    turn: int = 0
    best: dict[int, float] = field(default_factory=dict)
    leading: tuple[int, ...] = ()
    misses: int = 0
    """Students of the leading depth since it leads, none of which came much closer."""

    def students(
        self, patterns: np.ndarray, values: np.ndarray, activation: Activation, num_rounds: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Depths and widths of the students for these vertices, those that do not fit into memory left out."""
        for _ in range(num_rounds):
            for depth in self._depths():
                shapes = SHAPES[min(depth, max(SHAPES))]
                shape = shapes[self.turn % len(shapes)]
                widths = self._widths(patterns, values, Candidate(activation.name, depth), shape)
                sizes = (patterns.shape[1], *widths, values.shape[1])
                if fits_memory(values.size, Form.of(activation.name).layout(sizes).num_parameters):
                    yield depth, widths
            self.turn += 1

    def _widths(self, x: np.ndarray, y: np.ndarray, candidate: Candidate, shape: Shape) -> tuple[int, ...]:
        """As wide as the answers allow, beside the first layer where students have one."""
        if self.num_units is None:
            return choose_widths(x, y, candidate, shape, self.hidden)
        taken = int(shape.ratio * self.num_units * (x.shape[1] + 1) / y.shape[1])
        left = max(len(y) - taken, 1)
        above = choose_widths(np.zeros((1, self.num_units)), y[:left], candidate, shape, self.hidden)
        return (self.num_units, *above)

    def record(self, depth: int, rms: float) -> None:
        """A student of ``depth`` ended at ``rms``."""
        if rms < NEARLY:
            self.leading = (max(depth - 1, 1), depth)
        elif rms < PROMISING and rms < CLOSE * self.best.get(depth, 0.0) and rms <= min(self.best.values()):
            self.leading, self.misses = (depth, depth), 0
        elif depth in self.leading and min(self.best.values()) >= NEARLY:
            self.misses += 1 if rms < 2 * self.best[depth] else MISSES
            if self.misses >= MISSES:
                self.leading = ()
        self.best[depth] = min(self.best.get(depth, np.inf), rms)

    def _depths(self) -> list[int]:
        if self.hidden is not None:
            return [len(self.hidden)] * 2
        if self.leading:
            return list(self.leading)
        return self.depths[:2] if self.turn % RARELY else self.depths


def _top(found: Recovered | None, attempts: list[Attempt], num_vertices: int, reason: str = "") -> Top:
    told = tuple((a.activation, a.widths, a.num_points, a.rms, str(a.end)) for a in attempts)
    if found is None:
        return Top(None, min((a.rms for a in attempts), default=np.inf), num_vertices, reason, told)
    return Top(found.network, found.rms, num_vertices, "", told)
