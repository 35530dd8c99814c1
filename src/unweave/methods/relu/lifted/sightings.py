"""Every kink seen on lines, one row each, and the jump of the gradient at those that were looked at.

A jump has rank one: (direction among the outputs) x (normal), with the offset from the kink's own place. With its size
it is a *facet*: ``size (normal, offset)``, the affine function whose sign tells the two sides apart, in the scale in
which it enters the outputs. Everything carries a standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.probes.cells import measure_pieces
from unweave.probes.inquiry import Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import Lines
from unweave.probes.scan import scan_lines

DEVIATIONS = 6.0
FACET_ERROR = 0.08
"""Relative error of a jump above which it tells nothing."""


@dataclass
class Sightings:
    """Lines, their kinks, and facets at some of them. It only grows."""

    inquiry: Inquiry
    rng: np.random.Generator
    lines: Lines | None = None
    fair: np.ndarray | None = None
    """Which lines were drawn at random: only these may vote."""

    def __post_init__(self) -> None:
        d, k = self.inquiry.input_size, self.inquiry.output_size
        self.scans: list[Kinks] = []
        self.line: np.ndarray = np.zeros(0, dtype=int)
        self.t: np.ndarray = np.zeros(0)
        self.error: np.ndarray = np.zeros(0)
        self.x: np.ndarray = np.zeros((0, d))
        self.across: np.ndarray = np.zeros((0, d))
        self.jump: np.ndarray = np.zeros((0, k))
        self.jump_error: np.ndarray = np.zeros(0)
        self.facet: np.ndarray = np.zeros((0, d + 1))
        self.facet_error: np.ndarray = np.zeros(0)
        self.output: np.ndarray = np.zeros((0, k))
        self.tried: np.ndarray = np.zeros(0, dtype=bool)

    def __len__(self) -> int:
        return len(self.t)

    @property
    def measured(self) -> np.ndarray:
        return np.isfinite(self.facet_error)

    @property
    def size(self) -> np.ndarray:
        return np.linalg.norm(self.facet[:, :-1], axis=1)

    def add_lines(self, lines: Lines, *, fair: bool = True, num_nodes: int = 9) -> np.ndarray:
        """Scan the lines; the numbers of the new kinks."""
        bounded = not np.isinf(self.inquiry.meter.domain.reach(self.inquiry.input_size))
        find = scan_lines if bounded else find_kinks
        scans = find(self.inquiry, lines, num_nodes=num_nodes)
        base, before = len(self.scans), len(self)
        self.lines = lines if self.lines is None else self.lines.join(lines)
        share = np.full(len(lines), fair)
        self.fair = share if self.fair is None else np.append(self.fair, share)
        self.scans += scans
        for i, scan in enumerate(scans):
            self._add(base + i, scan)
        return np.arange(before, len(self))

    def _add(self, line: int, scan: Kinks) -> None:
        assert self.lines is not None
        m, d = len(scan.positions), self.inquiry.input_size
        x = self.lines.points(np.full(m, line), scan.positions)
        sizes = np.linalg.norm(scan.jumps, axis=1)
        error, jump_error = scan.place_errors, scan.jump_errors
        if error is None or jump_error is None:
            order = np.searchsorted(scan.asked, scan.positions)
            near = scan.answers[np.clip(order, 0, len(scan.asked) - 1)]
            bars = self.inquiry.bars(x, near.reshape(m, self.inquiry.output_size))
            error = 4 * bars / np.maximum(sizes, 1e-300)
            jump_error = 4 * bars / np.maximum(_room(scan, self.lines.scale[line]), 1e-300)
        self.line, self.t = np.append(self.line, np.full(m, line)), np.append(self.t, scan.positions)
        self.error, self.jump_error = np.append(self.error, error), np.append(self.jump_error, jump_error)
        self.x, self.jump = np.vstack([self.x, x]), np.vstack([self.jump, scan.jumps])
        self.across = np.vstack([self.across, np.tile(self.lines.directions[line], (m, 1))])
        self.facet = np.vstack([self.facet, np.zeros((m, d + 1))])
        self.facet_error = np.append(self.facet_error, np.full(m, np.inf))
        self.output = np.vstack([self.output, np.zeros_like(scan.jumps)])
        self.tried = np.append(self.tried, np.zeros(m, dtype=bool))

    def measure(self, which: np.ndarray) -> None:
        """Facets at the numbered kinks, from the gradients in the cells on both sides."""
        which = which[~self.tried[which]]
        self.tried[which] = True
        if not len(which):
            return
        lines, owners, middles, halves, sides, cells = self.lines, [], [], [], [], {}
        assert lines is not None
        for m in which:
            line = int(self.line[m])
            borders = _borders(self.scans[line])
            place = int(np.argmin(np.abs(borders - self.t[m])))
            for piece in (place, place + 1):
                if (line, piece) not in cells:
                    cells[line, piece] = len(owners)
                    middle, half = _middle(lines, line, borders, piece)
                    owners.append(line)
                    middles.append(middle)
                    halves.append(half)
            sides.append((cells[line, place], cells[line, place + 1]))
        points = lines.points(np.array(owners), np.array(middles))
        pieces = measure_pieces(self.inquiry, points, 0.4 * np.array(halves), self.rng)
        left, right = np.array(sides).T
        self._read_jumps(which, pieces, left, right)

    def _read_jumps(self, which, pieces, left, right) -> None:
        valid = pieces.valid[left] & pieces.valid[right]
        which, left, right = which[valid], left[valid], right[valid]
        if not len(which):
            return
        jumps = pieces.gradients[right] - pieces.gradients[left]
        error = np.hypot(pieces.errors[right], pieces.errors[left])
        k, d = jumps.shape[1:]
        u, s, vt = np.linalg.svd(jumps, full_matrices=False)
        good = s[:, 0] * FACET_ERROR > error
        if s.shape[1] > 1:
            good &= s[:, 1] <= DEVIATIONS * error * (np.sqrt(d) + np.sqrt(k))
        # the normal points the way the line went: then the output direction has a sign of its own, the normal has none
        turn = np.where(np.einsum("nd,nd->n", vt[:, 0], self.across[which]) < 0, -1.0, 1.0)
        output, normal = u[:, :, 0] * turn[:, None], vt[:, 0] * turn[:, None]
        rows = s[:, :1] * normal
        offsets = -np.einsum("nd,nd->n", rows, self.x[which])
        self.facet[which] = np.hstack([rows, offsets[:, None]])
        self.output[which] = output
        self.facet_error[which] = np.where(good, error, np.inf)


def _borders(scan: Kinks) -> np.ndarray:
    return np.sort(np.concatenate([scan.positions, scan.unresolved]))


def _room(scan: Kinks, scale: float) -> np.ndarray:
    """The shorter of the straight pieces beside each kink, at most a few times its distance."""
    borders = _borders(scan)
    gaps = np.diff(np.concatenate([[-np.inf], borders, [np.inf]]))
    place = np.searchsorted(borders, scan.positions)
    return np.minimum(np.minimum(gaps[place], gaps[place + 1]), scale + np.abs(scan.positions))


def _middle(lines: Lines, line: int, borders: np.ndarray, piece: int) -> tuple[float, float]:
    """The middle of a piece of a line and its half length; the outer ones are cut at twice their distance."""
    scale = lines.scale[line]
    low = borders[piece - 1] if piece else max(lines.low[line], borders[0] - 2 * (scale + abs(borders[0])))
    last = borders[-1]
    high = borders[piece] if piece < len(borders) else min(lines.high[line], last + 2 * (scale + abs(last)))
    return float((low + high) / 2), float((high - low) / 2)
