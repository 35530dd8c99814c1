"""Looking for a place where the model and the recovered network disagree, instead of waiting to meet one.

Points drawn at random meet a unit as often as it is active, and a unit of a trained relu network may be active on one
direction in ten thousand. So the questions are put where a missing unit would show:

* *far*: random directions far out; in a bounded domain points of its edge and its corners;
* *patterns*: activation patterns that the network itself makes rare (``rare_patterns``), at several radii;
* *pairs*: in a box, two hidden layers, where a unit may change beyond a hyperplane at which it hardly ever is asked
  (``rare_pairs``);
* *planes*: on the zero set of every hidden unit, where two near twins taken for one differ most;
* *lines*: closely along a short line near the origin and one between rare patterns, where opposing kinks of a thin
  slab cancel everywhere else;
* *climb*: uphill on the difference from the points where it is largest, if any stands out.

For n hidden units a piecewise-linear network of two and more hidden layers takes 268 + 24 n questions (n = 64: 1,804),
one of one layer 168 + 5 n, a smooth one 24 in a bounded domain and none otherwise: its 200 fresh points are where the
climb begins. At most 5,000 and what the budget leaves, and up to four times as many where a budget has that much left.
The climb adds at most 48. Differences count in error bars: 1 is the largest that the accuracy of the answers explains.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.certificates.answers import MOST_BARS
from unweave.certificates.base import Check, FreshQueries
from unweave.certificates.places import (
    far_points,
    mixed_radii,
    ordinary_points,
    own_scale,
    points_on_lines,
    points_on_planes,
)
from unweave.certificates.rare_pairs import find_rare_pairs
from unweave.certificates.rare_patterns import find_rare_patterns
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.evidence.precision import Precision
from unweave.solve.weighted import gradient_norms

SEARCH = "search for disagreement"
"""Name of the check."""
CONFIDENCE = 0.95
EXACT, LOOSEST = 1e-9, 0.1
"""Relative difference that exact answers allow, and the largest that any do."""
USUAL, SEARCHED = 12.0, 20.0
"""Deviations of the measured error that one answer may be off by; and of float32 rounding, where a climb looks for the
largest: of 20,000 answers that is 6 deviations in the median of 128 smooth networks, more than 12 in one of ten, 20 in
the worst."""
MOST_QUESTIONS = 5000
NUM_SUSPECTS = 8


@dataclass(frozen=True)
class Disagreement:
    """What an active search for disagreement has found, and how rare a unit could still hide from it."""

    num_questions: int
    largest: float
    """The largest difference, in error bars."""
    worst: np.ndarray = field(compare=False)
    """The point (d,) where it was found."""
    questions: dict[str, int] = field(default_factory=dict)
    """How many questions of each kind were asked."""
    rare_directions: float = 1.0
    """A unit active on a larger share of all directions would have been met, with 95 % confidence."""
    rare_patterns: float = 1.0
    """The same of the patterns that the network makes rare."""
    thinnest_slab: float = float("inf")
    """A bump between parallel units wider than this, along the lines asked, would have been met."""
    share: float = 0.0
    """The share of the questions at which the difference exceeds an error bar."""
    suspects: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), compare=False, repr=False)
    """Points (n, d) that differ by more than an error bar, the worst first."""

    @property
    def found(self) -> bool:
        """Whether the model is not the network somewhere."""
        return self.largest > 1

    def describe(self) -> str:
        """What was found, or what could still hide, in one clause."""
        if self.found:
            shown = ", ".join(f"{value:.4g}" for value in self.worst[:6])
            more = ", ..." if len(self.worst) > 6 else ""
            return (
                f"model and network differ by {self.largest:.1e} error bars at x = [{shown}{more}], found by a search "
                f"of {self.num_questions:,} questions: a unit that is rarely active is missing or wrong"
            )
        if not self.num_questions:
            return "no search for disagreement was made"
        kinds = []
        if self.questions.get("patterns", 0):
            kinds.append(f"{100 * self.rare_patterns:.2g} % of rare patterns")
        if self.questions.get("far", 0):
            kinds.append(f"{100 * self.rare_directions:.2g} % of directions")
        found = f"{self.num_questions:,} questions in search of disagreement found none"
        hidden = f": a unit could hide that is active on less than {' and '.join(kinds)}"
        return found + (hidden if kinds else "")


def check_disagreement(
    network: Network, fresh: FreshQueries, seen: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[list[Check], np.ndarray]:
    """The search as a check, if it asked anything or nothing may be claimed without it; and the points that differ."""
    found = search_disagreement(network, fresh.meter, fresh.precision, fresh.rng, seen)
    needed = bool(network.hidden) and network.is_piecewise_linear
    enough = found.num_questions >= 100 or not needed
    check = Check(
        SEARCH,
        not found.found if found.found or enough else None,
        {
            "num_questions": float(found.num_questions),
            "largest": found.largest,
            "rare_directions": found.rare_directions,
            "rare_patterns": found.rare_patterns,
            "thinnest_slab": found.thinnest_slab,
        },
        found.describe() if found.num_questions else "",
        found.describe() if found.found else "",
        local=found.share < 0.5,
        needed=needed,
    )
    return [check] if needed or found.num_questions else [], found.suspects


def search_disagreement(
    network: Network,
    meter: Meter,
    precision: Precision,
    rng: np.random.Generator,
    seen: tuple[np.ndarray, np.ndarray] | None = None,
) -> Disagreement:
    """Ask where model and ``network`` may differ, charged to the stage ``certificate``, within domain and budget.

    ``seen`` are other fresh points with their answers; the climb may begin there too.
    """
    kinked = bool(network.hidden) and network.is_piecewise_linear
    bounded = not np.isinf(meter.domain.reach(meter.input_size))
    counts = _plan(network, kinked, bounded, meter.ledger.left)
    scale = own_scale(network)
    pairs = find_rare_pairs(network, counts["pairs"], meter.domain, rng)
    counts["patterns"] += counts["pairs"] - len(pairs)
    radii = None if bounded else mixed_radii(counts["patterns"], scale, rng)
    points = {
        "far": far_points(meter, counts["far"], scale, bounded, rng),
        "patterns": find_rare_patterns(network, counts["patterns"], meter.domain, radii, rng),
        "pairs": pairs,
        "planes": points_on_planes(network, meter, counts["planes"], scale, bounded, rng),
    }
    points["lines"], spacing = points_on_lines(
        meter, counts["lines"], points["patterns"], scale, bounded, rng
    )
    compare = _Comparison(
        network, meter, precision, kinked, (1.0 if bounded else scale) * ordinary_points(meter, bounded, rng)
    )
    before = meter.ledger.total
    asked, x, errors = {}, [np.zeros((0, meter.input_size))], [np.zeros(0)]
    with meter.stage(CERTIFICATE):
        for kind, places in points.items():
            places = places[meter.domain.contains(places)]
            places = places[: int(min(len(places), meter.ledger.left))]
            asked[kind] = len(places)
            if len(places):
                x.append(places)
                errors.append(compare.errors(places))
        x, errors = np.concatenate(x), np.concatenate(errors)
        starts = (x, errors)
        if seen is not None:
            starts = np.concatenate([x, seen[0]]), np.concatenate([errors, compare.in_bars(*seen)])
        climbed, heights = _climb(compare, *starts, scale, rng)
        x, errors, asked["climb"] = np.concatenate([x, climbed]), np.append(errors, heights), len(climbed)
    if not len(errors):
        return Disagreement(0, 0.0, np.zeros(meter.input_size), asked)
    order = np.argsort(-errors)
    suspects = order[:NUM_SUSPECTS][errors[order[:NUM_SUSPECTS]] > 1]
    return Disagreement(
        num_questions=meter.ledger.total - before,
        largest=float(errors[order[0]]),
        worst=x[order[0]],
        questions=asked,
        rare_directions=_bound(asked["far"]),
        rare_patterns=_bound(asked["patterns"]),
        thinnest_slab=spacing if asked["lines"] else float("inf"),
        share=float(np.mean(errors > 1)),
        suspects=x[suspects],
    )


@dataclass(frozen=True)
class _Comparison:
    """Differences between model and network in error bars."""

    network: Network
    meter: Meter
    precision: Precision
    kinked: bool
    ordinary: np.ndarray
    """Points of the network's own scale."""

    def errors(self, x: np.ndarray) -> np.ndarray:
        """The differences at points that are asked."""
        return self.in_bars(self.meter.snap(x), self.meter.ask(x))

    def in_bars(self, x: np.ndarray, answers: np.ndarray) -> np.ndarray:
        searched = self.precision.kind == "float32" and not self.kinked
        bars = (SEARCHED if searched else USUAL) * self.precision.relative
        tolerance = min(max(EXACT, bars), LOOSEST)
        outputs = self.network(self.ordinary)
        spread = np.maximum(np.std(outputs, axis=0), 1e-300)
        length = np.linalg.norm(x, axis=1)
        apart = np.abs(self.network(x) - answers)
        own = MOST_BARS * self.meter.blur(answers)
        if self.kinked:
            slope = float(np.sqrt(np.mean(gradient_norms(self.network, self.ordinary) ** 2)))
            size = np.max(spread) + slope * length + np.max(np.abs(answers), axis=1)
            return np.max(apart, axis=1) / np.maximum(tolerance * np.maximum(size, 1e-300), own)
        leverage = length[:, None] * gradient_norms(self.network, x)
        spread = np.maximum(spread, self.precision.scale)
        return np.max(apart / np.maximum(tolerance * np.maximum(spread, leverage), own[:, None]), axis=1)


