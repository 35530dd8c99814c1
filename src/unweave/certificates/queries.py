"""The certificate from queries: the recovered network against answers to questions that no fit has seen.

*Function.* The recovered network is compared with the model at points never used in fitting: some drawn from the
domain, some on its edge, some where the network's own units are most active. An error is measured against the
larger of the outputs' spread and ``|x| |grad f(x)|``, the effect of a relative change of the input: far out, near
a hyperplane, even the model's own rounding moves the answer by that much times 1e-16.

*What follows.* If all n points drawn from the domain agree, then with 95 % confidence the fraction of the domain
where the error is larger than the largest seen is at most ``1 - 0.05^(1/n)``.

*Further checks* where functions have kinks or jumps, a search for places of disagreement, and those the method has
named.

*Parameters.* The Jacobian of the network on the answers it was found from gives a standard error for each parameter
at the measured noise level. Units whose parameters it does not determine are named. Where a method means a network
as it is inside a bounded domain, what no point of the domain shows is counted and set aside (``visible``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.certificates.answers import MOST_BARS
from unweave.certificates.base import Check, FreshQueries, Wanted
from unweave.certificates.certificate import EXACT, NUM_POINTS, Certificate, name_units
from unweave.certificates.disagreement import check_disagreement
from unweave.certificates.first_layer import PLANE_ERROR, check_planes
from unweave.certificates.kinks import check_kinks
from unweave.certificates.steps import check_faces
from unweave.certificates.visible import Visible, measure_visible
from unweave.core import activations as act
from unweave.core.deadline import MORE_TIME
from unweave.core.errors import BudgetSpent
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.evidence.precision import Precision
from unweave.solve.weighted import (
    MOST_ENTRIES,
    MOST_PARAMETERS,
    relative_errors,
    time_allows,
    weighted_system,
)

SHOWN, STANDARD_ERRORS = "what the domain shows", "standard errors of the parameters"
"""Names of checks."""
TWINS = 100.0
"""Hyperplanes closer than so many relative errors of an answer are not two: no answer tells them apart."""
SAME = 1e-12
CLOSE = 1e-3
"""The same where standard errors could not be computed."""
ENOUGH = 2
"""Answers for each number that they determine, where there are too many to use all."""
SHARE_OF_UNITS = 0.8
"""Of those answers, which are taken because one or another unit moves there."""
MOVING = 0.1
"""Derivative of a unit, relative to its largest at the answers, from which on it moves."""
MOST_COMPARED = 1000
"""Points at which hyperplanes are compared."""
LOOSEST = 0.1
"""However rough the answers are, a larger relative error on fresh ones is no agreement."""


def certify(
    network: Network,
    meter: Meter,
    precision: Precision,
    rng: np.random.Generator,
    *,
    num_points: int = NUM_POINTS,
    wanted: Sequence[Wanted] = (),
    in_domain: bool = False,
) -> Certificate:
    """Check ``network`` on fresh queries, charged to the stage ``certificate``.

    ``in_domain``: parameters are meant up to changes that leave the function on the whole domain as it is.
    """
    if network.is_open:
        return _certify_first_layer(network, meter, precision, rng)
    used = meter.transcript()
    num_points = int(min(num_points, meter.ledger.left))
    x, from_domain = _fresh_points(network, meter, num_points, rng)
    with meter.stage(CERTIFICATE):
        y = meter.ask(x)
    x = meter.snap(x)
    steps = "step" in network.hidden_activations
    # Decisions look like answers rounded to 0 and 1, but agree or do not.
    tolerance = EXACT if steps else min(max(EXACT, 12 * precision.relative), LOOSEST)
    errors = relative_errors(network, x, y, MOST_BARS * meter.blur(y) / tolerance)
    noise = np.hypot(precision.noise, meter.blur(used[1])) if meter.is_squashed else precision.noise
    deviations: np.ndarray | None = None
    condition: float | None = None
    checks: list[Check] = []
    if in_domain:
        visible = measure_visible(
            network,
            used[0],
            meter.domain,
            float(np.median(noise)),
            precision.unit,
            rng,
        )
        deviations, condition = visible.deviations, visible.condition
        checks.append(_hidden_directions(visible))
    elif not steps:
        rows = choose_answers(network, *used, rng)
        bars = noise[rows] if isinstance(noise, np.ndarray) else noise
        system = None
        if time_allows(network, used[1][rows], late=True):
            plain = not isinstance(noise, np.ndarray) and network.activations[-1] == "identity"
            system = weighted_system(
                network,
                used[0][rows],
                used[1][rows],
                bars,
                unit=precision.unit,
                propagated=precision.kind == "float32" and plain,
            )
        else:
            checks.append(Check(STANDARD_ERRORS, None, reason=MORE_TIME, needed=True))
        if system is not None:
            deviations, condition = system.unit_errors(network), system.information.condition
    fresh = FreshQueries(meter, precision, rng)
    if network.is_piecewise_linear:
        checks += check_kinks(network, fresh, tolerance)
    if steps:
        checks += check_faces(network, fresh)
    suspects = np.zeros((0, network.input_size))
    if not steps:
        search, suspects = check_disagreement(network, fresh, (x, y))
        checks += search
    checks += [check.make(network, fresh) for check in wanted]
    return Certificate.of_errors(
        errors,
        from_domain,
        num_points=len(x),
        tolerance=tolerance,
        condition=condition,
        max_standard_error=None if deviations is None else float(np.max(deviations, initial=0.0)),
        undetermined=(
            *(() if deviations is None else name_units(network, deviations)),
            *name_twins(network, used[0], TWINS * precision.relative if deviations is not None else CLOSE),
        ),
        checks=tuple(checks),
        fresh={
            "answers": y,
            "outputs": network(x),
            "errors": errors,
            **({"suspects": suspects} if len(suspects) else {}),
            **({} if deviations is None else {"deviations": deviations}),
        },
    )


def choose_answers(network: Network, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which answers the standard errors are computed from: all, or where these are too many enough for every unit.

    Fewer answers leave larger errors, so that nothing is called determined that is not. A unit is told by answers at
    which it moves: one that is saturated almost everywhere is told by few of them, and of answers far from the origin
    most tell nothing of any. What room is left goes to those where most units of a saturating network move.
    """
    count, d = network.num_parameters, network.input_size
    if y.size * count <= MOST_ENTRIES or count > MOST_PARAMETERS:
        return np.arange(len(x))
    most = int(MOST_ENTRIES / (count * network.output_size))
    if network.is_piecewise_linear:
        aimed = _answers_of_each(network, x, int(SHARE_OF_UNITS * most), rng)
        others = rng.permutation(np.setdiff1d(np.arange(len(x)), aimed))
        return np.concatenate([aimed, others[: most - len(aimed)]])
    unit, arguments = act.get(network.activations[0]), x @ network.weights[0].T + network.biases[0]
    quota = min(ENOUGH * (d + 2), int(SHARE_OF_UNITS * most) // arguments.shape[1])
    chosen = []
    slopes = np.abs(unit.first(arguments, np))
    for own in slopes.T:
        order = rng.permutation(len(x))
        moving = np.minimum(own[order], MOVING * np.max(own))
        chosen.append(order[np.argsort(-moving, kind="stable")[:quota]])
    aimed = np.unique(np.concatenate(chosen))
    others = rng.permutation(np.setdiff1d(np.arange(len(x)), aimed))
    if np.all(np.isfinite(unit.limits)):
        others = others[np.argsort(-np.sum(slopes[others], axis=1), kind="stable")]
    return np.concatenate([aimed, others[: most - len(aimed)]])


def _answers_of_each(network: Network, x: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Answers at which every unit of every layer is on, the rarest first: a unit that is rarely on is told by few."""
    on, quotas, h = [], [], x
    for w, b, name in zip(network.weights, network.biases, network.hidden_activations, strict=False):
        z = h @ w.T + b
        on.append(z > 0)
        quotas += [ENOUGH * (w.shape[1] + 2)] * len(b)
        h = act.get(name)(z)
    sides = np.hstack(on)
    counts, taken = sides.sum(axis=0), np.zeros(len(x), dtype=bool)
    for unit in np.argsort(counts, kind="stable"):
        lacking = min(quotas[unit] - int(np.sum(sides[taken, unit])), most - int(np.sum(taken)))
        if lacking > 0:
            taken[rng.permutation(np.flatnonzero(sides[:, unit] & ~taken))[:lacking]] = True
    return np.flatnonzero(taken)


def name_twins(network: Network, x: np.ndarray, closest: float) -> tuple[str, ...]:
    """First-layer units of one hyperplane, as far as the points ``x`` can tell: they may be one unit, or more."""
    # all along the run: its first questions may lie on one line; and far ones must not drown those nearby
    x = x[np.linspace(0, len(x) - 1, min(len(x), MOST_COMPARED)).astype(int)]
    heights = x @ network.weights[0].T + network.biases[0]
    heights /= 1 + np.linalg.norm(x, axis=1, keepdims=True)
    heights = heights / np.maximum(np.linalg.norm(heights, axis=0), 1e-300)
    if not network.hidden or len(heights) < 2:
        return ()
    cosines = np.triu(heights.T @ heights, 1)
    if np.isinf(act.get(network.activations[0]).limits).any():
        cosines = np.maximum(cosines, 0.0)  # the two sides of one hyperplane are two units
    twins = []
    for i, j in np.argwhere(np.abs(cosines) > 1 - 1e-5)[:MOST_COMPARED]:
        if np.linalg.norm(heights[:, i] - np.sign(cosines[i, j]) * heights[:, j]) < max(closest, SAME):
            twins.append(f"layer 1, units {i} and {j}: one hyperplane, not two that differ")
    return tuple(twins)


def _hidden_directions(visible: Visible) -> Check:
    """What the domain does not show of the parameters, in words; it holds nothing up."""
    count, words = visible.num_hidden, []
    if count:
        words.append(
            f"{count} directions of the parameters change nothing in this domain that its answers show"
        )
    if visible.alone:
        words.append("the network is large: standard errors are those of each unit with all others held")
    return Check(SHOWN, True, {"num_hidden": float(count)}, "; ".join(words))


def _certify_first_layer(
    network: Network, meter: Meter, precision: Precision, rng: np.random.Generator
) -> Certificate:
    """Without the rest of the network answers cannot be compared; the places of kinks on fresh lines can."""
    try:
        errors, confirmed, check = check_planes(network, FreshQueries(meter, precision, rng))
    except BudgetSpent:
        return Certificate(0.0, 0.0, 0, PLANE_ERROR, 1.0)
    return Certificate.of_errors(
        errors,
        0,
        num_points=len(errors),
        tolerance=PLANE_ERROR,
        undetermined=tuple(
            f"layer 1, unit {i}: its hyperplane does not show on fresh lines"
            for i in np.flatnonzero(~confirmed)
        ),
        checks=(check,),
        num_needed=len(network.biases[0]),
    )


def _fresh_points(network: Network, meter: Meter, num_points: int, rng) -> tuple[np.ndarray, int]:
    """Half drawn from the domain, a quarter on its edge, a quarter where the units are active, all inside it.

    Points that were asked before are left out and made good by more from the domain.
    """
    quarter = num_points // 4
    edge = meter.domain.edge(quarter, meter.input_size, rng)
    active = active_points(network, quarter, rng)
    others = np.concatenate([edge, active[meter.domain.contains(active)]])
    others = others[meter.is_new(others)]
    rest = num_points - len(others)
    inner = meter.domain.sample(2 * rest, meter.input_size, rng)
    inner = inner[meter.is_new(inner)][:rest]
    return np.concatenate([inner, others]), len(inner)


def active_points(network: Network, num_points: int, rng: np.random.Generator) -> np.ndarray:
    """Points whose first-layer arguments are of order one: normal, whitened by the network's own rows."""
    rows = network.weights[0]
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    keep = values > 1e-8 * values[0] if values[0] > 0 else np.zeros(len(values), dtype=bool)
    centre = -np.linalg.pinv(rows) @ network.biases[0] if keep.any() else np.zeros(rows.shape[1])
    spread = vectors[keep] / values[keep, None] * np.sqrt(len(rows) / max(int(keep.sum()), 1))
    return centre + 1.5 * rng.standard_normal((num_points, len(spread))) @ spread
