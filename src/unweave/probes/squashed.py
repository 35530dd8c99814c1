"""What stands behind a model's last layer, seen from its answers: their range, sums of rows, values met exactly twice.

Rows that sum to one are a softmax, rows whose exponentials do a log-softmax. Answers that keep to the range of a
sigmoid, tanh or exp may have passed one, but a plain network may keep to it by chance: the squashing is certain where
its inverse makes the answers piecewise linear, or constant in sum at opposite far points (one layer of odd units);
otherwise both readings are returned, the likelier one first. Rounding may hide the bend of a squashing on short
segments; then the reading counts that leaves clearly fewer places with a bend on longer ones. Answers that are
piecewise linear and equal one value exactly again and again were clamped.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.core.domains import Ball, Box, Domain
from unweave.core.errors import NotANumber
from unweave.core.outputs import ROWWISE, Squashing, clamp_name
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision, measure_precision
from unweave.probes.growth import RADIUS, Growth
from unweave.probes.piecewise_linear import is_piecewise_linear
from unweave.probes.uneven import QUIET, bends

Streams = Callable[[str], np.random.Generator]
"""The generator of a purpose, from its beginning: the same questions again cost nothing."""
NEAR_END = 0.03
"""Answers this near to the end of a range, relative to it, speak for the squashing that has it."""
LOOSEST = 0.1
"""Where sums of rows are not even known to this, they say nothing."""
MOST_AT_ENDS = 0.75
"""Share of the answers far out that a clamp leaves at its two ends."""
NUM_LOOKS = 16
NUM_COMPARED, LENGTHS = 8, (1 / 64, 1 / 16)
"""Segments on which readings of the answers are compared, and their lengths in those between points of the domain."""
USABLE = 100.0
"""How many times the least error of an inverted answer one may have to be looked at there."""
CLEARLY = 0.33
"""Bends that a squashing leaves, of those without it, so that it is told."""
INFLATION = {"float64": 1e5, "float32": 1e3}
"""How much larger the error of an inverted answer may be than a typical one's, in a domain that is chosen here."""
GIVEN = 1e3
"""The same, beside that, in a domain that the user has given."""
CLOSER = 1e3
"""How many times the least errors there an error may be in the part of it that is looked at then."""
NOISY = 8.0
MARGINS = (4.0, 1.5)
"""How far inside of the radius at which a dozen rays come to that limit the questions stay, at first and then."""
NUM_CLAMPED = 32
"""Rays along which the share of answers at the bounds of a clamp is counted."""
NUM_MORE, SPARE = 64, 1.5
"""More rays where answers overflow beyond that radius, and by how much farther out they are to be numbers."""
LEAST = 0.1
"""Share of the points of a domain whose errors are the least there."""
TYPICAL = 0.02
"""Share of the points of a domain whose answers may lie beyond that."""


def recognise(meter: Meter, precision: Precision, growth: Growth, streams: Streams) -> list[Squashing | None]:
    """What the answers may have passed, likeliest first; None: nothing. Asks only where the answers leave it open."""
    raw = meter.transcript()[1]
    rowwise = _sums_to_one(raw, precision)
    if rowwise is not None:
        return [rowwise]
    fast = growth is Growth.OTHER
    exact = precision.kind in ("float64", "float32")  # rounded answers repeat whatever made them
    names, repeated = _fitting(raw, precision, fast), exact and _ends_repeated(meter)
    ends = _two_ends(meter) if growth is Growth.SATURATING and exact else None
    if ends is not None:
        with meter.stage("outputs"):
            straight = is_piecewise_linear(meter, precision, streams("kind"), num_segments=6)
        if (
            straight
        ):  # so is a squashing in single precision on short segments, and far out it comes to its ends
            alike = [name for name in names if Squashing(name).range == ends]
            told = _leaves_fewest_bends(meter, precision, alike) if alike else None
            return [Squashing(clamp_name(*ends)), None] if told is None else [told, None]
    if not repeated and (not names or growth is Growth.LINEAR):
        return [None]
    if growth is Growth.SATURATING and names:
        return _far_out(meter, precision, names)
    if precision.kind == "float32" and names:
        small = ["expm1"] if np.all(raw > -1) and "expm1" not in names else []
        told = _leaves_fewest_bends(meter, precision, [*names, *small])
        if told is not None:
            return [told, None]
    with meter.stage("outputs"):
        try:
            straight = is_piecewise_linear(meter, precision, streams("kind"), num_segments=6)
            if straight and not repeated:
                return [None]
            meter.ask(_looks(meter)[:: 4 if straight else 1])
        except NotANumber:
            straight = False
        if straight:
            return _clamps(meter)
        raw = meter.transcript()[1]
        names = _fitting(raw, precision, fast)
        for name in names:
            view = Squashing(name)
            if _is_straight_behind(meter, view, precision, streams):
                return [view]
    return _ranked([name for name in names if name in ("sigmoid", "tanh")], raw)


