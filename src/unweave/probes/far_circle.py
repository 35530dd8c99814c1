"""Where the units of a saturating first layer switch, seen on a large half circle.

Far out every saturating unit sits at one of its limits except near its own hyperplane, so along a half circle of
large radius the answers are a staircase: each first-layer unit switches exactly once. ``find_crossings`` returns
the steps of the staircase, each with the angle of its middle, the arc length over which the unit's argument
changes by one, and the plateaus on both sides. It costs about ``log2(arc spacing / transition)`` queries a unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unweave.core import activations as act

Ask = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Circle:
    """The circle of radius R through the orthonormal directions ``first`` and ``second``, around ``centre``."""

    centre: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def point(self, angle: np.ndarray, radius: np.ndarray | float) -> np.ndarray:
        angle = np.asarray(angle)[..., None]
        radius = np.asarray(radius)[..., None]
        return self.centre + radius * (np.cos(angle) * self.first + np.sin(angle) * self.second)

    def tangent(self, angle: np.ndarray) -> np.ndarray:
        angle = np.asarray(angle)[..., None]
        return -np.sin(angle) * self.first + np.cos(angle) * self.second


@dataclass(frozen=True)
class Crossing:
    """One step of the staircase."""

    angle: float
    width: float
    """Arc length over which the unit's argument changes by one, as read through the activation."""
    before: np.ndarray
    after: np.ndarray
    radius: float
    low: float
    high: float
    """Angles between which the whole transition lies."""

    @property
    def jump(self) -> np.ndarray:
        return self.after - self.before


def random_circle(input_size: int, rng: np.random.Generator, scales: np.ndarray | None = None) -> Circle:
    """A random plane through the origin; ``scales`` stretches the coordinates it is drawn in."""
    basis = rng.standard_normal((input_size, 2)) * (1.0 if scales is None else scales[:, None])
    q, _ = np.linalg.qr(basis)
    return Circle(np.zeros(input_size), q[:, 0], q[:, 1])


def find_crossings(
    ask: Ask,
    circle: Circle,
    radius: float,
    activation: act.Activation,
    *,
    tolerance: float,
    start: float = 0.0,
    stop: float = np.pi,
    num_intervals: int = 64,
    max_crossings: int = 4096,
    close: float = 256.0,
) -> list[Crossing]:
    """The crossings between two angles, in order. ``tolerance`` is the smallest change of f that counts.

    Crossings nearer to each other than ``close``, in units of the argument, are seen as one.
    """
    angles = np.linspace(start, stop, num_intervals + 1)
    values = ask(circle.point(angles, radius))
    coarse = close * activation.scale / radius
    while True:
        active = np.max(np.abs(np.diff(values, axis=0)), axis=1) > tolerance
        runs = _runs(active)
        refine = np.zeros(len(active), dtype=bool)
        for low, high in runs:
            gaps = np.diff(angles[low : high + 1])
            # a long run of close points is one wide transition (a unit of small norm): more would sample its slope
            if high - low < 12 or np.max(gaps) > 16 * coarse:
                refine[low:high] = gaps > coarse
        if not refine.any() or len(runs) > max_crossings:
            break
        middle = (angles[:-1][refine] + angles[1:][refine]) / 2
        angles, values = _insert(angles, values, middle, ask(circle.point(middle, radius)))
    brackets = _active_runs(angles, values, radius, tolerance)[:max_crossings]
    brackets = _close_ends(ask, circle, radius, brackets, start, stop, 4 * coarse)
    crossings = _locate(ask, circle, activation, brackets)
    return _settle_plateaus(ask, circle, crossings, angles, values, 3 * act.saturation_point(activation))


def is_jump(ask: Ask, circle: Circle, crossing: Crossing, tolerance: float) -> bool:
    """Whether the answers jump inside a crossing: halving the arc towards the larger change does not shrink it."""
    low, high = crossing.low, crossing.high
    before, after = crossing.before, crossing.after
    for _ in range(44):
        middle = (low + high) / 2
        answer = ask(circle.point(np.array([middle]), crossing.radius))[0]
        if np.linalg.norm(answer - before) >= np.linalg.norm(after - answer):
            high, after = middle, answer
        else:
            low, before = middle, answer
        if not np.max(np.abs(after - before)) > tolerance:
            return False
    return bool(np.linalg.norm(after - before) > 0.05 * np.linalg.norm(crossing.jump))


