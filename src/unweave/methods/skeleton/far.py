"""The relu network that a relu-like smooth model is far out, by the methods for relu networks.

One hidden layer, two, and any depth are tried in this order. At the scale of one and two layers windows are narrow and
kept clear of; more layers are looked at from farther away, where windows vanish beside everything else, so that corners
of several borders are what they are for relu. Biases do not show at any of these scales: the skeleton goes through the
origin, and the windows give the biases afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.evidence.far_view import FarView
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.any_depth import describe
from unweave.methods.relu.deep.engine import recover
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.lifted.assemble import assemble
from unweave.methods.relu.lifted.search import Search
from unweave.methods.relu.one_layer.lines import ReluLines
from unweave.methods.relu.two_layers.layers import ReluLayers
from unweave.methods.skeleton.assemble import say_unknown
from unweave.methods.skeleton.glance import misfits_of_windows
from unweave.probes.inquiry import open_inquiry

WIDEST, USUAL = 2e3, 300.0
"""Half width of the widest window, and of most, which is kept clear of where the domain leaves room for no more."""
FAR, FARTHER = 1e10, 1e12
"""The scale from which one and two layers are seen where the domain allows it, and more than two."""
ROOM = 30.0
"""A bounded domain reaches so many times the scale from which it is seen: lines are long enough to cross all planes."""
NUM_ATTEMPTS = 3
"""Skeletons tried; in a bounded domain, where two layers may look like more, only the last looks for more."""
NUM_FRESH = 2500
"""From the second attempt on a skeleton is tried on so many fresh points: a unit may be on, or off, in one direction of
a thousand."""
FEW = 3
"""A weight that fewer answers depend on does not show."""
NUM_LINES, NUM_DRAWS = 12, 3
"""Lines on which rough answers are searched for planes, and how often so many are drawn at most."""
NUM_FITTED = 4000
"""Answers that the sides of units are read from."""
CROWDED = 2.0
"""Units above for each plane from which on more lines are drawn."""
MOST_SECONDS = 180.0
"""For one skeleton."""


@dataclass(frozen=True)
class Scales:
    """The radii at which one precision of the answers shows what."""

    view: float
    """The scale from which one and two layers are seen, ..."""
    window: float
    """... and the half width around a kink kept clear of, in its units."""
    profile: float
    """Where windows are looked at one by one."""
    settle: tuple[float, float]
    """Between which radii windows are asked for lengths and biases."""

    @classmethod
    def of(cls, precision: Precision, reach: float = np.inf) -> Scales:
        """For answers of this precision in a domain of this radius."""
        if precision.kind == "float32":
            return cls(1e7, 0.0, 1e3, (1.0, 100.0))
        view = min(FAR, reach / ROOM)
        return cls(view, max(WIDEST / FAR, USUAL / view), 1e6, (3.0, 3e3))


def find_skeleton(meter: Meter, problem: Problem, attempt: int) -> Finding:
    """The relu network, in the units of the model; a later attempt tries it on more points and on other lines."""
    problem = replace(problem, seed=problem.seed + 1000 * max(attempt - 1, 0))
    scales = Scales.of(problem.precision, meter.domain.reach(meter.input_size))
    view = cast(Meter, FarView(meter, scales.view))
    finding = ReluLines(window=scales.window, whole=False).recover(view, problem)
    if finding.network is not None or problem.precision.kind == "float32":
        return _through_the_origin(finding)
    limit = problem.within(MOST_SECONDS)
    layers = ReluLayers(window=scales.window, num_fresh=NUM_FRESH if attempt else 0, max_seconds=limit)
    rng = problem.rng("relu lines")
    with meter.stage("lines"):
        inquiry = open_inquiry(view, problem.precision, rng, window=scales.window)
    two = layers.try_two(inquiry, problem, rng)
    if two.finding is not None:
        return _through_the_origin(_leave_entries(two.finding))
    misfits = {} if attempt else misfits_of_windows(meter, inquiry, problem, scales.profile, rng)
    if misfits:
        alternatives = {name: 10.0**value for name, value in misfits.items()}
        return Finding(None, reason=say_unknown(misfits), alternatives=alternatives, conclusive=True)
    if not two.deeper:
        finding = layers.recover(view, problem)
        if finding.network is not None and not finding.network.is_open:
            return _through_the_origin(_leave_entries(finding))
    if np.isfinite(meter.domain.reach(meter.input_size)) and attempt < NUM_ATTEMPTS - 1:
        return Finding(None, reason="two layers do not explain what the domain shows")
    return _through_the_origin(_find_deep(meter, problem, attempt))


def find_first_layer(meter: Meter, problem: Problem, attempt: int) -> Network | None:
    """Of rough answers: all planes of the first layer on their sides, and the units above as far as they show."""
    rng = problem.rng("first layer", attempt)
    view = cast(Meter, FarView(meter, Scales.of(problem.precision).view))
    with meter.stage("lines"):
        inquiry = open_inquiry(view, problem.precision, rng)
    search = Search(inquiry, rng, clock.now() + problem.within(MOST_SECONDS), lambda text: None)
    for _ in range(NUM_DRAWS):
        search.draw(NUM_LINES * (attempt + 1))
        search.find_planes()
        search.explain()
        if search.num_units <= CROWDED * len(search.planes):
            break  # else a plane is missing, at which all of them bend
    if search.follower is None or not search.num_units:
        return None
    x, y = view.transcript()
    some = rng.permutation(len(x))[:NUM_FITTED]
    x, y = x[some], y[some]
    whole = assemble(search.planes, search.follower.units(), x, y, inquiry.bars(x, y), view.domain)
    return _through_the_origin(Finding(whole.network)).network


def _find_deep(meter: Meter, problem: Problem, attempt: int) -> Finding:
    rng = problem.rng("deep skeleton", attempt)
    with meter.stage("lines"):
        farther = min(FARTHER, meter.domain.reach(meter.input_size) / ROOM)
        inquiry = open_inquiry(cast(Meter, FarView(meter, farther)), problem.precision, rng)
    # rows that are parallel to a line, or cells without room, give infinities that no comparison passes
    with meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = recover(Pool(inquiry, rng), max_seconds=problem.within(MOST_SECONDS))
    finding = describe(inquiry, found)
    if finding.network is None or finding.network.is_open:
        return finding
    x = inquiry.meter.transcript()[0]
    entries, steady = _unseen_entries(finding.network, x), _count_steady(finding.network, x)
    details = {**finding.details, "open_entries": entries, "always_on": steady}
    return _leave_entries(replace(finding, details=details))


def _leave_entries(finding: Finding) -> Finding:
    """Without the remarks on single weights that do not show far out: nearer they do."""
    kept = tuple(t for t in finding.undetermined if "never shows" not in t and ": weight of" not in t)
    return replace(finding, undetermined=kept)


def _unseen_entries(skeleton: Network, x: np.ndarray) -> tuple[tuple[int, int, int], ...]:
    """Weights (layer, unit, feature) that no answer depends on: the unit is off wherever that feature is on."""
    found, h, below = [], x, None
    for layer, (w, b) in enumerate(zip(skeleton.weights[:-1], skeleton.biases[:-1], strict=True)):
        z = h @ w.T + b
        active = (z > 0).astype(float)
        if below is not None:
            found += [(layer, int(u), int(i)) for u, i in np.argwhere(active.T @ below < FEW)]
        h, below = np.maximum(z, 0.0), active
    return tuple(found)


def _count_steady(skeleton: Network, x: np.ndarray) -> int:
    """How many units at the end of the last hidden layer are on at every point: they stand for a linear rest."""
    names = [*skeleton.hidden_activations[:-1], "identity"]
    on = np.all(Network(skeleton.weights[:-1], skeleton.biases[:-1], names)(x) > 0, axis=0)
    return len(on) if on.all() else int(np.argmin(on[::-1]))


def _through_the_origin(finding: Finding) -> Finding:
    network = finding.network
    if network is None or network.is_open:
        return finding
    biases = [np.zeros_like(b) for b in network.biases]
    return replace(finding, network=Network(network.weights, biases, network.activations))
