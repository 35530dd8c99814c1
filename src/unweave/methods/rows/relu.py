"""One hidden layer of (leaky) relu units from rows (x, f(x)) alone, exact or noisy, width unknown.

Recovers ``f(x) = c_0 + sum_i c_i relu(w_i.x + b_i)``, several outputs and more units than inputs included, from
recorded rows (Awasthi, Tang and Vijayaraghavan 2021 for Gaussian inputs; no theorem covers the fit below, which needs
no distribution: it is judged by rows it has not seen). Stages:

1. a student without signs, wider than the truth, is fitted and repaired until it explains the rows to rounding, or to
   a level that wider ones do not lower (``relu_search``);
2. units are removed as long as the residual allows it (optimal brain surgeon): the least width that explains the rows;
3. the affine part says on which side each unit is active, ``beta = sum_i s_i c_i w_i / 2`` (``relu.sides``): a linear
   solve, or an enumeration of signs; where several choices give the same function (dependent weights), that is said;
4. exact rows: least squares to the last digit. Noisy rows: Gauss-Newton on every row, read as a stream, which
   reaches the Cramer-Rao bound; the level is confirmed by a second, independent fit and by a test that nothing is
   left in the residuals.

Units whose kink no row straddles look linear or absent, and cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from unweave.evidence.kinds import Evidence
from unweave.evidence.rows import Samples
from unweave.methods.base import PIECEWISE_LINEAR, Finding, Problem, Serves, Traits
from unweave.methods.relu.one_layer.ridges import RidgeSum
from unweave.methods.relu.one_layer.sides import assemble, orient_ridges
from unweave.methods.rows.ranking import reason_of_rows
from unweave.methods.rows.relu_moments import kinks_from_moments, moments_pay
from unweave.methods.rows.relu_noise import Opinion, agree, looks_white
from unweave.methods.rows.relu_rows import KinkRows
from unweave.methods.rows.relu_search import EXACT, Effort, KinkFit, KinkSearch
from unweave.methods.rows.relu_signs import likeliest_signs
from unweave.solve.polish import polish
from unweave.solve.streamed import fit_streamed

SAFETY = 6.0
MOST_DOUBTS = 3
"""Noise levels that were not confirmed after which the search ends."""
NUM_OPINIONS = 4
"""Independent fits of noisy rows, at most; two must agree."""


@dataclass(frozen=True)
class ReluSamples:
    """``method="relu-samples"``; ``effort`` holds every bound of the search."""

    effort: Effort = field(default_factory=Effort)
    moments: bool = True
    """Whether many Gaussian rows may start from their moments rather than at random."""
    name: str = "relu-samples"
    serves: ClassVar[Serves] = Serves(Evidence.ROWS, PIECEWISE_LINEAR)

    def suits(self, traits: Traits) -> str | None:
        return reason_of_rows(traits, self.serves)

    def recover(self, samples: Samples, problem: Problem) -> Finding:
        """Search, narrow down, orient, polish."""
        rows = KinkRows.of(samples, problem)
        if rows.bend <= 1e-12:
            return Finding(
                rows.affine, reason="the answers are an affine function of x: there are no hidden units"
            )
        samples.report("search for kinks")
        effort = replace(self.effort, time_limit=problem.within(self.effort.time_limit))
        search = rows.search(problem.rng("search for kinks"), effort)
        if self.moments and moments_pay(samples):
            samples.report("moments")
            kinks = kinks_from_moments(samples, problem.rng("moments"))
            search.kinks = None if kinks is None else rows.standardised(kinks)
        best: Finding | None = None
        num_doubts = 0
        for found in search.candidates(_width(problem)):
            samples.report("least width")
            if found.noise == 0:
                finding = self._finish_exactly(rows, found, problem, search)
                settled = finding.network is not None
            else:
                finding, settled = self._finish_noisy(rows, found, problem, search, samples)
            best = finding if best is None or settled else best
            num_doubts += not settled
            if settled or num_doubts == MOST_DOUBTS:
                break
            # what looked like noise was not settled: more rows a parameter tell more
            search.effort = replace(search.effort, rows_per_parameter=3 * search.effort.rows_per_parameter)
            samples.report("search for kinks")
        least = min((r.level for r in search.rungs), default=rows.bend)
        if best is None:
            best = rows.flat() if search.is_flat else _nothing(rows, search, problem)
        details = {**best.details, "rungs": [(r.width, r.num_rows, r.rms, r.end) for r in search.rungs]}
        alternatives = {"relu": details.pop("residual", least), "affine": rows.bend}
        return replace(best, alternatives=alternatives, details=details)

    def _finish_exactly(
        self, rows: KinkRows, found: KinkFit, problem: Problem, search: KinkSearch
    ) -> Finding:
        layout, fit = rows.narrow(found, search)
        if fit.rms > EXACT:
            return Finding(
                None, reason="a student fits the rows but cannot be narrowed down; another seed= may"
            )
        ridges, misfit = rows.refit(rows.ridges(layout, fit.parameters), found.num_rows)
        ridges, _ = rows.drop_surplus(ridges, misfit, found.num_rows, 0.0)
        finding = _orient(ridges, problem)
        assert finding.network is not None
        count = min(len(rows.x), max(found.num_rows, 5 * finding.network.num_parameters))
        polished = polish(finding.network, rows.x[:count], rows.y[:count])
        network = polished.network
        wrong = np.max(np.abs(network(rows.x) - rows.y), axis=1) > 1e-9 * rows.spread
        if wrong.any():
            finding = _with_few_unexplained(finding, int(wrong.sum()), len(rows.x))
        return replace(finding, network=network, details={**finding.details, "residual": polished.rms})

    def _finish_noisy(
        self, rows: KinkRows, found: KinkFit, problem: Problem, search: KinkSearch, samples: Samples
    ) -> tuple[Finding, bool]:
        """The network at the noise that independent fits find, and whether nothing speaks against it."""
        opinions, confirmed = self._collect_opinions(rows, found, problem, search, samples)
        best = min(opinions, key=lambda o: o.misfit)
        samples.report("fit of all rows")
        finding = _orient(best.ridges, problem, x=rows.x[: best.num_rows], noise=best.misfit)
        assert finding.network is not None
        network, sums = fit_streamed(finding.network, samples.batches)
        num_free = network.num_parameters - sum(network.hidden)
        noise = float(np.sqrt(sums.loss / max(sums.num_residuals - num_free, 1)))
        details = {**finding.details, "residual": noise / rows.spread, "num_opinions": len(opinions)}
        doubt = ""
        if not confirmed:
            doubt = "independent fits of the noisy rows differ; more rows would help"
        elif not looks_white(network, rows.x, rows.y, noise, problem.rng("residuals")):
            doubt = "the residuals still depend on x: units are missing, or the activation is another one"
        if doubt:
            finding = replace(
                finding, reason=doubt, undetermined=(*finding.undetermined, "units: their number")
            )
        return replace(finding, network=network, noise=noise, details=details), not doubt

    def _collect_opinions(
        self, rows: KinkRows, found: KinkFit, problem: Problem, search: KinkSearch, samples: Samples
    ) -> tuple[list[Opinion], bool]:
        """Independent fits, the first from ``found``, until two agree."""
        opinions = [rows.opinion(found, search)]
        for turn in range(1, NUM_OPINIONS):
            samples.report(f"independent fit {turn + 1}")
            others = rows.shuffled(problem.rng("order of rows", turn))
            again = others.search(problem.rng("search for kinks", turn), search.effort)
            again.known_noise = opinions[0].misfit / rows.spread
            second = next(again.candidates(opinions[0].width), None)
            if second is None:
                break
            opinion = others.opinion(second, again)
            confirmed = any(agree(other, opinion, rows.x[:4000]) for other in opinions)
            opinions.append(opinion)
            if confirmed:
                return opinions, True
        return opinions, False


def _orient(ridges: RidgeSum, problem: Problem, x: np.ndarray | None = None, noise: float = 0.0) -> Finding:
    """The network with its sides, and what the function leaves open; noisy rows ``x`` give the likeliest sides."""
    planes = ridges.planes
    missing = _missing_units(len(planes), problem)
    sides = None if x is None or "relu" not in problem.activations else likeliest_signs(ridges, x, noise)
    if sides is not None and sides.explain:
        unsure = np.flatnonzero(~sides.determined)
        return Finding(
            assemble(ridges, sides.signs),
            warnings=missing,
            undetermined=tuple(f"layer 1, unit {i}: the side it is active on" for i in unsure),
            reason=f"the signs of {len(unsure)} units are not determined by the rows" if len(unsure) else "",
        )
    bends = np.max(np.abs(ridges.bends), axis=(1, 2), initial=0.0)
    rounding = 1e-13 * (float(np.max(np.abs(ridges.gradient))) + float(bends.sum()))
    error = SAFETY * (2 * float(np.linalg.norm(planes.errors * bends)) + rounding)
    finding = orient_ridges(
        ridges, problem, error=error, warnings=missing,
        always_active="a unit active in every row",
    )  # fmt: skip
    sides = [part for part in finding.undetermined if "flipping it with others" in part]
    if sides and not finding.reason:
        finding = replace(
            finding,
            reason=f"the signs of {len(sides)} units are not determined by the function: with other signs the same "
            "answers come out everywhere; the function itself is recovered",
        )
    return finding


def _with_few_unexplained(finding: Finding, num_wrong: int, num_rows: int) -> Finding:
    part = f"{num_wrong} of {num_rows} rows are not explained"
    return replace(
        finding,
        undetermined=(*finding.undetermined, f"units active in few rows: {part}"),
        reason=f"{part}: a unit active in only a few rows, or wrong answers there; more rows would tell",
    )


def _missing_units(num_found: int, problem: Problem) -> tuple[str, ...]:
    width = _width(problem)
    if width is None or width <= num_found:
        return ()
    return (
        f"{width - num_found} of the {width} hidden units cannot be seen in the rows: never active there, active in "
        "every row, without an output weight, or sharing a kink with another unit",
    )


def _nothing(rows: KinkRows, search: KinkSearch, problem: Problem) -> Finding:
    """Why no student fitted, and what would help."""
    n, d = rows.x.shape
    width = _width(problem)
    widest = max((r.width for r in search.rungs), default=0)
    needed = 4 * ((width or 1) + 1) * (d + 1)
    if width is not None and n < 0.8 * needed:
        reason = f"{n} rows are too few for {width} units of {d} inputs; about {needed} are needed"
    elif width is None and widest * (d + 1) * 8 > n:
        reason = (
            f"no layer of up to {widest} relu units explains the {n} rows: more units need about four rows for each of "
            "their parameters, noisy answers more; give more rows, or the noise with noise="
        )
    else:
        reason = (
            "no single hidden layer of relu units explains the rows to rounding or to one noise level; try another "
            "activation= or hidden=, or another seed="
        )
    return Finding(None, reason=reason)


def _width(problem: Problem) -> int | None:
    return problem.hidden[0] if problem.hidden is not None and len(problem.hidden) == 1 else None
