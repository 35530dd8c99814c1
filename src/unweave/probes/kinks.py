"""Every kink of a piecewise-linear function along straight lines, from point values.

An interval carries the straight line that the function follows at either end. Equal lines: no kink inside.
Otherwise the two lines meet at t*; if the function follows the left line just before t*, the right one just after
it, and both at t* itself, there is exactly one kink. Anything else is split and looked at again. A smooth kink follows
neither line within its window, so that t* itself is not asked then. Two kinks that
cancel exactly escape; on a random line that has probability zero. About six queries a kink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from unweave.probes.inquiry import BLIND, SAFETY, Inquiry
from unweave.probes.lines import Lines

NUM_HALVED = 5
"""How often an interval is halved towards answers that say nothing."""


@dataclass(frozen=True)
class Kinks:
    """The kinks of one line in order, and every (parameter, answer) asked on it."""

    positions: np.ndarray
    jumps: np.ndarray
    """Change of slope at each kink, one row of outputs each."""
    unresolved: np.ndarray
    """Places where kinks are too close to be told apart."""
    asked: np.ndarray
    answers: np.ndarray
    place_errors: np.ndarray | None = None
    """Standard error of each position, where it was measured (``probes.scan``)."""
    jump_errors: np.ndarray | None = None
    """Standard error of an entry of each jump."""
    reaches: np.ndarray | None = None
    """(n, 2) parameters: how far the straight runs on both sides of each kink go."""
    gaps: np.ndarray | None = None
    """(n, 2) ends of the unresolved stretches."""
    endless: bool = False
    """Whether the answers bend nearly everywhere on the line, so that the search for kinks was given up."""


@dataclass(frozen=True)
class _Tangent:
    """The straight line the function follows near ``t``, measured over a step ``step``."""

    t: float
    value: np.ndarray
    slope: np.ndarray
    step: float
    bar: float
    slope_bar: float

    def at(self, t: float) -> np.ndarray:
        return self.value + (t - self.t) * self.slope

    @property
    def blind(self) -> bool:
        """Whether its answers say nothing: beyond the end of what stands behind the last layer."""
        return self.slope_bar * self.step >= BLIND

    def error(self, t: float) -> float:
        return self.bar + self.slope_bar * abs(t - self.t)


@dataclass
class _Interval:
    line: int
    left: _Tangent
    right: _Tangent
    meeting: float | None = None
    """Where a single kink would be; its neighbourhood has been verified and its centre is being asked."""
    depth: int = 0

    @property
    def length(self) -> float:
        return self.right.t - self.left.t


def find_kinks(inquiry: Inquiry, lines: Lines, *, num_nodes: int = 5, max_rounds: int = 200) -> list[Kinks]:
    """The kinks along each of ``lines``. All open intervals of all lines are asked in one batch a round.

    Rough answers are scanned instead, by least squares over longer stretches (``probes.scan``).
    """
    if inquiry.coarse:
        from unweave.probes.scan import scan_lines  # it returns the kinks of this file

        return scan_lines(inquiry, lines)
    fraction = 2e-3
    record: list[list[tuple[float, np.ndarray]]] = [[] for _ in range(len(lines))]
    found: list[list[tuple[float, np.ndarray]]] = [[] for _ in range(len(lines))]
    unresolved: list[list[float]] = [[] for _ in range(len(lines))]

    def ask(numbers: list[int], parameters: list[float]) -> tuple[np.ndarray, np.ndarray]:
        values, bars = inquiry.ask(lines.points(np.array(numbers), np.array(parameters)))
        bars = np.maximum(bars, inquiry.slope * lines.rounding(np.array(numbers), np.array(parameters)))
        for line, t, value in zip(numbers, parameters, values, strict=True):
            record[line].append((t, value))
        return values, bars

    work = _start(lines, ask, num_nodes, fraction)
    for _ in range(max_rounds):
        asking: list[tuple[_Interval, list[float]]] = []
        for interval in work:
            step = _next_question(interval, lines, fraction, inquiry.window)
            if step is None:
                continue
            if not step:
                unresolved[interval.line].append((interval.left.t + interval.right.t) / 2)
                continue
            asking.append((interval, step))
        if not asking:
            break
        values, bars = ask([i.line for i, ts in asking for _ in ts], [t for _, ts in asking for t in ts])
        work, start = [], 0
        for interval, ts in asking:
            part, bar = values[start : start + len(ts)], bars[start : start + len(ts)]
            start += len(ts)
            work.extend(_digest(interval, ts, part, bar, found, inquiry.window))
    else:
        for interval in work:
            unresolved[interval.line].append((interval.left.t + interval.right.t) / 2)
    return [_gather(record[i], found[i], unresolved[i], inquiry.output_size) for i in range(len(lines))]


def _start(lines: Lines, ask, num_nodes: int, fraction: float) -> list[_Interval]:
    """Tangents at a few nodes of every line, evenly spread in angle."""
    numbers, parameters = [], []
    for line in range(len(lines)):
        scale = lines.scale[line]
        angles = np.linspace(
            np.arctan(lines.low[line] / scale), np.arctan(lines.high[line] / scale), num_nodes
        )
        nodes = scale * np.tan(angles)
        nodes[0], nodes[-1] = lines.low[line], lines.high[line]
        gaps = np.diff(nodes)
        gaps = np.append(gaps, -gaps[-1])
        steps = fraction * np.sign(gaps) * np.minimum(np.abs(gaps), scale + np.abs(nodes))
        numbers += [line] * (2 * num_nodes)
        parameters += np.stack([nodes, nodes + steps], axis=1).ravel().tolist()
    values, bars = ask(numbers, parameters)
    intervals = []
    for line in range(len(lines)):
        tangents = []
        for node in range(num_nodes):
            i = 2 * (line * num_nodes + node)
            tangents.append(_tangent(parameters[i : i + 2], values[i : i + 2], bars[i : i + 2]))
        intervals += [_Interval(line, a, b) for a, b in pairwise(tangents)]
    return intervals


def _tangent(ts: list[float], values: np.ndarray, bars: np.ndarray) -> _Tangent:
    step = ts[1] - ts[0]
    slope = (values[1] - values[0]) / step
    return _Tangent(ts[0], values[0], slope, abs(step), float(bars[0]), float(bars[0] + bars[1]) / abs(step))


def _follows(tangent: _Tangent, t: float, value: np.ndarray, bar: float) -> bool:
    return bool(np.max(np.abs(tangent.at(t) - value)) <= SAFETY * (tangent.error(t) + bar))


def _next_question(interval: _Interval, lines: Lines, fraction: float, window: float) -> list[float] | None:
    """What to ask about an interval: None when it has no kink, [] when it is too short to go on."""
    left, right, length = interval.left, interval.right, interval.length
    if interval.meeting is not None:
        return [interval.meeting]
    place = abs(left.t) + abs(right.t) + lines.scale[interval.line]
    if length < max(1e-11 * place, 6 * window) or interval.depth > 60:
        return []
    if max(left.step, right.step) > max(0.025, 5 * fraction) * length:  # the steps reach over too much of it
        return [left.t, left.t + fraction * length, right.t, right.t - fraction * length]
    if left.blind or right.blind:
        if left.blind == right.blind or interval.depth >= NUM_HALVED:
            return None
        t = lines.middle(interval.line, left.t, right.t)
        return [t, t + fraction * min(length, lines.scale[interval.line] + abs(t))]
    if _follows(left, right.t, right.value, right.bar) and _follows(right, left.t, left.value, left.bar):
        return None
    t = _meet(left, right)
    if t is not None and left.t < t < right.t:
        margin = max(fraction * min(length, lines.scale[interval.line] + abs(t)), 2 * window)
        if left.t + 2 * margin < t < right.t - 2 * margin:
            return [t - margin / 2, t + margin / 2]
    t = lines.middle(interval.line, left.t, right.t)
    return [t, t + fraction * min(length, lines.scale[interval.line] + abs(t))]


def _meet(left: _Tangent, right: _Tangent) -> float | None:
    bend = right.slope - left.slope
    size = bend @ bend
    if size == 0:
        return None
    return float((left.at(0.0) - right.at(0.0)) @ bend / size)


def _digest(
    interval: _Interval, ts: list[float], values: np.ndarray, bars: np.ndarray, found, window: float
) -> list[_Interval]:
    """What is left of an interval after its questions were answered."""
    left, right, depth = interval.left, interval.right, interval.depth + 1
    if interval.meeting is not None:
        t = interval.meeting
        allowed = SAFETY * (left.error(t) + right.error(t) + bars[0])
        if (
            np.max(np.abs(left.at(t) - values[0])) <= allowed
            and np.max(np.abs(right.at(t) - values[0])) <= allowed
        ):
            found[interval.line].append((t, right.slope - left.slope))
            return []
        unknown = _Tangent(t, values[0], left.slope, interval.length, float(bars[0]), np.inf)
        return [
            _Interval(interval.line, replace(left, step=interval.length), unknown, depth=depth),
            _Interval(interval.line, unknown, replace(right, step=interval.length), depth=depth),
        ]
    if len(ts) == 4:
        fresh_left = _tangent(ts[:2], values[:2], bars[:2])
        fresh_right = _tangent(ts[2:], values[2:], bars[2:])
        return [_Interval(interval.line, fresh_left, fresh_right, depth=depth)]
    node = _tangent(ts, values, bars)
    meeting = _meet(left, right)
    if (
        meeting is not None
        and ts[0] < meeting < ts[1]
        and _follows(left, ts[0], values[0], bars[0])
        and _follows(right, ts[1], values[1], bars[1])
    ):
        inner = _tangent([ts[0], left.t], np.stack([values[0], left.value]), np.array([bars[0], left.bar]))
        outer = _tangent([ts[1], right.t], np.stack([values[1], right.value]), np.array([bars[1], right.bar]))
        meeting = _meet(inner, outer)
        if meeting is not None and ts[0] < meeting < ts[1]:
            if window:
                found[interval.line].append((meeting, outer.slope - inner.slope))
                return []
            return [_Interval(interval.line, inner, outer, meeting=meeting, depth=depth)]
    return [
        _Interval(interval.line, left, node, depth=depth),
        _Interval(interval.line, node, right, depth=depth),
    ]


def _gather(
    record, found: list[tuple[float, np.ndarray]], unresolved: list[float], output_size: int
) -> Kinks:
    """Kinks in order, each placed again where the best-known straight pieces beside it meet."""
    record.sort(key=lambda item: item[0])
    ts = np.array([t for t, _ in record])
    values = np.array([v for _, v in record]).reshape(len(ts), output_size)
    found = sorted(found, key=lambda item: item[0])
    positions = np.array([t for t, _ in found])
    breaks = np.sort(np.concatenate([positions, unresolved]))
    jumps = np.array([jump for _, jump in found]).reshape(len(positions), output_size)
    refined = positions.copy()
    for i, t in enumerate(positions):
        place = int(np.searchsorted(breaks, t))
        before = breaks[place - 1] if place else -np.inf
        after = breaks[place + 1] if place + 1 < len(breaks) else np.inf
        pieces = []
        for low, high in ((before, t), (t, after)):
            inside = np.flatnonzero((ts > low) & (ts < high))
            inside = inside[np.abs(ts[inside] - t).argsort()]
            if len(inside) < 2:
                break
            reach = np.abs(ts[inside] - t)
            far = inside[np.flatnonzero(reach <= 1e3 * (reach[0] + 1e-3 * (1 + abs(t))))[-1]]
            near = inside[0]
            if far == near:
                break
            slope = (values[far] - values[near]) / (ts[far] - ts[near])
            pieces.append((ts[near], values[near], slope))
        if len(pieces) < 2:
            continue
        (ta, fa, sa), (tb, fb, sb) = pieces
        bend = sb - sa
        jumps[i] = bend
        if bend @ bend > 0:
            meeting = t + ((fa + (t - ta) * sa) - (fb + (t - tb) * sb)) @ bend / (bend @ bend)
            if before < meeting < after and abs(meeting - t) <= 1e-3 * (1e-3 + abs(t)):
                refined[i] = meeting
    return Kinks(refined, jumps, np.array(sorted(unresolved)), ts, values)