def relocate(
    ask: Ask,
    circle: Circle,
    crossings: list[Crossing],
    radii: np.ndarray,
    reaches: np.ndarray,
    activation: act.Activation,
) -> list[Crossing]:
    """The same crossings at other radii: a bias shifts the angle, so the middle may have to be found again.

    It is looked for within ``reaches``, an angle each, so that no neighbour is taken for it.
    """
    answers = ask(circle.point(np.array([c.angle for c in crossings]), radii))
    result, lost = [], []
    for i, (crossing, radius, reach, answer) in enumerate(
        zip(crossings, radii, reaches, answers, strict=True)
    ):
        bracket = _Bracket(
            0.0, 0.0, crossing.before, crossing.after, float(radius), (crossing.low, crossing.high)
        )
        argument = _argument(bracket, answer, activation)
        result.append(replace(crossing, radius=float(radius)))
        if abs(argument) > 1.2 * activation.scale and crossing.width > 0:
            reach = min(60 * activation.scale * crossing.width / radius, reach)
            low, high = (
                (crossing.angle, crossing.angle + reach)
                if argument < 0
                else (crossing.angle - reach, crossing.angle)
            )
            lost.append((i, replace(bracket, low=low, high=high)))
    again = _locate(ask, circle, activation, [bracket for _, bracket in lost])
    for (i, _), crossing in zip(lost, again, strict=True):
        result[i] = crossing
    return result


@dataclass(frozen=True)
class _Bracket:
    low: float
    high: float
    before: np.ndarray
    after: np.ndarray
    radius: float
    outer: tuple[float, float]
    inside: float | None = None
    argument: float = 0.0


def _insert(angles, values, new_angles, new_values):
    order = np.argsort(np.concatenate([angles, new_angles]), kind="stable")
    return np.concatenate([angles, new_angles])[order], np.concatenate([values, new_values])[order]


def _runs(active: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], active.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _active_runs(angles: np.ndarray, values: np.ndarray, radius: float, tolerance: float) -> list[_Bracket]:
    active = np.max(np.abs(np.diff(values, axis=0)), axis=1) > tolerance
    return [
        _Bracket(angles[i], angles[j], values[i], values[j], radius, (angles[i], angles[j]))
        for i, j in _runs(active)
    ]


def _close_ends(ask, circle, radius, brackets, start, stop, margin) -> list[_Bracket]:
    """Complete a transition cut by an end of the arc; on a half circle it shows at both ends and counts once."""
    if not brackets:
        return brackets
    cut_low, cut_high = brackets[0].low <= start, brackets[-1].high >= stop
    if cut_low and cut_high and len(brackets) > 1 and stop - start >= np.pi - 1e-9:
        brackets, cut_high = brackets[:-1], False
    if cut_low:
        before = ask(circle.point(np.array([start - margin]), radius))[0]
        first = brackets[0]
        outer = (start - margin, first.outer[1])
        brackets = [replace(first, low=start - margin, before=before, outer=outer), *brackets[1:]]
    if cut_high:
        after = ask(circle.point(np.array([stop + margin]), radius))[0]
        last = brackets[-1]
        outer = (last.outer[0], stop + margin)
        brackets = [*brackets[:-1], replace(last, high=stop + margin, after=after, outer=outer)]
    return brackets


