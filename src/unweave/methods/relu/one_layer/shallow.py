"""One hidden layer of relu units from rough answers (float32), everywhere or inside a box: line after line.

A line shows kinks, the gradients on both sides of a kink its unit; on further lines only kinks are looked at that no
known unit predicts, by their place and their size. When lines show nothing new, all units are fitted at once to answers
from everywhere (``ridge_fit``), which forgives starts that are off by a tenth. Then answers are asked that would betray
a missing unit: from all over the domain, and in the corners to which the gradients of what is known point. From one
that the fit does not explain a line leads to one that it does; on it the rest bends where the missing unit is.

One long file: every step of the search reads and changes the same units, answers and fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core import clock
from unweave.core.domains import Box
from unweave.evidence.meter import Meter
from unweave.methods.relu.beside import points_beside
from unweave.methods.relu.lifted.left import tell_unit
from unweave.methods.relu.one_layer.expected import count_bends, refuted, same_unit, unpredicted
from unweave.methods.relu.one_layer.level import find_quiet_plane
from unweave.methods.relu.one_layer.places import (
    draw_ways,
    extreme_points,
    farthest_reach,
    rarer_sides,
    spread_points,
    telling_corners,
    uneven_corners,
)
from unweave.methods.relu.one_layer.ridge_fit import RidgeFit, Ridges, fit_ridges
from unweave.methods.relu.one_layer.ridges import distinct_planes, fit_affine_part
from unweave.methods.relu.one_layer.ways import (
    BEYOND,
    find_rows,
    first_of_each_kind,
    most_unlike,
    up_to_the_first_miss,
)
from unweave.probes.cells import Pieces, measure_pieces
from unweave.probes.inquiry import BLIND, Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import Lines
from unweave.probes.planes import Planes, measure_planes, no_planes

ORDINARY = 0.7
"""Root mean square of misses in error bars where these are measured well."""
ROUGHER = 4.0
"""By how much the fit may find the answers rougher than they were measured."""
MOST_PARAMETERS = 6000
TWINS = 1e-2
"""Units whose planes differ by less are tried as one; so are units that add so much less than the typical one."""
VAGUE, MOST_DROPPED, TOLD = 0.1, 3, 0.01
"""Relative error from which on a unit may be none, how often such are left out, and error up to which it is one."""
MOST_REFITS, FEWER = 4, 0.5
"""How often answers that a fit misses are taken in, and the share of them that may be missed then."""
GROSS = 1e3
"""Error bars by which answers are missed where a unit is missing; those that a fit has not seen are missed by fewer."""
ENOUGH = 3.0
"""Answers a parameter from all over the domain for the last fit."""
CORNERS = 300
"""Corners of a box, at least, that agree before a search ends: a unit may be on in one of a hundred only."""
DEEPER = 0.4
"""Share of unpredicted kinks on later lines that speaks for deeper units."""
RARE = 4
"""Kinks on two lines that may all be those of units which hardly any line meets."""
PATIENCE = 5
"""Rounds in which the share of unexplained answers must fall."""
MOST_LINES, QUIET = 40, 4
"""Lines at the beginning, and how many in a row must show no new unit in a bounded domain."""
FIRST_LINES = 2
"""Lines that bend all along with which a search ends."""
MANY, BENDING = 40, 0.87
"""How many crossings of planes speak, and the share at which lines bend that cross no facets of deeper units."""
SIDED = 2
"""Answers, times inputs, in which every unit is to be on, and off."""
MOST_SURER, SURE = 3, 2.0
"""How often answers are asked for units whose standard error changes an answer by so many of its error bars."""
AROUND = 4
"""Points, times inputs, that are asked around answers which no line explains."""
POOREST = 0.3
"""Worst relative error of a normal that a fit can begin with."""
ROUGHLY = 0.02
"""How far off a unit may be that was measured but not fitted yet, relative to what it adds."""
SPOILT = 20.0
"""Answers so many times worse than most are left out of a fit: a unit is missing there."""


@dataclass(frozen=True)
class _Believed:
    """What is known so far as a model with an error of its own."""

    ridges: Ridges
    inquiry: Inquiry

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.ridges(x)

    def error(self, x: np.ndarray) -> np.ndarray:
        return 2 * self.inquiry.bars(x, self.ridges(x))


@dataclass
class ShallowSearch:
    """The units found so far."""

    inquiry: Inquiry
    rng: np.random.Generator
    deadline: float
    ridges: Ridges | None = None
    fitted: RidgeFit | None = None
    roughness: float = 1.0
    wrong: float = 1.0
    """Share of the latest probes that the fit does not explain."""
    planes: Planes = field(init=False)
    """Units as the lines show them."""
    pieces: Pieces | None = None
    seen: list[tuple[int, int]] = field(default_factory=list)
    """Kinks on each line that no known unit predicted, and all of them."""
    num_endless: int = 0
    """Lines on which the answers bend all along."""
    scans: list[tuple[Lines, int, Kinks]] = field(default_factory=list)
    """The lines at the beginning, and their kinks."""
    share: float = 2.0
    """Answers a parameter that a fit looks at."""
    _num_crossings: int = 0
    _num_bends: int = 0
    num_fresh: int = 0
    """Units, the last ones, that no fit has seen yet."""

    @property
    def meter(self) -> Meter:
        return self.inquiry.meter

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.meter.domain.reach(self.inquiry.input_size)))

    def run(self, max_rounds: int = 30) -> bool:
        """Whether all answers are explained by one hidden layer in the end."""
        with self.meter.stage("lines"):
            self._begin()
        return self.ridges is not None and self._grow(range(max_rounds))

    def go_on(self, suspects: np.ndarray, max_rounds: int = 10) -> bool:
        """The same again, after a search that ended, with answers near points where it was wrong."""
        assert self.ridges is not None
        with self.meter.stage("missing units"):
            self.meter.ask(suspects)
        return self._grow(range(1, max_rounds))

    def _grow(self, turns: range) -> bool:
        """Fits and units that they lack, by turns; in the first nothing is asked that a rare unit would spoil."""
        num_dropped, shares = 0, list[float]()
        nearly = False
        for turn in turns:
            assert self.ridges is not None
            if self.ridges.size > MOST_PARAMETERS or clock.now() > self.deadline:
                return False
            with self.meter.stage("points"):
                probes = self._probe(share=0.3) if turn else self._probe(share=1.5, corners=False)
            self._fit(probes)
            if not (self._all_misses() > BEYOND).any() and self._settle():
                return True
            misses = self._misses(probes)
            self.wrong, typical = float(np.mean(misses > BEYOND)), float(np.median(misses))
            if self.wrong == 0 and nearly and num_dropped < MOST_DROPPED:
                num_dropped += self._drop_vague()
            nearly = self.wrong == 0
            shares += [self.wrong] if turn else []  # of probes that betray as much as each other
            if len(shares) > PATIENCE and min(shares[-PATIENCE:]) > 0.7 * min(shares[:-PATIENCE]):
                return False
            with self.meter.stage("missing units"):
                if typical > BEYOND:
                    if not self._follow_lines(self._draw_ways(2)):
                        self.find_level_unit()
                elif not self._add_missing(probes, misses):
                    self._add_left_over()
        return False

    def _settle(self) -> bool:
        """More answers from everywhere and a fit to most of them, so that its error is below theirs; whether it is."""
        assert self.ridges is not None
        self._merge()
        with self.meter.stage("points"):
            probes = self._probe(share=ENOUGH if self.share < 2 * ENOUGH else 1.0)
        self.share = 2 * ENOUGH
        self._fit(probes)
        for _ in range(MOST_SURER):
            if (self._all_misses() > BEYOND).any() or clock.now() > self.deadline:
                break
            with self.meter.stage("points"):
                if not self._ask_surer():
                    break
            self._fit(probes)
        return not (self._all_misses() > BEYOND).any()

    def _ask_surer(self) -> int:
        """Ask where units reach farthest whose standard errors show there; how many units these are."""
        assert self.ridges is not None
        assert self.fitted is not None
        domain, d = self.meter.domain, self.inquiry.input_size
        if not isinstance(domain, Box):
            return 0
        x, _, bars = self.answers()
        errors, count = self.fitted.unit_errors(), 0
        for i, (row, fewer) in enumerate(rarer_sides(self.ridges, x)):
            reach = farthest_reach(domain, row, fewer) * float(np.max(np.abs(self.ridges.columns[i])))
            if errors[i] * reach > SURE * float(np.median(bars)):
                count += 1
                self.meter.ask(extreme_points(domain, row, fewer, d + 1, self.rng))
        return count

    def _drop_vague(self) -> bool:
        """Leave out units that the answers hardly determine, to be found anew: two of them may stand for a third."""
        assert self.ridges is not None
        assert self.fitted is not None
        errors = self.fitted.unit_errors()
        vague = errors > max(VAGUE, 1e3 * float(np.median(errors)))
        if not vague.any() or vague.sum() > len(vague) / 2:
            return False
        self.ridges = self.ridges.take(~vague)
        return True

    def _merge(self) -> None:
        """Units that were measured twice share one plane: one of them takes the weights of both, if it fits as well."""
        assert self.ridges is not None
        assert self.fitted is not None
        ridges = self.ridges.balanced()
        along = ridges.rows[:, :-1] @ ridges.rows[:, :-1].T
        side = np.where(along < 0, -1.0, 1.0)
        apart = np.abs(ridges.rows[:, -1][:, None] - side * ridges.rows[:, -1])
        same = (np.abs(along) > 1 - TWINS) & (apart <= TWINS * (1 + np.abs(ridges.rows[:, -1])))
        kept, columns = np.ones(len(same), dtype=bool), ridges.columns.copy()
        for i in range(len(same)):
            for j in np.flatnonzero(same[i, i + 1 :]) + i + 1:
                if kept[i] and kept[j]:
                    columns[i] += columns[j]
                    kept[j] = False
        sizes = np.linalg.norm(columns, axis=1)
        if len(sizes):  # what adds little and is told well all the same is a unit
            kept &= (sizes > TWINS * np.median(sizes)) | (self.fitted.unit_errors() < TOLD)
        if kept.all():
            return
        before = self.ridges, self.fitted
        self.ridges = replace(ridges, columns=columns).take(kept)
        self._fit(self.meter.transcript("points")[0])
        if self.fitted.rms > 1.2 * max(before[1].rms, ORDINARY):
            self.ridges, self.fitted = before

    def _begin(self) -> None:
        """The units that lines cross, until a few in a row show none that is new, and an affine piece."""
        self.planes = no_planes(self.inquiry.input_size, self.inquiry.output_size)
        quiet = 0
        for _ in range(MOST_LINES):
            if quiet == (QUIET if self.bounded else 1) or clock.now() > self.deadline:
                break
            quiet = quiet + 1 if not self._follow_lines(self._draw_ways(1)) else 0
            if self.num_endless == len(self.seen) >= FIRST_LINES:
                return  # the answers bend all along
            if self._num_crossings >= MANY and self._num_bends < BENDING * self._num_crossings:
                return  # planes that end: facets of deeper units
            seen, first = np.array(self.seen), 5 if self.bounded else 1
            if len(seen) > first + 1 and np.sum(seen[-2:, 0]) > max(DEEPER * np.sum(seen[-2:, 1]), RARE):
                return  # kinks that no plane predicts, on every line
        if self.pieces is None or not self.pieces.valid.any():
            return
        sums = fit_affine_part(self.planes, self.pieces)
        rows, columns = _units(sums.planes)
        affine = (
            np.hstack([sums.gradient, sums.constant[:, None]]) - np.einsum("mk,md->kd", columns, rows) / 2
        )
        self.ridges = Ridges(rows, columns, affine)

    def _follow_lines(self, lines: Lines) -> int:
        """Look for kinks on these lines, measure those that no known unit predicts; how many are new units."""
        kinks = find_kinks(self.inquiry, lines)
        self.num_endless += sum(found.endless for found in kinks)
        for line, found in enumerate(kinks):
            num_crossings, num_bends = count_bends(self.planes, lines, line, found)
            self._num_crossings += num_crossings
            self._num_bends += num_bends
        unseen = [unpredicted(self.planes, lines, i, found) for i, found in enumerate(kinks)]
        self.seen.append((sum(len(u.positions) for u in unseen), sum(len(k.positions) for k in kinks)))
        planes, pieces = measure_planes(self.inquiry, lines, unseen, self.rng)
        if self.pieces is None and not pieces.valid.any():
            middle = (np.maximum(lines.low, -lines.scale) + np.minimum(lines.high, lines.scale)) / 2
            points = lines.points(np.arange(len(lines)), middle)
            pieces = measure_pieces(self.inquiry, points, lines.scale / 10, self.rng)
        self.pieces = pieces if self.pieces is None else self.pieces.join(pieces)
        fresh = planes.take(planes.errors < POOREST)
        before = len(self.planes)
        for i in np.argsort(fresh.errors):
            one = fresh.take([i])
            same = same_unit(self.planes, one)
            if same is None:
                self.planes = self.planes.join(one)
            elif one.errors[0] < self.planes.errors[same]:
                self.planes = self.planes.take(np.arange(len(self.planes)) != same).join(one)
        num_new = len(self.planes) - before
        if self.ridges is not None:
            self._take_in(self.planes.take(np.arange(before, len(self.planes))), lines.origins)
            return num_new
        self.scans += [(lines, i, found) for i, found in enumerate(kinks)]
        self.planes = self.planes.take(~refuted(self.planes, self.scans))
        return num_new

    def _draw_ways(self, count: int) -> Lines:
        return draw_ways(self.meter.domain, count, self.inquiry.input_size, self.rng)

    def _probe(self, *, share: float, corners: bool = True) -> np.ndarray:
        """Ask points that would betray a missing unit, from all over the domain; ``share`` answers a parameter.

        Corners betray most; in the first fit the units that are missing there would spoil what is known elsewhere.
        """
        assert self.ridges is not None
        count = int(np.clip(share * self.ridges.size / self.inquiry.output_size, 64, 6000))
        domain, d = self.meter.domain, self.inquiry.input_size
        x = spread_points(domain, self.ridges, count, d, self.rng)
        if isinstance(domain, Box) and corners:
            third = count // 3
            x[:third] = telling_corners(domain, self.ridges, third, d, self.rng)
            fewest = CORNERS if share == ENOUGH else 0
            uneven = uneven_corners(domain, max(third, fewest), d, self.rng)
            x = np.concatenate([x[:third], uneven, x[2 * third :]])
        self.meter.ask(x)
        return self.meter.snap(x)

    def answers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Everything asked, with error bars; answers without any are left out."""
        x, y = self.meter.transcript()
        bars = self.inquiry.bars(x, y)
        clear = bars < BLIND
        return x[clear], y[clear], bars[clear]

    def _fit(self, probes: np.ndarray) -> None:
        """Fit all units to the answers that no missing unit can have spoilt: not far worse than most ``probes``."""
        assert self.ridges is not None
        if self.bounded:
            with self.meter.stage("points"):
                self._ask_on_both_sides()
        x, y, bars = self.answers()
        rows = self.choose_rows(x)
        x, y, bars = x[rows], y[rows], bars[rows]
        self._approach(x, y, bars)
        for _ in range(3):
            typical = float(np.median(self._misses(probes)))
            misses = np.max(np.abs(self.ridges(x) - y), axis=1) / bars
            kept = misses <= max(4 * BEYOND, SPOILT * typical)
            kept |= misses * bars <= ROUGHLY * self._doubt(x)  # what the latest units may be off by
            if kept.sum() * y.shape[1] < 1.2 * self.ridges.size:
                kept[np.argsort(misses)[: int(1.2 * self.ridges.size / y.shape[1]) + 1]] = True
            self.fitted = fit_ridges(self.ridges, x[kept], y[kept], bars[kept], deadline=self.deadline)
            self.ridges = self.fitted.ridges
            if typical <= BEYOND or np.median(self._misses(probes)) > 0.5 * typical:
                break
        self.num_fresh = 0
        assert self.fitted is not None
        if typical <= BEYOND or np.median(self._misses(probes)) <= BEYOND:
            self._fit_misses(x[kept], y[kept], bars[kept])
        level = self.fitted.typical
        if ORDINARY < level < ROUGHER and typical <= BEYOND:  # the answers are rougher than they seemed
            factor = min(level / ORDINARY, ROUGHER / self.roughness)
            self.roughness *= factor
            noise, relative = self.inquiry.noise * factor, self.inquiry.relative * factor
            self.inquiry = replace(self.inquiry, noise=noise, relative=relative)

    def _approach(self, x: np.ndarray, y: np.ndarray, bars: np.ndarray) -> None:
        """Fits with error bars as large as what is still off, as long as that falls.

        Behind a squashing the errors of answers differ a thousandfold, and a start that is off by more than the least
        of them would be led by few answers.
        """
        assert self.ridges is not None
        size = np.max(np.abs(y), axis=1) + self.inquiry.slope * np.linalg.norm(x, axis=1)
        off = np.max(np.abs(self.ridges(x) - y), axis=1)
        for _ in range(MOST_REFITS):
            if np.median(off / bars) <= BEYOND:
                return
            before = float(np.median(off / size))
            soft = np.hypot(bars, before * size)
            fitted = fit_ridges(self.ridges, x, y, soft, max_steps=10, deadline=self.deadline)
            off = np.max(np.abs(fitted.ridges(x) - y), axis=1)
            if np.median(off / size) > FEWER * before:
                return
            self.ridges = fitted.ridges

    def _fit_misses(self, x: np.ndarray, y: np.ndarray, bars: np.ndarray) -> None:
        """With the answers that the fit to these misses as well, where it then misses few others.

        Where answers are hardly more than parameters, it is off elsewhere by far more than their errors, and those it
        misses tell most; a unit that is missing leaves them missed.
        """
        assert self.ridges is not None
        for _ in range(MOST_REFITS):
            misses = self._all_misses()
            wrong = np.flatnonzero(misses > BEYOND)
            if not len(wrong) or np.median(misses[wrong]) > GROSS:  # that is a unit which is missing
                return
            chosen = self.rng.permutation(wrong)[: len(x) // 3]
            more = [each[chosen] for each in self.answers()]
            joined = [np.concatenate(pair) for pair in zip((x, y, bars), more, strict=True)]
            before = self.ridges
            fitted = fit_ridges(before, *joined, deadline=self.deadline)
            self.ridges = fitted.ridges
            if np.sum(self._all_misses() > BEYOND) > FEWER * len(wrong):
                self.ridges = before
                return
            self.fitted, (x, y, bars) = fitted, joined

    def _ask_on_both_sides(self) -> None:
        """More answers where a unit is on, or off, in fewer of them than tell its row."""
        assert self.ridges is not None
        d = self.inquiry.input_size
        for row, fewer in rarer_sides(self.ridges, self.answers()[0]):
            x, _, _ = self.answers()
            base = x[((x @ row[:-1] + row[-1]) > 0) == fewer]
            if not 0 < len(base) < SIDED * (d + 1):
                continue
            points = points_beside(base, 4 * SIDED * (d + 1), self.meter.domain, self.rng)
            points = points[((points @ row[:-1] + row[-1]) > 0) == fewer]
            self.meter.ask(points[: SIDED * (d + 1) - len(base)])

    def choose_rows(self, x: np.ndarray) -> np.ndarray:
        """As many of the questions ``x`` as a fit needs, most of them from all over the domain."""
        assert self.ridges is not None
        most = int(np.clip(self.share * self.ridges.size / self.inquiry.output_size, 600, 8000))
        if len(x) <= most:
            return np.arange(len(x))
        points = self.meter.transcript("points")[0]
        few = self.rng.permutation(len(x))[: most // 4]
        own = self.rng.permutation(len(points))[: most - len(few)]
        worst = np.argsort(-self._all_misses())[: most // 10] if len(x) == len(self.answers()[0]) else few[:0]
        chosen = [few, find_rows(points[own], x), worst]
        if self.bounded:
            for row, fewer in rarer_sides(self.ridges, self.answers()[0]):
                side = np.flatnonzero(((x @ row[:-1] + row[-1]) > 0) == fewer)
                chosen.append(self.rng.permutation(side)[: SIDED * x.shape[1]])
        return np.unique(np.concatenate(chosen)).astype(int)

    def _doubt(self, x: np.ndarray) -> np.ndarray:
        """How much the units that were not fitted yet contribute to the answers to ``x``."""
        assert self.ridges is not None
        fresh = self.ridges.take(np.arange(self.ridges.num_units - self.num_fresh, self.ridges.num_units))
        return np.max(np.abs(np.maximum(fresh.heights(x), 0.0) @ fresh.columns), axis=1)

    def _misses(self, x: np.ndarray) -> np.ndarray:
        assert self.ridges is not None
        y = self.meter.ask(x)
        return np.max(np.abs(self.ridges(x) - y), axis=1) / self.inquiry.bars(x, y)

    def _all_misses(self) -> np.ndarray:
        assert self.ridges is not None
        x, y, bars = self.answers()
        return np.max(np.abs(self.ridges(x) - y), axis=1) / bars

    def _add_missing(self, probes: np.ndarray, misses: np.ndarray, num_lines: int = 6) -> bool:
        """Units that bend the rest first on the ways from explained answers to others, if any are measured."""
        assert self.ridges is not None
        good = probes[misses < 3]
        x, _, _ = self.answers()
        wrong = x[self._all_misses() > BEYOND] if not np.any(misses > BEYOND) else probes[misses > BEYOND]
        if not len(good) or not len(wrong):
            return False
        wrong = wrong[self.rng.permutation(len(wrong))]
        wrong = wrong[most_unlike(self.meter.ask(wrong) - self.ridges(wrong), num_lines)]
        apart = np.linalg.norm(good[None] - wrong[:, None], axis=2)
        apart[apart < 1e-3 * (1 + np.linalg.norm(wrong, axis=1, keepdims=True))] = np.inf
        residual = self.inquiry.against(_Believed(self.ridges, self.inquiry))
        lines = up_to_the_first_miss(residual, good[np.argmin(apart, axis=1)], wrong)
        kinks = first_of_each_kind(find_kinks(residual, lines))
        planes, _ = measure_planes(residual, lines, kinks, self.rng)
        return self._take_in(distinct_planes(planes.take(planes.errors < POOREST)), lines.origins)

    def find_level_unit(self) -> None:
        """A unit that drowns on lines, from directions in which no known one changes; its output from all answers."""
        assert self.ridges is not None
        known = self.ridges.balanced()
        if self.bounded or not 0 < known.num_units < self.inquiry.input_size:
            return
        quiet = find_quiet_plane(self.inquiry, known.rows[:, :-1], known.rows[:, -1], self.rng)
        if not len(quiet):
            return
        x, y, bars = self.answers()
        row = np.append(quiet.normals[0], quiet.offsets[0])
        design = np.column_stack([np.abs(x @ row[:-1] + row[-1]) / 2, x, np.ones(len(x))]) / bars[:, None]
        column = np.linalg.lstsq(design, (y - known(x)) / bars[:, None], rcond=1e-12)[0][0]
        rows, columns = np.vstack([known.rows, row]), np.vstack([known.columns, column])
        self.num_fresh += 1
        self.ridges = replace(known, rows=rows, columns=columns)

    def _add_left_over(self) -> None:
        """A unit too weak or too rarely on for lines: where it alone is missing, answers are linear in its row."""
        assert self.ridges is not None
        wrong = self.answers()[0][self._all_misses() > BEYOND]
        if not len(wrong):
            return
        near = np.linalg.norm(wrong, axis=1)
        wrong = wrong[near <= 3 * np.median(near)]
        self.meter.ask(points_beside(wrong, AROUND * wrong.shape[1], self.meter.domain, self.rng))
        x, y, bars = self.answers()
        told = tell_unit(np.column_stack([x, np.ones(len(x))]), y - self.ridges(x), bars, self.rng)
        if told is not None:
            before, wrong = self.ridges, np.sum(self._all_misses() > BEYOND)
            rows, columns = np.vstack([before.rows, told[0]]), np.vstack([before.columns, told[1]])
            self.ridges = replace(before, rows=rows, columns=columns)
            if np.sum(self._all_misses() > BEYOND) > FEWER * wrong:
                self.ridges = before

    def _take_in(self, planes: Planes, origins: np.ndarray) -> bool:
        """Add units on these planes, active on the side away from where the lines began."""
        assert self.ridges is not None
        planes = planes.take(np.argsort(planes.errors)[: max(4, self.ridges.num_units)])
        if not len(planes):
            return False
        rows, columns = _units(planes)
        apart = np.linalg.norm(planes.points[:, None] - origins[None], axis=2)
        start = origins[np.argmin(apart, axis=1)]
        ahead = np.einsum("md,md->m", rows[:, :-1], start) + rows[:, -1] < 0
        rows = np.where(ahead[:, None], rows, -rows)
        self.num_fresh += len(rows)
        self.ridges = replace(
            self.ridges,
            rows=np.vstack([self.ridges.rows, rows]),
            columns=np.vstack([self.ridges.columns, columns]),
        )
        return True


def _units(planes: Planes) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m, d + 1) and output columns (m, k) of the units on these planes."""
    return np.hstack([planes.normals, planes.offsets[:, None]]), planes.jumps
