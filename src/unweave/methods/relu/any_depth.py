"""``relu-layers``: relu networks of any depth from queries, depth and widths unknown.

One pool of lines, kinks and cells serves every layer (``engine``). The result is sharpened on every answer. What no
answer shows is named; where a layer cannot be finished, those below it come back as an open network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unweave.core import activations as act
from unweave.core.errors import BudgetSpent
from unweave.core.network import UNKNOWN, Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import PIECEWISE_LINEAR, Finding, Problem, Serves, Traits
from unweave.methods.relu.afar import is_afar, recover_from_afar
from unweave.methods.relu.boxed import recover_in_box
from unweave.methods.relu.deep.borders import derivatives
from unweave.methods.relu.deep.engine import recover
from unweave.methods.relu.deep.fold import fold_turned
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.sharpen import join, name_activations, sharpen
from unweave.methods.relu.deep.whole import Recovered, look_again
from unweave.methods.relu.lifted.method import ReluLifted
from unweave.methods.relu.two_layers.layers import UNTRACED, ReluLayers, TwoLayers
from unweave.methods.relu.two_layers.open import describe_planes
from unweave.probes.inquiry import Inquiry, open_inquiry

EFFECT = 1e-7
"""Units that never add this share of what the largest adds have no effect and are left out."""

MOST_WRONG = 0.02
"""Share of the answers that a network which is returned whole may contradict."""

RANK = 1e-12
"""Shares of squares that answers have to show of a combination of weights: rounding leaves 1e-15."""

FEW_INPUTS = 8
"""Inputs up to which bounded domains are searched without sides."""

MOST_LIFTED, LIFTED_A_WEIGHT = 5_000, 150
"""Questions for every input, and for every weight of two layers as wide as the first one seems to be, that two layers
wider than the input may cost, before what is known is returned."""


@dataclass(frozen=True)
class _Kept:
    """What a second look begins with."""

    pool: Pool
    found: Recovered


@dataclass(frozen=True)
class ReluDeep:
    """``method="relu-layers"``."""

    name: str = "relu-layers"
    serves: ClassVar[Serves] = Serves(
        Evidence.QUERIES, PIECEWISE_LINEAR, suspects=True, queries=200_000, queries_a_size=20_000
    )
    num_lines: int = 8
    max_layers: int = 8
    max_seconds: float = 120.0

    def suits(self, traits: Traits) -> str | None:
        return traits.why_kinked() if traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Every hidden layer and the output layer, as far as they show."""
        if is_afar(meter, problem.precision):
            return recover_from_afar(meter, problem, self.recover)
        if isinstance(problem.kept, _Kept) and problem.suspects is not None:
            pool = problem.kept.pool
            with meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                found = look_again(pool, problem.kept.found, problem.suspects)
            return replace(describe(pool.inquiry, found), kept=_Kept(pool, found))
        inquiry, rng = self._begin(meter, problem)
        if inquiry.coarse:
            return ReluLayers().recover(meter, problem)
        if np.isfinite(meter.domain.reach(meter.input_size)) and meter.input_size <= FEW_INPUTS:
            return recover_in_box(
                inquiry, problem, self.max_seconds, lambda: ReluLifted().recover(meter, problem)
            )
        two = ReluLayers().try_two(inquiry, problem, rng)
        if two.finding is not None:
            return two.finding
        pool = Pool(inquiry, problem.rng("relu pool"))
        best: list[Recovered] = []
        try:
            if two.first is not None:  # what the search for two layers has asked serves every depth
                pool.take_scans(two.first.lines, two.first.kinks)
                pool.take_pieces(two.first.pieces)
                pool.surveyed = True
            # rows that are parallel to a line, or cells without room, give infinities that no comparison passes
            with meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                found = recover(
                    pool,
                    num_lines=self.num_lines,
                    max_layers=self.max_layers,
                    max_seconds=problem.within(self.max_seconds),
                    keep=best,
                )
        except BudgetSpent as spent:
            if best:
                return replace(describe(inquiry, best[-1]), reason=str(spent))
            if two.first is None:
                raise
            return describe_planes(inquiry, two.first, str(spent), rng)
        if found.top is None and found.known.depth <= 1:
            other = self._other_ways(meter, problem, inquiry, two)
            if not found.known.depth or (other.network is not None and not other.network.is_open):
                return other
        finding = describe(inquiry, found)
        return finding if found.top is None else replace(finding, kept=_Kept(pool, found))

    def _other_ways(self, meter: Meter, problem: Problem, inquiry: Inquiry, two: TwoLayers) -> Finding:
        """Where the engine has not come beyond the first layer: leaky, or wider than its input; else what is known."""
        first = two.first
        wide = first is not None and len(first.planes) > meter.input_size
        if np.isinf(meter.whole.reach(meter.input_size)) and (wide or not two.deeper):
            d, most = meter.input_size, MOST_LIFTED * meter.input_size
            if first is not None:
                most = min(most, LIFTED_A_WEIGHT * len(first.planes) * (d + len(first.planes)))
            try:
                with meter.allow(self.name, most):
                    lifted = ReluLifted().recover(meter, problem)
            except BudgetSpent as spent:
                if first is None:
                    raise
                return describe_planes(inquiry, first, str(spent), problem.rng("open"))
            if lifted.network is not None:
                return lifted
        if first is None:
            return ReluLayers().recover(meter, problem)
        return describe_planes(inquiry, first, UNTRACED, problem.rng("open"))

    def _begin(self, meter: Meter, problem: Problem) -> tuple[Inquiry, np.random.Generator]:
        """The questions of one hidden layer, already answered, come first."""
        rng = problem.rng("relu lines")
        with meter.stage("lines"):
            return open_inquiry(meter, problem.precision, rng), rng