def may_be_squashed(meter: Meter, precision: Precision) -> bool:
    """Whether the answers seen so far keep to the range of a smooth squashing."""
    raw = meter.transcript()[1]
    return _sums_to_one(raw, precision) is not None or bool(_fitting(raw, precision, fast=False))


def look_around(meter: Meter, precision: Precision) -> None:
    """Ask float32 answers all over the domain, so that small ones are among those whose error is measured."""
    if precision.kind == "float32":
        with meter.stage("outputs"):
            meter.ask(_looks(meter))


def shows_only_largest(raw: np.ndarray) -> int:
    """How many of the outputs are answered where the others are always zero, never the same ones; 0: all."""
    num_rows, k = raw.shape
    shown = raw != 0
    counts = shown.sum(axis=1)
    if k < 3 or num_rows < 4 or counts[0] in (0, k) or np.any(counts != counts[0]) or np.any(raw < 0):
        return 0
    return int(counts[0]) if len(np.unique(shown, axis=0)) > 1 else 0


def choose_domain(
    meter: Meter, view: Squashing, precision: Precision, margin: float = MARGINS[0]
) -> Domain | None:
    """The part of the domain where inverted answers are still exact; None: all of it.

    A domain without end becomes a ball around the origin, a box or ball is shrunk towards its middle; with another
    ``margin`` than the first a larger ball, and a smaller part of a box or ball. A clamp is inverted exactly up to its
    bounds, so there is no way to keep from them: one point in ``margin`` may say nothing, elsewhere units show sooner.
    """
    d, domain = meter.input_size, meter.domain
    noise, unit = raw_error(precision)
    lost = 1 / margin if view.is_clamp else 0.0
    if view.name == "log_softmax":
        return None
    if np.isinf(domain.reach(d)):
        num_rays = NUM_CLAMPED if view.is_clamp else 12
        rays = np.random.default_rng([d, 12]).standard_normal((num_rays, d))
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        typical = _typical_error(view, meter.raw(0.3 * rays), noise, unit)
        limit = INFLATION.get(precision.kind, NOISY) * typical

        def holds(radius: float, rays: np.ndarray = rays) -> bool:
            try:
                return bool(np.mean(view.errors(meter.raw(radius * rays), noise, unit) > limit) <= lost)
            except NotANumber:
                return False

        radius = 1.0
        while radius <= RADIUS and holds(radius):
            radius *= 4
        if radius > RADIUS:
            return None
        while radius > 1e-6 and not holds(radius / 2):
            radius /= 2
        radius /= 1.0 if view.is_clamp else margin
        if np.isinf(view.range[1]) and not view.is_clamp:  # beyond its range is no number at all
            more = np.random.default_rng([d, 13]).standard_normal((NUM_MORE, d))
            more /= np.linalg.norm(more, axis=1, keepdims=True)
            while radius > 1e-6 and not holds(SPARE * radius, more):
                radius /= 2
        return Ball(float(f"{radius:.2g}"))
    points, middle = _looks(meter), _middle(domain, d)
    errors = view.errors(meter.raw(points), noise, unit)
    if margin == MARGINS[0]:
        typical = _typical_error(view, meter.raw(points), noise, unit)
        limit = GIVEN * INFLATION.get(precision.kind, NOISY) * typical
    else:
        limit = CLOSER * float(np.quantile(errors, LEAST))
    lost = max(lost, TYPICAL)
    if np.mean(errors > limit) <= lost or middle is None:
        return None
    for share in 0.7 ** np.arange(1, 12):
        closer = middle + share * (points - middle)
        if np.mean(view.errors(meter.raw(closer), noise, unit) > limit) <= lost:
            return _shrunk(domain, middle, float(share))
    return None


def raw_error(precision: Precision) -> tuple[float, float]:
    """Absolute and relative error of the model's own answers."""
    exact = precision.kind in ("float64", "float32")
    return (precision.floor, precision.unit) if exact else (precision.noise, precision.unit)


