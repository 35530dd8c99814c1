"""One hidden layer of (leaky) relu units, exactly, from its kinks along lines.

A random line crosses the hyperplane of every unit once; across it the gradient jumps by the unit's output weights
times its row (cryptanalytic extraction; Carlini, Jagielski, Mironov, CRYPTO 2020). What the found bends do not
explain is looked for on fresh lines until nothing is left. Which side each unit is active on is invisible
locally: it follows from the affine part, ``beta = sum_i s_i c_i w_i / 2`` with s_i = +-1, when this has one solution.
Assumes exact answers (float64 or float32) to chosen questions; widths need not be known. In a bounded domain units
whose plane does not meet it look linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.signs import needs_lattice
from unweave.methods.base import Finding, Problem
from unweave.methods.relu_ridges import (
    RidgeSum,
    add_planes,
    distinct_planes,
    fit_affine_part,
    plane_errors,
    remeasure,
    same_plane,
)
from unweave.methods.relu_sides import orient_units
from unweave.oracles.meter import Meter
from unweave.probes.cells import Pieces, join_pieces, measure_pieces
from unweave.probes.inquiry import SAFETY, Inquiry, open_inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines
from unweave.probes.planes import join_planes, measure_planes


@dataclass(frozen=True)
class ReluLines:
    """``method="relu-lines"``."""

    name: str = "relu-lines"
    max_rounds: int = 12

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Find every unit of one hidden layer, its side and the output layer."""
        rng = problem.rng(41)
        with meter.stage("lines"):
            inquiry = open_inquiry(meter, problem.precision, rng)
            sum_of_ridges, pieces = find_ridges(inquiry, rng)
        with meter.stage("remeasured units"):
            sum_of_ridges, pieces = sharpen(inquiry, sum_of_ridges, pieces, rng)
        with meter.stage("unexplained kinks"):
            sum_of_ridges, pieces, clean = self._explain(inquiry, sum_of_ridges, pieces, rng)
        if not clean:
            return Finding(
                None,
                reason="kinks remain that no hyperplane explains: the model has more than one hidden layer of relu "
                "units, or is not piecewise linear; try method='relu-layers'",
            )
        if needs_lattice(len(sum_of_ridges.planes), sum_of_ridges.gradient.size):
            with meter.stage("remeasured units"):
                sum_of_ridges, pieces = sharpen(
                    inquiry, sum_of_ridges, pieces, rng, target=3e-13, share=1.0, num_candidates=600
                )
        return orient_units(sum_of_ridges, inquiry, problem)

    def _explain(
        self, inquiry: Inquiry, model: RidgeSum, pieces: Pieces, rng: np.random.Generator
    ) -> tuple[RidgeSum, Pieces, bool]:
        """Add what fresh lines and points show to be missing until they show nothing."""
        domain, d = inquiry.meter.domain, inquiry.input_size
        bounded = not np.all(domain.contains(1e7 * np.eye(d)))
        num_lines, num_points, num_clean = (12, 200, 2) if bounded else (2, 20, 1)
        for _ in range(self.max_rounds):
            residual = inquiry.against(model)
            x = np.concatenate([domain.sample(num_points, d, rng), domain.edge(num_points // 2, d, rng)])
            miss, bars = residual.ask(x)
            wrong = x[np.max(np.abs(miss), axis=1) > SAFETY * bars]
            lines = draw_lines(domain, num_lines, d, rng, through=_some(wrong, num_lines, rng))
            kinks = find_kinks(residual, lines)
            if not len(wrong) and not any(len(k.positions) + len(k.unresolved) for k in kinks):
                num_clean -= 1
                if num_clean == 0:
                    return model, pieces, True
                continue
            if sum(len(k.positions) for k in kinks) > 2 * len(lines) * max(4, len(model.planes)):
                return model, pieces, False
            missing, _ = measure_planes(residual, lines, kinks, rng)
            missing = distinct_planes(missing)
            before = len(model.planes)
            planes = add_planes(model.planes, missing)
            model = fit_affine_part(planes, pieces)
            if before > 2 and len(planes) > 3 * before + 20:
                return model, pieces, False
            model, pieces = sharpen(inquiry, model, pieces, rng)
        return model, pieces, False


def find_ridges(inquiry: Inquiry, rng: np.random.Generator) -> tuple[RidgeSum, Pieces]:
    """The planes crossed by one random line, and the affine pieces between them."""
    lines = draw_lines(inquiry.meter.domain, 1, inquiry.input_size, rng)
    kinks = find_kinks(inquiry, lines)
    planes, pieces = measure_planes(inquiry, lines, kinks, rng)
    if not pieces.valid.any():
        middle = (np.maximum(lines.low, -lines.scale) + np.minimum(lines.high, lines.scale)) / 2
        pieces = measure_pieces(inquiry, lines.points(np.array([0]), middle), lines.scale / 10, rng)
    if not pieces.valid.any():
        d, k = inquiry.input_size, inquiry.output_size
        return RidgeSum(planes, np.zeros((k, d)), np.zeros(k)), pieces
    return fit_affine_part(distinct_planes(planes), pieces), pieces


def sharpen(
    inquiry: Inquiry,
    model: RidgeSum,
    pieces: Pieces,
    rng: np.random.Generator,
    *,
    target: float = 1e-10,
    share: float = 1 / 3,
    num_candidates: int = 96,
) -> tuple[RidgeSum, Pieces]:
    """Measure the units of low accuracy again at places where the other planes leave room, in two passes."""
    target = max(target, 30 * inquiry.relative)
    planes = model.planes
    for _ in range(2):
        errors = plane_errors(planes)
        which = np.argsort(-errors)
        which = which[errors[which] > target][: 3 + int(np.ceil(share * len(planes)))]
        if not len(which):
            break
        fresh_planes, fresh_pieces = remeasure(inquiry, model, which, rng, num_candidates)
        for i in range(len(fresh_planes)):
            fresh = fresh_planes.take([i])
            same = same_plane(planes, fresh)
            if same is not None and plane_errors(fresh)[0] < plane_errors(planes)[same]:
                planes = join_planes([planes.take(np.arange(len(planes)) != same), fresh])
        pieces = join_pieces(pieces, fresh_pieces)
        model = fit_affine_part(planes, pieces)
    return model, pieces


def _some(points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray | None:
    """``count`` of the points, with repetition where there are fewer; None when there are none."""
    return points[rng.integers(len(points), size=count)] if len(points) else None
