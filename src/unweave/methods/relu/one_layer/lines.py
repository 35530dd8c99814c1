"""One hidden layer of (leaky) relu units, exactly, from its kinks along lines.

A random line crosses the hyperplane of every unit once; across it the gradient jumps by the unit's output weights
times its row (cryptanalytic extraction; Carlini, Jagielski, Mironov, CRYPTO 2020). What the found bends do not
explain is looked for on fresh lines until nothing is left. Which side each unit is active on is invisible
locally: it follows from the affine part, ``beta = sum_i s_i c_i w_i / 2`` with s_i = +-1, when this has one solution.
Assumes exact answers (float64 or float32) to chosen questions; widths need not be known. In a bounded domain units
whose plane does not meet it look linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unweave.algebra.signs import needs_lattice
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import PIECEWISE_LINEAR, Finding, Problem, Serves, Traits
from unweave.methods.relu.afar import is_afar, recover_from_afar
from unweave.methods.relu.one_layer.polish import fit_doubtful
from unweave.methods.relu.one_layer.ridges import RidgeSum, add_planes, distinct_planes, fit_affine_part
from unweave.methods.relu.one_layer.rough import recover_roughly
from unweave.methods.relu.one_layer.search import find_ridges, sharpen
from unweave.methods.relu.one_layer.sides import orient_units
from unweave.probes.cells import Pieces
from unweave.probes.inquiry import SAFETY, Inquiry, open_inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines
from unweave.probes.planes import measure_planes

DEEPER = (
    "kinks remain that no hyperplane explains: the model has more than one hidden layer of relu units, or is not "
    "piecewise linear; try method='relu-layers'"
)
POOR, DOUBTFUL = 1e-8, 1e4
"""A unit that could not be measured again where it has room, and whose error is beyond this and so many times the
typical one, would blur everything else: it is looked for anew."""
FEW = 100
"""Planes up to which kinks that stay tell of deeper units; more may lie too close to be measured at once."""
SHARE_LEFT, LEAST_LEFT = 0.5, 2
"""Share of the first kinks, and number a line, that is as many as before."""
BESIDE = 1e-2
"""Planes whose directions and offsets differ by less may be one that was taken for two."""


@dataclass(frozen=True)
class ReluLines:
    """``method="relu-lines"``."""

    name: str = "relu-lines"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, PIECEWISE_LINEAR)
    max_rounds: int = 12
    window: float = 0.0
    """Half width around kinks in which the answers are not straight (see ``Inquiry``)."""
    whole: bool = True
    """Whether the layer is all of the model, not what stands above another one."""

    def suits(self, traits: Traits) -> str | None:
        return traits.why_kinked() if traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Find every unit of one hidden layer, its side and the output layer."""
        if is_afar(meter, problem.precision):
            return recover_from_afar(meter, problem, self.recover)
        rng = problem.rng("relu lines")
        with meter.stage("lines"):
            inquiry = open_inquiry(meter, problem.precision, rng, window=self.window)
        if inquiry.coarse:
            return recover_roughly(inquiry, problem, rng, whole=self.whole)
        found = self._find(inquiry, rng)
        if found is None:
            return Finding(None, reason=DEEPER)
        ridges, pieces = found
        if needs_lattice(len(ridges.planes), ridges.gradient.size):
            with meter.stage("remeasured units"):
                ridges, pieces = sharpen(
                    inquiry, ridges, pieces, rng, target=3e-13, share=1.0, num_candidates=600
                )
        # behind a squashing the domain is ours: what it leaves open stays open to every method
        finding = orient_units(ridges, inquiry, problem)
        return replace(finding, conclusive=finding.conclusive or meter.is_squashed)

    def find_ridges(self, inquiry: Inquiry, rng: np.random.Generator) -> RidgeSum | None:
        """Every plane across which exact answers bend, and what is affine beside; None where planes are not all."""
        found = self._find(inquiry, rng)
        return None if found is None else found[0]

    def _find(self, inquiry: Inquiry, rng: np.random.Generator) -> tuple[RidgeSum, Pieces] | None:
        meter = inquiry.meter
        with meter.stage("lines"):
            ridges, pieces = find_ridges(inquiry, rng)
            deeper = looks_deeper(inquiry, ridges, meter)
        if deeper:
            return None
        with meter.stage("remeasured units"):
            ridges, pieces = sharpen(inquiry, ridges, pieces, rng)
        with meter.stage("unexplained kinks"):
            ridges, pieces, clean = self._explain(inquiry, ridges, pieces, rng)
        return (ridges, pieces) if clean else None

    def _explain(
        self, inquiry: Inquiry, model: RidgeSum, pieces: Pieces, rng: np.random.Generator
    ) -> tuple[RidgeSum, Pieces, bool]:
        """Add what fresh lines and points show to be missing until they show nothing."""
        domain, d = inquiry.meter.domain, inquiry.input_size
        bounded = _bounded(inquiry.meter)
        num_lines, num_points, num_clean = (12, 200, 2) if bounded else (2, 20, 1)
        counts: list[int] = []
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
            num_kinks = sum(len(k.positions) for k in kinks)
            counts.append(num_kinks)
            if bounded and not inquiry.coarse and _stay(counts, len(lines)) and len(model.planes) <= FEW:
                return model, pieces, False
            if not (bounded or inquiry.coarse) and num_kinks > len(lines) * max(3, len(model.planes) // 4):
                return model, pieces, False
            missing, _ = measure_planes(residual, lines, kinks, rng)
            missing = distinct_planes(missing)
            before = len(model.planes)
            planes = add_planes(model.planes, missing)
            model = fit_affine_part(planes, pieces)
            if before > 2 and len(planes) > 3 * before + 20:
                return model, pieces, False
            if not len(planes):
                model = _affine_fit(inquiry, model, x)
                continue
            model, pieces = sharpen(inquiry, model, pieces, rng)
            known = model.planes.errors <= max(POOR, DOUBTFUL * float(np.median(model.planes.errors)))
            if pieces.valid.any() and not known.all():
                model = fit_affine_part(model.planes.take(known), pieces)
            if not len(missing):
                fitted = fit_doubtful(inquiry, model, rng)
                model = _without_least_known(model, pieces) if fitted is model else fitted
        return model, pieces, False


def _stay(counts: list[int], num_lines: int) -> bool:
    """Whether kinks that no plane explains are as many after planes were measured at those before, and some stay.

    Planes of one layer explain most of what was seen at once.
    """
    return len(counts) > 2 and counts[1] > max(SHARE_LEFT * counts[0], LEAST_LEFT * num_lines)


def _affine_fit(inquiry: Inquiry, model: RidgeSum, x: np.ndarray) -> RidgeSum:
    """Without any plane: the affine function of answers all over the domain; one small cell tells it too roughly."""
    answers, x = inquiry.meter.ask(x), inquiry.meter.snap(x)
    found = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), answers, rcond=None)[0]
    return replace(model, gradient=found[:-1].T, constant=found[-1])