def precision_behind(
    meter: Meter, view: Squashing, precision: Precision, rng: np.random.Generator
) -> Precision:
    """How exact the inverted answers are; the meter looks through the squashing from here on."""
    noise, unit = raw_error(precision)
    meter.look_through(view, noise, unit, single=precision.kind == "float32")
    if precision.kind in ("float64", "float32"):
        return measure_precision(meter, rng)
    points = meter.domain.sample(64, meter.input_size, rng)
    with meter.stage("precision"):
        answers = meter.ask(points)
    errors = meter.blur(answers)
    scale = float(np.sqrt(np.mean(np.var(answers, axis=0))))
    return Precision(float(np.median(errors[np.isfinite(errors)])), scale, "noisy")


def _looks(meter: Meter) -> np.ndarray:
    """Points all over a domain; near the origin where it has no end."""
    rng, d = np.random.default_rng([meter.input_size, 48]), meter.input_size
    if np.isinf(meter.domain.reach(d)):
        return rng.standard_normal((NUM_LOOKS, d))
    return np.concatenate([meter.domain.sample(2 * NUM_LOOKS, d, rng), meter.domain.edge(NUM_LOOKS, d, rng)])


def _typical_error(view: Squashing, raw: np.ndarray, noise: float, unit: float) -> float:
    errors = view.errors(raw, noise, unit)
    return float(np.median(errors[np.isfinite(errors)])) if np.any(np.isfinite(errors)) else unit


def _sums_to_one(raw: np.ndarray, precision: Precision) -> Squashing | None:
    """A softmax or log-softmax, if every row says so."""
    num_rows, k = raw.shape
    if k < 2 or num_rows < 2 or np.all(raw == raw[0]):
        return None
    if 8 * np.sqrt(k) * precision.noise + 4 * k * precision.unit >= LOOSEST:
        return None
    for view in (Squashing(name) for name in ROWWISE):
        if not np.any(view.contradicted(raw, precision.noise, precision.unit)):
            return view
    return None


def _fitting(raw: np.ndarray, precision: Precision, fast: bool) -> list[str]:
    """Squashings whose range holds all answers; ``fast``: they grow faster than linearly far out."""
    slack = 8 * precision.noise if precision.kind in ("noisy", "rounded") else 0.0
    names = []
    if np.all((raw >= -slack) & (raw <= 1 + slack)):
        names.append("sigmoid")
    elif np.all(np.abs(raw) <= 1 + slack):
        names.append("tanh")
    # far out they come to the very end of their range by underflow
    if (np.all(raw >= 0) and fast) or (np.all(raw > 0) and np.max(raw) > 3 * np.min(raw)):
        names.append("exp")
    if (np.all(raw >= -1) and fast) or (np.all(raw > -1) and np.max(raw) > 1):
        names.append("expm1")
    return names


def _ends_repeated(meter: Meter) -> bool:
    """Whether an extreme answer of some output was met exactly at two points that are no neighbours."""
    raw = meter.transcript("precision")[1][:8]
    return any(np.sum(column == end) >= 2 for column in raw.T for end in (column.min(), column.max()))


def _two_ends(meter: Meter) -> tuple[float, float] | None:
    """The two values that most answers far out have, whatever the output: the ends of one range.

    Where units are off in some direction, an output stays inside the range however far out.
    """
    far = meter.transcript("growth")[1]
    if not far.size:
        return None
    low, high = float(np.min(far)), float(np.max(far))
    at_low, at_high = far == low, far == high
    told = low < high and np.mean(at_low | at_high) >= MOST_AT_ENDS
    return (low, high) if told and min(at_low.sum(), at_high.sum()) > 1 else None


def _clamps(meter: Meter) -> list[Squashing | None]:
    """The clamp that piecewise-linear answers show: bounds that are met exactly again and again.

    One bound alone, other than zero, is more often the value of a plain network where all its units are off.
    """
    raw = meter.transcript("precision", "outputs")[1]
    low, high = float(raw.min()), float(raw.max())
    at_low, at_high = np.mean(raw == low, axis=0), np.mean(raw == high, axis=0)
    if np.all(raw == raw[0]) or np.max(at_low + at_high) > 0.98:
        return [None]
    bounds = (low if at_low.max() > 0.05 else -np.inf), (high if at_high.max() > 0.05 else np.inf)
    if not np.any(np.isfinite(bounds)):
        return [None]
    clamp = Squashing(clamp_name(*bounds))
    return [clamp, None] if np.all(np.isfinite(bounds)) or 0.0 in bounds else [None, clamp]


