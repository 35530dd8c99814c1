"""The rows of a saturating first layer, read next to the places where its units switch.

At a crossing of the far circle every unit but one sits at its limit, so a small step ``h q`` changes the answer
through ``a_i . q`` alone. Steps along an orthonormal basis give the whole row: exactly, through the inverse
activation, when the network has one hidden layer; to about ``step^2`` through a parabola fitted along the circle
when an unknown network sits on top (the exact value follows later, once that network is known). One orthogonal
step checks each row: if the answer moves, two units were switching at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.probes.far_circle import Ask, Circle, Crossing, find_crossings, relocate

NUM_TRIAL_STEPS = 4
LONG_TRIAL, LONG = 1.5, 3.0
"""Steps that move the argument by more than this multiple of what was wanted are shortened."""


@dataclass(frozen=True)
class Reading:
    """What was asked around one crossing: ``base``, ``base + step * basis`` and two points along the circle."""

    crossing: Crossing
    base: np.ndarray
    step: float
    profile_step: float
    at_base: np.ndarray
    at_steps: np.ndarray
    at_profile: np.ndarray

    @property
    def radius(self) -> float:
        return self.crossing.radius


def neighbour_gaps(crossings: list[Crossing]) -> np.ndarray:
    """The angle from each crossing to its nearest neighbour, the half circle closed up."""
    angles = np.array([c.angle for c in crossings])
    apart = np.abs(angles[:, None] - angles[None, :])
    apart = np.minimum(apart, np.abs(np.pi - apart))
    np.fill_diagonal(apart, np.pi)
    return np.min(apart, axis=1)


def choose_radii(crossings: list[Crossing], activation: act.Activation, limit: float) -> np.ndarray:
    """For each crossing the smallest safe radius: every other unit is saturated there, biases allowed for."""
    angles = np.array([c.angle for c in crossings])
    widths = np.array([c.width for c in crossings])
    reach = (act.saturation_point(activation) + 6 * activation.scale) * widths
    apart = np.abs(np.sin(angles[:, None] - angles[None, :]))
    np.fill_diagonal(apart, np.inf)
    needed = 2 * np.max(reach[None, :] / np.maximum(apart, 1e-300), axis=1, initial=0.0)
    return np.clip(np.maximum(needed, 100 * widths), 0.0, limit)


def read_crossings(
    ask: Ask,
    circle: Circle,
    crossings: list[Crossing],
    activation: act.Activation,
    basis: np.ndarray,
    steps: np.ndarray,
    radii: np.ndarray,
    reaches: np.ndarray,
    *,
    exact: bool,
) -> list[Reading | None]:
    """Ask around every crossing at its radius; None where the transition is not found there.

    ``steps`` are in units of the unit's argument (root mean square); ``exact``: rows are read through the inverse
    activation, which does not mind long steps.

    A row may be much longer than the plane of the circle shows; where the steps turn out too long they are
    shortened, at most three times.
    """
    crossings = relocate(ask, circle, crossings, radii, reaches, activation)
    kept = np.array([c.width > 0 for c in crossings], dtype=bool)
    single = [c for c in crossings if c.width > 0]
    found = _read(ask, circle, single, activation, basis, steps[kept], radii[kept], exact)
    remaining = iter(found)
    return [next(remaining) if keep else None for keep in kept]


def _read(ask, circle, crossings, activation, basis, steps, radii, exact) -> list[Reading]:
    if not crossings:
        return []
    angles = np.array([c.angle for c in crossings])
    bases, tangents = circle.point(angles, radii), circle.tangent(angles)
    widths = np.array([c.width for c in crossings])
    profiles = 0.7 * activation.scale * widths
    ends = profiles[:, None, None] * np.stack([tangents, -tangents], axis=1)
    at_base = ask(bases)
    at_profile = ask((bases[:, None] + ends).reshape(-1, bases.shape[1])).reshape(len(bases), 2, -1)
    lengths = np.sqrt(2.0) * steps * widths
    at_steps = np.zeros((len(bases), basis.shape[1], at_base.shape[1]))
    seen = np.max(np.linalg.norm(at_profile - at_base[:, None], axis=2), axis=1)
    slopes = np.maximum(seen, 1e-300) / (0.7 * activation.scale)

    def step(units: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Ask at steps from the bases; how far the arguments moved, roughly, (units, directions)."""
        questions = bases[units, None, :] + lengths[units, None, None] * directions.T[None]
        answers = ask(questions.reshape(-1, bases.shape[1])).reshape(len(units), directions.shape[1], -1)
        at_steps[units, : directions.shape[1]] = answers
        return np.linalg.norm(answers - at_base[units, None], axis=2) / slopes[units, None]

    everyone = np.arange(len(bases))
    # under an unknown top the error of a row grows with its steps: a few of them show how long they should be
    rounds = [(basis, 8.0)] if exact else [(basis[:, :NUM_TRIAL_STEPS], LONG_TRIAL), (basis, LONG)]
    for directions, longest in rounds:
        pending = everyone
        for _ in range(4):
            moved = step(pending, directions)
            excess = np.sqrt(np.mean(moved**2, axis=1)) / steps[pending]
            flat = np.max(moved, axis=1) > 0.63 * activation.scale
            long = (excess > longest) | flat
            pending = pending[long]
            if not len(pending):
                break
            lengths[pending] /= np.clip(excess[long], longest, 64)
    return [
        Reading(*row)
        for row in zip(crossings, bases, lengths, profiles, at_base, at_steps, at_profile, strict=True)
    ]


