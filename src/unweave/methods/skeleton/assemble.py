"""From a relu skeleton to the smooth network: each layer's windows give its activation, scales and biases.

Far out ``phi(z) = relu(z + k) - k`` with -k the left limit of phi. The skeleton's argument u of a unit is zero where
``z + k`` is, and ``z + k = S u``; S and the exact zero come from the unit's window. The layer above reads
``relu(u) = (phi(z) + k) / S``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.core import activations as act
from unweave.core.activation_families import SELU_ALPHA, SELU_SCALE
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.methods.base import Problem
from unweave.methods.skeleton.profiles import CANDIDATES
from unweave.methods.skeleton.windows import read_windows

ELU = f"elu({SELU_ALPHA!r})"


@dataclass(frozen=True)
class Assembled:
    """A smooth network, or the reason why the windows do not give one."""

    network: Network | None
    reason: str = ""
    misfits: dict[str, float] = field(default_factory=dict)
    conclusive: bool = False
    """The windows show an activation that is none of the candidates."""
    poor: tuple[tuple[int, int], ...] = ()
    """(layer, unit) whose window was not found or is not explained."""
    rivals: tuple[tuple[str, ...], ...] = ()
    """For every layer the activations that explain its windows, best first."""


def assemble(
    meter: Meter,
    skeleton: Network,
    problem: Problem,
    radius: float,
    rng: np.random.Generator,
    chosen: tuple[str, ...] | None = None,
) -> Assembled:
    """The network whose far skeleton is ``skeleton`` (a relu network in the units of the model).

    ``chosen``: the activation of every layer, where more than one explains the windows.
    """
    biases = [b.copy() for b in skeleton.biases]
    candidates = window_candidates(problem.activations)
    names, scales, limits, misfits, poor, rivals = [], [], [], {}, [], []
    for layer in range(len(biases) - 1):
        here = Network(skeleton.weights, biases, skeleton.activations)
        among = candidates if chosen is None else (chosen[layer],)
        found = read_windows(meter, here, layer, among, problem.precision, radius, rng)
        rivals.append(found.rivals)
        misfits |= {f"{name}, layer {layer + 1}": 10.0**value for name, value in found.misfits.items()}
        if found.activation is None:
            return Assembled(None, say_unknown(found.misfits, layer), misfits, bool(found.misfits))
        limit = -act.get(found.activation).limits[0]
        below = skeleton.weights[layer] / (scales[-1] if scales else 1.0)
        fill_in(found.steepness, found.poor, np.linalg.norm(below, axis=1))
        biases[layer] = biases[layer] - found.shift + limit / found.steepness
        names.append(found.activation)
        scales.append(found.steepness)
        limits.append(limit)
        poor += [(layer, int(unit)) for unit in np.flatnonzero(found.poor)]
    weights, offsets = [], []
    for layer, (w, b) in enumerate(zip(skeleton.weights, biases, strict=True)):
        own = scales[layer] if layer < len(scales) else np.ones(len(w))
        weights.append(own[:, None] * w / (scales[layer - 1] if layer else 1.0))
        below = limits[layer - 1] * weights[-1].sum(axis=1) if layer else 0.0
        offsets.append(own * b + below - (limits[layer] if layer < len(limits) else 0.0))
    for layer, name in enumerate(names):
        if name == ELU:  # selu is elu(alpha) times a constant
            names[layer], weights[layer + 1] = "selu", weights[layer + 1] / SELU_SCALE
    network = Network(weights, offsets, [*names, "identity"])
    return Assembled(network, "", misfits, poor=tuple(poor), rivals=tuple(rivals))


def fill_in(steepness: np.ndarray, poor: np.ndarray, lengths: np.ndarray) -> None:
    """Units without a window get a row as long as those of the others are; the fit to all answers has the last word."""
    if poor.any() and not poor.all():
        usual = float(np.median((steepness * lengths)[~poor]))
        steepness[poor] = usual / np.maximum(lengths[poor], 1e-300)


def window_candidates(names: tuple[str, ...]) -> tuple[str, ...]:
    """The profiles to try for these activations: parameters and multiples are part of the fit."""
    kinds = []
    for name in names:
        kind = act.split_name(name)[0]
        kind = "elu" if kind in ("celu", "selu") else kind
        if kind in CANDIDATES and kind not in kinds:
            kinds.append(kind)
    return tuple(kinds)


def say_unknown(misfits: dict[str, float], layer: int | None = None) -> str:
    """Why the windows of a layer, or those that were looked at, give no activation."""
    where = "" if layer is None else f" of layer {layer + 1}"
    if not misfits:
        return f"no unit{where} has a window apart from all others; a larger domain would help"
    best = min(misfits, key=lambda name: misfits[name])
    return (
        f"the activation{where} is none of {', '.join(misfits)}: the windows differ from the nearest, "
        f"{best}, by {10.0 ** misfits[best]:.0e} times the accuracy of the answers; name another with activation="
    )
