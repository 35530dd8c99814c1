"""Rounded answers are intervals, half a step to either side: a claim keeps to all, and no other unit does as well.

*Intervals.* The true network lies in the interval of every answer. One that was fitted to n answers is off by its own
error besides, ``step / sqrt(12)`` times the root of its leverage at that point; beyond the half step and four of
those it is another function.

*The runner-up.* Two or three digits leave room for more than one kind of unit: a wider network of tanh units follows
one unit of another kind to a hundredth. So every other activation of the family is fitted from the found network, at
the same widths, to the answers the network was found from. If one of them keeps to all intervals as well, the answers
do not say which it is, and nothing is claimed. Nor is anything where single units follow each other: such a chain takes
the shape of one unit of another kind.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from unweave.certificates.base import Check
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.precision import Precision
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_network
from unweave.solve.layout import Layout

INTERVALS, RUNNER_UP = "answers within their rounding", "other activations excluded"
"""Names of the checks."""
FAMILIES = (("tanh", "erf", "softsign"), ("gelu", "gelu_tanh", "silu", "softplus", "mish"))
"""Activations that are easily taken for each other."""
_TWINS = {"sigmoid": "tanh"}
FAR = 1e3
"""Answers to questions so many times longer than the typical one are not counted on."""
DEVIATIONS = 4.0
MOST_ENTRIES = 2e7
"""Larger Jacobians are not factorised; the leverage is then taken to be the same everywhere."""

Answers = tuple[np.ndarray, np.ndarray]


def check_rounding(network: Network, used: Answers, every: Answers, precision: Precision) -> list[Check]:
    """Whether ``network``, found from the answers ``used``, keeps to the interval of every answer, and it alone."""
    used = _ordinary(used)
    beyond = _beyond(network, used, every, precision.step)
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
    return [intervals] if count else [intervals, _exclude_others(network, used, every, precision)]


def _ordinary(answers: Answers) -> Answers:
    """Without those far out, which say little about the weights where the answers grow."""
    lengths = np.linalg.norm(answers[0], axis=1)
    near = lengths <= FAR * max(float(np.median(lengths)), 1e-300) if len(lengths) else lengths == 0
    return answers[0][near], answers[1][near]


def _exclude_others(network: Network, used: Answers, every: Answers, precision: Precision) -> Check:
    """Fit the other activations of the family at the same widths."""
    own = {_TWINS.get(name, name) for name in network.hidden_activations}
    family = next((family for family in FAMILIES if own <= set(family)), ())
    tried, alike = [], []
    for name in family:
        if name in own or name not in act.names():
            continue
        other = fit_network(
            _with_activation(network, name),
            *used,
            settings=Settings(target=0.3 * precision.relative, max_steps=60),
        ).network
        tried.append(name)
        if np.max(_beyond(other, used, every, precision.step), initial=0.0) <= 1:
            alike.append(name)
    if (1, 1) in pairwise(network.hidden):  # one unit of one unit bends as a single one of another kind may
        alike.append("single")
    names = " and ".join(alike)
    return Check(
        RUNNER_UP,
        not alike,
        {"num_tried": float(len(tried)), "num_alike": float(len(alike))},
        f"{' and '.join(tried)} units do not explain the answers" if tried and not alike else "",
        f"{names} units explain the rounded answers as well: more decimals or a larger domain would tell"
        if alike
        else "",
        local=True,
    )


def _with_activation(network: Network, name: str) -> Network:
    """The network with other units of the same slope at zero."""
    weights = [w.copy() for w in network.weights]
    biases = [b.copy() for b in network.biases]
    zero = np.zeros(1)
    for layer, before in enumerate(network.hidden_activations):
        old, new = (float(act.get(kind).first(zero, np)[0]) for kind in (before, name))
        weights[layer] *= old / new
        biases[layer] *= old / new
    return Network(weights, biases, (*[name] * len(network.hidden), network.activations[-1]))


def _beyond(network: Network, used: Answers, every: Answers, step: float) -> np.ndarray:
    """How far each answer is from the network, in units of what its rounding and the network's own error allow."""
    x, y = every
    deviation = step / np.sqrt(12) * np.sqrt(_leverage(network, used[0], x))
    allowed = 0.5 * step * (1 + 1e-6) + DEVIATIONS * deviation
    return np.max(np.abs(network(x) - y) / allowed, axis=1)


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
