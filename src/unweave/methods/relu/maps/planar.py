"""The map of a piecewise linear function on a plane: its cells, from few answers each.

A cell is a convex polygon on which the function is one affine piece. Two pieces meet on the line where they agree, so
an edge needs no search of its own: a polygon cut out by the lines known so far is the cell once the function agrees
with the piece at every corner. A corner where it does not lies beyond an edge that is not known; the way there finds
the cell behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.core import clock
from unweave.methods.relu.maps.cell import Cell
from unweave.methods.relu.maps.polygon import clip, cut_box
from unweave.probes.inquiry import SAFETY, Inquiry

STEPS = (0.2, 0.02, 1e-3, 1e-5)
"""Steps of differences, relative to the way that is known to lie within a cell."""
SMALL = 1e-8
"""Edges shorter than this, relative to the plane's extent, are not looked behind."""
ON = 1e-9
"""Two points closer than this, relative to the extent, are the same corner."""
ABOUT = 1e-4
"""How far two pieces may be apart where they meet, relative to where they do not."""


@dataclass
class Plane:
    """``origin + basis y`` within a box."""

    inquiry: Inquiry
    origin: np.ndarray
    basis: np.ndarray
    """(2, d), orthonormal."""
    low: np.ndarray
    high: np.ndarray

    def __post_init__(self) -> None:
        self.frame = cut_box(self.origin, self.basis, self.low, self.high)
        self.extent = float(np.max(np.ptp(self.frame, axis=0))) if len(self.frame) else 0.0

    def lift(self, y: np.ndarray) -> np.ndarray:
        """Points of space."""
        return np.clip(self.origin + y @ self.basis, self.low, self.high)

    def ask(self, y: np.ndarray) -> tuple[np.ndarray, float]:
        """Answers at points of the plane, and the largest error to expect of them."""
        answers, bars = self.inquiry.ask(self.lift(np.atleast_2d(y)))
        return answers, float(bars.max())


