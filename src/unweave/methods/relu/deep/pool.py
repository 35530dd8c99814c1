"""The pool: lines with their kinks, normals at kinks and gradients in cells. It serves every layer and only grows.

Positions of kinks come from the scan of a line, about six queries each. A normal is the difference of the gradients
in the two cells beside the kink. Where layers are known, the gradient in a cell lies in the row space of their
Jacobian: as many queries as its rank instead of one an input. The slope along the line, which the scan has paid for,
checks every gradient: a step over an unseen border, or a unit that is missing below, shows there.

One long file: lines, kinks and cells number each other, and only the pool may keep these numbers together.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.scan import scan_lines
from unweave.probes.cells import Pieces
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import Lines

RANK = 1e-7
"""Singular values of a Jacobian below this share of the largest are zero."""
FLAT = 1e-14
"""Relative change of the answers below which the function is constant between two kinks."""


class Pool:
    """Lines, kinks and cells; one row of every array a kink or a cell."""

    is_random: np.ndarray
    line: np.ndarray
    t: np.ndarray
    x: np.ndarray
    place_error: np.ndarray
    window: np.ndarray
    slope_jump: np.ndarray
    normal: np.ndarray
    normal_error: np.ndarray
    output: np.ndarray
    size: np.ndarray
    foreign: np.ndarray
    kink_cells: np.ndarray
    cell_x: np.ndarray
    cell_gradient: np.ndarray
    cell_error: np.ndarray

    inquiry: Inquiry
    rng: np.random.Generator

    def __init__(self, inquiry: Inquiry, rng: np.random.Generator):
        d, k = inquiry.input_size, inquiry.output_size
        self.inquiry, self.rng = inquiry, rng
        self.lines: Lines | None = None
        self.scans: list[Kinks] = []
        self.is_random = np.zeros(0, dtype=bool)
        self.surveyed = False
        """Whether planes were measured line after line until lines brought nothing new."""
        self.line, self.t, self.x = np.zeros(0, dtype=int), np.zeros(0), np.zeros((0, d))
        self.place_error, self.window = np.zeros(0), np.zeros(0)
        self.slope_jump = np.zeros((0, k))
        self.normal, self.normal_error = np.zeros((0, d)), np.zeros(0)
        self.output, self.size = np.zeros((0, k)), np.zeros(0)
        self.foreign = np.zeros(0, dtype=bool)
        self.kink_cells = np.zeros((0, 2), dtype=int)
        self.cell_x, self.cell_gradient, self.cell_error = np.zeros((0, d)), np.zeros((0, k, d)), np.zeros(0)
        self._cells: dict[tuple[int, int], int] = {}
        self._borders: list[np.ndarray] = []
        self._border_kinks: list[np.ndarray] = []
        self._flat: list[np.ndarray] = []
        self._num_indexed = 0
        self.fair: tuple[np.ndarray, np.ndarray] | None = None
        """Points and answers that tell how often a network is wrong."""
        self.features: tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray] | None = None
        """Layers that were looked at last, all points asked then, and the features of the layers there."""

    @property
    def input_size(self) -> int:
        return self.inquiry.input_size

    @property
    def num_queries(self) -> int:
        return self.inquiry.meter.ledger.total

    def add_lines(
        self, lines: Lines, known: Known | None = None, *, random: bool = True, num_nodes: int = 9
    ) -> np.ndarray:
        """Scan the lines for kinks, cheaper where layers are known; the numbers of the new kinks.

        No gradient is measured.
        """
        if not len(lines):
            return np.zeros(0, dtype=int)
        if known is None or not known.depth:
            found = find_kinks(self.inquiry, lines, num_nodes=num_nodes)
        else:
            found = scan_lines(self.inquiry, lines, known)
        return self.take_scans(lines, found, random=random)

    def take_scans(self, lines: Lines, found: list[Kinks], *, random: bool = True) -> np.ndarray:
        """Add lines that have been scanned; the numbers of the new kinks."""
        base, before = len(self.scans), len(self.t)
        self.lines = lines if self.lines is None else self.lines.join(lines)
        self.scans += found
        self.is_random = np.append(self.is_random, np.full(len(lines), random))
        for i, scan in enumerate(found):
            self._add_kinks(base + i, scan)
        return np.arange(before, len(self.t))

    def _add_kinks(self, line: int, scan: Kinks) -> None:
        assert self.lines is not None
        places = np.concatenate([scan.positions, scan.unresolved])
        order = np.argsort(places, kind="stable")
        borders = places[order]
        numbers = np.append(len(self.t) + np.arange(len(scan.positions)), np.full(len(scan.unresolved), -1))
        self._borders.append(borders)
        self._border_kinks.append(numbers[order])
        self._flat.append(_flat_pieces(scan, borders))
        m, d, k = len(scan.positions), self.input_size, self.inquiry.output_size
        x = self.lines.points(np.full(m, line), scan.positions)
        jump = np.max(np.abs(scan.jumps), axis=1, initial=0.0)
        bars = self.inquiry.bars(x, np.zeros((m, 1)))
        self.line, self.t = np.append(self.line, np.full(m, line)), np.append(self.t, scan.positions)
        self.x = np.vstack([self.x, x])
        self.place_error = np.append(self.place_error, 4 * bars / np.maximum(jump, 1e-300))
        self.window = np.append(self.window, np.zeros(m))
        self.slope_jump = np.vstack([self.slope_jump, scan.jumps])
        self.normal = np.vstack([self.normal, np.zeros((m, d))])
        self.normal_error = np.append(self.normal_error, np.full(m, np.inf))
        self.output, self.size = np.vstack([self.output, np.zeros((m, k))]), np.append(self.size, np.zeros(m))
        self.foreign = np.append(self.foreign, np.zeros(m, dtype=bool))
        self.kink_cells = np.vstack([self.kink_cells, np.full((m, 2), -1)])

    def take_pieces(self, pieces: Pieces) -> None:
        """Add gradients that were asked for elsewhere, in cells that the pool's lines pass."""
        assert self.lines is not None
        along = np.einsum("cld,ld->cl", pieces.centres[:, None] - self.lines.origins, self.lines.directions)
        foot = self.lines.origins + along[:, :, None] * self.lines.directions
        apart = np.linalg.norm(pieces.centres[:, None] - foot, axis=2)
        fresh = []
        for c in np.flatnonzero(pieces.valid):
            line = int(np.argmin(apart[c]))
            key = (line, int(np.searchsorted(self._borders[line], along[c, line])))
            near = apart[c, line] <= 1e-9 * (1e-3 + np.linalg.norm(pieces.centres[c]))
            if near and key not in self._cells:
                self._cells[key] = len(self.cell_x) + len(fresh)
                fresh.append(c)
        self.cell_x = np.vstack([self.cell_x, pieces.centres[fresh]])
        self.cell_gradient = np.concatenate([self.cell_gradient, pieces.gradients[fresh]])
        self.cell_error = np.append(self.cell_error, pieces.errors[fresh])
        cells = [self._cells_beside(m) for m in range(len(self.t))]
        both = [m for m, (a, b) in enumerate(cells) if a in self._cells and b in self._cells]
        for m in both:
            self.kink_cells[m] = [self._cells[key] for key in cells[m]]
        self._read_normals(np.array(both, dtype=int))

    def _cells_beside(self, kink: int) -> tuple[tuple[int, int], tuple[int, int]]:
        line = int(self.line[kink])
        place = int(np.searchsorted(self._borders[line], self.t[kink]))
        return (line, place), (line, place + 1)

    def is_flat(self, line: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Whether the function is constant around parameters ``t`` of lines, between the borders beside them."""
        place = self._index(line, t)
        return self._after_flat[place]

    def is_border(self, line: np.ndarray, t: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
        """Whether a kink, or a place where kinks could not be told apart, is within the tolerance."""
        place = self._index(line, t)
        found = np.zeros(len(t), dtype=bool)
        for side in (place, np.minimum(place + 1, len(self._border_line) - 1)):
            found |= (self._border_line[side] == line) & (np.abs(self._border_t[side] - t) <= tolerance)
        return found

    def kinks_at(self, line: np.ndarray, t: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
        """The kinks within the tolerance of the places, each once."""
        place = self._index(line, t)
        found = []
        for side in (place, np.minimum(place + 1, len(self._border_line) - 1)):
            near = (self._border_line[side] == line) & (np.abs(self._border_t[side] - t) <= tolerance)
            found.append(self._border_number[side[near]])
        numbers = np.unique(np.concatenate(found))
        return numbers[numbers >= 0]

    def _index(self, line: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The last border at or before each place; every line begins with one at minus infinity."""
        assert self.lines is not None
        if self._num_indexed != len(self.scans):
            self._border_line = np.repeat(np.arange(len(self.scans)), [len(b) + 1 for b in self._borders])
            self._border_t = np.concatenate([np.append(-np.inf, b) for b in self._borders])
            self._after_flat = np.concatenate(self._flat)
            self._border_number = np.concatenate([np.append(-1, b) for b in self._border_kinks])
            self._border_key = self._key(self._border_line, self._border_t)
            self._num_indexed = len(self.scans)
        return np.searchsorted(self._border_key, self._key(line, t), side="right") - 1

    def _key(self, line: np.ndarray, t: np.ndarray) -> np.ndarray:
        """One number a place, ordered by line and then along it."""
        assert self.lines is not None
        return line + 0.49 * np.arctan(t / self.lines.scale[line]) / (np.pi / 2)

    def measure(self, numbers: np.ndarray, known: Known) -> None:
        """Normals at the numbered kinks that have none yet."""
        numbers = numbers[np.isinf(self.normal_error[numbers]) & ~self.foreign[numbers]]
        if not len(numbers):
            return
        wanted: list[tuple[int, int]] = []
        sides = np.zeros((len(numbers), 2), dtype=int)
        for row, m in enumerate(numbers):
            for side, key in enumerate(self._cells_beside(m)):
                if key not in self._cells:
                    self._cells[key] = len(self.cell_x) + len(wanted)
                    wanted.append(key)
                sides[row, side] = self._cells[key]
        if wanted:
            self._measure_cells(wanted, known)
        self.kink_cells[numbers] = sides
        self._read_normals(numbers)

    def _read_normals(self, numbers: np.ndarray) -> None:
        left, right = self.kink_cells[numbers].T
        jumps = self.cell_gradient[right] - self.cell_gradient[left]
        error = np.hypot(self.cell_error[right], self.cell_error[left])
        _, _, d = jumps.shape
        u, s, vt = np.linalg.svd(np.where(np.isfinite(error)[:, None, None], jumps, 0.0), full_matrices=False)
        size = s[:, 0]
        single = np.ones(len(numbers), dtype=bool)
        if s.shape[1] > 1:
            single = s[:, 1] <= SAFETY * error * np.sqrt(s.shape[1] * d)
        relative = error / np.maximum(size, 1e-300)
        good = np.isfinite(error) & single & (relative < 1e-3)
        self.normal[numbers] = vt[:, 0]
        self.output[numbers] = u[:, :, 0]
        self.size[numbers] = np.where(good, size, 0.0)
        self.normal_error[numbers] = np.where(good, relative, np.inf)

    def _measure_cells(self, keys: list[tuple[int, int]], known: Known) -> None:
        """Gradients in the cells (line, piece): from a point of the scan, along a basis of what known layers pass."""
        assert self.lines is not None
        num, d, k = len(keys), self.input_size, self.inquiry.output_size
        centres, values, slopes = np.zeros((num, d)), np.zeros((num, k)), np.zeros((num, k))
        room, slope_bars = np.zeros(num), np.full(num, np.inf)
        directions = self.lines.directions[[line for line, _ in keys]]
        ask = []
        for c, (line, piece) in enumerate(keys):
            t, value, slope, bar, room[c] = self._middle(line, piece)
            centres[c] = self.lines.origins[line] + t * self.lines.directions[line]
            slopes[c], slope_bars[c] = slope, bar
            if value is None:
                ask.append(c)
            else:
                values[c] = value
        if ask:
            values[ask] = self.inquiry.ask(centres[ask])[0]
        clear = known.clearance(centres) if known.depth else np.full(num, np.inf)
        reach = np.linalg.norm(centres, axis=1) + 1e-3
        _, jac = known.jacobian(centres)
        _, s, vt = np.linalg.svd(jac, full_matrices=False)
        rank = np.sum(s > RANK * np.maximum(s[:, :1], 1e-300), axis=1) if known.depth else np.full(num, d)
        if known.depth == 0:
            vt = np.broadcast_to(np.eye(d), (num, d, d))
        # the more directions are tried, the sooner one of them meets a border that is not known
        steps = np.minimum(np.minimum(room / np.maximum(1 + rank / 4, 3), clear / 3), reach)
        gradients, errors = np.zeros((num, k, d)), np.full(num, np.inf)
        pending = np.arange(num)
        for _ in range(3):
            if not len(pending):
                break
            passed = self._differences(
                pending, centres, values, steps, vt, rank, directions, slopes, slope_bars, gradients, errors
            )
            pending = pending[~passed]
            steps[pending] /= 8
        if len(pending) and known.depth:  # something below is missing: every direction counts
            rank[pending], steps[pending] = d, np.minimum(room / max(1 + d / 4, 3), clear / 3)[pending]
            vt = np.broadcast_to(np.eye(d), (num, d, d))
            for _ in range(3):
                if not len(pending):
                    break
                passed = self._differences(
                    pending,
                    centres,
                    values,
                    steps,
                    vt,
                    rank,
                    directions,
                    slopes,
                    slope_bars,
                    gradients,
                    errors,
                )
                pending = pending[~passed]
                steps[pending] /= 8
        self.cell_x = np.vstack([self.cell_x, centres])
        self.cell_gradient = np.concatenate([self.cell_gradient, gradients])
        self.cell_error = np.append(self.cell_error, errors)

    def _differences(
        self, rows, centres, values, steps, bases, rank, directions, slopes, slope_bars, out, errors
    ):
        """Forward differences along the basis of each cell; whether they reproduce the slope along the line.

        Where a step would leave the domain it is taken backwards; a cell without room for either is not measured.
        """
        owner = np.repeat(rows, rank[rows])
        which = np.concatenate([np.arange(r) for r in rank[rows]]) if len(rows) else np.zeros(0, dtype=int)
        basis = bases[owner, which]
        contains = self.inquiry.meter.domain.contains
        basis = np.where(contains(centres[owner] + steps[owner, None] * basis)[:, None], basis, -basis)
        points = centres[owner] + steps[owner, None] * basis
        cramped = np.zeros(len(centres), dtype=bool)
        cramped[owner[~contains(points)]] = True
        points[cramped[owner]] = centres[owner][cramped[owner]]
        answers, bars = self.inquiry.ask(points)
        rise = (answers - values[owner]) / steps[owner, None]
        gradient = np.zeros((len(centres), *out.shape[1:]))
        np.add.at(gradient, owner, rise[:, :, None] * basis[:, None, :])
        bar = np.zeros(len(centres))
        np.maximum.at(bar, owner, bars)
        bar = np.maximum(bar, self.inquiry.bars(centres, values))
        error = 1.5 * bar / steps
        miss = np.max(np.abs(np.einsum("nkd,nd->nk", gradient, directions) - slopes), axis=1)
        ok = (miss <= SAFETY * (error + slope_bars)) & ~cramped
        passed = ok[rows]
        out[rows[passed]], errors[rows[passed]] = gradient[rows[passed]], error[rows[passed]]
        return passed

    def _middle(self, line: int, piece: int):
        """A point inside a piece of a line, its value if it was asked, the slope of the piece, and the room there."""
        assert self.lines is not None
        scan, borders = self.scans[line], self._borders[line]
        low = borders[piece - 1] if piece else self.lines.low[line]
        high = borders[piece] if piece < len(borders) else self.lines.high[line]
        inside = np.flatnonzero((scan.asked > low) & (scan.asked < high))
        t, y = scan.asked[inside], scan.answers[inside]
        if piece == 0 and len(borders):
            low = max(low, high - 2 * (self.lines.scale[line] + abs(high)))
        if piece == len(borders) and len(borders):
            high = min(high, low + 2 * (self.lines.scale[line] + abs(low)))
        middle = (low + high) / 2
        if len(inside) < 2:
            return middle, None, np.zeros(scan.answers.shape[1]), np.inf, (high - low) / 2
        near = np.argmin(np.abs(t - middle))
        a, b = _longest(t, low, high)
        slope = (y[b] - y[a]) / (t[b] - t[a])
        x = self.lines.points(np.array([line, line]), t[[a, b]])
        bar = float(np.sum(self.inquiry.bars(x, y[[a, b]])) / abs(t[b] - t[a]))
        room = min(t[near] - low, high - t[near])
        if room < 0.1 * (high - low):
            return middle, None, slope, bar, (high - low) / 2
        return t[near], y[near], slope, bar, room


def _longest(t: np.ndarray, low: float, high: float) -> tuple[int, int]:
    """The two parameters between which the slope of a piece is measured best: within it, far apart."""
    within = np.flatnonzero((t >= low) & (t <= high))
    if len(within) < 2 or t[within[-1]] - t[within[0]] <= 0:
        middle = (low + high) / 2
        order = np.argsort(np.abs(t - middle))
        return int(order[0]), int(order[1])
    return int(within[0]), int(within[-1])


def _flat_pieces(scan: Kinks, borders: np.ndarray) -> np.ndarray:
    """Which pieces between borders the answers are constant on."""
    flat = np.zeros(len(borders) + 1, dtype=bool)
    piece = np.searchsorted(borders, scan.asked)
    for c in np.unique(piece):
        y = scan.answers[piece == c]
        flat[c] = len(y) >= 2 and np.max(np.ptp(y, axis=0)) <= FLAT * (np.max(np.abs(y)) + 1e-300)
    return flat
