"""What cannot be a dense network of the known activations, told from a few questions and refused with the reason.

*Labels*: whole numbers, few of them, wherever one asks. *Departures*: far out the answers along rays are not straight
(``departures``), as those of polynomials, sine or arctan units. *Unbent*: the far field is one affine function
(``affine_far``), as that of tanhshrink units. *Turning*: far out the answers level off, at values
that change with every turn of the direction, as those behind a normalisation of the inputs. *Fading*: far out every
direction gives the same answer, between those given near by, as sums of bumps (Gaussian processes, radial functions)
do. *Steps*: neighbours answer exactly alike, points apart do not, and between them the answers jump, as those of trees
and nearest neighbours do. *Polynomials* on a bounded domain: a low degree explains every line.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import NotANumber
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.probes.affine_far import see_affine_far
from unweave.probes.departures import see_departure
from unweave.probes.growth import RADIUS, Growth
from unweave.probes.ridges import shows_ridge

NUM_SCOUTS = 120
MOST_LABELS = 12
"""More different whole numbers are rather rounded answers."""
NUM_RAYS = 32
NUM_NEIGHBOURS = 24
NUM_LINES, NUM_NODES, MOST_DEGREE = 4, 24, 5
BENT = 0.05
"""Share of the answers' spread along a line that no straight line explains: enough for higher powers to show."""

LABELS = (
    "the answers are labels ({}): an argmax shows where classes meet, not the numbers behind it; ask for "
    "probabilities or logits (predict_proba, decision_function, the layer before the argmax)"
)
TURNING = (
    "far out the answers depend on the direction alone, and change with every turn of it: a normalisation (LayerNorm, "
    "RMSNorm) stands before the activations, or it is no dense network; ask for the part behind the normalisation"
)
TURN = 1e-5
"""Radians by which rays are turned, and twice that: few units of a saturating network lie in between."""
BEYOND = 1e4
"""How much farther out a turn must change the answers just so."""
FADING = (
    "far out the answers are the same in every direction, between those near by: a sum of bumps (a Gaussian process, "
    "a radial function), not a dense network"
)
BUMPS = (
    "far out the answers are the same in every direction but for narrow ridges that go on for ever: units that answer "
    "alike far on both sides (exp(-z^2), sech); the activations tried do not"
)
STEPS = (
    "the answers jump between places where they do not change at all: a decision tree, a forest or nearest neighbours, "
    "not a dense network"
)
BISECTIONS = 60
DEGREE = (
    "along every line the answers are a polynomial of degree {}: no network of the activations tried is one"
)


def see_labels(meter: Meter, rng: np.random.Generator) -> str:
    """Whether the answers are a few whole numbers wherever one asks (stage ``labels``)."""
    seen = meter.transcript()[1]
    if meter.output_size != 1 or not _few_whole(seen):
        return ""
    with meter.stage("labels"):
        x = meter.domain.sample(NUM_SCOUTS, meter.input_size, rng)
        values = np.concatenate([seen, meter.ask(x)])
    names = np.unique(values)
    if len(names) < 3 or not _few_whole(values):
        return ""
    shown = ", ".join(f"{name:g}" for name in names[:6]) + (", ..." if len(names) > 6 else "")
    return LABELS.format(shown)


def see_stranger(
    meter: Meter, precision: Precision, growth: Growth, rng: np.random.Generator, *, usual: bool = True
) -> str:
    """The reason why no method need be tried, or nothing; ``usual``: the activation is none that must be named."""
    levels_off = growth in (Growth.SATURATING, Growth.SLOW)
    endless = np.isinf(meter.domain.reach(meter.input_size))
    exact = precision.kind in ("float64", "float32")
    reason = _steps(meter, precision, rng) if exact and growth in (Growth.SATURATING, Growth.UNSEEN) else ""
    if not reason and levels_off and endless:
        reason = _turning(meter, precision, rng)
    if not reason and usual:
        reason = see_departure(meter, precision, growth, rng)
    if not reason and usual and exact and growth is Growth.LINEAR:
        reason = see_affine_far(meter, precision, rng)
    if not reason and levels_off and endless:
        reason = _fading(meter, precision, rng)
    if not reason and exact and growth is Growth.UNSEEN:
        reason = _degree(meter, precision, rng)
    return reason


def _few_whole(values: np.ndarray) -> bool:
    return (
        bool(np.all(values == np.round(values)) and np.all(values >= 0))
        and len(np.unique(values)) <= MOST_LABELS
    )


def _turning(meter: Meter, precision: Precision, rng: np.random.Generator) -> str:
    """Whether two rays of the growth, turned a little, answer otherwise, and twice as much so by twice the turn."""
    if precision.kind != "float64" or meter.input_size < 2:
        return ""
    x, y = meter.transcript("growth")
    farthest = np.argsort(np.linalg.norm(x, axis=1), kind="stable")[-2:]
    x, y = x[farthest], y[farthest]
    aside = rng.standard_normal(x.shape)
    aside -= np.sum(aside * x, axis=1, keepdims=True) / np.sum(x * x, axis=1, keepdims=True) * x
    aside *= np.linalg.norm(x, axis=1, keepdims=True) / np.linalg.norm(aside, axis=1, keepdims=True)
    with meter.stage("growth"):
        once, twice = meter.ask(np.concatenate([x + TURN * aside, x + 2 * TURN * aside])).reshape(2, 2, -1)
        told = np.abs(once - y) > 1e-3 * TURN * precision.scale + 1e3 * precision.noise
        if not np.all(np.any(told, axis=1)) or not _same((twice - y)[told], 2 * (once - y)[told]):
            return ""
        # units of rows so short that they still bend there level off farther out
        far, turned = meter.ask(BEYOND * np.concatenate([x, x + TURN * aside])).reshape(2, 2, -1)
    return TURNING if _same((turned - far)[told], (once - y)[told]) else ""


