"""Could the units be of another kind? Where answers are not exact, what is claimed is held against its runners-up.

Each other activation of the family is fitted from the found network, at the same widths, to the answers the network was
found from; where the activation has a parameter that no scale of the weights makes good, the slope of leaky_relu or the
alpha of elu, so are its neighbours. (At alpha = 1 the derivative by it is that by the biases: only the second order
shows it, so that a standard error would not do.) One that explains the answers as well, none beyond its error bars and
a residual not twice the network's, is named, and nothing is claimed.
"""

from __future__ import annotations

import numpy as np

from unweave.certificates.answers import MOST_BARS
from unweave.certificates.base import Check
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.precision import Precision
from unweave.solve.descend import End, Settings
from unweave.solve.fit import fit_network
from unweave.solve.weighted import answer_accuracy, weighted_polish

RUNNER_UP = "other activations excluded"
"""Name of the check."""
FAMILIES = (("tanh", "erf", "softsign"), ("gelu", "gelu_tanh", "silu", "softplus", "mish", "elu"))
"""Activations that are easily taken for each other."""
TWINS = {"sigmoid": "tanh"}
DEFAULTS = {"elu": 1.0, "leaky_relu": 0.01}
"""Parameters that no scale of the weights makes good, where the name does not say them."""
ASIDE = 5e-3
"""How far the neighbours of such a parameter lie, relative to it or to a hundredth."""
AS_GOOD = 2.0
"""A runner-up whose residual is below this multiple of the network's explains the answers as well ..."""
LEAST = 0.25
"""... or below this many error bars, where the network's is smaller still."""
MOST_ENTRIES = 2e6
"""Larger Jacobians are not worth eight fits: so many answers tell activations apart by themselves."""
FAR = 1e3
"""Answers to questions so many times longer than the typical one are left aside."""

Answers = tuple[np.ndarray, np.ndarray]


def check_alternatives(network: Network, used: Answers, precision: Precision) -> list[Check]:
    """Whether the answers ``used`` exclude other activations and other parameters of this one."""
    x, y = ordinary(used)
    if network.is_open or not network.hidden or y.size * network.num_parameters > MOST_ENTRIES:
        return []
    if network.activations[-1] != "identity" or not len(x):
        return []
    check = _exclude_others(network, x, y, precision) if precision.kind in ("float32", "noisy") else None
    return [] if check is None else [check]


def ordinary(answers: Answers) -> Answers:
    """Without those far out, which say little about the weights where the answers grow."""
    lengths = np.linalg.norm(answers[0], axis=1)
    near = lengths <= FAR * max(float(np.median(lengths)), 1e-300) if len(lengths) else lengths == 0
    return answers[0][near], answers[1][near]


def relatives(network: Network) -> list[str]:
    """The other activations of the family that all hidden units belong to."""
    own = {act.split_name(TWINS.get(name, name))[0] for name in network.hidden_activations}
    family = next((family for family in FAMILIES if own <= set(family)), ())
    return [name for name in family if name not in own]


def neighbours(network: Network) -> list[str]:
    """The activation with its parameter a little aside, to either side."""
    names = set(network.hidden_activations)
    kind, given = act.split_name(next(iter(names)))
    if len(names) > 1 or kind not in DEFAULTS:
        return []
    value = DEFAULTS[kind] if given is None else given
    step = ASIDE * max(abs(value), 1e-2)
    return [f"{kind}({value + sign * step:.6g})" for sign in (-1, 1)]


def with_activation(network: Network, name: str) -> Network:
    """The network with other units of the same slope at zero."""
    weights = [w.copy() for w in network.weights]
    biases = [b.copy() for b in network.biases]
    zero = np.zeros(1)
    for layer, before in enumerate(network.hidden_activations):
        old, new = (float(act.get(kind).first(zero, np)[0]) for kind in (before, name))
        weights[layer] *= old / new
        biases[layer] *= old / new
    return Network(weights, biases, (*[name] * len(network.hidden), network.activations[-1]))


def _exclude_others(network: Network, x: np.ndarray, y: np.ndarray, precision: Precision) -> Check | None:
    names = [*relatives(network), *neighbours(network)]
    if not names:
        return None
    own, _ = _residual(network, x, y, precision)
    alike = []
    for name in names:
        settings = Settings(target=0.1 * precision.relative, max_steps=40)
        fit = fit_network(with_activation(network, name), x, y, settings=settings)
        if fit.end is End.TIME:
            return Check(RUNNER_UP, None, needed=True)
        if fit.rms > 100 * precision.relative and precision.kind == "float32":
            continue
        other = weighted_polish(fit.network, x, y, precision.noise, unit=precision.unit, max_steps=4)
        level, worst = _residual(other, x, y, precision)
        if worst <= MOST_BARS and level <= AS_GOOD * max(own, LEAST):
            alike.append(name)
    return describe_runners_up(names, alike)


def describe_runners_up(tried: list[str], alike: list[str]) -> Check:
    """The check, given who was tried and who explains the answers as well."""
    return Check(
        RUNNER_UP,
        not alike,
        {"num_tried": float(len(tried)), "num_alike": float(len(alike))},
        f"{' and '.join(tried)} units do not explain the answers" if tried and not alike else "",
        f"{' and '.join(alike)} units explain the answers as well: more exact ones or a larger domain would tell"
        if alike
        else "",
        local=True,
    )


def _residual(network: Network, x: np.ndarray, y: np.ndarray, precision: Precision) -> tuple[float, float]:
    """Root mean square and largest residual, in error bars."""
    bars = answer_accuracy(network, x, precision.noise, precision.unit)
    sizes = np.abs(network(x) - y) / bars
    return float(np.sqrt(np.mean(sizes**2))), float(np.max(sizes))
