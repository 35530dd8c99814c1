"""The windows of a skeleton, layer by layer: each unit's activation, the length of its row and its bias.

A unit's window is asked along the normal of its zero set where no other unit bends. A ladder of points finds how wide
it is, a few more across it show its profile. Lower layers come first: with their biases settled, a place in a window
of the next layer is where the skeleton says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.skeleton.places import Place, find_place
from unweave.methods.skeleton.profiles import fit_profile, name_elu
from unweave.solve.weighted import answer_accuracy

RATIO, NUM_RUNGS = 0.35, 10
"""Of the ladder that finds a window's width."""
NUM_ACROSS, NUM_ACROSS_FULL = 8, 30
"""Points across a window whose activation is known, and across those that decide which it is."""
NUM_DECIDING = 3
"""Units of a layer whose windows decide its activation."""
EXPLAINED = 100.0
"""A profile explains a window when its misfit is below so many times the accuracy of the answers."""
RIVAL = 0.7
"""Orders of magnitude by which the misfit of a rival may be larger than the best."""
WIDEST = 5e3
"""Ladders begin no farther from the middle than this, as long as the window does."""
WIDEN, WIDEN_SINGLE = 10.0, 3.0
"""A window that does not fit its room is looked at again so many times farther out, where there is more."""
BENT, BENT_SINGLE = 60.0, 6.0
"""A ladder leaves its line where it is off by so many accuracies; those of single precision are bounds, not errors."""
VAGUE_ALPHA = 0.03
"""How far the alpha of elu may be off in single precision."""


@dataclass(frozen=True)
class Window:
    """Answers across one unit's window."""

    t: np.ndarray
    answers: np.ndarray
    half: float
    slope: float
    """Growth of the skeleton's argument along t."""
    accuracy: float


@dataclass(frozen=True)
class LayerWindows:
    """What the windows of a layer say: its activation; with z the true argument and u the skeleton's,
    ``z = steepness (u - shift)`` for every unit."""

    activation: str | None
    steepness: np.ndarray
    shift: np.ndarray
    misfits: dict[str, float]
    """log10 of the median misfit in accuracies of each candidate."""
    poor: np.ndarray
    """Units whose window was not found or is not explained."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """The candidates that explain the windows about as well as the best, best first."""
        most = min(np.log10(EXPLAINED), min(self.misfits.values(), default=0.0) + RIVAL)
        good = [name for name, misfit in self.misfits.items() if misfit <= most]
        return tuple(sorted(good, key=lambda name: self.misfits[name]))


def read_windows(
    meter: Meter,
    skeleton: Network,
    layer: int,
    names: tuple[str, ...],
    precision: Precision,
    radius: float,
    rng: np.random.Generator,
) -> LayerWindows:
    """Measure every unit's window in one layer and fit the activation that explains them best."""
    count = len(skeleton.weights[layer])
    windows: dict[int, Window | None] = {}
    deciding = []
    for unit in rng.permutation(count):
        if len(deciding) == NUM_DECIDING:
            break
        windows[int(unit)] = window = measure_window(
            meter, skeleton, layer, int(unit), precision, radius, rng, NUM_ACROSS_FULL
        )
        if window is not None:
            deciding.append(window)
    if not deciding:
        return LayerWindows(None, np.ones(count), np.zeros(count), {}, np.ones(count, dtype=bool))
    misfits = {}
    for name in names:
        fits = [fit_profile(name, w.t, w.answers, w.half) for w in deciding]
        ratios = [fit.misfit / w.accuracy for fit, w in zip(fits, deciding, strict=True)]
        misfits[name] = float(np.log10(max(float(np.median(ratios)), 1e-3)))
    best = min(misfits, key=lambda name: misfits[name])
    if min(misfits.values()) > np.log10(EXPLAINED):
        return LayerWindows(None, np.ones(count), np.zeros(count), misfits, np.ones(count, dtype=bool))
    steepness, shift, poor = np.ones(count), np.zeros(count), np.zeros(count, dtype=bool)
    for unit in range(count):
        if unit not in windows:
            windows[unit] = measure_window(meter, skeleton, layer, unit, precision, radius, rng, NUM_ACROSS)
    if best == "elu":
        every = [window for window in windows.values() if window is not None]
        rough = precision.kind == "float32"
        best = _read_alpha(every, VAGUE_ALPHA) if rough else _read_alpha(deciding, 2e-3)
    for unit in range(count):
        window = windows[unit]
        if window is None:
            poor[unit] = True
            continue
        fit = fit_profile(best, window.t, window.answers, window.half)
        steepness[unit], shift[unit] = fit.steepness / window.slope, fit.shift * window.slope
        poor[unit] = fit.misfit > EXPLAINED * window.accuracy
    return LayerWindows(best, steepness, shift, misfits, poor)


