"""The weight with which a second-layer unit reads one first-layer unit, from six targeted queries.

At a point where the unit's zero set crosses plane j, take v along the zero set's normal within the plane and w
across the plane along the zero set. The second difference of f over +-D v and +-delta w sees only the bend of the
zero set: it equals (output direction) * weight_j * delta, whatever else is active nearby, and errors of the model's
offset cancel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.planes import Planes

NUM_COMPARED = 16
"""Places of a plane, the farthest from other planes, whose distances from other units' zero sets are compared."""
SETTLED = 1e-13
"""Newton steps of this relative size are rounding."""


@dataclass(frozen=True)
class _Crossing:
    unit: int
    plane: int
    point: np.ndarray
    along: np.ndarray
    across: np.ndarray
    room: float
    rate: float
    """Growth of z along ``along``."""
    output: np.ndarray


def measure_crossings(
    inquiry: Inquiry,
    planes: Planes,
    units: list[PreActivation],
    rng: np.random.Generator,
    *,
    start: int = 0,
    max_rounds: int = 14,
    num_chains: int = 160,
) -> int:
    """Fill in unknown weights of ``units[start:]`` in place, as many as can be reached; returns how many were found."""
    total, failures = 0, np.zeros((len(units), len(planes)), dtype=int)
    for _ in range(max_rounds):
        tasks = []
        for number in range(start, len(units)):
            unit = units[number]
            wanted = np.flatnonzero(~unit.known & (failures[number] < 5))
            if len(wanted):
                chains = num_chains if failures[number].any() else num_chains // 2
                tasks += _plan(planes, units, number, wanted, failures[number], rng, inquiry, chains)
        if not tasks:
            break
        values = _measure(inquiry, tasks)
        for task, value in zip(tasks, values, strict=True):
            if np.isfinite(value):
                units[task.unit].weights[task.plane] = value
                units[task.unit].known[task.plane] = True
                total += 1
            else:
                failures[task.unit, task.plane] += 1
    return total


def _plan(planes, units, number, wanted, failures, rng, inquiry: Inquiry, num_chains) -> list[_Crossing]:
    """Points where the zero set of a unit crosses unknown planes, as far from everything else as can be found."""
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # Newton steps from afar may run away; they are filtered out
        return _find_places(planes, units, number, wanted, failures, rng, inquiry, num_chains)


def _find_places(
    planes, units, number, wanted, failures, rng, inquiry: Inquiry, num_chains
) -> list[_Crossing]:
    """All wanted planes at once: every point of a walk is carried onto each of them."""
    unit = units[number]
    inside = _wander(planes, unit, rng, num_chains, inquiry)
    row, which = np.arange(len(wanted) * num_chains), np.repeat(wanted, num_chains)
    x = _project(planes, unit, which, np.tile(inside, (len(wanted), 1)))
    heights = x @ planes.normals.T + planes.offsets
    value, slope = unit.expand(planes, x, heights)
    size, far = np.linalg.norm(slope, axis=1), np.linalg.norm(x, axis=1)
    placed = (np.abs(heights[row, which]) <= 1e-9 * (1 + far)) & (np.abs(value) <= 1e-9 * size * (1 + far))
    free = ~unit.known
    ahead = heights[:, free] * unit.sides[free] > 0
    ahead[np.flatnonzero(free)[None] == which[:, None]] = True
    apart = np.abs(heights)
    apart[row, which] = np.inf
    room = np.min(apart, axis=1)
    usable = placed & np.all(ahead, axis=1) & inquiry.meter.domain.contains(x)
    good = _roomiest(np.where(usable, room, 0.0).reshape(len(wanted), num_chains))
    for other_number, other in enumerate(units):
        if other_number != number and len(good):
            away, tilt = other.expand(planes, x[good], heights[good])
            away = np.abs(away) / np.maximum(np.linalg.norm(tilt, axis=1), 1e-300)
            holds = other.holds(planes, x[good])
            room[good] = np.where(holds, np.minimum(room[good], away), room[good])
    normals = planes.normals[which]
    side_on = slope - np.einsum("nd,nd->n", slope, normals)[:, None] * normals
    flat = np.linalg.norm(side_on, axis=1)
    score = np.zeros(len(x))
    score[good] = room[good] * flat[good] / np.maximum(size[good], 1e-300) / (1 + 0.1 * far[good])
    score = np.where(np.isfinite(score), score, 0.0).reshape(len(wanted), num_chains)
    tasks = []
    for at, j in enumerate(wanted):
        order = np.argsort(-score[at])
        chosen = int(order[min(failures[j], num_chains - 1)])
        if score[at, chosen] <= max(1e-9, 20 * inquiry.window):
            continue
        best = at * num_chains + chosen
        along = side_on[best] / flat[best]
        normal = -unit.sides[j] * planes.normals[j]
        across = normal - (slope[best] @ normal) / (slope[best] @ along) * along
        stretch = max(1.0, float(np.linalg.norm(across)))
        tasks.append(
            _Crossing(
                number,
                int(j),
                x[best],
                along,
                across,
                0.3 ** failures[j] * room[best] / stretch,
                float(slope[best] @ along),
                unit.output,
            )
        )
    return tasks


