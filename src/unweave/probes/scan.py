"""Every kink of a piecewise-linear function along straight lines, by segmented least squares.

Answers along a line fall into straight runs (at least three neighbours on one line, to their error bars). Where two
runs in succession meet between them, and answers asked closely beside the meeting point still follow one run each,
there is one kink, with an error bar. Anything else is asked again in between. The same scan serves exact,
float32 and noisy answers. Activations that follow relu only outside a window around the kink (GELU and its like, far
out) are served by the inquiry's window: answers that near a kink follow neither run and are not asked for. A line of
many points few of which lie on straight runs is given up: answers that bend all along, or are rougher than was thought.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from unweave.probes.inquiry import Inquiry
from unweave.probes.kinks import Kinks
from unweave.probes.lines import Lines

DEVIATIONS = 6.0
"""How many standard deviations two numbers may differ by and still be called equal."""

CLEARLY = 4.0
"""A bend must exceed what counts as straight by this factor to be looked at more closely."""
MANY, STRAIGHT = 1000, 0.25
"""Points from which on a line is given up, and the least share of them on straight runs."""
BESIDE = 0.01
"""How closely beside a meeting point its runs are asked to hold, relative to the shorter of them."""


@dataclass(frozen=True)
class Run:
    """Straight from point ``first`` to point ``last``: ``value + (t - centre) slope``."""

    first: int
    last: int
    centre: float
    value: np.ndarray
    slope: np.ndarray
    value_variance: float
    slope_variance: float
    misfit: float
    """Largest deviation in standard deviations."""

    def at(self, t: float) -> np.ndarray:
        return self.value + (t - self.centre) * self.slope

    def variance(self, t: float) -> float:
        return self.value_variance + (t - self.centre) ** 2 * self.slope_variance


def fit_run(t: np.ndarray, values: np.ndarray, bars: np.ndarray, first: int, last: int) -> Run:
    """The straight line through points ``first`` to ``last``; ends that may lie beyond a weak kink do not count."""
    inner = slice(first + 1, last) if last - first >= 5 else slice(first, last + 1)
    ts, fs, ss = t[inner], values[inner], bars[inner]
    weights = 1 / ss**2
    total = weights.sum()
    weights = weights / total
    # differences from one point of the run: sums of the values themselves would round as coarsely as the answers
    centre = float(ts[0] + weights @ (ts - ts[0]))
    value = fs[0] + weights @ (fs - fs[0])
    offset = ts - centre
    moment = float(weights @ offset**2)
    slope = (weights * offset) @ (fs - value) / moment
    moment = moment * total
    misfit = np.max(
        np.abs(values[first : last + 1] - value - np.outer(t[first : last + 1] - centre, slope)), axis=1
    )
    allowed = bars[first : last + 1] ** 2
    if len(ts) < len(allowed):  # the ends are predicted, not fitted
        ends = t[[first, last]] - centre
        allowed[[0, -1]] += 1 / total + ends**2 / moment
    worst = float(np.max(misfit / np.sqrt(allowed)))
    return Run(first, last, centre, value, slope, float(1 / total), 1 / moment, worst)


def straight_runs(t: np.ndarray, values: np.ndarray, bars: np.ndarray) -> list[Run]:
    """The straight runs of at least three points, in order; neighbours may share their end point."""
    if len(t) < 3:
        return []
    bend, allowed = _bends(t, values, bars)
    straight = bend <= DEVIATIONS * allowed
    edges = np.flatnonzero(np.diff(np.concatenate([[False], straight, [False]]).astype(int)))
    runs: list[Run] = []
    for begin, end in edges.reshape(-1, 2):
        runs.extend(_split(t, values, bars, int(begin), int(end) + 1))
    return runs


def _split(t, values, bars, first: int, last: int) -> list[Run]:
    """One run, or several where a slight bend shows only over its whole length."""
    work, runs = [(first, last)], []
    while work:
        a, b = work.pop()
        if b - a < 2:
            continue
        run = fit_run(t, values, bars, a, b)
        if run.misfit <= DEVIATIONS * 1.5:
            runs.append(run)
            continue
        inner = slice(a + 1, b)
        share = (t[inner] - t[a]) / (t[b] - t[a])
        chord = values[a] + share[:, None] * (values[b] - values[a])
        middle = a + 1 + int(np.argmax(np.max(np.abs(values[inner] - chord), axis=1) / bars[inner]))
        work += [(middle, b), (a, middle)]
    return runs


@dataclass
class _Line:
    t: np.ndarray
    values: np.ndarray
    bars: np.ndarray
    found: list = field(default_factory=list)
    gaps: list = field(default_factory=list)
    share: float = 0.0
    """Share of the points on straight runs."""

    @property
    def endless(self) -> bool:
        return len(self.t) >= MANY and self.share < STRAIGHT

    def add(self, t, values, bars) -> None:
        t, values, bars = (
            np.concatenate([self.t, t]),
            np.concatenate([self.values, values]),
            np.concatenate([self.bars, bars]),
        )
        _, order = np.unique(t, return_index=True)
        self.t, self.values, self.bars = t[order], values[order], bars[order]


def scan_lines(
    inquiry: Inquiry, lines: Lines, *, num_nodes: int = 9, max_rounds: int = 40, max_queries: int = 2_000_000
) -> list[Kinks]:
    """The kinks along each of ``lines``. All open stretches of all lines are asked in one batch a round."""
    num, k = len(lines), inquiry.output_size
    ends = np.arctan(lines.low / lines.scale), np.arctan(lines.high / lines.scale)
    nodes = lines.scale[:, None] * np.tan(np.linspace(*ends, num_nodes, axis=1))
    nodes = np.clip(nodes, lines.low[:, None], lines.high[:, None])
    states = [_Line(np.zeros(0), np.zeros((0, k)), np.zeros(0)) for _ in range(num)]
    numbers, wanted, spent = np.repeat(np.arange(num), num_nodes), nodes.ravel(), 0
    for _ in range(max_rounds + 1):
        spent += len(wanted)
        if not len(wanted) or spent > max_queries:
            break
        values, bars = inquiry.ask(lines.points(numbers, wanted))
        borders = np.searchsorted(numbers, np.arange(num + 1))
        more_numbers, more = [], []
        for i in np.unique(numbers):
            part = slice(borders[i], borders[i + 1])
            states[i].add(wanted[part], values[part], bars[part])
            questions = _resolve(states[i], float(lines.scale[i]), inquiry.window)
            if states[i].endless:
                continue
            more_numbers += [i] * len(questions)
            more += questions
        numbers, wanted = np.array(more_numbers, dtype=int), np.array(more)
    return [_gather(state, k) for state in states]


def _resolve(line: _Line, scale: float, window: float) -> list[float]:
    """Kinks and gaps of a line as far as its answers show them, and what to ask next."""
    t, values, bars = line.t, line.values, line.bars
    runs = straight_runs(t, values, bars)
    found, gaps, questions = [], [], []
    line.share = sum(run.last - run.first + 1 for run in runs) / len(t)
    if not runs:
        line.found, line.gaps = [], [(t[0], t[-1])]
        return _between(t, values, bars, 0, len(t) - 1, scale, window)
    if runs[0].first > 0:
        gaps.append((t[0], t[runs[0].first]))
        questions += _between(t, values, bars, 0, runs[0].first + 1, scale, window)
    for left, right in pairwise(runs):
        kink, beside = _meet(t, values, bars, left, right, scale, window)
        if kink is not None:
            found.append(kink)
            continue
        gaps.append(
            (t[left.last], t[right.first])
            if right.first > left.last
            else (t[left.last - 1], t[right.first + 1])
        )
        questions += (
            beside if beside else _between(t, values, bars, left.last - 1, right.first + 1, scale, window)
        )
    if runs[-1].last < len(t) - 1:
        gaps.append((t[runs[-1].last], t[-1]))
        questions += _between(t, values, bars, runs[-1].last - 1, len(t) - 1, scale, window)
    line.found, line.gaps = found, gaps
    return sorted({q for q in questions if np.isfinite(q)} - set(t.tolist()))


def _meet(t, values, bars, left: Run, right: Run, scale: float, window: float):
    """The kink where two runs meet, or what to ask to make sure of it (nothing: they do not meet)."""
    bend = right.slope - left.slope
    size = float(bend @ bend)
    slope_variance = left.slope_variance + right.slope_variance
    if size <= (2 * DEVIATIONS) ** 2 * slope_variance:
        return None, []
    origin = t[left.last]
    place = origin + float((left.at(origin) - right.at(origin)) @ bend) / size
    variance = left.variance(place) + right.variance(place)
    near = bars[min(max(np.searchsorted(t, place), 0), len(t) - 1)]
    error = float(np.sqrt((variance + near**2 / 4) / size))
    gap = np.max(np.abs(left.at(place) - right.at(place)))
    slack = DEVIATIONS * error + window
    low, high = t[left.last], t[right.first]
    if low >= high:  # the runs share a point or two
        low, high = t[max(left.last - 1, left.first)], t[min(right.first + 1, right.last)]
    if gap > DEVIATIONS * np.sqrt(variance + near**2) or not low - slack <= place <= high + slack:
        return None, []
    if not t[0] <= place <= t[-1]:  # rough answers at the end of a line: the runs meet beyond it
        return None, []
    between = t[left.last + 1 : right.first]
    if len(between) and np.max(np.abs(between - place)) > slack:
        return None, []
    shorter = min(place - t[left.first], t[right.last] - place)
    margin = max(BESIDE * min(shorter, scale + abs(place)), 1.5 * slack)
    low, high = t[left.last], t[right.first]
    if place - low > 3 * margin or high - place > 3 * margin:
        return None, [q for q in (place - margin, place + margin) if low < q < high]
    kink = (place, error, bend, float(np.sqrt(slope_variance)), (t[left.first], t[right.last]))
    return kink, []


def _between(t, values, bars, first: int, last: int, scale: float, window: float) -> list[float]:
    """The middles, in angle, of the intervals between two points in which a bend stands out from the error bars."""
    first, last = max(first, 0), min(last, len(t) - 1)
    if last - first < 2:
        return []
    ts = t[first : last + 1]
    bend, allowed = _bends(ts, values[first : last + 1], bars[first : last + 1])
    clear = bend > CLEARLY * DEVIATIONS * allowed
    bent = np.append(clear, False) | np.insert(clear, 0, False)
    steps, place = np.diff(ts), scale + np.abs(ts[:-1]) + np.abs(ts[1:])
    wide = bent & (steps > np.maximum(4e-12 * place, 3 * window))
    middles = scale * np.tan((np.arctan(ts[:-1] / scale) + np.arctan(ts[1:] / scale)) / 2)
    return middles[wide].tolist()


def _bends(t, values, bars) -> tuple[np.ndarray, np.ndarray]:
    """How far the middle of every three neighbours lies off the chord of the others, and its standard deviation."""
    share = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
    bend = np.max(np.abs(values[1:-1] - values[:-2] - share[:, None] * (values[2:] - values[:-2])), axis=1)
    allowed = np.sqrt(bars[1:-1] ** 2 + ((1 - share) * bars[:-2]) ** 2 + (share * bars[2:]) ** 2)
    return bend, allowed


def _gather(line: _Line, num_outputs: int) -> Kinks:
    places, errors, jumps, jump_errors, reaches = zip(*line.found, strict=True) if line.found else ([],) * 5
    return Kinks(
        np.array(places),
        np.array(jumps).reshape(len(places), num_outputs),
        np.array([(low + high) / 2 for low, high in line.gaps]),
        line.t,
        line.values,
        place_errors=np.array(errors),
        jump_errors=np.array(jump_errors),
        reaches=np.array(reaches).reshape(len(places), 2),
        gaps=np.array(line.gaps).reshape(-1, 2),
        endless=line.endless,
    )
