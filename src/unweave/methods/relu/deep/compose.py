"""A plain network from units without sides: sides, leak, and units that carry what is linear through a layer.

``|u| = (2 phi(s u) - (1 + a) s u) / (1 - a)`` for a unit phi of leak a that is active on the side s. So whatever stands
above a generation of units is a sum of their outputs and of a rest in the features below: it vanishes for the sides of
a plain network whose units all switch in the domain. What is left is carried by as few always active units as its rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.lifted.assemble import SAME, least_rank, low_rank, short_slope

TINY = 1e-8
"""A rest below this share of what it is the rest of is none."""


def rows_of(features) -> list[np.ndarray]:
    """Of every generation, the lowest first."""
    out = []
    while isinstance(features, Lifted):
        out.append(features.rows)
        features = features.known
    return out[::-1]


def stack(base, rows: list[np.ndarray]):
    for part in rows:
        base = Lifted(base, part)
    return base


@dataclass(frozen=True)
class Composed:
    """The network, how many units of every layer only carry what is linear, and whether the sides are told."""

    network: Network
    num_carriers: tuple[int, ...]
    sides_told: tuple[bool, ...]


def compose(
    base, rows: list[np.ndarray], top: np.ndarray, domain: Domain, rng: np.random.Generator
) -> Composed:
    """The network with the generations ``rows`` on top of the known layers and outputs ``top`` (features + 1, k)."""
    d = base.input_size
    x = np.concatenate([domain.sample(3000, d, rng), domain.edge(1000, d, rng)])
    wanted, layers, told, leaks = top.T, [], [], []
    for g in range(len(rows) - 1, -1, -1):
        below = stack(base, rows[:g]).features(x)
        part = _peel(wanted, rows[g], below)
        layers.append(part)
        told.append(part.told)
        leaks.append(part.leak)
        wanted = np.vstack([part.signs[:, None] * rows[g], part.carriers])
    common = float(np.median(leaks)) if all(told) else 0.0
    if common and np.ptp(leaks) > 1e-6 * abs(common) + 1e-12:
        common = 0.0
    if any(part.leak != common for part in layers):  # one leak for all: relu, with what that leaves carried
        layers, wanted = [], top.T
        for g in range(len(rows) - 1, -1, -1):
            below = stack(base, rows[:g]).features(x)
            layers.append(_peel(wanted, rows[g], below, common))
            wanted = np.vstack([layers[-1].signs[:, None] * rows[g], layers[-1].carriers])
    weights, biases = [*base.weights, wanted[:, :-1]], [*base.biases, wanted[:, -1].copy()]
    for part in reversed(layers):
        num = len(part.signs)
        biases[-1][num:] += part.heights
        weights.append(np.hstack([part.above, part.shares]))
        biases.append(part.constant - part.shares @ part.heights)
    name = "relu" if not common else f"leaky_relu({common!r})"
    below = ["relu" if not leak else f"leaky_relu({leak!r})" for leak in base.leaks]
    network = Network(weights, biases, [*below, *[name] * len(rows), "identity"])
    return Composed(
        network,
        tuple(len(part.carriers) for part in reversed(layers)),
        tuple(part.told for part in reversed(layers)),
    )


@dataclass(frozen=True)
class _Peeled:
    """What stands above one generation, in its outputs and its carriers."""

    signs: np.ndarray
    leak: float
    told: bool
    above: np.ndarray
    carriers: np.ndarray
    """(carriers, features below + 1) what they are applied to, without the heights that keep them active."""
    shares: np.ndarray
    heights: np.ndarray
    constant: np.ndarray


def _peel(wanted: np.ndarray, rows: np.ndarray, below: np.ndarray, leak: float | None = None) -> _Peeled:
    """``wanted`` (functions, features below + units + 1) in the outputs of the units ``rows`` above these."""
    p, m = below.shape[1], len(rows)
    own, rest, constant = wanted[:, p : p + m], wanted[:, :p], wanted[:, -1]
    reach = np.std(below, axis=0) + 1e-300
    scale = 1 / np.maximum(np.linalg.norm(wanted[:, :-1] * np.append(reach, np.ones(m)), axis=1), 1e-300)
    atoms = own.T[:, :, None] * scale[:, None] * (rows[:, :-1] * reach)[:, None, :]
    ratio = least_rank(rest * reach * scale[:, None], atoms)
    signs, sizes = np.where(ratio < 0, -1.0, 1.0), np.abs(ratio)
    common = float(np.median(sizes))
    told = bool(np.mean(np.abs(sizes / common - 1) < SAME) > 0.9 and common > 1 - SAME)
    if m == 1:  # a single ratio agrees with itself: it tells something only where nothing is left over
        rest_of = np.linalg.norm((rest - ratio * own @ rows[:, :-1]) * reach)
        told = told and bool(rest_of < SAME * np.linalg.norm(rest * reach))
    if leak is None:
        leak = short_slope((common - 1) / (common + 1)) if told else 0.0
    lam = (1 + leak) / (1 - leak)
    left = rest - lam * (own * signs) @ rows[:, :-1]
    constant = constant - lam * (own * signs) @ rows[:, -1]
    basis, shares = low_rank(left * reach * scale[:, None], TINY)
    basis, shares = basis / reach, shares / scale[:, None]
    values = below @ basis.T
    heights = 1.0 + 0.5 * np.ptp(values, axis=0) - values.min(axis=0) if len(basis) else np.zeros(0)
    carriers = np.hstack([basis, np.zeros((len(basis), 1))])
    return _Peeled(signs, leak, told, 2 / (1 - leak) * own, carriers, shares, heights, constant)
