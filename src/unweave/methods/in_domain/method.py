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
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unweave.core import activations as act
from unweave.core.domains import Ball, Normal
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
from unweave.methods.in_domain.reduced import recover_reduced
from unweave.solve.design import telling_points, unit_sizes
from unweave.solve.fit import spread_of
from unweave.solve.polish import polish
from unweave.students.effort import Candidate, Effort
from unweave.students.forms import Form
from unweave.students.nearly_affine import best_affine
from unweave.students.overwide import OverwideFit, Pool, search

STAGE = "points in the domain"
CERTIFICATE_SHARE = 200
"""Queries left to the certificate when the budget is limited."""
COARSE = 1e-6
"""Relative error of the answers from which on a fit is repeated with more of them."""
LOOK = 4
"""Points asked to choose a range, for each input."""
STEEP = 0.82
"""Deviation from the best affine function, relative to the spread, beyond which answers look like noise."""
SMALL = 0.25
"""Fraction of the first range from which down that range is asked, too."""
VAGUE = 0.1
"""Relative standard error from which on a unit may be one too many."""
SHARP, MOST = 1e-5, 16
"""Rounded answers: parameters that are not known to this are fitted to more points, so many times as many at most."""

Sampler = Callable[[int], np.ndarray]


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
            ranges = _choose_ranges(meter, problem, problem.rng("ranges"))

            def affordable(num_points: int) -> int:
                return max(int(min(num_points, meter.ledger.left - share)), 0)

            def bought(sampler: Sampler, num_points: int) -> tuple[np.ndarray, np.ndarray]:
                x = sampler(affordable(num_points))
                return x, meter.ask(x) if len(x) else np.zeros((0, meter.output_size))

            pools = [Pool(r.x, r.y, partial(bought, r.draw)) for r in ranges]
            problem = replace(problem, precision=problem.precision.at(ranges[-1].y))
            found = _recover(pools, problem, self._effort(problem))
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
            if coarse:
                return found
            most = affordable(limit - len(pool.x))
            return _sharpen(meter, ranges[0].draw, most, pool, problem, found)


def recover_from_samples(
    x: np.ndarray, y: np.ndarray, problem: Problem, *, effort: Effort | None = None
) -> Finding:
    """The same from samples alone: subsets of the rows serve small students, all rows the final polish."""
    order = problem.rng("order of rows").permutation(len(x))
    pool = Pool(np.asarray(x)[order], np.asarray(y).reshape(len(x), -1)[order])
    return _recover([pool], problem, Effort() if effort is None else effort)


def _recover(pools: list[Pool], problem: Problem, effort: Effort) -> Finding:
    noise = problem.precision.noise
    affine = _fit_affine(pools[0], noise)
    if affine is not None:
        return Finding(affine, reason="the answers are an affine function of x: there are no hidden units")
    candidates = _candidates(problem)
    fit = search(
        pools,
        candidates,
        hidden=problem.hidden,
        noise=noise,
        rng=problem.rng("students"),
        effort=effort,
        engine=problem.engine,
    )
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


@dataclass(frozen=True)
class Range:
    """A part of the domain to draw points from, with those that were asked to choose it."""

    draw: Sampler
    x: np.ndarray
    y: np.ndarray


def _choose_ranges(meter: Meter, problem: Problem, rng: np.random.Generator) -> list[Range]:
    """Where to ask: a part of the domain over which the answers bend, but not so much that they look like noise.

    Within a small enough ball every smooth network looks affine, over a large one with steep rows like
    noise; both hide its units. So the range is halved or tripled, within the domain, until an affine
    function explains a part of the answers but not all. Over a range much smaller than the first one, exact
    answers of some units are nearly those of others: then the first range is asked too, which takes more points
    until a student fits, and none comes close in vain.
    """
    domain, d = meter.domain, meter.input_size
    reach = domain.reach(d)
    if not np.isfinite(reach) or isinstance(domain, Ball):
        centre = 0.0 if not isinstance(domain, Ball) or domain.centre is None else domain.centre
        largest = domain.radius if isinstance(domain, Ball) else min(reach, 1e6)
        radius = min(2 * np.sqrt(d), largest)

        def draw(scale: float, n: int) -> np.ndarray:
            return meter.snap(centre + Ball(scale * radius).sample(n, d, rng) if n else np.zeros((0, d)))

        most = largest / radius
    else:
        middle = domain.sample(4096, d, rng).mean(axis=0)
        most = 1.5 if isinstance(domain, Normal) else 1.0

        def draw(scale: float, n: int) -> np.ndarray:
            return meter.snap(middle + scale * (domain.sample(n, d, rng) - middle))

    scale, flat, tried = 1.0, max(0.1, 100 * problem.precision.relative), []
    for _ in range(12):
        x = draw(scale, LOOK * (d + 2))
        tried.append(Range(partial(draw, scale), x, meter.ask(x)))
        bend = _bend(x, tried[-1].y)
        if bend > STEEP:
            most, scale = scale, scale / 2
        elif bend < flat and scale < most:
            scale = min(3 * scale, most)
        else:
            break
    both = scale <= SMALL and problem.precision.kind == "float64"
    return [tried[0], tried[-1]] if both else [tried[-1]]


def _bend(x: np.ndarray, y: np.ndarray) -> float:
    """Root mean square deviation from the best affine function, relative to the spread."""
    rest = best_affine(x, y)[1]
    return float(np.sqrt(np.sum(rest**2) / max(len(x) - x.shape[1] - 1, 1) / y.shape[1])) / spread_of(y)


def _fit_affine(pool: Pool, noise: float) -> Network | None:
    """The affine network that explains everything, when there is one."""
    x, y = pool.take(2 * (pool.x.shape[1] + 2))
    if len(x) < x.shape[1] + 3:
        return None
    if _bend(x, y) > max(1e-12, 3 * noise / spread_of(y)):
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