@dataclass
class Map:
    """All cells of a plane that have been found."""

    plane: Plane
    deadline: float
    rng: np.random.Generator
    starts: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    """Where it is begun."""
    most: int = 4000
    cells: list[Cell] = field(default_factory=list)
    lost: list[np.ndarray] = field(default_factory=list)
    """Places that could not be resolved."""
    closed: bool = False
    """Whether nothing more may be asked."""

    def explore(self) -> None:
        """Every cell that is connected with those at the starts, or the next ones."""
        starts, self.starts = self.starts, self.starts[:0]
        for y in starts:
            if self.find(y) is None:
                room = 0.02 * self.plane.extent
                self._begin(y, room)
        self._complete_all(0)
        for _ in range(5):
            before = len(self.cells)
            if not self._look_behind() or clock.now() > self.deadline:
                break
            self._complete_all(before)
        self._settle()

    def cover(self, places: np.ndarray) -> bool:
        """Cells around places that lie in none, which the polygons of their pieces do not reach; whether there are."""
        before = len(self.cells)
        for y in places:
            if self.find(y) is None and self._copy(y) is None:
                self._begin(y, 1e-3 * self.plane.extent)
            self._complete_all(max(before, len(self.cells) - 1))
        if len(self.cells) == before:
            return False
        self._complete_all(before)
        self._settle()
        return True

    def _complete_all(self, first: int) -> None:
        done = first
        while done < min(len(self.cells), self.most) and clock.now() < self.deadline:
            if not self.cells[done].whole:
                self._complete(done)
            done += 1

    def _settle(self) -> None:
        """Pieces, lines and corners as all answers have them."""
        for number in range(len(self.cells)):
            self._refine(number)
        for number, cell in enumerate(self.cells):
            self._relate(number)
            cell.corners, cell.behind = self._outline(number)

    def find(self, y: np.ndarray) -> int | None:
        """The cell known to hold a point."""
        for number, cell in enumerate(self.cells):
            if cell.whole and all(a @ y + b > 0 for a, b in cell.lines.values()):
                return number
        return None

    def _begin(self, y: np.ndarray, room: float) -> int | None:
        """A new cell around a point, by differences; None where no step stays within it."""
        for share in STEPS:
            step = share * room
            ways = np.array([[0.0, 0], [1, 0], [0, 1], [-0.6, -0.7]])
            points = y + step * (ways * np.where(y > self.plane.frame.mean(axis=0), -1, 1))
            answers, bar = self.plane.ask(points)
            moves = points[1:3] - points[0]
            gradient = np.linalg.solve(moves, answers[1:3] - answers[0]).T
            miss = np.max(np.abs(answers[0] + (points[3] - points[0]) @ gradient.T - answers[3]))
            if miss <= SAFETY * 4 * bar:
                cell = Cell(points[0], answers[0], gradient, 4 * bar / step)
                cell.asked = list(zip(points, answers, strict=True))
                self.cells.append(cell)
                return len(self.cells) - 1
        return None

    def piece_at(self, y: np.ndarray) -> int | None:
        """The number of a cell whose piece the function is at a point; None where it is none of them."""
        number = self.find(y)
        if number is not None or self.closed:
            return number
        answers, bar = self.plane.ask(y)
        for number, one in enumerate(self.cells):
            if np.max(np.abs(one.at(y) - answers[0])) <= self._tolerance(one, y, bar):
                return number
        return None

    def _copy(self, y: np.ndarray) -> int | None:
        """A new cell around a point with the piece of a known one; None where the function is none of these."""
        answers, bar = self.plane.ask(y)
        for one in self.cells:
            if np.max(np.abs(one.at(y) - answers[0])) <= self._tolerance(one, y, bar):
                self.cells.append(Cell(y, one.at(y), one.gradient, one.error, asked=list(one.asked)))
                return len(self.cells) - 1
        return None

    def _outline(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        cell = self.cells[number]
        corners, behind = self.plane.frame, np.full(len(self.plane.frame), -1)
        for other, (a, b) in cell.lines.items():
            corners, behind = clip(corners, behind, a, b, other, 1e-12 * self.plane.extent)
        return corners, behind

    def _relate(self, number: int) -> None:
        """The lines on which a cell's piece agrees with those behind, as these are known now."""
        for other in self.cells[number].lines:
            self.cells[number].lines[other] = self._line(number, other)

    def _line(self, number: int, other: int) -> tuple[np.ndarray, float]:
        one, two = self.cells[number], self.cells[other]
        jump = one.gradient - two.gradient
        u, s, vt = np.linalg.svd(jump)
        if (
            s[0] <= 10 * (one.error + two.error) and other in one.lines
        ):  # the same piece: the line is as it was
            return one.lines[other]
        a = vt[0]
        b = float(u[:, 0] @ (one.at(np.zeros(2)) - two.at(np.zeros(2)))) / s[0]
        side = np.sign(a @ one.centre + b) or 1.0
        return side * a, side * b

    def _tolerance(self, cell: Cell, x: np.ndarray, bar: float) -> float:
        return SAFETY * (
            bar + cell.error * (1e-9 * self.plane.extent + float(np.linalg.norm(x - cell.centre)))
        )

    def _agrees(self, cell: Cell, x: np.ndarray, loose: float = 1.0) -> tuple[bool, np.ndarray]:
        answers, bar = self.plane.ask(x)
        left = answers[0] - cell.at(x)
        return bool(np.max(np.abs(left)) <= self._tolerance(cell, x, loose * bar)), left

    def _complete(self, number: int) -> None:
        """Corner after corner, until the function agrees with the piece at each."""
        cell = self.cells[number]
        good: list[np.ndarray] = []
        missed = 0
        near = ON * self.plane.extent
        for _ in range(60):
            corners, behind = self._outline(number)
            if len(corners) < 3:
                return
            open_ones = [x for x in corners if not any(np.max(np.abs(x - y)) < near for y in good)]
            if not open_ones:
                cell.corners, cell.behind, cell.whole = corners, behind, not missed
                self._refine(number)
                return
            x = max(open_ones, key=lambda x: float(np.linalg.norm(x - cell.centre)))
            # a corner of lines that are not sharp yet is asked a little inside
            inside = x + 1e-7 * (cell.centre - x)
            fine, left = self._agrees(cell, inside)
            if fine:
                cell.asked.append((inside, cell.at(inside) + left))
                good.append(x)
                continue
            other = self._leave(number, inside, left)
            if other == number:  # a corner of lines that are not sharp
                good.append(x)
                continue
            if other is None or not self._is_news(number, other):
                self.lost.append(x)
                good.append(x)
                missed += 1
                continue
            cell.lines[other] = self._line(number, other)
            if not self.cells[other].whole:
                self.cells[other].lines[number] = self._line(other, number)

    def _is_news(self, number: int, other: int) -> bool:
        """Whether the line between two cells was not known, or is another one by now; the same piece has none."""
        one, two = self.cells[number], self.cells[other]
        if other not in one.lines:
            return bool(np.linalg.norm(one.gradient - two.gradient, 2) > 10 * (one.error + two.error))
        a, b = one.lines[other]
        now, there = self._line(number, other)
        return bool(np.linalg.norm(a - now) + abs(b - there) / self.plane.extent > 1e-9)

    def _leave(self, number: int, goal: np.ndarray, left: np.ndarray) -> int | None:
        """The cell first met on the way from a cell's centre to a point where the function is not its piece.

        The cell itself where it goes on all the way but for the end.
        """
        cell, way = self.cells[number], goal - self.cells[number].centre
        low, high, rest, bar = 0.0, 1.0, left, self.plane.ask(goal)[1]
        for _ in range(40):
            if (high - low) * np.linalg.norm(way) < SMALL * self.plane.extent:
                return number if low > 1 - 1e-5 else None
            eta = 1e-3 * (high - low)
            _, before = self._agrees(cell, cell.centre + (high - eta) * way)
            slope = (rest - before) / eta
            size = float(slope @ slope)
            meet = high - float(rest @ slope) / size if size > 0 else -1.0
            if not low + 1e-6 * (high - low) < meet < high - eta:
                middle = (low + high) / 2
                fine, value = self._agrees(cell, cell.centre + middle * way)
                low, high, rest = (middle, high, rest) if fine else (low, middle, value)
                continue
            # where they meet is as exact as the slope, of two answers near by
            fine, value = self._agrees(cell, cell.centre + meet * way, 1 + 2 * (high - meet) / eta)
            if not fine:
                high, rest = meet, value
                continue
            beyond = meet + 1e-2 * (high - meet)
            fine, value = self._agrees(cell, cell.centre + beyond * way)
            expected = slope * (beyond - meet)
            if fine:
                low = beyond
            elif np.max(np.abs(value - expected)) <= 1e-6 * np.max(np.abs(expected)) + self._tolerance(
                cell, cell.centre + beyond * way, bar * (1 + 2 * (high - meet) / eta)
            ):
                return self._behind(number, meet, high, way)
            else:
                low, high, rest = meet, beyond, value
        return None

    def _behind(self, number: int, meet: float, high: float, way: np.ndarray) -> int | None:
        """The cell on the straight stretch of the way from ``meet`` to ``high``: a known one if it agrees."""
        centre = self.cells[number].centre
        border, place = centre + meet * way, centre + (0.5 * meet + 0.5 * high) * way
        answers, bar = self.plane.ask(place)
        room = 0.5 * (high - meet) * float(np.linalg.norm(way))
        here = self.cells[number]
        apart = np.max(np.abs(here.at(place) - answers[0]))
        same = []
        for other, cell in enumerate(self.cells):
            if other != number and np.max(np.abs(cell.at(place) - answers[0])) <= self._tolerance(
                cell, place, bar
            ):
                gap = np.max(np.abs(cell.at(border) - here.at(border)))
                if gap <= self._tolerance(cell, border, bar) + ABOUT * apart:
                    same.append(other)
        for other in same:
            if all(a @ place + b > 0 for a, b in self.cells[other].lines.values()):
                return other
        return self._begin(place, room)

    def _refine(self, number: int) -> None:
        """The piece by least squares on the answers around it, and the middle of its corners as its centre."""
        cell = self.cells[number]
        if not cell.whole:
            return
        middle = cell.corners.mean(axis=0)
        points, answers = np.array([x for x, _ in cell.asked]), np.array([y for _, y in cell.asked])
        design = np.hstack([points - middle, np.ones((len(points), 1))])
        spread = float(np.linalg.svd(points - points.mean(axis=0))[1][1])
        if len(points) < 3 or spread < SMALL * self.plane.extent:
            return
        solution = np.linalg.lstsq(design, answers, rcond=None)[0]
        bar = float(self.plane.inquiry.bars(self.plane.lift(points), answers).max())
        if np.max(np.abs(design @ solution - answers)) > SAFETY * bar:
            return
        cell.centre, cell.value, cell.gradient = middle, solution[2], solution[:2].T
        cell.error = min(cell.error, 4 * bar / spread)

    def _look_behind(self) -> bool:
        """Stretches of edges behind which the function is no known piece; whether cells were found there."""
        found, small = False, 1e-6 * self.plane.extent
        for number in range(len(self.cells)):
            cell = self.cells[number]
            if not cell.whole:
                continue
            for i, other in enumerate(cell.behind):
                way = cell.corners[(i + 1) % len(cell.corners)] - cell.corners[i]
                length = float(np.linalg.norm(way))
                if other < 0 or length < 10 * small:
                    continue
                for share in (0.02, 0.98):
                    y = cell.corners[i] + share * way - 1e-4 * length * cell.lines[int(other)][0]
                    if any(np.max(np.abs(y - x)) < small for x in self.lost) or self.piece_at(y) is not None:
                        continue
                    if self._begin(y, 1e-4 * length) is None:
                        self.lost.append(y)
                    else:
                        found = True
        return found