def _without_least_known(model: RidgeSum, pieces: Pieces) -> RidgeSum:
    """Without the plane of the largest error and those next to it, so that fresh lines show them anew.

    A plane that was taken for two, side by side, leaves no kink on any line, only a difference on one side of both.
    """
    planes = model.planes
    if not len(planes) or not pieces.valid.any():
        return model
    worst = int(np.argmax(planes.errors))
    along = np.abs(planes.normals @ planes.normals[worst])
    beside = np.abs(np.abs(planes.offsets) - abs(planes.offsets[worst]))
    apart = (along < 1 - BESIDE**2 / 2) | (beside > BESIDE * (1 + abs(planes.offsets[worst])))
    apart[worst] = False
    return fit_affine_part(planes.take(apart), pieces)


def looks_deeper(inquiry: Inquiry, model: RidgeSum, meter: Meter) -> bool:
    """Whether the planes of one line, which crosses all of an unbounded domain's, fail at every point asked off it."""
    if _bounded(meter):
        return _few_confirmed(inquiry, model)
    x, answers = meter.transcript("lines")
    x, answers = x[:8], answers[:8]
    size = np.max(np.abs(answers), axis=1) + inquiry.slope * np.linalg.norm(x, axis=1)
    return bool(np.all(np.max(np.abs(model(x) - answers), axis=1) > 1e-6 * size))


def _few_confirmed(inquiry: Inquiry, model: RidgeSum) -> bool:
    """Whether planes seen on one line of a bounded domain often do not show where others cross them.

    Between answers that say nothing, behind a clamp, none can show.
    """
    meter, planes = inquiry.meter, model.planes
    rng = np.random.default_rng(7)
    lines = draw_lines(meter.domain, 2, inquiry.input_size, rng)
    kinks = find_kinks(inquiry, lines)
    rates = lines.directions @ planes.normals.T
    places = -(lines.origins @ planes.normals.T + planes.offsets) / np.where(rates == 0, 1e-300, rates)
    crossed = (places > lines.low[:, None]) & (places < lines.high[:, None])
    shown = np.zeros(places.shape, dtype=bool)
    for i, found in enumerate(kinks):
        tells = np.isfinite(meter.blur(found.answers))
        after = np.searchsorted(found.asked, places[i]).clip(1, len(tells) - 1)
        crossed[i] &= tells[after - 1] & tells[after]
        seen = np.concatenate([found.positions, found.unresolved])
        if len(seen):
            apart = np.min(np.abs(seen[None] - places[i][:, None]), axis=1)
            shown[i] = apart <= 1e-4 * lines.scale[i]
    return bool(crossed.sum() >= 6 and np.sum(shown & crossed) < 0.8 * crossed.sum())


def _bounded(meter: Meter) -> bool:
    return not bool(np.all(meter.domain.contains(1e7 * np.eye(meter.input_size))))


def _some(points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray | None:
    """``count`` of the points, with repetition where there are fewer; None when there are none."""
    return points[rng.integers(len(points), size=count)] if len(points) else None
