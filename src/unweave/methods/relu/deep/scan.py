"""Lines whose known crossings are predicted: two queries a segment show whether anything unknown bends there.

Between two predicted breaks the function should be one straight piece, and neighbouring pieces should meet at the
break. Where they do not, the segments beside are searched for kinks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.known import Known
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import Lines

SHORTEST = 1e-6
"""Segments shorter than this, relative to their place, are not looked into."""


def scan_lines(inquiry: Inquiry, lines: Lines, known: Known) -> list[Kinks]:
    """The kinks of the lines; those of known units where they are predicted and show."""
    owner, low, high = _segments(lines, known)
    ends = np.stack([low + 0.1 * (high - low), high - 0.1 * (high - low)])
    x = lines.points(np.tile(owner, 2), ends.ravel())
    answers, bars = inquiry.ask(x)
    bars = np.maximum(bars, inquiry.slope * lines.rounding(np.tile(owner, 2), ends.ravel()))
    first, last = np.split(answers, 2)
    bar = np.maximum(*np.split(bars, 2))
    slope = (last - first) / (ends[1] - ends[0])[:, None]
    at_low, at_high = first - slope * (ends[0] - low)[:, None], last + slope * (high - ends[1])[:, None]
    together = owner[:-1] == owner[1:]
    gap = np.max(np.abs(at_high[:-1] - at_low[1:]), axis=1)
    apart = together & (gap > SAFETY * 1.5 * (bar[:-1] + bar[1:]))
    middle = (low + high) / 2
    inner: dict[int, Kinks] = {}
    only = np.bincount(owner, minlength=len(lines)) == 1
    todo = only[owner]  # a single segment has nothing to compare with
    for attempt in range(3):
        beside = np.zeros(len(owner), dtype=bool)
        beside[:-1] |= apart
        beside[1:] |= apart
        beside &= ~np.isin(np.arange(len(owner)), list(inner))
        if (
            attempt == 0 and beside.any()
        ):  # of two pieces that do not meet often only one is bent: its middle tells
            rows = np.flatnonzero(beside)
            there, their_bars = inquiry.ask(lines.points(owner[rows], middle[rows]))
            their_bars = np.maximum(their_bars, inquiry.slope * lines.rounding(owner[rows], middle[rows]))
            miss = np.max(np.abs(there - (first[rows] + last[rows]) / 2), axis=1)
            todo[rows] |= miss > SAFETY * (bar[rows] + their_bars)
        else:
            todo |= beside
        rows = np.array([row for row in np.flatnonzero(todo) if row not in inner], dtype=int)
        if not len(rows):
            if attempt:
                break
            continue
        inset = 1e-7 * (high - low)[rows]
        parts = replace(lines.take(owner[rows]), low=low[rows] + inset, high=high[rows] - inset)
        for row, found in zip(rows, find_kinks(inquiry, parts, num_nodes=2), strict=True):
            inner[int(row)] = found
            at_low[row], at_high[row] = _ends(found)
        gap = np.max(np.abs(at_high[:-1] - at_low[1:]), axis=1)
        apart = together & (gap > SAFETY * 4 * (bar[:-1] + bar[1:]))
    return [
        _gather(i, owner, low, high, ends, first, last, slope, bar, inner, inquiry.output_size)
        for i in range(len(lines))
    ]


def _segments(lines: Lines, known: Known):
    owner, low, high = [], [], []
    for i in range(len(lines)):
        t = known.breaks(lines, i)
        apart = np.diff(t) > SHORTEST * (lines.scale[i] + np.abs(t[1:]))
        t = np.concatenate(
            [
                t[:1],
                t[1:-1][apart[:-1] & (t[-1] - t[1:-1] > SHORTEST * (lines.scale[i] + np.abs(t[-1])))],
                t[-1:],
            ]
        )
        owner.append(np.full(len(t) - 1, i))
        low.append(t[:-1])
        high.append(t[1:])
    return np.concatenate(owner), np.concatenate(low), np.concatenate(high)


def _ends(found: Kinks) -> tuple[np.ndarray, np.ndarray]:
    """Values at both ends of a searched segment."""
    order = np.argsort(found.asked)
    return found.answers[order[0]], found.answers[order[-1]]


def _gather(line, owner, low, high, ends, first, last, slope, bar, inner, k) -> Kinks:
    """All kinks of one line in order with everything asked on it."""
    mine = np.flatnonzero(owner == line)
    asked, values = [ends[:, mine].ravel()], [np.concatenate([first[mine], last[mine]])]
    places, jumps, unresolved = [], [], []
    before, after = slope[mine].copy(), slope[mine].copy()
    for at, row in enumerate(mine):
        if row not in inner:
            continue
        found = inner[row]
        places.append(found.positions)
        jumps.append(found.jumps)
        unresolved.append(found.unresolved)
        asked.append(found.asked)
        values.append(found.answers)
        t, y = found.asked, found.answers
        if len(found.positions) and len(t) >= 4:
            left = t < found.positions.min()
            right = t > found.positions.max()
            for side, target in ((left, before), (right, after)):
                pick = np.flatnonzero(side)
                if len(pick) >= 2:
                    a, b = pick[0], pick[-1]
                    target[at] = (y[b] - y[a]) / (t[b] - t[a])
    jump = before[1:] - after[:-1]
    length = (high - low)[mine]
    error = 2.5 * (bar[mine][:-1] / length[:-1] + bar[mine][1:] / length[1:])
    size = np.max(np.abs(jump), axis=1, initial=0.0)
    shows = size > SAFETY * error
    # a bend that would drown in the error of the slopes beside it can be neither seen nor denied
    drowned = ~shows & (SAFETY * error > 1e-6 * np.max(np.abs(slope[mine]), initial=0.0))
    unresolved.append(high[mine][:-1][drowned])
    places.append(high[mine][:-1][shows])
    jumps.append(jump[shows])
    places, jumps = np.concatenate(places), np.concatenate(jumps).reshape(-1, k)
    order = np.argsort(places, kind="stable")
    asked, values = np.concatenate(asked), np.concatenate(values)
    along = np.argsort(asked, kind="stable")
    rest = np.concatenate(unresolved) if unresolved else np.zeros(0)
    return Kinks(places[order], jumps[order], np.sort(rest), asked[along], values[along])
