"""``relu-features``: two hidden layers from rough answers at any point, the first no wider than the input.

Lines show the planes of the first layer (``lifted``), a search over its features the second layer (``above``). All
weights are then fitted at once to answers from all over, those that contradict among them; what these leave over where
a unit is missing tells it. A network is returned where no answer ever asked, and none of many fresh ones, lies beyond
eight of its error bars.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.linalg

from unweave.core import clock
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import Finding, Problem, Serves, Traits
from unweave.methods.relu.beside import points_beside
from unweave.methods.relu.lifted.compose import evaluation_error
from unweave.methods.relu.lifted.draw import lines_through
from unweave.methods.relu.lifted.information import without_units
from unweave.methods.relu.lifted.left import with_left_over
from unweave.methods.relu.lifted.planes import Planes, explained
from unweave.methods.relu.lifted.refit import DENSE, Stack, normal_matrix
from unweave.methods.relu.lifted.search import Search
from unweave.methods.relu.one_layer.level import find_quiet_plane, near_points
from unweave.methods.relu.two_layers.above import recover_above
from unweave.methods.relu.two_layers.spread import spread_points
from unweave.probes.inquiry import Inquiry, open_inquiry
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.information import gauge_rows, unit_errors
from unweave.solve.layout import Layout

BEYOND, ORDINARY = 8.0, 0.7
"""Error bars within which every answer must lie, and the root mean square of deviations where these are right."""
ROUGHEST = 4.0
"""By how much the fit may find the answers rougher than they were measured."""
LOOKS, MOST_LOOKS = 12, 8
"""Lines along which no known height changes, and how often they are drawn: until they show no plane that is new."""
EACH = 3.0
"""Answers a parameter from all over that are fitted; as many points as parameters, within bounds, are asked afresh."""
FITTED = "spread points", "fresh points", "missing units"
"""Stages whose answers are fitted; the others, where all units are on among them, are looked through."""
FRESH = 1500, 4000
"""The fewest and the most of these."""
MOST_ROUNDS, CORNERS = 8, 0.1
"""Fits to what contradicts, and the share of answers that may do so where the others tell how rough answers are."""
SLACK, HALF, MOST_MISSING = 2.0, 0.5, 4
"""Answers follow a network that is still off by so many times its median miss; the share of others from which on
nothing is told of them; units looked for behind them at a time."""
BESIDE = 8
"""Points asked beside wrong answers, for each unit of the first layer."""
OPEN = 0.01
"""A unit whose parameters are known to no better than this, relative to its largest, is named as open."""
FLAGGED, MOST_IDLE = 0.05, 6
"""Such an error from which on a unit may be left out, and how many are at most."""
SINGULAR = 1e-10
"""Share of squares that normal equations cannot tell from nothing."""
START = 1e-8
"""Damping of the first step."""


@dataclass(frozen=True)
class ReluFeatures:
    """``method="relu-features"``."""

    name: str = "relu-features"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, ("relu",), queries=400_000)
    num_lines: int = 8
    max_seconds: float = 150.0

    def suits(self, traits: Traits) -> str | None:
        """Rough answers in a domain without end; exact ones are served by ``relu-layers``."""
        mine = traits.single and np.isinf(traits.reach) and not traits.activation.startswith("leaky")
        return traits.why_kinked() if mine and traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Both hidden layers and the output layer."""
        rng = problem.rng("relu lifted")  # the questions of relu-lifted: what one has asked serves the other
        with meter.stage("lines"):
            inquiry = open_inquiry(meter, problem.precision, rng)
        search = Search(inquiry, rng, clock.now() + problem.within(self.max_seconds), lambda text: None)
        search.draw(self.num_lines)
        if all(scan.endless for scan in search.sightings.scans):
            return Finding(None, reason="the answers bend all along lines")
        search.find_planes()
        look_beside(search)
        planes = search.planes
        if search.is_shallow:
            return Finding(None, reason="planes of one layer explain every kink")
        found = recover_above(inquiry, problem, planes.normals, planes.offsets, planes.deviations)
        if found.network is None:
            return found
        settled = settle(found.network, inquiry, search.deadline, problem.rng("relu features"))
        if settled.wrong > 0:
            return replace(
                found, network=None, reason=f"{settled.wrong:.1%} of the answers contradict the network"
            )
        return replace(
            found, network=settled.network, undetermined=settled.open_units, error_bars=settled.error_bars
        )