def _read_alpha(windows: list[Window], least: float) -> str:
    """elu with the alpha that most windows show, each with the error that its answers leave."""
    alphas = np.array([fit_profile("elu", w.t, w.answers, w.half).alpha for w in windows], dtype=float)
    middle = float(np.median(alphas))
    spread = float(np.median(np.abs(alphas - middle))) / np.sqrt(len(alphas))
    return name_elu(middle, max(least, 4 * spread))


def measure_window(
    meter: Meter,
    skeleton: Network,
    layer: int,
    unit: int,
    precision: Precision,
    radius: float,
    rng: np.random.Generator,
    num_across: int,
    max_tries: int = 3,
) -> Window | None:
    """Answers across one unit's window, farther out where the room does not hold it."""
    reach = meter.domain.reach(meter.input_size)
    widen, bent = (WIDEN_SINGLE, BENT_SINGLE) if precision.kind == "float32" else (WIDEN, BENT)
    for _ in range(max_tries):
        place = find_place(skeleton, layer, unit, min(radius, reach / 8), rng)
        if place is not None:
            at = place.point[None]
            accuracy = float(np.max(answer_accuracy(skeleton, at, precision.noise, precision.unit)))
            accuracy += precision.unit * float(np.max(np.abs(skeleton(at))))
            window = climb_down(meter, place, accuracy, num_across, bent)
            if window is not None:
                return window
        radius *= widen
        if radius > reach:
            break
    return None


def climb_down(
    meter: Meter, place: Place, accuracy: float, num_across: int, bent_from: float
) -> Window | None:
    """Ladders from where the window may end, wider or narrower ones where it does not; then points across it."""
    top = min(0.4 * place.room, WIDEST)
    for _ in range(3):
        rungs = top * RATIO ** np.arange(NUM_RUNGS)
        t = np.concatenate([rungs, -rungs])
        answers = meter.ask(place.point + t[:, None] * place.normal)
        bent = _bent_rungs(rungs, answers, bent_from * accuracy)
        if not len(bent):
            top = float(rungs[-2])
        elif bent[0] < 3:
            if top > 0.39 * place.room:
                return None
            top = min(0.4 * place.room, 100 * top)
        else:
            half = float(rungs[bent[0] - 1])
            q = np.linspace(-1, 1, num_across)
            across = half * np.sign(q) * np.abs(q) ** 1.5
            more = meter.ask(place.point + across[:, None] * place.normal)
            t, answers = np.concatenate([t, across]), np.concatenate([answers, more])
            near = np.abs(t) <= 3 * half
            return Window(t[near], answers[near], half, place.slope, accuracy)
    return None


def _bent_rungs(rungs: np.ndarray, answers: np.ndarray, allowed: float) -> np.ndarray:
    """The rungs, from outside in, at which one side leaves the line through its two outermost points."""
    deviations = []
    for side in np.split(answers, 2):
        slope = (side[0] - side[1]) / (rungs[0] - rungs[1])
        deviations.append(np.max(np.abs(side - side[0] - (rungs - rungs[0])[:, None] * slope), axis=1))
    deviation = np.max(deviations, axis=0)
    return np.flatnonzero(deviation > max(1e-5 * float(np.max(deviation)), allowed))
