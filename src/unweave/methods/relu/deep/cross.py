"""The share that a border's unit has in a unit above it, from questions where its zero set meets that border.

Across the border the gradient jumps by ``e`` where the unit is off and by ``e + c b`` where it is on, whatever else is
added up there; across its zero set it jumps by c times its own gradient. So b is a difference of two second
differences, in units of a third. Five questions more see whether the zero set goes on beyond the border as it must.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.walk import Meetings
from unweave.probes.inquiry import SAFETY, Inquiry

ROUGH = 0.02
"""A share whose error is larger than this part of the facet is not read."""


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
    normal, facet, domain = m.normal, m.facet, inquiry.meter.domain
    along = np.einsum("nd,nd->n", facet, normal)
    flat = facet - along[:, None] * normal
    steep = np.maximum(np.linalg.norm(flat, axis=1), 1e-300)
    v = flat / steep[:, None]
    apart = 0.4 * room
    step = thin * np.minimum(0.3 * room, 0.4 * apart * steep / np.maximum(np.abs(along), 1e-300))
    on, off = m.x + apart[:, None] * v, m.x - apart[:, None] * v
    lift = step[:, None] * normal
    points = np.concatenate([on, on + lift, on - lift, off, off + lift, off - lift])
    size = np.linalg.norm(facet, axis=1)
    inside = np.all(domain.contains(points).reshape(6, -1), axis=0)
    near_ok, jump_near, near_error, _, _, shows = _bend(
        inquiry, m.x, m.side[:, None] * normal, facet, room, inside
    )
    scale = np.linalg.norm(jump_near, axis=1)
    clear = near_ok & (near_error < ROUGH * scale) & inside
    n = len(m)
    share, error = np.zeros(n), np.full(n, np.inf)
    thinner = np.ones(n)
    go = np.flatnonzero(clear)
    good = np.zeros(n, dtype=bool)
    if not len(go):
        return good, share, error, thinner, shows
    answers, bars = inquiry.ask(points.reshape(6, n, -1)[:, go].reshape(6 * len(go), -1))
    f, bar = answers.reshape(6, len(go), -1), bars.reshape(6, len(go)).max(axis=0)
    jump = (f[1] + f[2] - 2 * f[0] - (f[4] + f[5] - 2 * f[3])) / step[go, None]
    jump_error = 6 * bar / step[go]
    c = jump_near[go]
    total = np.einsum("nk,nk->n", c, c)
    b = np.einsum("nk,nk->n", jump, c) / total
    rest = np.linalg.norm(jump - b[:, None] * c, axis=1)
    b_error = jump_error / np.sqrt(total) + np.abs(b) * near_error[go] / np.sqrt(total)
    fine = (rest <= SAFETY * (jump_error + np.abs(b) * near_error[go])) & (b_error <= ROUGH * size[go])
    deep = np.abs(b) * step[go] < 0.5 * apart[go] * steep[go]
    thinner[go] = np.where(
        deep, 1.0, np.clip(0.3 * apart[go] * steep[go] / np.maximum(np.abs(b) * step[go], 1e-300), 0.01, 0.5)
    )
    fine &= deep
    go, b, b_error, c = go[fine], b[fine], b_error[fine], c[fine]
    if not len(go):
        return good, share, error, thinner, shows
    # beyond: the bent facet must bend the answers by the same coefficient
    out = -m.side[go, None] * normal[go]
    far = facet[go] + b[:, None] * out
    far_ok, jump_far, far_error, shift, shift_error, shows[go] = _bend(
        inquiry, m.x[go], out, far, room[go], np.ones(len(go), dtype=bool)
    )
    length = np.linalg.norm(far, axis=1)
    miss = np.linalg.norm(jump_far - c, axis=1)
    near = (
        np.abs(shift)
        <= SAFETY * (shift_error + (room[go] * b_error) / np.maximum(length, 1e-300)) + 1e-6 * room[go]
    )
    # the border lies where it is thought to be to about what the facet beyond is off: the steps across it are as wrong
    b_error = b_error + 2 * np.abs(b * shift) / step[go]
    same = miss <= SAFETY * (far_error + near_error[go]) + np.linalg.norm(c, axis=1) * (
        1e-9 + SAFETY * b_error / np.maximum(length, 1e-300)
    )
    ok = far_ok & same & near
    good[go] = ok
    share[go], error[go] = b / m.rate[go], b_error / m.rate[go]
    return good, share, error, thinner, shows


def _bend(inquiry: Inquiry, x, out, facet, room, use):
    """Jumps of the gradient across a facet, a length of ``facet``, some way from ``x`` towards ``out``.

    Whether two straight lines meet there, the jump (n, k), its error, how far off the facet they meet, that error, and
    whether the answers change there at all.
    """
    n, k = len(x), inquiry.output_size
    length = np.maximum(np.linalg.norm(facet, axis=1), 1e-300)
    across = facet / length[:, None]
    slide = out - np.einsum("nd,nd->n", out, across)[:, None] * across
    slant = np.linalg.norm(slide, axis=1)
    slide = slide / np.maximum(slant, 1e-300)[:, None]
    reach, tilt = 0.5 * room, np.abs(np.einsum("nd,nd->n", across, out))
    y = x + reach[:, None] * slide
    width = np.minimum(0.25 * room, 0.5 * reach * slant / np.maximum(tilt, 1e-300))
    ticks = np.array([-1.0, -0.3, 0.3, 1.0])
    points = y + (ticks[:, None] * width)[:, :, None] * across
    inside = np.all(inquiry.meter.domain.contains(points.reshape(-1, x.shape[1])).reshape(4, n), axis=0)
    go = np.flatnonzero(use & inside & (slant > 1e-4))
    good, jump = np.zeros(n, dtype=bool), np.zeros((n, k))
    error, shift, shift_error = np.full(n, np.inf), np.zeros(n), np.full(n, np.inf)
    changes = np.zeros(n, dtype=bool)
    if not len(go):
        return good, jump, error, shift, shift_error, changes
    answers, bars = inquiry.ask(points[:, go].reshape(-1, x.shape[1]))
    f, bar = answers.reshape(4, len(go), k), bars.reshape(4, len(go)).max(axis=0)
    left, right = (f[1] - f[0]) / 0.7, (f[3] - f[2]) / 0.7
    turn = right - left
    size = np.einsum("nk,nk->n", turn, turn)
    gap = (f[1] + 0.3 * left) - (f[2] - 0.3 * right)
    where = np.clip(np.einsum("nk,nk->n", gap, turn) / np.maximum(size, 1e-300), -0.3, 0.3)
    shows = np.sqrt(size) > 30 * bar
    corner, _ = inquiry.ask(points[1][go] + ((where + 0.3) * width[go])[:, None] * across[go])
    off = np.maximum(
        np.max(np.abs(f[1] + (where + 0.3)[:, None] * left - corner), axis=1),
        np.max(np.abs(f[2] + (where - 0.3)[:, None] * right - corner), axis=1),
    )
    good[go] = shows & (off <= SAFETY * 2 * bar) & (np.abs(where) < 0.28)
    jump[go] = turn / (width * length)[go, None]
    error[go] = 6 * bar / (width * length)[go]
    shift[go] = where * width[go]
    shift_error[go] = 4 * bar / np.maximum(np.sqrt(size), 1e-300) * width[go]
    changes[go] = np.max(np.ptp(f, axis=0), axis=1) > 30 * bar
    return good, jump, error, shift, shift_error, changes
