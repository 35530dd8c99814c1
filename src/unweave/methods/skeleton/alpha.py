"""The alpha of elu units from answers, together with all other parameters.

Windows show alpha to a few digits; with that start it is one more unknown a layer of the weighted least squares, and
its standard error says which round number it may be. Where the answers are too few for every parameter, lengths of
rows and biases move with it. selu is elu(1.67326...) times a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.activation_families import SELU_ALPHA, SELU_SCALE
from unweave.core.network import Network
from unweave.methods.skeleton.profiles import name_elu
from unweave.methods.skeleton.settle import jacobian_of_lengths, misfit_level, move_lengths
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.layout import Layout

MOST_STEPS, ENOUGH = 30, 0.9
"""Steps, as long as they lower the misfit to this fraction."""
EXPLAINED, STARTS = 30.0, (1.003, 0.997)
"""A larger misfit is looked at from other starts: near 1 a change of alpha is, but for its square, one of the bias."""
WIDEST = 5e-3
"""Farther from a round number alpha is not taken for it, however vague it is."""
SURE = 5.0
"""Standard errors within which alpha is taken for a round number."""
OTHER, LEAST_LEVEL = (1.1, 1.03, 1.01, 1.003, 1.001, 1.0001, 1.00001), 0.1
"""Multiples of alpha that are tried to say how well it is told; errors of answers are at least so many bounds."""
PLENTY = 1.5
"""Answers a parameter from which on every parameter is fitted."""
STRETCHES = (1.0, 0.25, 0.05)
"""Of a step that raises the misfit."""
RELATIVE_STEP = 1e-4
"""Of the difference that shows how answers depend on alpha."""


@dataclass(frozen=True)
class Fitted:
    """The network after the fit, its misfit in accuracies of the answers, and the standard errors of its alphas."""

    network: Network
    level: float
    errors: np.ndarray


def has_alpha(network: Network) -> bool:
    return any(act.split_name(name)[0] in ("elu", "selu") for name in network.activations)


def fit_alpha(network: Network, x: np.ndarray, y: np.ndarray, accuracy: np.ndarray, unit: float) -> Fitted:
    """The alpha of every elu layer that fits best, a round one within its error; ``unit``: relative rounding of one."""
    plain, layers = _as_elu(network)
    best = _descend(plain, layers, x, y, accuracy)
    for start in STARTS:
        if best.level <= EXPLAINED:
            break
        alphas = np.array([_alpha(plain, layer) for layer in layers])
        found = _descend(_with_alphas(plain, layers, alphas * start), layers, x, y, accuracy)
        best = found if found.level < ENOUGH * best.level else best
    alphas = [_alpha(best.network, layer) for layer in layers]
    # the constants of a model are rounded as its weights are
    errors = [min(SURE * e, WIDEST) + 4 * unit * a for a, e in zip(alphas, best.errors, strict=True)]
    names = [name_elu(alpha, error) for alpha, error in zip(alphas, errors, strict=True)]
    return Fitted(_with_names(best.network, layers, names), best.level, best.errors)


def state_alpha(network: Network, x: np.ndarray, y: np.ndarray, accuracy: np.ndarray) -> tuple[str, ...]:
    """In words, how well the answers tell the alpha of each elu layer, where that is worse than the least of ``OTHER``.

    Near 1 a change of alpha is one of the biases but for its square, so no linear error tells: other values are tried.
    """
    plain, layers = _as_elu(network)
    told = []
    for layer in layers:
        alpha, error = _alpha(plain, layer), np.inf
        for other in OTHER:
            if _is_possible(plain, layer, alpha * other, x, y, accuracy):
                break
            error = alpha * (other - 1)
        else:
            continue
        told.append(
            f"layer {layer + 1}: alpha of elu is {alpha:.6g} to within {error:.0e}, the shortest number there; with "
            f"another one the biases of the layer differ as much"
        )
    return tuple(told)


def _is_possible(
    network: Network, layer: int, alpha: float, x: np.ndarray, y: np.ndarray, accuracy: np.ndarray
) -> bool:
    """Whether the network with another alpha explains the answers about as well, after a fit of everything else."""
    level = max(misfit_level(network, x, y, accuracy), LEAST_LEVEL)
    changed = _with_alphas(network, [layer], np.array([alpha]))
    fit = polish_weighted(changed, x, y, accuracy, max_steps=MOST_STEPS)
    worse = (fit.rms**2 - level**2) * y.size
    return worse <= (SURE * level) ** 2


def _descend(here: Network, layers: list[int], x: np.ndarray, y: np.ndarray, accuracy: np.ndarray) -> Fitted:
    """Gauss-Newton with each alpha among the unknowns."""
    level, errors = misfit_level(here, x, y, accuracy), np.full(len(layers), np.inf)
    whole = y.size >= PLENTY * here.num_parameters
    for _ in range(MOST_STEPS):
        move, spread = _step(here, layers, x, y, accuracy, whole)
        alphas, before = np.array([_alpha(here, layer) for layer in layers]), level
        for stretch in STRETCHES:
            moved = _moved(here, stretch * move[: -len(layers)], whole)
            trial = _with_alphas(moved, layers, alphas + stretch * move[-len(layers) :])
            after = misfit_level(trial, x, y, accuracy)
            if after < level:
                here, level = trial, after
                break
        errors = level * spread
        if level > ENOUGH * before:
            break
    return Fitted(here, level, errors)


def _step(
    here: Network, layers: list[int], x: np.ndarray, y: np.ndarray, accuracy: np.ndarray, whole: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss-Newton step in all unknowns, alphas last, and the errors of alphas for answers off by one accuracy."""
    jacobian = Layout.of(here).linearise(here.flat(), x)[1] if whole else jacobian_of_lengths(here, x)
    change = [_slope_in_alpha(here, layer, x) for layer in layers]
    columns = [jacobian.reshape(y.size, -1), *(c.reshape(-1, 1) for c in change)]
    system = np.hstack(columns) / accuracy.reshape(-1, 1)
    lengths = np.maximum(np.linalg.norm(system, axis=0), 1e-300)
    u, sizes, vt = np.linalg.svd(system / lengths, full_matrices=False)
    inverse = np.where(sizes > 1e-13 * sizes[0], 1 / np.maximum(sizes, 1e-300), 0.0)
    move = -(vt.T @ (inverse * (u.T @ ((here(x) - y) / accuracy).ravel()))) / lengths
    spread = (np.linalg.norm(vt.T * inverse, axis=1) / lengths)[-len(layers) :]
    return move, spread