def describe(inquiry: Inquiry, found: Recovered) -> Finding:
    """The finding: a whole network sharpened on every answer, or an open one."""
    known, top = found.known, found.top
    if top is not None and top.share_wrong > MOST_WRONG:  # not what stands there: the layers below are known
        known, top = known.first(known.depth - 1), None
    if not known.depth:
        return Finding(None, reason="no layer of hyperplanes was found")
    if top is None:
        network = Network(known.weights, known.biases, name_activations(known), upper=UNKNOWN)
        kept = [np.arange(len(b)) for b in known.biases]
        return Finding(
            network,
            reason=(
                "the first hidden layer is known, what stands above it is not"
                if known.depth == 1
                else f"the first {known.depth} hidden layers are known, what stands above them is not"
            ),
            undetermined=(
                *name_entries(found, kept),
                *name_steady(inquiry, network),
                *(
                    f"layer {l}: units that hardly ever switch may be missing"
                    for l in range(2, known.depth + 1)
                ),
                "the scale of every row",
                f"everything above layer {known.depth}",
            ),
        )
    asked = inquiry.meter.transcript()[0]
    known, entries = fold_turned(known, found.open_entries, asked)
    found = replace(found, known=known, open_entries=entries)
    network, kept = drop_idle_units(join(known, top), asked)
    network = sharpen(inquiry, network)
    wrong = (
        f"{top.share_wrong:.2%} of the answers contradict the network: a unit is missing"
        if top.wrong.any()
        else ""
    )
    names = *name_entries(found, kept), *name_sums(inquiry, network), *name_steady(inquiry, network)
    return Finding(network, reason=wrong, undetermined=tuple(dict.fromkeys(names)), conclusive=not wrong)


def name_entries(found: Recovered, kept: list[np.ndarray]) -> tuple[str, ...]:
    """Weights that no answer shows; ``kept``: the units of every layer that are in the network."""
    place = [dict(zip(units.tolist(), range(len(units)), strict=True)) for units in kept]
    out = []
    for layer, u, i in found.open_entries:
        if layer > len(kept):
            continue
        below = place[layer - 2].get(i) if layer > 1 else i
        if u in place[layer - 1] and below is not None:
            unit = place[layer - 1][u]
            out.append(f"layer {layer}, unit {unit}: its weight from unit {below} below never shows")
    return tuple(out)


def name_sums(inquiry: Inquiry, network: Network) -> tuple[str, ...]:
    """Weights that show in sums only: with one feature on, the units that read it stand alike at every answer."""
    x = inquiry.meter.transcript()[0]
    activations = [act.split_name(name)[1] or 0.0 for name in network.hidden_activations]
    known = Known(
        network.input_size, tuple(network.weights[:-1]), tuple(network.biases[:-1]), tuple(activations)
    )
    z, out = known.arguments(x), []
    for layer in range(1, known.depth):
        if known.leaks[layer - 1]:
            continue
        bits = np.packbits(np.hstack([part > 0 for part in z[layer:]]), axis=1)
        _, first, number = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        slopes = derivatives(known, network.weights[-1], layer, x[first])
        for feature in range(z[layer - 1].shape[1]):
            patterns = np.unique(number.ravel()[z[layer - 1][:, feature] > 0])
            a = slopes[patterns].reshape(-1, slopes.shape[2])
            size = np.linalg.norm(a, axis=0)
            told = np.flatnonzero(size > 0)
            a = a[:, told] / size[told]
            s, space = np.linalg.eigh(a.T @ a)
            alone = np.sum(space[:, s > RANK] ** 2, axis=1) > 1 - 1e-6
            out += [
                f"layer {layer + 1}, unit {unit}: its weight from unit {feature} below never shows"
                for unit in np.setdiff1d(np.arange(len(size)), told[alone])
            ]
    return tuple(out)


def name_steady(inquiry: Inquiry, network: Network) -> tuple[str, ...]:
    """Units that are on at every point that was asked: their biases, and which of several they are, do not show."""
    h, out = inquiry.meter.transcript()[0], []
    layers = zip(network.weights, network.biases, network.hidden_activations, strict=False)
    for layer, (w, b, name) in enumerate(layers, start=1):
        z = h @ w.T + b
        out += [
            f"layer {layer}, unit {u}: it is never seen to switch"
            for u in np.flatnonzero(np.all(z > 0, axis=0))
        ]
        h = np.maximum(z, (act.split_name(name)[1] or 0.0) * z)
    return tuple(out)


def drop_idle_units(network: Network, x: np.ndarray) -> tuple[Network, list[np.ndarray]]:
    """Without units that nothing above listens to, and which units of every layer are left; ``x``: all points asked."""
    weights, biases = list(network.weights), list(network.biases)
    kept = [np.arange(len(b)) for b in biases[:-1]]
    outputs, h = [], x
    for w, b, name in zip(weights, biases, network.hidden_activations, strict=False):
        z = h @ w.T + b
        h = np.maximum(z, (act.split_name(name)[1] or 0.0) * z)
        outputs.append(np.max(np.abs(h) / (1e-3 + np.linalg.norm(x, axis=1, keepdims=True)), axis=0))
    for layer in range(len(weights) - 2, -1, -1):
        out = np.linalg.norm(weights[layer + 1], axis=0) * outputs[layer]
        kept[layer] = np.flatnonzero(out > EFFECT * out.max())
        weights[layer], biases[layer] = weights[layer][kept[layer]], biases[layer][kept[layer]]
        weights[layer + 1] = weights[layer + 1][:, kept[layer]]
    return Network(weights, biases, network.activations), kept
