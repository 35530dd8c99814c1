"""Two and more hidden layers on top of a saturated first layer, from far vertices alone.

At a far vertex the first layer's hidden vector h in {-1, +1}^m is known exactly, whatever stands above, and with it
``f = T(h)`` is a network of one layer less on inputs that are known, bounded and nearly uncorrelated. Over-wide
students (``students.student``) recover T there, widths and depth unknown: at every size one of each likely depth,
and where one comes close, more of its depth. It needs neither exact rows nor biases of the first layer: those are
read through T afterwards. A first layer wider than the input shows fewer sign patterns, but mostly far more than a
student needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from unweave.students.student import Attempt, Miss, Recovered, Rows, Trial, resume_student, try_student

GROWTHS = {0: 1.17, 1500: 1.25, 4000: 1.5}
"""Ratio of one size to the one before, from so many answers on: the dearer students are, the fewer."""
MOST_VERTICES = 60_000
SHAPES: dict[int, tuple[Shape, ...]] = {
    1: (Shape(2.8),),
    2: (Shape(3.5, 1.0), Shape(3.5, 1.0), Shape(3.5, 0.65)),
    3: (Shape(3.5, 0.75), Shape(3.5, 1.0)),
    4: (Shape(3.3, 1.0), Shape(3.3, 0.8)),
}
"""Residuals per parameter and aspect, by depth, in turn."""
RARELY = 3
"""Unlikely depths are tried at every so many sizes."""
PROMISING, CLOSE = 0.05, 0.4
"""A residual below the first, below this fraction of all earlier ones of its depth, and the least of all depths, says
which depth to try, with the next: students with a layer too many come near earlier, and lose it (``shallower``)."""
NEARLY = 1e-3
"""A student below this that does not become exact lacks a layer, or was unlucky: one too many would have gone
(``shallower``)."""
CLOSER = 0.5
"""A depth whose residual is below this fraction of that of one layer less leaves the smaller depths to rare turns."""
MISSES = 4
"""Students after which a depth that does not come closer no longer leads."""
LAST = 2
"""Rounds of all depths once there are no more vertices."""
PATIENCE, SHARE = 5.0, 0.7
"""One student may take so many seconds at a time, or this share of what all before it took: one with a layer too many
comes close and narrows for long."""
UNFINISHED = 5e-3
"""A student of a smaller residual whose time or steps ran out, or that wants more points, goes on at the next size,"""
FASTER = 0.3
"""if it is the first time, or the residual has fallen to this fraction of the one before."""


class Peeling:
    """The search for the network above the first layer, in as many goes as it is given time for.

    ``hidden`` are its widths when given, else ``max_depth`` bounds their number. ``shallow``: one hidden layer is as
    likely as more; False where it was tried before. With ``first``, weights and biases of the first layer as far as
    they are known, the pool holds ordinary points x instead of vertices, and the whole network is returned: its
    students start from that layer.
    """

    def __init__(
        self,
        pool: Pool,
        activation: Activation,
        *,
        hidden: tuple[int, ...] | None,
        max_depth: int,
        noise: float,
        rng: np.random.Generator,
        shallow: bool = True,
        first: Rows | None = None,
        max_vertices: int = MOST_VERTICES,
    ):
        self._pool, self._activation, self._noise, self._rng = pool, activation, noise, rng
        self._first, self._max_vertices, self._num_vertices = first, max_vertices, len(pool.x)
        depths = [d for d in ((1, 2, 3, 4) if shallow else (2, 3, 1, 4)) if d <= max_depth]
        self._plan = _Plan(hidden, depths, None if first is None else len(first[0]))
        self._spent, self._reason = 0.0, ""
        self._attempts: list[Attempt] = []
        self._num_told = 0
        self._unfinished: dict[int, Attempt] = {}
        """The closest student of each depth that may go on."""

    def go_on(self, deadline: float, late: float = 0.0) -> Top:
        """The network, or the reason why there is none yet; with as few vertices as are mostly enough until ``late``,
        where that is later.
        """
        began, found = clock.now() - self._spent, None
        while found is None and not self._reason:
            until = max(deadline, late) if self._num_vertices <= self._mostly_enough() else deadline
            if clock.now() > until:
                break
            found = self._try_all(began, until)
        self._spent = clock.now() - began
        passed = "the time limit was reached while fitting the layers above the first"
        return self._top(found, self._reason or passed)

    def _mostly_enough(self) -> int:
        """Vertices for students of two layers as wide as the first one, and one size more."""
        sizes = (self._pool.x.shape[1], self._pool.y.shape[1])
        width = sizes[0] if self._first is None else len(self._first[0])
        widths = (width, width) if self._first is None else (width, width, width)
        layout = Form.of(self._activation.name).layout((sizes[0], *widths, sizes[1]))
        return int(GROWTHS[1500] * SHAPES[2][0].ratio * layout.num_parameters / sizes[1])

    def _try_all(self, began: float, deadline: float) -> Recovered | None:
        """Unfinished students and new ones of one size."""
        patterns, values = self._pool.take(self._num_vertices)
        exhausted = len(patterns) < self._num_vertices or self._num_vertices >= self._max_vertices
        before = len(self._attempts)
        for depth, last, student in self._students(patterns, values, exhausted):
            now = clock.now()
            if now > deadline:
                return None
            found, attempt = student(min(deadline, now + max(PATIENCE, SHARE * (now - began))))
            self._attempts.append(attempt)
            self._plan.record(depth, attempt.rms)
            if found is not None and found.minimal and attempt.end is not End.TIME:
                return found
            if _may_go_on(attempt, last) and attempt.rms < self._closest(depth):
                self._unfinished[depth] = attempt
        if len(self._attempts) == before:
            num = f"{before and self._attempts[-1].num_points:,}"
            self._reason = f"no student fitted {num} far vertices, wider ones exceed memory"
        elif exhausted and not self._unfinished:
            where = "far vertices" if self._first is None else "points"
            self._reason = f"no layers above the first fit {len(patterns):,} {where}"
        growth = next(g for size, g in reversed(GROWTHS.items()) if values.size >= size)
        self._num_vertices = min(int(np.ceil(growth * self._num_vertices)), self._max_vertices)
        return None

    def _closest(self, depth: int) -> float:
        return self._unfinished[depth].rms if depth in self._unfinished else np.inf

    def _students(
        self, patterns: np.ndarray, values: np.ndarray, exhausted: bool
    ) -> Iterator[tuple[int, float, Callable[[float], Trial]]]:
        """How many layers above each student has, its last residual if it goes on, and how to fit it until a time."""
        activation, rounds = self._activation, LAST if exhausted else 1
        resumes = exhausted and self._unfinished
        plan = () if resumes else self._plan.students(patterns, values, activation, rounds)
        for depth, widths in plan:
            yield from self._going_on(depth, patterns, values)  # after new ones of fewer layers
            known = self._known(depth, widths)

            def begin(until: float, widths: tuple[int, ...] = widths, known: list[Rows] = known) -> Trial:
                more = {"rng": self._rng, "noise": self._noise, "deadline": until, "known": known}
                return try_student(patterns, values, activation.name, widths, **more)

            yield depth, np.inf, begin
        for depth in sorted(self._unfinished) if resumes else ():
            yield from self._going_on(depth, patterns, values)

    def _going_on(
        self, depth: int, patterns: np.ndarray, values: np.ndarray
    ) -> Iterator[tuple[int, float, Callable[[float], Trial]]]:
        """The unfinished student of this depth, as long as it may go on."""
        while depth in self._unfinished:
            earlier = self._unfinished.pop(depth)

            def go_on(until: float, earlier: Attempt = earlier) -> Trial:
                return resume_student(earlier, patterns, values, noise=self._noise, deadline=until)

            yield depth, earlier.rms, go_on

    def _known(self, depth: int, widths: tuple[int, ...]) -> list[Rows]:
        """What a student begins with: a known first layer, and the strongest units of the layer above it of the closest
        student of one layer less.
        """
        below = [] if self._first is None else [self._first]
        fewer = [a for a in self._attempts if len(a.widths) == len(widths) - 1]
        if depth == 1 or not fewer:
            return below
        student, first = min(fewer, key=lambda a: a.rms).student, len(below)
        if student.layout.hidden[:first] != widths[:first]:  # narrowed
            return below
        network = student.standard.undo(student.layout.network(student.parameters))
        strength = np.linalg.norm(network.weights[first + 1], axis=0)
        strongest = np.argsort(-strength)[: widths[first]]
        known = [(network.weights[i], network.biases[i]) for i in range(first)]
        return [*known, (network.weights[first][strongest], network.biases[first][strongest])]

    def _top(self, found: Recovered | None, reason: str) -> Top:
        """With what was tried since the last time."""
        recent, self._num_told = self._attempts[self._num_told :], len(self._attempts)
        told = tuple((a.activation, a.widths, a.num_points, a.rms, str(a.end)) for a in recent)
        if found is None:
            best = min((a.rms for a in self._attempts), default=np.inf)
            return Top(None, best, len(self._pool.x), reason, told)
        return Top(found.network, found.rms, recent[-1].num_points, "", told)


def _may_go_on(attempt: Attempt, last: float) -> bool:
    """Whether more time or points may finish a student, whose residual was ``last`` when it last went on."""
    cut = attempt.end is End.TIME
    short = attempt.end in (End.STEPS, Miss.MEMORISED) and not attempt.narrowed
    return (cut or short) and attempt.rms < min(UNFINISHED, FASTER * last)


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
        deeper = depth + 1 if depth + 1 in self.depths else depth
        if rms < NEARLY:
            self.leading = (depth, deeper) if deeper > depth else (max(depth - 1, 1), depth)
        elif rms < PROMISING and rms < CLOSE * self.best.get(depth, 0.0) and rms <= min(self.best.values()):
            self.leading, self.misses = (depth, deeper), 0
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
        return self._likely() if self.turn % RARELY else self.depths

    def _likely(self) -> list[int]:
        """Two depths: the first ones, or those from where fewer layers do markedly worse."""
        closest = min(self.best, key=self.best.__getitem__, default=0)
        if closest + 1 in self.depths and self.best[closest] < CLOSER * self.best.get(closest - 1, 0.0):
            return [closest, closest + 1]
        return self.depths[:2]