def look_beside(search: Search) -> None:
    """Planes that drown on random lines: along directions in which no known height changes nothing else bends."""
    seen = search.sightings
    for _ in range(MOST_LOOKS):
        _, d = search.planes.normals.shape
        if not 0 < len(search.planes) < d:
            return
        level = np.linalg.qr(search.planes.normals.T, mode="complete")[0][:, len(search.planes) :]
        starts = near_points(search.inquiry, LOOKS, search.rng)
        goals = starts + search.rng.standard_normal((LOOKS, level.shape[1])) @ level.T
        with search.inquiry.meter.stage("lines"):
            fresh = seen.add_lines(lines_through(search.domain, starts, goals))
        fresh = fresh[~explained(seen, search.planes)[fresh]]
        if not len(fresh):
            return
        before = len(search.planes)
        with search.inquiry.meter.stage("first layer"):
            seen.measure(fresh)
            search.take_in(fresh)
            if len(search.planes) == before:
                planes = search.planes
                weak = find_quiet_plane(search.inquiry, planes.normals, planes.offsets, search.rng)
                search.planes = planes.join(
                    Planes(weak.normals, weak.offsets, weak.covariances, np.ones(len(weak)))
                )
        if len(search.planes) == before:
            return


@dataclass(frozen=True)
class Settled:
    """A network fitted to all that was asked."""

    network: Network
    inquiry: Inquiry
    wrong: float
    """Share of the answers beyond their error bars."""
    open_units: tuple[str, ...] = ()

    def error_bars(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.inquiry.bars(x, y) + evaluation_error(self.network, x)

    def misses(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.max(np.abs(self.network(x) - y), axis=1) / self.error_bars(x, y)


def settle(network: Network, inquiry: Inquiry, deadline: float, rng: np.random.Generator) -> Settled:
    """All weights fitted to answers from all over until fresh ones agree, units that are missing added."""
    meter, spread = inquiry.meter, int(EACH * network.num_parameters / network.output_size)
    with meter.stage("spread points"):
        meter.ask(spread_points(network, inquiry, spread, rng))
    now = Settled(network, inquiry, 1.0)
    for turn in range(MOST_ROUNDS):
        grown = _with_missing(now, rng)
        x, y = meter.transcript(*FITTED)
        every = meter.transcript()
        far = np.argsort(-grown.misses(*every))[: len(x) // 4] if turn else np.zeros(0, dtype=int)
        trial = _fit(grown, np.concatenate([x, every[0][far]]), np.concatenate([y, every[1][far]]), deadline)
        wrong = float(np.mean(trial.misses(*every) > BEYOND))
        moved = wrong < now.wrong or grown is not now or not turn
        now = replace(trial, wrong=wrong) if moved else now
        if now.wrong == 0:
            now = _without_idle_units(now, deadline)  # one that stands for nothing is wrong somewhere else
            with meter.stage("fresh points"):
                fresh = spread_points(now.network, inquiry, int(np.clip(network.num_parameters, *FRESH)), rng)
                misses = now.misses(meter.snap(fresh), meter.ask(fresh))
            now = replace(now, wrong=float(np.mean(misses > BEYOND)))
        if now.wrong == 0 or not moved or clock.now() > deadline:
            break
    return now


def _without_idle_units(now: Settled, deadline: float) -> Settled:
    """Without units that no answer determines, worst first, if the answers do not need them; what is open is named."""
    x, y = now.inquiry.meter.transcript(*FITTED)
    errors = _unit_errors(now, x, y)
    for _ in range(MOST_IDLE):
        layer, unit = max(errors, key=lambda place: errors[place], default=(0, 0))
        if not errors or errors[layer, unit] < FLAGGED or clock.now() > deadline:
            break
        kept = [np.arange(len(b)) for b in now.network.biases[:-1]]
        kept[layer] = np.delete(kept[layer], unit)
        trial = _fit(replace(now, network=without_units(now.network, kept)), x, y, deadline)
        if np.any(trial.misses(*now.inquiry.meter.transcript()) > BEYOND):
            break
        now, errors = trial, _unit_errors(trial, x, y)
    names = tuple(
        f"layer {layer + 1}, unit {unit}: determined only to {error:.0%}"
        for (layer, unit), error in errors.items()
        if error > OPEN
    )
    return replace(now, open_units=names)


def _fit(now: Settled, x: np.ndarray, y: np.ndarray, deadline: float) -> Settled:
    """All weights by weighted least squares; the error bars as large as what is left, within bounds."""
    bars, misses = now.error_bars(x, y), now.misses(x, y)
    sound = _follow(misses)
    for _ in range(2):  # what a missing unit spoils is left out
        fit = polish_weighted(now.network, x[sound], y[sound], bars[sound], damping=START, deadline=deadline)
        now = replace(now, network=fit.network)
        misses = now.misses(x, y)
        again = _follow(misses)
        if np.array_equal(again, sound):
            break
        sound = again
    factor = float(np.clip(np.sqrt(np.mean(np.minimum(misses, BEYOND) ** 2)) / ORDINARY, 1.0, ROUGHEST))
    if np.median(misses) <= BEYOND and factor > 1 and np.mean(misses > BEYOND) < CORNERS:
        inquiry = replace(
            now.inquiry, noise=now.inquiry.noise * factor, relative=now.inquiry.relative * factor
        )
        now = replace(now, inquiry=inquiry)
    return now


def _follow(misses: np.ndarray) -> np.ndarray:
    """Which answers follow the network as well as most do, however far off it still is."""
    return misses <= BEYOND * max(1.0, SLACK * float(np.median(misses)))


def _with_missing(now: Settled, rng: np.random.Generator) -> Settled:
    """With units of the second layer that the answers tell which do not follow, as long as one halves their number."""
    meter = now.inquiry.meter
    for _ in range(MOST_MISSING):
        x, y = meter.transcript()
        misses = now.misses(x, y)
        astray = ~_follow(misses)
        share = float(np.mean(astray))
        if not 0 < share < HALF:
            break
        with meter.stage("missing units"):
            count = BESIDE * len(now.network.weights[0])
            meter.ask(points_beside(x[astray], count, meter.domain, rng))
        x, y = meter.transcript()
        slack = max(1.0, SLACK * float(np.median(misses)))
        grown = with_left_over(now.network, x, y, slack * now.error_bars(x, y), rng)
        if grown is None:
            break
        after = replace(now, network=grown)
        if np.mean(after.misses(x, y) > BEYOND * slack) > share / 2:
            break
        now = after
    return now


def _unit_errors(now: Settled, x: np.ndarray, y: np.ndarray) -> dict[tuple[int, int], float]:
    """Standard error of each hidden unit, (layer, unit), relative to its largest parameter; none of large networks."""
    network = now.network
    if network.num_parameters > DENSE:
        return {}
    stack, layout, theta = Stack(network), Layout.of(network), network.flat()
    matrix, _ = normal_matrix(stack, stack.flat(network), x, now.error_bars(x, y), np.arange(stack.size))
    scale = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    matrix = matrix / scale[:, None] / scale
    gauge = gauge_rows(layout, theta).toarray() / scale
    gauge /= np.maximum(np.linalg.norm(gauge, axis=1, keepdims=True), 1e-300)
    matrix += gauge.T @ gauge + SINGULAR * np.eye(len(matrix))
    upper = scipy.linalg.cholesky(matrix, overwrite_a=True, check_finite=False)
    (invert,) = scipy.linalg.get_lapack_funcs(("trtri",), (upper,))
    errors = unit_errors(network, np.linalg.norm(invert(upper)[0], axis=1) / scale)
    places = [(layer, unit) for layer, b in enumerate(network.biases[:-1]) for unit in range(len(b))]
    return dict(zip(places, errors.tolist(), strict=False))
