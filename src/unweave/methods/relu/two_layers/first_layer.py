"""The planes of the first hidden layer of a deep relu network, told apart from the bent zero sets of deeper units.

A few random lines are searched for kinks; the planes behind the kinks of one line are measured, and those that
explain kinks on other lines belong to the first layer. Further lines are measured only where their kinks are not
explained yet; what stays unexplained are kinks of deeper units, kept for the next layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.one_layer.ridges import plane_errors, same_plane
from unweave.methods.relu.two_layers.consistency import confirmed_planes, match_kinks
from unweave.probes.cells import Pieces
from unweave.probes.inquiry import Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import Lines, draw_lines
from unweave.probes.planes import Planes, measure_planes


@dataclass(frozen=True)
class FirstLayer:
    """Planes of the first layer, the lines they were seen on, and the planes of kinks they do not explain."""

    planes: Planes
    deeper: Planes
    """Local planes at kinks of deeper units: the zero set near ``points``."""
    lines: Lines
    kinks: list[Kinks]
    pieces: Pieces

    def heights(self, x: np.ndarray) -> np.ndarray:
        """Signed distances of the rows of ``x`` from every plane."""
        return x @ self.planes.normals.T + self.planes.offsets


def find_first_layer(
    inquiry: Inquiry,
    rng: np.random.Generator,
    *,
    num_lines: int = 6,
    num_quiet: int = 2,
    num_confirmations: int = 3,
) -> FirstLayer:
    """Measure lines until ``num_quiet`` of them in a row show no new plane of the first layer.

    The first line is drawn and measured as for one hidden layer, so that its answers are not paid for twice.
    """
    meter = inquiry.meter
    with meter.stage("lines"):
        lines = draw_lines(meter.domain, 1, inquiry.input_size, rng)
        kinks = find_kinks(inquiry, lines)
        seen, pieces = measure_planes(inquiry, lines, kinks, rng)
        lines = lines.join(draw_lines(meter.domain, num_lines - 1, inquiry.input_size, rng))
        kinks = kinks + find_kinks(inquiry, lines.take(np.arange(1, num_lines)))
    first = confirmed_planes(seen, lines, kinks, num_misses=num_lines - num_confirmations)
    quiet = 0
    for line in range(1, num_lines):
        open_kinks = [
            unexplained(first, lines, kinks, i) if i == line else _none(kinks[i]) for i in range(num_lines)
        ]
        with meter.stage("first layer"):
            planes, fresh = measure_planes(inquiry, lines, open_kinks, rng)
        seen, pieces = seen.join(planes), pieces.join(fresh)
        before = len(first)
        first = confirmed_planes(seen, lines, kinks, num_misses=num_lines - num_confirmations)
        quiet = quiet + 1 if len(first) == before else 0
        if quiet >= num_quiet:
            break
    deeper = [i for i in range(len(seen)) if same_plane(first, seen.take([i])) is None]
    matches, _ = match_kinks(first, lines, kinks)
    deeper = [i for i in deeper if not _explained(seen.points[i], lines, kinks, matches)]
    return FirstLayer(first, seen.take(deeper), lines, kinks, pieces)


def unexplained(first: Planes, lines: Lines, kinks: list[Kinks], line: int) -> Kinks:
    """The kinks of a line that no first-layer plane explains, the others kept as borders of cells."""
    matches, _ = match_kinks(first, lines, kinks)
    found = kinks[line]
    explained = np.zeros(len(found.positions), dtype=bool)
    explained[matches[matches[:, line] >= 0, line]] = True
    return Kinks(
        found.positions[~explained],
        found.jumps[~explained],
        np.sort(np.concatenate([found.unresolved, found.positions[explained]])),
        found.asked,
        found.answers,
    )


def _none(found: Kinks) -> Kinks:
    return Kinks(found.positions[:0], found.jumps[:0], found.unresolved, found.asked, found.answers)


def _explained(point: np.ndarray, lines: Lines, kinks: list[Kinks], matches: np.ndarray) -> bool:
    """Whether the kink at ``point`` of one of the lines is matched by a first-layer plane."""
    for line in range(len(lines)):
        t = (point - lines.origins[line]) @ lines.directions[line]
        apart = np.linalg.norm(lines.origins[line] + t * lines.directions[line] - point)
        if apart < 1e-9 * (1 + np.linalg.norm(point)) and len(kinks[line].positions):
            nearest = int(np.argmin(np.abs(kinks[line].positions - t)))
            return bool(np.any(matches[:, line] == nearest))
    return False


def sharpen_first_layer(
    inquiry: Inquiry, first: FirstLayer, rng: np.random.Generator, *, target: float = 1e-10
) -> FirstLayer:
    """Measure planes of low accuracy again on the line where their kink is strong and far from its neighbours."""
    planes = first.planes
    poor = np.flatnonzero(plane_errors(planes) > target)
    if not len(poor):
        return first
    matches, _ = match_kinks(planes, first.lines, first.kinks)
    wanted: list[list[int]] = [[] for _ in range(len(first.lines))]
    for i in poor:
        best, best_score = None, 0.0
        for line in np.flatnonzero(matches[i] >= 0):
            found, number = first.kinks[line], matches[i, line]
            breaks = np.sort(np.concatenate([found.positions, found.unresolved]))
            place = int(np.searchsorted(breaks, found.positions[number]))
            gaps = np.diff(breaks)[max(place - 1, 0) : place + 1]
            room = float(np.min(gaps, initial=np.inf))
            score = min(room, first.lines.scale[line]) * np.linalg.norm(found.jumps[number])
            score /= 1 + abs(found.positions[number]) / first.lines.scale[line]
            if score > best_score:
                best, best_score = (int(line), int(number)), float(score)
        if best is not None:
            wanted[best[0]].append(best[1])
    chosen = []
    for found, numbers in zip(first.kinks, wanted, strict=True):
        rest = np.setdiff1d(np.arange(len(found.positions)), numbers)
        borders = np.sort(np.concatenate([found.unresolved, found.positions[rest]]))
        keep = np.sort(np.array(numbers, dtype=int))
        chosen.append(Kinks(found.positions[keep], found.jumps[keep], borders, found.asked, found.answers))
    fresh, _ = measure_planes(inquiry, first.lines, chosen, rng)
    for i in range(len(fresh)):
        one = fresh.take([i])
        same = same_plane(planes, one)
        if same is not None and plane_errors(one)[0] < plane_errors(planes)[same]:
            others = np.arange(len(planes))
            planes = planes.take(others[:same]).join(one, planes.take(others[same + 1 :]))
    return FirstLayer(planes, first.deeper, first.lines, first.kinks, first.pieces)
