"""One hidden layer of clamped units (relu6, hardtanh, hardsigmoid), exactly, from pairs of kinks.

Such a unit grows between two parallel hyperplanes and is constant beyond: its gradient jumps by ``J n`` across one and
back across the other. The kinks of lines are found as for relu units; planes with the same normal and opposite
jumps are one unit, and the distance of the two is the length of its row. The three activations describe the same
functions: unless one is named, units are returned as relu6. Assumes exact answers to chosen questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import CLAMPED, Finding, Problem, Serves, Traits
from unweave.methods.relu.one_layer.lines import ReluLines
from unweave.methods.relu.one_layer.ridges import RidgeSum
from unweave.probes.growth import Growth
from unweave.probes.inquiry import open_inquiry
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.weighted import answer_accuracy

SAME = 1e-5
"""Largest difference of two normals, and of two jumps, of one unit, relative to their sizes."""
NUM_STEPS = 4


@dataclass(frozen=True)
class Clamped:
    """``method="clamped"``."""

    name: str = "clamped"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, CLAMPED)

    def suits(self, traits: Traits) -> str | None:
        """Exact answers that level off and are straight on short segments."""
        levels = traits.growth is Growth.SATURATING and traits.exact
        if not levels or not traits.candidates(self.serves):
            return None
        return (
            f"{traits.growth} and are piecewise linear"
            if traits.activation == "auto"
            else traits.why_kinked()
        )

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Every kink, the pairs they make, and the output layer."""
        rng = problem.rng("relu lines")
        with meter.stage("lines"):
            inquiry = open_inquiry(meter, problem.precision, rng)
        ridges = ReluLines().find_ridges(inquiry, rng)
        if ridges is None:
            return Finding(
                None, reason="kinks remain that no hyperplane explains: more than one hidden layer, or smooth"
            )
        pairs = pair_planes(ridges)
        if pairs is None:
            return Finding(
                None, reason="the kinks are not pairs of parallel hyperplanes, so the units are not clamped"
            )
        network = _put_together(ridges, pairs, problem.activations[0])
        x, y = meter.transcript()
        accuracy = answer_accuracy(network, x, problem.precision.noise)
        network = polish_weighted(network, x, y, accuracy, max_steps=NUM_STEPS).network
        return Finding(network, details={"num_planes": len(ridges.planes)})


def pair_planes(ridges: RidgeSum) -> list[tuple[int, int]] | None:
    """The two planes of every unit; None: some have no partner."""
    planes = ridges.planes
    sizes = np.linalg.norm(planes.jumps, axis=1)
    left, pairs = list(range(len(planes))), []
    while left:
        first = left.pop()
        sides = planes.normals[left] @ planes.normals[first]
        aside = np.linalg.norm(planes.normals[left] - sides[:, None] * planes.normals[first], axis=1)
        uneven = np.linalg.norm(planes.jumps[left] + planes.jumps[first], axis=1) / sizes[first]
        misses = np.maximum(aside, uneven)
        best = int(np.argmin(misses)) if left else 0
        if not left or misses[best] > SAME:
            return None
        pairs.append((first, left.pop(best)))
    return pairs


def _put_together(ridges: RidgeSum, pairs: list[tuple[int, int]], name: str) -> Network:
    """``J h hardtanh((n . x - m) / h)`` for planes at ``m - h`` and ``m + h`` along n, in the named activation."""
    first, second = (ridges.planes.take(list(some)) for some in zip(*pairs, strict=True))
    sides = np.sign(np.einsum("md,md->m", first.normals, second.normals))
    begin, end = -first.offsets, -second.offsets * sides
    # along n or against it, whichever meets the first plane first
    turn = np.where(begin < end, 1.0, -1.0)
    middle, half = turn * (begin + end) / 2, np.abs(end - begin) / 2
    rows, biases = (turn / half)[:, None] * first.normals, -middle / half
    out, constant = ((first.jumps - second.jumps) / 2 * half[:, None]).T, ridges.constant
    rewriting = act.get(name).rewriting
    if rewriting is not None:  # phi(z) = gain hardtanh(inner z + offset) + shift
        rows, biases = rows / rewriting.inner, (biases - rewriting.offset) / rewriting.inner
        out = out / rewriting.gain
        constant = constant - rewriting.shift * out.sum(axis=1)
    return Network([rows, out], [biases, constant], [name, "identity"])