def _plan(network: Network, kinked: bool, bounded: bool, left: float) -> dict[str, int]:
    """How many questions of each kind."""
    n = sum(network.hidden)
    if not kinked:
        plan = {"far": 24 if bounded else 0, "patterns": 0, "pairs": 0, "planes": 0, "lines": 0}
    elif len(network.hidden) > 1:
        rare, pairs = 100 + 20 * n, 10 * n if bounded and len(network.hidden) == 2 else 0
        plan = {"far": 48 + n, "patterns": rare - pairs, "pairs": pairs, "planes": 3 * n, "lines": 120}
    else:
        plan = {"far": 48 + 2 * n, "patterns": 0, "pairs": 0, "planes": 3 * n, "lines": min(40 + 8 * n, 120)}
    total = max(sum(plan.values()), 1)
    room = min(left, MOST_QUESTIONS)
    factor = min(1.0, room / total)
    if np.isfinite(left) and room > total:
        factor = float(np.clip(left / (5 * total), 1.0, min(4.0, room / total)))
    return {kind: int(factor * count) for kind, count in plan.items()}


def _climb(
    compare: _Comparison, x: np.ndarray, errors: np.ndarray, scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """From three points that stand out uphill on the difference, in four rounds of four trials: the trials."""
    meter = compare.meter
    trials, heights = [np.zeros((0, meter.input_size))], [np.zeros(0)]
    top = np.argsort(-errors)[:3]
    outlying = max(0.02, 10 * float(np.median(errors))) if len(errors) else 0.0
    top = top[(errors[top] > outlying) & (errors[top] <= 1)]
    best, height, step = x[top], errors[top], 0.3
    for _ in range(4):
        if not len(best) or meter.ledger.left < 4 * len(best):
            break
        lengths = np.maximum(np.linalg.norm(best, axis=1), 0.1 * scale)
        moves = rng.standard_normal((4, *best.shape)) / np.sqrt(best.shape[1])
        tried = meter.domain.nearest((best + step * lengths[:, None] * moves).reshape(-1, best.shape[1]))
        found = compare.errors(tried)
        trials.append(tried)
        heights.append(found)
        rounds = found.reshape(4, len(best))
        first, rows = np.argmax(rounds, axis=0), np.arange(len(best))
        better = rounds[first, rows] > height
        best = np.where(better[:, None], tried.reshape(4, *best.shape)[first, rows], best)
        height = np.maximum(height, rounds[first, rows])
        step /= 2
    return np.concatenate(trials), np.concatenate(heights)


def _bound(num_points: int) -> float:
    """With 95 % confidence a share above this would have been met by one of the points."""
    return 1 - (1 - CONFIDENCE) ** (1 / num_points) if num_points else 1.0