def _roomiest(room: np.ndarray) -> np.ndarray:
    """Of the places of each plane (planes, places) those that are farthest from other planes, as flat indices."""
    kept = min(NUM_COMPARED, room.shape[1])
    best = np.argpartition(-room, kept - 1, axis=1)[:, :kept]
    flat = (best + room.shape[1] * np.arange(len(room))[:, None]).ravel()
    return flat[room.ravel()[flat] > 0]


def _wander(planes: Planes, unit: PreActivation, rng, num_chains: int, inquiry: Inquiry, num_steps: int = 6):
    """Points of the region where the unit is known, by hit and run from its kink."""
    d = planes.normals.shape[1]
    x = np.repeat(unit.point[None], num_chains, axis=0)
    size = 3 * (1 + np.median(np.abs(planes.offsets)) + np.linalg.norm(unit.point) / np.sqrt(d))
    free = ~unit.known
    normals, offsets, sides = planes.normals[free], planes.offsets[free], unit.sides[free]
    for _ in range(num_steps):
        v = rng.standard_normal((num_chains, d))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        heights, rates = (x @ normals.T + offsets) * sides, (v @ normals.T) * sides
        with np.errstate(divide="ignore", invalid="ignore"):
            t = -heights / rates
        high = np.min(np.where(rates < 0, t, np.inf), axis=1, initial=np.inf)
        low = np.max(np.where(rates > 0, t, -np.inf), axis=1, initial=-np.inf)
        reach = size * np.sqrt(d) * rng.uniform(0.1, 1, size=num_chains)
        low, high = np.maximum(low, -reach), np.minimum(high, reach)
        moved = x + (low + rng.uniform(0.05, 0.95, size=num_chains) * (high - low))[:, None] * v
        inside = inquiry.meter.domain.contains(moved)
        x = np.where(inside[:, None], moved, x)
    return x


def _project(
    planes: Planes, unit: PreActivation, which: np.ndarray, x: np.ndarray, num_steps: int = 12
) -> np.ndarray:
    """Newton steps of each row of ``x`` onto the crossing of its plane and the unit's zero set."""
    placed, moving = x.copy(), np.arange(len(x))
    for _ in range(num_steps):
        x, normal = placed[moving], planes.normals[which[moving]]
        heights = x @ planes.normals.T + planes.offsets
        value, slope = unit.expand(planes, x, heights)
        height = heights[np.arange(len(x)), which[moving]]
        mixed = np.einsum("nd,nd->n", slope, normal)
        square = np.einsum("nd,nd->n", slope, slope)
        determinant = np.maximum(square - mixed**2, 1e-300)
        a = (square * height - mixed * value) / determinant
        b = (value - mixed * height) / determinant
        step = a[:, None] * normal + b[:, None] * slope
        placed[moving] = x - step
        still = np.max(np.abs(step), axis=1) > SETTLED * (1 + np.max(np.abs(x), axis=1))
        moving = moving[still]
        if not len(moving):
            break
    return placed


def _measure(inquiry: Inquiry, tasks: list[_Crossing]) -> np.ndarray:
    """The weight at each crossing, NaN where the answers do not look like a clean crossing."""
    point = np.array([t.point for t in tasks])
    along, across = np.array([t.along for t in tasks]), np.array([t.across for t in tasks])
    reach = 0.45 * np.array([t.room for t in tasks])[:, None]
    shift = 0.15 * reach
    far, near = point + shift * across, point - shift * across
    questions = [far + reach * along, far - reach * along, near + reach * along, near - reach * along]
    questions += [far + reach / 2 * along, far - reach / 2 * along]
    inside = np.all(
        [np.isfinite(q).all(axis=1) & inquiry.meter.domain.contains(q) for q in questions], axis=0
    )
    result = np.full(len(tasks), np.nan)
    rows = np.flatnonzero(inside)
    if not len(rows):
        return result
    answers, bars = inquiry.ask(np.concatenate([q[rows] for q in questions]))
    far_up, far_down, near_up, near_down, half_up, half_down = np.split(answers, 6)
    bar = np.max(np.split(bars, 6), axis=0)
    return _read(
        tasks, rows, result, (far_up, far_down, near_up, near_down, half_up, half_down), bar, reach, shift
    )


def _read(tasks, rows, result, answers, bar, reach, shift) -> np.ndarray:
    far_up, far_down, near_up, near_down, half_up, half_down = answers
    for n, row in enumerate(rows):
        task = tasks[row]
        size, step = reach[row, 0], shift[row, 0]
        output = task.output
        up, down = (far_up[n] - half_up[n]) * 2 / size, (half_down[n] - far_down[n]) * 2 / size
        jump = task.rate * size
        bend = output @ (up - down) * size
        twist = float(np.linalg.norm((up - down) * size - bend * output))
        bend_across = far_up[n] - far_down[n] - near_up[n] + near_down[n]
        weight = float(output @ bend_across)
        centre = output @ (near_up[n] - near_down[n] - size * (up + down))
        slack = 1e-6 * jump + 8 * SAFETY * bar[n]
        clean = (
            abs(bend - jump) <= slack
            and twist <= slack
            and abs(centre) <= slack
            and abs(weight) <= 0.45 * jump
            and np.linalg.norm(bend_across - weight * output) <= slack
        )
        if clean and 4 * bar[n] <= 1e-4 * jump:
            result[row] = weight / step
    return result
