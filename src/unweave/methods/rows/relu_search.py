"""The search for kinks in rows: students of growing width, repaired rather than restarted.

The student is ``f = beta_0 + beta.x + sum_i s_i |v_i.x + c_i|`` (``students.forms``): no unit has a sign, and on each
activation pattern it is linear in its parameters. A student half as wide again as the truth fits from a random start
in about half of all cases at four rows a parameter. One that has stalled holds most of the true kinks already, so
its least useful units (``students.prune``) are replaced by random ones and the fit goes on: two or three repairs do
what eight restarts do. Where the width is not known it grows by two fifths from rung to rung, each student starting
from the last; where moments of the rows show kinks (``relu_moments``), it starts from these.

Exact rows end at a rounding residual. Noisy ones end at a level that wider students no longer lower, measured on
other rows; a misfit keeps falling instead. Everything is bounded by ``Effort``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from unweave.core import clock
from unweave.solve.descend import Minimum, Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import Layout
from unweave.students.forms import Form
from unweave.students.prune import plan_removals, units_kept
from unweave.students.starts import RIDGE, draw_start

EXACT = 1e-11
PROMISING = 3e-4
"""Residual, relative to that of the best affine function, at which a student of exact rows is in the basin."""
LEVEL = 0.97
"""Residual levels of successive widths within this factor count as the same: noise."""


@dataclass(frozen=True)
class Effort:
    """Every bound of the search, stated."""

    ratio: float = 2.2
    """Least number of residuals a parameter of a student ..."""
    rows_per_parameter: float = 8.0
    """... and the number used where there are as many."""
    growth: float = 1.4
    share: float = 0.4
    """Units replaced in a repair."""
    num_repairs: int = 40
    """Most repairs of the last, or of a given, width; every tenth is a new start ..."""
    work: float = 4e11
    """... and fewer when they would take more than about so many operations."""
    max_steps: int = 100
    time_limit: float = 300.0


@dataclass(frozen=True)
class Rung:
    """One fit of the search: width, rows, relative residual, and the same on other rows.

    Where there are no other rows the level is the residual with the degrees of freedom taken off.
    """

    width: int
    num_rows: int
    rms: float
    level: float
    end: str
    spare: bool
    """Whether there were rows enough to call the level noise."""


@dataclass(frozen=True)
class KinkFit:
    """A student that explains its rows to rounding (``noise`` 0) or to a noise level, relative to the spread."""

    layout: Layout
    fit: Minimum
    num_rows: int
    noise: float


@dataclass
class KinkSearch:
    """The search on standard coordinates u (n, d), v (n, outputs); rows in random order."""

    u: np.ndarray
    v: np.ndarray
    bend: float
    """Residual of the best affine function relative to the spread."""
    rng: np.random.Generator
    known_noise: float = 0.0
    effort: Effort = field(default_factory=Effort)
    kinks: np.ndarray | None = None
    """Unit normals with offsets (units, d + 1) to start from, where something showed them."""
    rungs: list[Rung] = field(default_factory=list)
    deadline: float = float("inf")

    def candidates(self, width: int | None) -> Iterator[KinkFit]:
        """Students that may explain the rows, until the effort ends."""
        self.deadline = clock.now() + self.effort.time_limit
        widest = self._widest()
        if not widest:
            return
        student: tuple[Layout, Minimum] | None = None
        sizes = self._widths(width, widest)
        if width is None and self.kinks is not None:
            sizes = [*self._widths(len(self.kinks), widest), *sizes]
        for previous, size in pairwise([0, *sizes]):
            student = None if size < previous else student
            if self._late or self.is_flat:
                return
            student = self._grow(student, size)
            found = self._judge(student)
            if found is not None:
                yield found
        settled = (
            widest if width is None else min(max(width + 2, int(np.ceil(1.5 * width))), max(widest, width))
        )
        yield from self._settle(settled, student if width is None else None)

    def _widths(self, width: int | None, widest: int) -> list[int]:
        """Rungs of the ladder: from two units on, or around a given width."""
        if width is not None:
            around = [max(width + k, share * width) for k, share in ((1, 1.2), (2, 1.5), (4, 2.0), (7, 2.8))]
            return [int(np.ceil(size)) for size in around if np.ceil(size) <= widest]
        sizes = [2]
        while sizes[-1] < widest:
            sizes.append(max(sizes[-1] + 1, round(self.effort.growth * sizes[-1])))
        return sizes[:-1]

    @property
    def is_flat(self) -> bool:
        """Whether students of up to a dozen units with rows to spare explain nothing beyond the affine part."""
        last = [r for r in self.rungs if r.width >= 4]
        return len(last) >= 4 and all(r.level > 0.97 * self.bend and r.spare for r in last)

    @property
    def _late(self) -> bool:
        return clock.now() > self.deadline

    def _layout(self, width: int) -> Layout:
        return Form.of("relu").layout((self.u.shape[1], width, self.v.shape[1]))

    def _widest(self) -> int:
        affordable = self.v.size / self.effort.ratio
        per_unit = self.u.shape[1] + 1 + self.v.shape[1]
        rest = self._layout(1).num_parameters - per_unit
        return max(0, int((affordable - rest) / per_unit))

    def _rows(self, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
        wanted = self.effort.rows_per_parameter * layout.num_parameters / self.v.shape[1]
        count = min(len(self.u), int(np.ceil(max(wanted, 100))))
        return self.u[:count], self.v[:count]

    def _settle(self, width: int, student: tuple[Layout, Minimum] | None) -> Iterator[KinkFit]:
        """Stay at one width: fit, then repair, now and then start anew."""
        layout = self._layout(width)
        cost = 30 * len(self._rows(layout)[0]) * self.v.shape[1] * layout.num_parameters**2
        for turn in range(min(self.effort.num_repairs, int(2 + self.effort.work / cost)) + 1):
            if self._late:
                return
            student = self._grow(None if turn and turn % 10 == 0 else student, width)
            found = self._judge(student)
            if found is not None:
                yield found

    def _grow(self, student: tuple[Layout, Minimum] | None, width: int) -> tuple[Layout, Minimum]:
        """A student of this width: random, or the last one with its least useful units replaced."""
        layout = self._layout(width)
        u, v = self._rows(layout)
        if student is not None:
            start = self._replace_units(*student, layout, u, v)
        elif self.kinks is not None and len(self.kinks) <= width:
            start, self.kinks = self._complete(self.kinks, layout, u, v), None
        else:
            start = draw_start(layout, u, v, self.rng)
        settings = Settings(
            target=max(PROMISING * self.bend, 1.05 * self.known_noise),
            max_steps=self.effort.max_steps,
            geodesic=False,
            stall_above=2e-3 * self.bend,
            deadline=self.deadline,
        )
        return layout, fit_layout(layout, start, u, v, settings=settings)

    def _replace_units(
        self, layout: Layout, fit: Minimum, wider: Layout, u: np.ndarray, v: np.ndarray
    ) -> np.ndarray:
        """Start of the wider student: the useful units completed by random ones."""
        rows_u, rows_v = self._rows(layout)
        count = min(max(1, round(self.effort.share * layout.hidden[0])), layout.hidden[0] - 1)
        plan = plan_removals(layout, fit, rows_u, rows_v, stop=np.inf)[:count]
        rows = layout.block(fit.parameters, 0)
        if plan:
            narrow, indices = layout.without(units_kept(layout, plan))
            rows = narrow.block(plan[-1].parameters[indices], 0)
        lengths = np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
        good = (lengths[:, 0] > 1e-8) & np.all(np.isfinite(rows), axis=1)
        return self._complete(rows[good] / lengths[good], wider, u, v)

    def _complete(self, rows: np.ndarray, wider: Layout, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Start of a student that has these kinks, random ones besides, and a ridge regression on top."""
        fresh = self.rng.standard_normal((wider.hidden[0] - len(rows), u.shape[1]))
        fresh /= np.linalg.norm(fresh, axis=1, keepdims=True)
        offsets = 0.7 * self.rng.standard_normal((len(fresh), 1))
        rows = np.vstack([rows, np.hstack([fresh, offsets])])
        features = wider.activations[0].value(u @ rows[:, :-1].T + rows[:, -1], np)
        design = np.hstack([features, u, np.ones((len(u), 1))])
        gram = design.T @ design
        gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
        return np.concatenate([rows.ravel(), np.linalg.solve(gram, design.T @ v).T.ravel()])

    def _judge(self, student: tuple[Layout, Minimum]) -> KinkFit | None:
        """Whether this student explains its rows: to rounding, to the stated noise, or to a level that stays."""
        layout, fit = student
        u, v = self._rows(layout)
        if fit.rms <= PROMISING * self.bend:
            settings = Settings(
                max_steps=self.effort.max_steps, damping=1e-4, geodesic=False, patience=6,
                stall_above=PROMISING * self.bend, deadline=self.deadline,
            )  # fmt: skip
            fit = fit_layout(layout, fit.parameters, u, v, settings=settings)
            if fit.rms <= EXACT:
                return KinkFit(layout, fit, len(u), 0.0)
        noise = fit.rms * float(np.sqrt(v.size / max(v.size - layout.num_parameters, 1)))
        level = self._level_elsewhere(layout, fit, len(u))
        level = noise if level is None else level
        rung = Rung(layout.hidden[0], len(u), fit.rms, level, fit.end, self._has_spare(layout, len(u)))
        explains = noise <= 1.1 * self.known_noise if self.known_noise > EXACT else self._is_level(rung)
        self.rungs.append(rung)
        return KinkFit(layout, fit, len(u), noise) if explains else None

    def _level_elsewhere(self, layout: Layout, fit: Minimum, num_rows: int) -> float | None:
        """The residual on rows the student was not fitted to; None when there are too few."""
        others = slice(num_rows, num_rows + 4000)
        u, v = self.u[others], self.v[others]
        if len(u) < max(500, num_rows // 4):
            return None
        return float(np.sqrt(np.mean((layout.forward(fit.parameters, u) - v) ** 2)))

    def _has_spare(self, layout: Layout, num_rows: int) -> bool:
        wanted = self.effort.rows_per_parameter * layout.num_parameters / self.v.shape[1]
        return num_rows >= 0.7 * wanted

    def _is_level(self, rung: Rung) -> bool:
        """Whether three narrower students with rows to spare left the same residual, below the affine one's."""
        if not rung.spare or rung.width < 8 or rung.level > 0.95 * self.bend:
            return False
        earlier = {r.width: r.level for r in self.rungs if 0.3 * rung.width <= r.width < rung.width}
        return len(earlier) >= 3 and all(rung.level > LEVEL * other for other in earlier.values())
