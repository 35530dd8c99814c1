"""The share that a border's unit has in a unit above it, from questions where its zero set meets that border.

Across the border the gradient jumps by ``e`` where the unit is off and by ``e + c b`` where it is on, whatever else is
added up there; across its zero set it jumps by c times its own gradient. So b is a difference of two second
differences, in units of a third. Before the border four answers on a line across the zero set tell c and where it is;
with two on the border, on either side of it, they tell c again, which sees whether it is the unit's. Two more beyond
tell b, and between them two at either side of where the zero set goes on if b is right see that the answers grow along
the border there as they do before it: ten questions.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.walk import Meetings
from unweave.probes.inquiry import SAFETY, Inquiry

ROUGH = 0.02
"""A share whose error is larger than this part of the facet is not read."""
FLAT = 1e-4
"""A zero set that is steeper than this against the border is not told from it."""
OFF = 1e-6
"""How far zero sets and borders may be from where they are thought to be, relative to the room."""


def measure_crossings(
    inquiry: Inquiry, traces: list[Trace], meetings: Meetings, max_tries: int = 4
) -> np.ndarray:
    """Which of the meetings were crossed; their traces learn the shares."""
    done = np.zeros(len(meetings), dtype=bool)
    room, thin, shows = meetings.room.copy(), np.ones(len(meetings)), np.ones(len(meetings), dtype=bool)
    for _ in range(max_tries):
        rows = np.flatnonzero(~done)
        if not len(rows):
            break
        m = meetings.take(rows)
        good, share, error, thinner, shows[rows] = _try(inquiry, traces, m, room[rows], thin[rows])
        for row in np.flatnonzero(good):
            trace = traces[int(m.trace[row])]
            trace.learn(np.append(m.change[row], 0.0), share[row], error[row])
            trace.blocked.discard(int(m.border[row]))
        done[rows[good]] = True
        thin[rows] *= thinner
        room[rows] *= np.where(thinner < 1, 1.0, 0.2)
    for row in np.flatnonzero(~done):
        failures = traces[int(meetings.trace[row])].failures
        border = int(meetings.border[row])
        failures[border] = failures.get(border, 0) + 1
        traces[int(meetings.trace[row])].dead_ends.append((border, meetings.x[row]))
        if shows[row]:
            traces[int(meetings.trace[row])].blocked.add(border)
    return done


def _try(inquiry: Inquiry, traces: list[Trace], m: Meetings, room: np.ndarray, thin: np.ndarray):
    """One attempt: which are good, the shares, their errors, and by how much steps across the border are too long.

    And whether a zero set that goes on there would show: not where the answers are constant.
    """
    n, size = len(m), np.maximum(np.linalg.norm(m.facet, axis=1), 1e-300)
    along = m.side * np.einsum("nd,nd->n", m.facet, m.normal)  # how fast the trace grows on the known side
    flat = m.facet - (m.side * along)[:, None] * m.normal
    steep = np.maximum(np.linalg.norm(flat, axis=1), 1e-300)
    v = flat / steep[:, None]
    apart = 0.4 * room
    step = thin * np.minimum(0.3 * room, 0.4 * apart * steep / np.maximum(np.abs(along), 1e-300))
    before = (m.side * step)[:, None] * m.normal
    on, off = m.x + apart[:, None] * v, m.x - apart[:, None] * v
    near = -step * along / steep  # where the zero set is before the border
    gap = 0.3 * (apart - np.abs(near))
    beside = (m.x + before + (near + side * gap)[:, None] * v for side in (1.0, -1.0))
    first = np.stack([on, off, on + before, off + before, *beside])
    second = np.stack([on - before, off - before])
    inside = np.all(_contains(inquiry, first), axis=0) & np.all(_contains(inquiry, second), axis=0)
    good, thinner, shows = np.zeros(n, dtype=bool), np.ones(n), np.zeros(n, dtype=bool)
    share, error = np.zeros(n), np.full(n, np.inf)
    go = np.flatnonzero(inside & (steep > FLAT * size))
    if not len(go):
        return good, share, error, thinner, shows
    f, bar = _ask(inquiry, first[:, go])
    slopes, slope_errors, moved, meets = _slopes(
        f[2:], apart[go] - near[go], apart[go] + near[go], gap[go], bar
    )
    c, c_error = (slopes[0] - slopes[1]) / steep[go, None], slope_errors.sum(axis=0) / steep[go]
    slant = (f[2] - f[0] - f[3] + f[1]) / step[go, None]
    miss = np.linalg.norm(slant - c * along[go, None], axis=1)
    length = np.linalg.norm(c, axis=1)
    allowed = SAFETY * (4 * bar / step[go] + c_error * np.abs(along[go])) + OFF * length * size[go]
    clear = meets & (miss <= allowed) & (c_error * size[go] < ROUGH * length * steep[go])
    shows[go] = np.max(np.ptp(f, axis=0), axis=1) > 30 * bar
    go, f, c, c_error, length, bar = (
        go[clear],
        f[:, clear],
        c[clear],
        c_error[clear],
        length[clear],
        bar[clear],
    )
    moved, slopes, slope_errors = moved[clear], slopes[:, clear], slope_errors[:, clear]
    if not len(go):
        return good, share, error, thinner, shows
    beyond, more = _ask(inquiry, second[:, go])
    bar = np.maximum(bar, more)
    jump = (f[2] + beyond[0] - 2 * f[0] - (f[3] + beyond[1] - 2 * f[1])) / step[go, None]
    jump_error = 6 * bar / step[go]
    b = np.einsum("nk,nk->n", jump, c) / length**2
    rest = np.linalg.norm(jump - b[:, None] * c, axis=1)
    b_error = (jump_error + np.abs(b) * c_error) / length
    fine = (rest <= SAFETY * (jump_error + np.abs(b) * c_error)) & (b_error <= ROUGH * size[go])
    lean, room_across = np.abs(b) * step[go], apart[go] * steep[go]
    deep = lean < 0.5 * room_across
    thinner[go] = np.where(deep, 1.0, np.clip(0.3 * room_across / np.maximum(lean, 1e-300), 0.01, 0.5))
    fine &= deep
    # beyond: the bent zero set is where b says, and the answers grow along the border as before it
    far = (along[go] - b) * step[go] / steep[go] + moved
    gap = 0.3 * (apart[go] - np.abs(far))
    middle = (m.x - before)[go] + far[:, None] * v[go]
    last = np.stack([middle + gap[:, None] * v[go], middle - gap[:, None] * v[go]])
    fine &= np.abs(far) < 0.95 * apart[go]
    fine &= np.all(_contains(inquiry, np.where(fine[:, None], last, m.x[go])), axis=0)
    go, b, b_error, c, length, far, gap = (part[fine] for part in (go, b, b_error, c, length, far, gap))
    beyond, last, slopes, slope_errors = (part[:, fine] for part in (beyond, last, slopes, slope_errors))
    if not len(go):
        return good, share, error, thinner, shows
    there, bar = _ask(inquiry, last)
    ways = np.stack([apart[go] - far - gap, apart[go] + far - gap])
    off_line = np.stack([beyond[0] - there[0], there[1] - beyond[1]]) - slopes * ways[:, :, None]
    slack = SAFETY * (2 * bar + slope_errors * ways)
    same = np.all(np.linalg.norm(off_line, axis=2) <= slack, axis=0)
    shows[go] = np.max(np.ptp(np.concatenate([beyond, there]), axis=0), axis=1) > 30 * bar
    # how far off it they meet
    apart_by = there[1] - there[0] + gap[:, None] * (slopes[0] + slopes[1])
    turn = length * steep[go]
    shift = np.linalg.norm(apart_by, axis=1) / turn
    shift_error = (2 * bar + gap * slope_errors.sum(axis=0)) / turn
    same &= shift <= SAFETY * (shift_error + step[go] * b_error / steep[go]) + OFF * room[go]
    # the border lies where it is thought to be to about what the zero set beyond is off: steps across it are as wrong
    b_error = b_error + 2 * np.abs(b * shift) / step[go]
    good[go] = same
    share[go], error[go] = b / m.rate[go], b_error / m.rate[go]
    return good, share, error, thinner, shows


def _contains(inquiry: Inquiry, points: np.ndarray) -> np.ndarray:
    """Which of the points (s, n, d) are in the domain."""
    return inquiry.meter.domain.contains(points.reshape(-1, points.shape[2])).reshape(points.shape[:2])


def _ask(inquiry: Inquiry, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Answers (s, n, k) at points (s, n, d), and the largest error bar of each place."""
    answers, bars = inquiry.ask(points.reshape(-1, points.shape[2]))
    return answers.reshape(*points.shape[:2], -1), bars.reshape(points.shape[:2]).max(axis=0)


def _slopes(f: np.ndarray, right, left, gap, bar) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slopes on both sides of a zero set, their errors, how far off it two straight lines meet, and whether they do.

    ``f``: answers at distances ``right`` and ``-left``, and ``gap`` to both sides of where it should be.
    """
    to_right, to_left = (right - gap)[:, None], (left - gap)[:, None]
    up, down = (f[0] - f[2]) / to_right, (f[3] - f[1]) / to_left
    errors = 2 * bar / np.stack([right - gap, left - gap])
    turn = up - down
    apart = f[3] - f[2] + gap[:, None] * (up + down)
    size = np.maximum(np.einsum("nk,nk->n", turn, turn), 1e-300)
    moved = np.einsum("nk,nk->n", apart, turn) / size
    rest = np.linalg.norm(apart - moved[:, None] * turn, axis=1)
    meets = (rest <= SAFETY * (2 * bar + gap * errors.sum(axis=0))) & (np.abs(moved) < 0.9 * gap)
    return np.stack([up, down]), errors, moved, meets