def _settle_plateaus(ask, circle, crossings, angles, values, saturation) -> list[Crossing]:
    """Values between neighbouring crossings from the point farthest from both, asked for where none is far enough.

    Under an unknown network widths are only known to a factor of two or three, hence the wide margin.
    """
    settled = list(crossings)
    missing = []
    for i in range(len(crossings) + 1):
        left = crossings[i - 1] if i else None
        right = crossings[i] if i < len(crossings) else None
        inside = np.ones(len(angles), dtype=bool)
        distance = np.full(len(angles), np.inf)
        for crossing, side in ((left, 1.0), (right, -1.0)):
            if crossing is not None:
                away = side * (angles - crossing.angle)
                inside &= away > 0
                distance = np.minimum(distance, away * crossing.radius / max(crossing.width, 1e-300))
        best = int(np.argmax(np.where(inside, distance, -np.inf)))
        if inside[best] and distance[best] > saturation:
            _set_plateau(settled, i, values[best])
        elif left is not None and right is not None:
            missing.append((i, (left.angle + right.angle) / 2))
    if missing:
        answers = ask(circle.point(np.array([angle for _, angle in missing]), crossings[0].radius))
        for (i, _), answer in zip(missing, answers, strict=True):
            _set_plateau(settled, i, answer)
    return settled


def _set_plateau(crossings: list[Crossing], index: int, value: np.ndarray) -> None:
    if index:
        crossings[index - 1] = replace(crossings[index - 1], after=value)
    if index < len(crossings):
        crossings[index] = replace(crossings[index], before=value)


def _locate(ask, circle, activation, brackets: list[_Bracket]) -> list[Crossing]:
    """Bisect every bracket until a point falls inside the transition, then read the slope next to it.

    A bracket that shrinks to nothing without such a point is a jump; its crossing has width 0.
    """
    brackets = list(brackets)
    found: dict[int, Crossing] = {}
    for _ in range(64):
        pending = [i for i in range(len(brackets)) if i not in found]
        if not pending:
            break
        chosen = [brackets[i] for i in pending]
        angles = np.array([(b.low + b.high) / 2 if b.inside is None else _neighbour(b) for b in chosen])
        answers = ask(circle.point(angles, np.array([b.radius for b in chosen])))
        for i, bracket, angle, answer in zip(pending, chosen, angles, answers, strict=True):
            argument = _argument(bracket, answer, activation)
            if bracket.inside is not None:
                slope = abs(argument - bracket.argument) / abs(angle - bracket.inside)
                if not np.isfinite(slope) or slope == 0:
                    slope = 1 / (bracket.high - bracket.low)
                middle = np.clip(bracket.inside - bracket.argument / slope, bracket.low, bracket.high)
                # a whole transition fits between the plateaus (a flat spot inside means two units at once), and it
                # is not much narrower than the bracket that first hit it (a top that is not monotone fakes slopes)
                widest = (bracket.outer[1] - bracket.outer[0]) * bracket.radius / 10
                narrowest = (bracket.high - bracket.low) * bracket.radius / 64
                found[i] = _crossing(
                    bracket, middle, float(np.clip(bracket.radius / slope, narrowest, widest))
                )
            elif abs(argument) < 1.2 * activation.scale:
                brackets[i] = replace(bracket, inside=float(angle), argument=argument)
            elif bracket.high - bracket.low < 1e-4 * activation.scale / bracket.radius:
                found[i] = _crossing(bracket, angle, 0.0)
            else:
                brackets[i] = replace(bracket, **({"low": angle} if argument < 0 else {"high": angle}))
    return [found.get(i) or _crossing(b, (b.low + b.high) / 2, 0.0) for i, b in enumerate(brackets)]


def _crossing(bracket: _Bracket, angle: float, width: float) -> Crossing:
    return Crossing(
        float(angle),
        float(width),
        bracket.before,
        bracket.after,
        bracket.radius,
        bracket.outer[0],
        bracket.outer[1],
    )


def _neighbour(bracket: _Bracket) -> float:
    inside = (bracket.low + bracket.high) / 2 if bracket.inside is None else bracket.inside
    step = (bracket.high - bracket.low) / 64
    return inside + (step if inside + step < bracket.high else -step)


def _argument(bracket: _Bracket, answer: np.ndarray, activation: act.Activation) -> float:
    """The unit's argument if the step were the plain activation: exact for one hidden layer."""
    jump = bracket.after - bracket.before
    position = float((answer - bracket.before) @ jump / (jump @ jump))
    low, high = activation.limits
    value = act.inverse(activation, np.array(low + np.clip(position, 1e-15, 1 - 1e-15) * (high - low)))
    return float(value)
