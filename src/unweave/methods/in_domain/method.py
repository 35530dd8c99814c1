"""In-domain: smooth networks of any depth from ordinary points, queries or samples, nothing far out needed.

Recovers ``f(x) = W_L phi(... phi(W_1 x + b_1) ...) + b_L`` with free norms, vector outputs, more units than
inputs and unknown widths, depth and activation, from values inside the domain (``students.overwide``): a
random student wider than the truth is fitted to all parameters at once, pruned to minimal width, and
polished. There is no theorem: the method is judged by its result, a residual at the accuracy of the answers
at minimal width, and the pipeline certifies that on fresh points. Assumes smooth hidden activations among
the candidates, and that the network bends visibly over the domain. tanh and sigmoid describe the same
functions and are one candidate; so are all sharpnesses of softplus.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import (
    ELU_LIKE,
    PIECEWISE_LINEAR,
    RELU_LIKE,
    SATURATING,
    SLOW,
    Finding,
    Problem,
    Serves,
    Traits,
)
from unweave.methods.in_domain.few_outputs import recover_in_span
from unweave.methods.in_domain.ranges import Range, Sampler, bend, choose_ranges
from unweave.methods.in_domain.reduced import recover_reduced
from unweave.solve.design import telling_points, unit_sizes
from unweave.solve.devices import use_accelerator
from unweave.solve.fit import spread_of
from unweave.solve.polish import polish
from unweave.students.effort import Candidate, Effort
from unweave.students.forms import Form
from unweave.students.nearly_affine import best_affine
from unweave.students.overwide import OverwideFit, Pool, search
from unweave.students.plenty import SIZES, num_needed, search_plenty

STAGE = "points in the domain"
CERTIFICATE_SHARE = 200
"""Queries left to the certificate when the budget is limited."""
COARSE = 1e-6
"""Relative error of the answers from which on a fit is repeated with more of them."""
VAGUE = 0.1
"""Relative standard error from which on a unit may be one too many."""
OTHERS_SECONDS = 20.0
"""Time for other activations where one explains coarse answers by parameters that these do not determine."""
SHARP, MOST = 1e-5, 16
"""Rounded answers: parameters that are not known to this are fitted to more points, so many times as many at most."""

SPARING, SPARING_ONE = 2000, 6000
"""Residuals up to which points are spared before plenty are bought; where one activation alone is tried."""

Buy = Callable[[Sampler, int], tuple[np.ndarray, np.ndarray]]


SMOOTH = (*SATURATING, *RELU_LIKE)
OTHERS = tuple(name for name in act.names() if name not in (*SMOOTH, *PIECEWISE_LINEAR, "step"))
"""Hidden activations that are tried only when they are named."""


class InDomain:
    """See the module's docstring. ``effort`` holds every bound of the search, ``time_limit`` seconds."""

    serves: Serves
    effort: Effort

    name = "in-domain"
    serves = Serves(Evidence.QUERIES, (*SMOOTH, *ELU_LIKE, *SLOW), when_named=OTHERS)

    def __init__(self, time_limit: float = 240.0, effort: Effort | None = None):
        self.effort = replace(Effort() if effort is None else effort, time_limit=time_limit)

    def suits(self, traits: Traits) -> str | None:
        return traits.why_smooth() if traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Buy points inside the domain, as few as let a student fit; in fewer outputs and directions where those do."""
        finding = recover_in_span(meter, problem, self._recover_outputs)
        return self._recover_outputs(meter, problem) if finding is None else finding

    def _recover_outputs(self, meter: Meter, problem: Problem) -> Finding:
        finding = recover_reduced(meter, problem, self.recover_directly)
        return self.recover_directly(meter, problem) if finding is None else finding

    def _effort(self, problem: Problem) -> Effort:
        return replace(self.effort, time_limit=problem.within(self.effort.time_limit))

    def recover_directly(self, meter: Meter, problem: Problem) -> Finding:
        """The same in all coordinates."""
        with meter.stage(STAGE):
            share = min(CERTIFICATE_SHARE, meter.ledger.left // 5)
            ranges = choose_ranges(meter, problem, problem.rng("ranges"))

            def affordable(num_points: int) -> int:
                return max(int(min(num_points, meter.ledger.left - share)), 0)

            def bought(sampler: Sampler, num_points: int) -> tuple[np.ndarray, np.ndarray]:
                x = sampler(affordable(num_points))
                return x, meter.ask(x) if len(x) else np.zeros((0, meter.output_size))

            pools = [Pool(r.x, r.y, partial(bought, r.draw)) for r in ranges]
            problem = replace(problem, precision=problem.precision.at(ranges[-1].y))
            found = _describe_affine(pools[0], problem)
            if found is None:
                found = _describe(self._search(pools, ranges[-1], bought, affordable, problem), problem)
            if found.network is None and affordable(1) == 0:
                found = replace(found, reason=f"{found.reason}; the budget left no more questions: raise it")
            if found.network is None or not found.network.hidden or len(pools) > 1:
                return found
            pool = pools[0]
            coarse = problem.precision.relative >= COARSE
            vague = problem.precision.kind != "float64" and _worst_error(found) > VAGUE
            limit = MOST * len(pool.x)
            if coarse or vague:
                found = _recover_from_more(pool, problem, self._effort(problem), found)
            if coarse and found.undetermined:
                found = _prefer_smaller(pool, problem, self._effort(problem), found)
            if coarse:
                return found
            most = affordable(limit - len(pool.x))
            return _sharpen(meter, ranges[0].draw, most, pool, problem, found)

    def _search(
        self, pools: list[Pool], near: Range, buy: Buy, affordable: Callable[[int], int], problem: Problem
    ) -> OverwideFit:
        """From few points, then from plenty where two hidden layers may be there, then from ever more."""
        inputs, outputs = pools[0].x.shape[1], pools[0].y.shape[1]
        names = list(dict.fromkeys(c.activation for c in _candidates(problem)))
        sparing = max(SPARING if len(names) > 1 else SPARING_ONE, 12 * (inputs + 2)) // outputs
        needed = num_needed(*SIZES[0], outputs)
        if not _may_take_plenty(problem, sparing * outputs) or affordable(2 * needed) < 2 * needed:
            return _search(pools, problem, self._effort(problem))
        effort = self._effort(problem)
        first = _search(pools, problem, replace(effort, max_points=min(sparing, effort.max_points)))
        if first.minimal:
            return first

        # with plenty of points a range may be steeper than with few, and shows the units better
        widest = max(1.0, 1 / near.scale)

        def nearby(scale: float, num_points: int) -> tuple[np.ndarray, np.ndarray]:
            return buy(near.within(scale * widest), num_points)

        limit = self._effort(problem).time_limit
        noise = problem.precision.noise if problem.precision.kind == "float32" else 0.0
        second = search_plenty(nearby, names, rng=problem.rng("plenty"), time_limit=limit, noise=noise)
        ends = [first, second]
        if not second.minimal and self._effort(problem).time_limit > 1:
            rest = replace(self._effort(problem), min_points=sparing)
            ends.append(_search(pools, problem, rest))
        best = min(ends, key=lambda end: (not end.minimal, end.network is None, end.rms))
        return replace(best, attempts=tuple(attempt for end in ends for attempt in end.attempts))


def recover_from_samples(
    x: np.ndarray, y: np.ndarray, problem: Problem, *, effort: Effort | None = None
) -> Finding:
    """The same from samples alone: subsets of the rows serve small students, all rows the final polish."""
    order = problem.rng("order of rows").permutation(len(x))
    pool = Pool(np.asarray(x)[order], np.asarray(y).reshape(len(x), -1)[order])
    return _recover([pool], problem, Effort() if effort is None else effort)


def _recover(pools: list[Pool], problem: Problem, effort: Effort) -> Finding:
    affine = _describe_affine(pools[0], problem)
    return _describe(_search(pools, problem, effort), problem) if affine is None else affine


def _describe_affine(pool: Pool, problem: Problem) -> Finding | None:
    affine = _fit_affine(pool, problem.precision.noise)
    if affine is None:
        return None
    return Finding(affine, reason="the answers are an affine function of x: there are no hidden units")


def _search(pools: list[Pool], problem: Problem, effort: Effort) -> OverwideFit:
    return search(
        pools,
        _candidates(problem),
        hidden=problem.hidden,
        noise=problem.precision.noise,
        rng=problem.rng("students"),
        effort=effort,
        engine=problem.engine,
    )


def _describe(fit: OverwideFit, problem: Problem) -> Finding:
    details = {
        "attempts": [(a.activation, a.widths, a.num_points, a.rms, a.end) for a in fit.attempts],
        "num_points": fit.num_points,
    }
    alternatives = _residuals(fit)
    if fit.network is None:
        return Finding(None, reason=_advise(fit, problem), alternatives=alternatives, details=details)
    if fit.polished is not None:
        details["singular_values"] = fit.polished.singular_values
        details["standard_errors"] = fit.polished.standard_errors
    undetermined = fit.undetermined
    if _has_idle_inputs(fit):
        undetermined = (*undetermined, "layer 1: weights of inputs that do not move in the data")
    if not fit.minimal and fit.polished is not None:
        undetermined = (*undetermined, "units: one of them could be removed")
    elif not fit.minimal:
        undetermined = (*undetermined, "all parameters: the student did not converge")
    return Finding(fit.network, fit.reason, (), undetermined, alternatives, details)


def _may_take_plenty(problem: Problem, num_residuals: int) -> bool:
    """Whether answers, exact or rounded, may be those of two layers, and no accelerator takes large students anyway."""
    two = problem.hidden is None and problem.max_depth >= 2
    accelerated = use_accelerator(50 * num_residuals, num_residuals // 3)
    return two and problem.precision.kind in ("float64", "float32") and not accelerated


def _recover_from_more(pool: Pool, problem: Problem, effort: Effort, first: Finding) -> Finding:
    """The network of ``first`` fitted and pruned again on four times its points; ``first`` if nothing fits.

    With coarse answers the fewest points that let a student fit may leave units that more points do without.
    """
    network = first.network
    assert network is not None
    widths, activation = network.hidden, network.activations[0]
    once = replace(effort, min_points=4 * len(pool.x), max_points=4 * len(pool.x) + 1)
    again = _recover([pool], replace(problem, hidden=widths, activations=(activation,)), once)
    if again.network is None:
        return first
    return replace(again, alternatives={**first.alternatives, **again.alternatives})


def _prefer_smaller(pool: Pool, problem: Problem, effort: Effort, first: Finding) -> Finding:
    """Another activation that explains the same answers with fewer parameters, all of them determined, if there is one.

    Coarse answers of few units may be those of many units of another kind: a tanh is two softplus within rounding.
    """
    network = first.network
    assert network is not None
    others = tuple(name for name in problem.activations if name != network.activations[0])
    if not others:
        return first
    size = len(pool.x)
    seconds = min(effort.time_limit, OTHERS_SECONDS)
    bounded = replace(effort, min_points=size - 1, max_points=size, time_limit=seconds)
    again = _recover([pool], replace(problem, activations=others), bounded)
    smaller = again.network is not None and again.network.num_parameters < network.num_parameters
    if not smaller or again.undetermined:
        return first
    return replace(again, alternatives={**first.alternatives, **again.alternatives})


def _sharpen(meter: Meter, draw: Sampler, most: int, pool: Pool, problem: Problem, found: Finding) -> Finding:
    """Rounded answers (float32): points are chosen that bring the standard errors of the parameters to ``SHARP``."""
    network, noise = found.network, problem.precision.noise
    goal = SHARP / 2  # the worst of many parameters is two standard errors away
    if network is None or noise == 0 or found.undetermined or not _worst_error(found) > goal:
        return found
    chosen = telling_points(network, pool.x, draw, noise=noise, goal=goal, most=most)
    if not len(chosen):
        return found
    x = np.concatenate([pool.x, chosen])
    polished = polish(network, x, np.concatenate([pool.y, meter.ask(chosen)]), noise=noise)
    changed = {"standard_errors": polished.standard_errors, "singular_values": polished.singular_values}
    return replace(
        found, network=polished.network, details={**found.details, **changed, "num_points": len(x)}
    )


def _worst_error(found: Finding) -> float:
    """The largest standard error, relative to the largest parameter of its unit; 0 where none is stated."""
    errors = found.details.get("standard_errors")
    if found.network is None or errors is None:
        return 0.0
    return float(np.max(errors / unit_sizes(found.network)))


def _candidates(problem: Problem) -> list[Candidate]:
    """Every activation at every depth allowed, shallow first; tanh and sigmoid are one."""
    names: list[str] = []
    for name in problem.activations:
        twin = {"tanh": "sigmoid", "sigmoid": "tanh"}.get(name)
        if name not in names and twin not in names:
            names.append(act.get(name).name)
    depths = range(1, problem.max_depth + 1) if problem.hidden is None else [len(problem.hidden)]
    return [Candidate(name, depth) for depth in depths for name in names]


def _fit_affine(pool: Pool, noise: float) -> Network | None:
    """The affine network that explains everything, when there is one."""
    x, y = pool.take(2 * (pool.x.shape[1] + 2))
    if len(x) < x.shape[1] + 3:
        return None
    if bend(x, y) > max(1e-12, 3 * noise / spread_of(y)):
        return None
    coefficients = best_affine(x, y)[0].T
    return Network([coefficients[:, :-1]], [coefficients[:, -1]], ["identity"])


def _has_idle_inputs(fit: OverwideFit) -> bool:
    """Whether weights of the first layer were left open because the data do not move along some input."""
    if fit.polished is None or fit.network is None or Form.of(fit.network.activations[0]).free_per_unit:
        return False
    return fit.minimal and fit.polished.null_directions.shape[1] > 0


def _residuals(fit: OverwideFit) -> dict[str, float]:
    """The least residual each activation reached at the largest size it was tried at."""
    latest: dict[str, dict[int, float]] = defaultdict(dict)
    for attempt in fit.attempts:
        at_size = latest[attempt.activation]
        at_size[attempt.num_points] = min(at_size.get(attempt.num_points, np.inf), attempt.rms)
    return {name: at_size[max(at_size)] for name, at_size in latest.items()}


def _advise(fit: OverwideFit, problem: Problem) -> str:
    tried = ", ".join(problem.activations)
    return (
        f"{fit.reason} (least relative residual {fit.rms:.1e} with {tried}); the true activation or depth "
        f"may be outside what was tried: name it with activation= or hidden=, or give more answers"
    )