def _same(some: np.ndarray, others: np.ndarray) -> bool:
    return bool(np.all(np.abs(some / others - 1) < 0.01))


def _fading(meter: Meter, precision: Precision, rng: np.random.Generator) -> str:
    """Whether all rays end at one value that lies inside the range of the answers near the origin, or under ridges."""
    near = meter.transcript("precision")[1]
    slack = 1e-9 * precision.scale + 10 * precision.noise
    growth = meter.transcript("growth")[1]
    if np.any(np.ptp(growth, axis=0) > slack):
        return ""
    rays = rng.standard_normal((NUM_RAYS, meter.input_size))
    try:
        with meter.stage("growth"):
            far = meter.ask(4 * RADIUS * rays / np.linalg.norm(rays, axis=1, keepdims=True))
    except NotANumber:
        return ""
    level = far[0]
    if np.any(np.abs(far - level) > slack):
        return ""
    margin = 0.01 * (np.ptp(near, axis=0) + slack)
    if np.all((near.min(axis=0) < level - margin) & (level + margin < near.max(axis=0))):
        return FADING
    exact = precision.kind in ("float64", "float32") and meter.input_size > 1
    return BUMPS if exact and shows_ridge(meter, level, precision.scale, rng) else ""


def _steps(meter: Meter, precision: Precision, rng: np.random.Generator) -> str:
    """Whether neighbours answer exactly alike in many different ways, and the answers jump in between."""
    with meter.stage("kind"):
        x = _ordinary(meter, 4, rng)
        spread = np.std(_ordinary(meter, 32, rng), axis=0)
        if np.mean(_alike(meter, x, spread, rng)) < 0.7:
            return ""
        x = _ordinary(meter, NUM_NEIGHBOURS, rng)
        alike = _alike(meter, x, spread, rng)
        y = meter.ask(x)
        if np.mean(alike) < 0.9 or len(np.unique(y, axis=0)) < 5:
            return ""
        half = NUM_NEIGHBOURS // 2
        jump = _jumps(meter, x[:half], x[half:])
    least = max(
        1e-6 * np.ptp(y, axis=0).max(), 100 * precision.noise
    )  # saturated units rest between roundings too
    return STEPS if np.all(jump >= least) else ""


def _ordinary(meter: Meter, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points of the domain; near the origin where it has no end."""
    if np.isinf(meter.domain.reach(meter.input_size)):
        return meter.snap(rng.standard_normal((count, meter.input_size)))
    return meter.snap(meter.domain.sample(count, meter.input_size, rng))


def _jumps(meter: Meter, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By how much the answers differ between neighbours on the way from one point to another that answers otherwise."""
    rows = np.flatnonzero(np.any(meter.ask(a) != meter.ask(b), axis=1))[:4]
    a, b = a[rows], b[rows]
    left = meter.ask(a)
    for _ in range(BISECTIONS):
        middle = meter.snap((a + b) / 2)
        between = np.any(middle != a, axis=1) & np.any(middle != b, axis=1)
        if not np.any(between):
            break
        same = np.all(meter.ask(middle) == left, axis=1)
        a = np.where((between & same)[:, None], middle, a)
        b = np.where((between & ~same)[:, None], middle, b)
    return np.max(np.abs(meter.ask(a) - meter.ask(b)), axis=1)


def _alike(meter: Meter, x: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    beside = meter.snap(meter.domain.nearest(x + 1e-5 * spread * rng.choice([-1.0, 1.0], size=x.shape)))
    moved = np.any(beside != x, axis=1)
    return moved & np.all(meter.ask(x) == meter.ask(beside), axis=1)


def _degree(meter: Meter, precision: Precision, rng: np.random.Generator) -> str:
    """The least degree that explains lines across a bounded domain, where the answers bend along two of them."""
    if precision.kind != "float64":
        return ""
    ends = meter.domain.sample(2 * NUM_LINES, meter.input_size, rng).reshape(2, NUM_LINES, 1, -1)
    nodes = np.cos(np.pi * (np.arange(NUM_NODES) + 0.5) / NUM_NODES)
    highest, num_bent = 0, 0
    for i in range(NUM_LINES):
        x = ends[0, i] + (nodes[:, None] + 1) / 2 * (ends[1, i] - ends[0, i])
        with meter.stage("kind"):
            y = meter.ask(meter.snap(x))
        slack = 30 * precision.noise + 1e-13 * np.max(np.abs(y))
        off = [_misfit(nodes, y, degree) for degree in range(MOST_DEGREE + 1)]
        fits = [degree for degree, miss in enumerate(off) if miss <= slack]
        if not fits:
            return ""
        num_bent += off[1] >= BENT * max(float(np.ptp(y)), 1e-300)
        highest = max(highest, fits[0])
    return DEGREE.format(highest) if num_bent >= 2 else ""


def _misfit(nodes: np.ndarray, y: np.ndarray, degree: int) -> float:
    design = np.polynomial.chebyshev.chebvander(nodes, degree)
    return float(np.max(np.abs(y - design @ np.linalg.lstsq(design, y, rcond=None)[0])))
