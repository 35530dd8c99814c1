"""Rounded answers are intervals, half a step to either side: a claim keeps to all, and no other unit does as well.

*Intervals.* The true network lies in the interval of every answer. One that was fitted to n answers is off by its own
error besides, ``step / sqrt(12)`` times the root of its leverage at that point; beyond the half step and four of
those it is another function.

*The runner-up.* Two or three digits leave room for more than one kind of unit: a wider network of tanh units follows
one unit of another kind to a hundredth. So every other activation of the family is fitted from the found network, at
the same widths, to the answers the network was found from. If one of them keeps to all intervals as well, the answers
do not say which it is, and nothing is claimed. Nor is anything where single units follow each other: such a chain takes
the shape of one unit of another kind. A bend can always be a little round: how much is stated (``bends``), and where
that is not small beside the spread of the answers, nothing is claimed either.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from unweave.certificates.alternatives import (
    RUNNER_UP,
    describe_runners_up,
    ordinary,
    relatives,
    with_activation,
)
from unweave.certificates.base import Check
from unweave.certificates.bends import roundest_bend
from unweave.core.network import Network
from unweave.evidence.precision import Precision
from unweave.solve.descend import End, Settings
from unweave.solve.fit import fit_network
from unweave.solve.layout import Layout
from unweave.solve.weighted import answer_accuracy

INTERVALS = "answers within their rounding"
"""Name of the check."""
BENDS = "sharpness of bends"
"""Name of the check of kinked networks."""
ROUNDEST = 0.03
"""A bend that may be rounded off by more than this, relative to the spread of the answers, may be none."""
DEVIATIONS = 4.0
MOST_ENTRIES = 2e7
"""Larger Jacobians are not factorised; the leverage is then taken to be the same everywhere."""

Answers = tuple[np.ndarray, np.ndarray]


def check_rounding(network: Network, used: Answers, every: Answers, precision: Precision) -> list[Check]:
    """Whether ``network``, found from the answers ``used``, keeps to the interval of every answer, and it alone."""
    used = ordinary(used)
    allowed = _allowed(network, used, every[0], precision.step)
    beyond = _beyond(network, every, allowed)
    worst = float(np.max(beyond, initial=0.0))
    count = int(np.sum(beyond > 1))
    intervals = Check(
        INTERVALS,
        count == 0,
        {"num_answers": float(len(every[0])), "num_beyond": float(count), "worst": worst},
        f"{len(every[0]) - count:,} of {len(every[0]):,} rounded answers lie within half a step of the network",
        ""
        if not count
        else f"{count} of {len(every[0]):,} answers lie farther from the network than rounding explains",
        local=True,
    )
    if count:
        return [intervals]
    others = _exclude_others(network, used, every, precision)
    if not network.is_piecewise_linear or not network.hidden:
        return [intervals, others]
    return [intervals, others, _check_bends(network, every[0], allowed, precision)]


def _check_bends(network: Network, x: np.ndarray, allowed: np.ndarray, precision: Precision) -> Check:
    """How round the bends may be, and whether that leaves them bends."""
    roundest = roundest_bend(network, x, allowed)
    passed = roundest <= ROUNDEST * precision.scale
    kind = network.hidden_activations[0]
    return Check(
        BENDS,
        passed,
        {"roundest": roundest},
        f"behind this rounding units that differ from {kind} by less than {roundest:.1e} would not show",
        ""
        if passed
        else f"units whose bends are rounded off by up to {roundest:.1e}, where the answers spread by "
        f"{precision.scale:.1e}, explain them as well as {kind}: more digits would tell",
        local=True,
        needed=True,
    )


def _exclude_others(network: Network, used: Answers, every: Answers, precision: Precision) -> Check:
    """Fit the other activations of the family at the same widths."""
    tried, alike = relatives(network), []
    for name in tried:
        fit = fit_network(
            with_activation(network, name),
            *used,
            settings=Settings(target=0.3 * precision.relative, max_steps=60),
        )
        if fit.end is End.TIME:
            return Check(RUNNER_UP, None, needed=True)
        allowed = _allowed(fit.network, used, every[0], precision.step)
        if np.max(_beyond(fit.network, every, allowed), initial=0.0) <= 1:
            alike.append(name)
    if (1, 1) in pairwise(network.hidden):  # one unit of one unit bends as a single one of another kind may
        alike.append("single")
    if network.activations[-1] in ("relu6", "hardtanh") or network.activations[-1].startswith("clamp"):
        alike.append("smoother")  # a bound that is reached gently looks sharp behind few decimals
    return describe_runners_up(tried, alike)


def _beyond(network: Network, every: Answers, allowed: np.ndarray) -> np.ndarray:
    """How far each answer is from the network, in units of what is allowed."""
    return np.max(np.abs(network(every[0]) - every[1]) / allowed, axis=1)


def _allowed(network: Network, used: Answers, x: np.ndarray, step: float) -> np.ndarray:
    """How far answers at ``x`` may be from the network (n, outputs), by their rounding and the network's own error."""
    deviation = step / np.sqrt(12) * np.sqrt(_leverage(network, used[0], x))
    arithmetic = answer_accuracy(network, x, 0.0)  # far out the model's own rounding counts too
    return 0.5 * step * (1 + 1e-6) + DEVIATIONS * np.hypot(deviation, arithmetic)


def _leverage(network: Network, used: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Variance of the network's outputs (n, outputs) at ``x`` if each answer at ``used`` has variance one."""
    count, outputs = network.num_parameters, network.output_size
    if max(len(used), len(x)) * outputs * count > MOST_ENTRIES:
        return np.full((len(x), outputs), count / max(len(used) * outputs, 1))
    layout, theta = Layout.of(network), network.flat()
    _, jacobian = layout.linearise(theta, used)
    scales = np.maximum(np.linalg.norm(jacobian, axis=0), 1e-300)
    _, values, vectors = np.linalg.svd(jacobian / scales, full_matrices=False)
    keep = values > 1e-8 * values[0]
    inverse = vectors[keep].T / values[keep]
    _, there = layout.linearise(theta, x)
    return np.sum(((there / scales) @ inverse) ** 2, axis=1).reshape(len(x), outputs)