def _moved(network: Network, move: np.ndarray, whole: bool) -> Network:
    return network.with_flat(network.flat() + move) if whole else move_lengths(network, move)


def _as_elu(network: Network) -> tuple[Network, list[int]]:
    """The same function with elu(alpha) for selu, and its layers of elu."""
    weights, names = [w.copy() for w in network.weights], list(network.activations)
    for layer, name in enumerate(names):
        if name == "selu":
            names[layer], weights[layer + 1] = f"elu({SELU_ALPHA!r})", weights[layer + 1] * SELU_SCALE
    layers = [layer for layer, name in enumerate(names) if act.split_name(name)[0] == "elu"]
    return Network(weights, network.biases, names), layers


def _alpha(network: Network, layer: int) -> float:
    return -act.get(network.activations[layer]).limits[0]


def _with_alphas(network: Network, layers: list[int], alphas: np.ndarray) -> Network:
    names = list(network.activations)
    for layer, alpha in zip(layers, alphas, strict=True):
        names[layer] = f"elu({float(alpha)!r})"
    return Network(network.weights, network.biases, names)


def _with_names(network: Network, layers: list[int], names: list[str]) -> Network:
    weights, found = [w.copy() for w in network.weights], list(network.activations)
    for layer, name in zip(layers, names, strict=True):
        found[layer] = name
        if name == f"elu({SELU_ALPHA!r})":
            found[layer], weights[layer + 1] = "selu", weights[layer + 1] / SELU_SCALE
    return Network(weights, network.biases, found)


def _slope_in_alpha(network: Network, layer: int, x: np.ndarray) -> np.ndarray:
    alpha = _alpha(network, layer)
    step = RELATIVE_STEP * max(abs(alpha), RELATIVE_STEP)
    sides = [_with_alphas(network, [layer], np.array([alpha + side * step]))(x) for side in (1, -1)]
    return (sides[0] - sides[1]) / (2 * step)