def _far_out(meter: Meter, precision: Precision, names: list[str]) -> list[Squashing | None]:
    """Where answers level off far out: at the ends of the range, or at values whose sums at opposite points agree."""
    x, far = meter.transcript("growth")
    low, high = Squashing(names[0]).range
    at_end = (far <= low + 4 * precision.unit) | (far >= high - 4 * precision.unit)
    if names[0] in ("sigmoid", "tanh") and np.mean(at_end) > 0.5:
        return [Squashing(names[0])]
    nearest = np.argsort(np.linalg.norm(x, axis=1))[:4]
    with meter.stage("outputs"):
        opposite = meter.ask(-x[nearest])
    near = meter.transcript("precision")[1]
    for view in (None, *(Squashing(name) for name in names)):
        here, there, around = (a if view is None else view.invert(a) for a in (far[nearest], opposite, near))
        sums, spread = here + there, np.std(np.concatenate([here, around]), axis=0)
        if np.all(np.ptp(sums, axis=0) <= 1e-6 * spread + 100 * precision.relative * spread):
            return [view]
    return _ranked(names, np.concatenate([far, opposite, near]))


def _ranked(names: list[str], raw: np.ndarray) -> list[Squashing | None]:
    """The squashing and nothing, in the order of what the range speaks for."""
    if not names:
        return [None]
    view = Squashing(names[0])
    low, high = view.range
    if not np.isfinite(high):
        return [None, view]
    close = min(float(np.min(raw) - low), float(high - np.max(raw))) <= NEAR_END * (high - low)
    return [view, None] if close else [None, view]


def _is_straight_behind(meter: Meter, view: Squashing, precision: Precision, streams: Streams) -> bool:
    """Whether the inverted answers are piecewise linear."""
    domain = meter.domain
    meter.domain = choose_domain(meter, view, precision) or domain
    try:
        behind = precision_behind(meter, view, precision, streams("precision"))
        return is_piecewise_linear(meter, behind, streams("kind"), num_segments=6)
    except NotANumber:
        return False
    finally:
        meter.look_through(None)
        meter.domain = domain


def _leaves_fewest_bends(meter: Meter, precision: Precision, names: list[str]) -> Squashing | None:
    """The squashing in front of which answers bend at clearly fewer places than as they are; None: there is none."""
    best, fewest = None, np.inf
    noise, unit = raw_error(precision)
    for view in (Squashing(name) for name in names):
        with meter.stage("outputs"):
            looks = _looks(meter)
            errors = view.errors(meter.raw(looks), noise, unit)
        order = np.argsort(errors, kind="stable")
        usable = order[errors[order] <= USABLE * max(float(errors[order[0]]), unit)]
        starts = looks[usable[np.unique(np.linspace(0, len(usable) - 1, NUM_COMPARED).astype(int))]]
        spans = np.roll(starts, 1, axis=0) - starts
        plain = _bends_of(meter, starts, spans, max(precision.noise, noise), 0.5 * unit)
        try:
            meter.look_through(view, noise, unit, single=True)
            seen = _bends_of(meter, starts, spans, 0.0, 4 * unit)
        except NotANumber:
            continue
        finally:
            meter.look_through(None)
        told = np.isfinite(seen) & np.isfinite(plain)
        as_they_are, in_front = (int(np.sum(told & (sizes > QUIET))) for sizes in (plain, seen))
        clear = in_front <= CLEARLY * as_they_are and as_they_are - in_front >= NUM_COMPARED
        if clear and in_front < fewest * as_they_are:
            best, fewest = view, in_front / as_they_are
    return best


def _bends_of(meter: Meter, starts: np.ndarray, spans: np.ndarray, noise: float, unit: float) -> np.ndarray:
    """Bends at the lengths at which readings are compared, in errors of at least ``unit`` of the answers' size."""
    answers = meter.ask(starts)
    noise = max(noise, unit * float(np.sqrt(np.mean(answers**2))))
    precision = Precision(noise, float(np.std(answers)), "float32")
    return np.abs(np.concatenate([bends(meter, precision, starts, length * spans) for length in LENGTHS]))


def _middle(domain: Domain, input_size: int) -> np.ndarray | None:
    """The middle of a box or ball."""
    if isinstance(domain, Box):
        return np.broadcast_to((np.asarray(domain.low) + np.asarray(domain.high)) / 2, input_size)
    if isinstance(domain, Ball):
        return np.zeros(input_size) if domain.centre is None else np.asarray(domain.centre)
    return None


def _shrunk(domain: Domain, middle: np.ndarray, share: float) -> Domain | None:
    if isinstance(domain, Ball):
        return Ball(share * domain.radius, domain.centre)
    if isinstance(domain, Box):
        return Box(middle + share * (domain.low - middle), middle + share * (domain.high - middle))
    return None
