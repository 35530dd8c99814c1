"""The relu network that a relu-like smooth model is far out, by the methods for relu networks.

One hidden layer, two, and any depth are tried in this order. Two scales are looked from: at ``FAR`` biases still show
and windows are kept clear of; for more than two layers ``FARTHER``, where windows and biases vanish beside everything
else, so that corners of several borders are what they are for relu. The windows give the biases afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from unweave.core.network import Network
from unweave.evidence.far_view import FarView
from unweave.evidence.meter import Meter
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.deep.engine import recover
from unweave.methods.relu.deep.method import describe
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.layers import ReluLayers
from unweave.methods.relu.lines import ReluLines
from unweave.probes.inquiry import open_inquiry

FAR, WINDOW = 1e8, 2e-5
"""The scale from which one and two layers are seen, and the half width around a kink kept clear of, in its units."""
FARTHER = 1e12
"""The scale from which deeper networks are seen."""
NUM_FRESH = 2500
"""From the second attempt on a skeleton is tried on so many fresh points: a unit may be on, or off, in one direction of
a thousand."""
MOST_SECONDS = 180.0
"""For one skeleton."""


def find_skeleton(meter: Meter, problem: Problem, attempt: int) -> Finding:
    """The relu network, in the units of the model; a later attempt tries it on more points and on other lines."""
    problem = replace(problem, seed=problem.seed + 1000 * max(attempt - 1, 0))
    view = cast(Meter, FarView(meter, FAR))
    finding = ReluLines(window=WINDOW).recover(view, problem)
    if finding.network is not None:
        return _in_units_of_the_model(finding, FAR)
    limit = problem.within(MOST_SECONDS)
    layers = ReluLayers(window=WINDOW, num_fresh=NUM_FRESH if attempt else 0, max_seconds=limit)
    rng = problem.rng("relu lines")
    with meter.stage("lines"):
        inquiry = open_inquiry(view, problem.precision, rng, window=WINDOW)
    two = layers.try_two(inquiry, problem, rng)
    if two.finding is not None:
        return _in_units_of_the_model(two.finding, FAR)
    if not two.deeper:
        finding = layers.recover(view, problem)
        if finding.network is not None and not finding.network.is_open:
            return _in_units_of_the_model(finding, FAR)
    return _in_units_of_the_model(_find_deep(meter, problem, attempt), FARTHER)


def _find_deep(meter: Meter, problem: Problem, attempt: int) -> Finding:
    rng = problem.rng("deep skeleton", attempt)
    with meter.stage("lines"):
        inquiry = open_inquiry(cast(Meter, FarView(meter, FARTHER)), problem.precision, rng)
    # rows that are parallel to a line, or cells without room, give infinities that no comparison passes
    with meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = recover(Pool(inquiry, rng), max_seconds=problem.within(MOST_SECONDS))
    return describe(inquiry, found)


def _in_units_of_the_model(finding: Finding, scale: float) -> Finding:
    network = finding.network
    if network is None or network.is_open:
        return finding
    biases = [scale * b for b in network.biases]
    return replace(finding, network=Network(network.weights, biases, network.activations))