def approximate_row(reading: Reading, basis: np.ndarray) -> np.ndarray:
    """The row through a parabola along the circle; its scale is the crossing's, its direction is good to step^2."""
    forward, backward = reading.at_profile - reading.at_base
    direction = forward - backward
    if not np.any(direction):
        return np.zeros(len(basis))
    direction = direction / (direction @ direction)
    s = reading.profile_step / reading.crossing.width
    ahead, behind = forward @ direction, backward @ direction
    slope, bend = (ahead - behind) / (2 * s), (ahead + behind) / (2 * s**2)
    change = (reading.at_steps - reading.at_base) @ direction
    root = np.sqrt(np.maximum(slope**2 + 4 * bend * change, 0.0))
    argument = 2 * change / (slope + np.copysign(root, slope))
    return basis @ argument / reading.step


def direct_row(reading: Reading, activation: act.Activation, basis: np.ndarray) -> np.ndarray:
    """The row through the inverse activation: exact when nothing but an affine map sits on top."""
    jump = reading.crossing.jump
    low, high = activation.limits
    answers = np.concatenate([reading.at_base[None], reading.at_steps])
    positions = (answers - reading.crossing.before) @ jump / (jump @ jump)
    arguments = act.inverse(activation, low + np.clip(positions, 1e-15, 1 - 1e-15) * (high - low))
    return basis @ (arguments[1:] - arguments[0]) / reading.step


def orthogonal_test(
    ask: Ask, readings: list[Reading], rows: np.ndarray, rng: np.random.Generator, tolerance: float
) -> np.ndarray:
    """Whether each crossing is a single unit: a step of three widths inside its hyperplane changes nothing.

    ``tolerance`` is relative to the change along the circle; it allows for the error of the rows.
    """
    if not readings:
        return np.zeros(0, dtype=bool)
    steps = rng.standard_normal(rows.shape)
    squared = np.maximum(np.sum(rows**2, axis=1, keepdims=True), 1e-300)
    steps -= rows * np.sum(rows * steps, axis=1, keepdims=True) / squared
    steps *= 3 / np.sqrt(squared) / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-300)
    answers = ask(np.array([r.base for r in readings]) + steps)
    moved = np.array([np.linalg.norm(a - r.at_base) for a, r in zip(answers, readings, strict=True)])
    jumps = np.array([_visible_change(r) for r in readings])
    return moved < tolerance * jumps


def hides_another(
    ask: Ask, circle: Circle, crossings: list[Crossing], activation: act.Activation, tolerance: float
) -> np.ndarray:
    """Whether the answers next to each crossing are not yet its plateaus: a second unit switches close by."""
    angles = np.array([c.angle for c in crossings])
    radii = np.array([c.radius for c in crossings])
    away = 60 * activation.scale * np.array([c.width for c in crossings]) / radii
    answers = ask(circle.point(np.concatenate([angles - away, angles + away]), np.tile(radii, 2)))
    plateaus = np.array([c.before for c in crossings] + [c.after for c in crossings])
    off = np.max(np.abs(answers - plateaus), axis=1) > tolerance
    return np.any(off.reshape(2, -1), axis=0)


def split_overlap(
    ask: Ask, circle: Circle, crossing: Crossing, activation: act.Activation, tolerance: float, limit: float
) -> list[Crossing]:
    """Look at one crossing from further out, where the angles of two units that overlap draw apart."""
    found = [crossing]
    radius = crossing.radius
    for _ in range(3):
        radius = 30 * radius
        if radius > limit:
            break
        found = find_crossings(
            ask,
            circle,
            radius,
            activation,
            tolerance=tolerance,
            start=crossing.low,
            stop=crossing.high,
            num_intervals=16,
        )
        if len(found) > 1:
            break
    return found or [crossing]


def _visible_change(reading: Reading) -> float:
    return float(np.max(np.linalg.norm(reading.at_profile - reading.at_base, axis=1)))
