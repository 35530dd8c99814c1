"""``relu-lifted``: one or two hidden layers of (leaky) relu units of any width, rough answers, bounded domains.

Made for networks as they are shipped: float32, inside a box, wider than their input. Every tolerance follows from
the measured error bars. Units that never change side in the domain are affine there and are reported so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import PIECEWISE_LINEAR, Finding, Problem, Serves, Traits
from unweave.methods.relu.lifted.rounds import search_two_layers
from unweave.methods.relu.lifted.search import Search
from unweave.probes.inquiry import open_inquiry

OPEN = 0.01
"""A unit whose parameters are known to no better than this, relative to its largest, is named as open."""
SHARED = 1e-7
"""Directions of output weights, found from exact answers, that differ by less are the same."""


@dataclass(frozen=True)
class ReluLifted:
    """``method="relu-lifted"``."""

    name: str = "relu-lifted"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, PIECEWISE_LINEAR, suspects=True, queries=400_000)
    max_rounds: int = 12
    max_seconds: float = 150.0

    def suits(self, traits: Traits) -> str | None:
        # leaks in two layers are found by this method alone
        mine = traits.single or np.isfinite(traits.reach) or traits.activation.startswith("leaky")
        if traits.input_size == 2 and traits.exact and np.isfinite(traits.reach):
            return None  # a map of all cells costs less: relu-layers draws it first, and comes back to this method
        return traits.why_kinked() if mine and traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Both hidden layers, or the one there is, and the output layer."""
        rng, domain = problem.rng("relu lifted"), meter.domain
        with meter.stage("lines"):
            inquiry = open_inquiry(meter, problem.precision, rng)
        # a ball in which a squashing tells enough is no bound: all units of a network without end show
        endless = domain is not meter.whole and np.isinf(meter.whole.reach(meter.input_size))
        try:
            meter.domain = meter.whole if endless else domain
            # answers that a squashing saturates have error bars without bound
            with np.errstate(over="ignore"):
                search = search_two_layers(
                    inquiry,
                    rng,
                    max_rounds=self.max_rounds,
                    max_seconds=problem.within(self.max_seconds),
                    suspects=problem.suspects,
                    precision=problem.precision,
                    earlier=problem.kept,
                    near=domain if endless else None,
                )
            return describe(search)
        finally:
            meter.domain = domain


def describe(search: Search) -> Finding:
    """The finding that a search ended with: a network only if no answer contradicts it."""
    if search.network is None or search.assembly is None or search.wrong > 0:
        share = (
            f"{search.wrong:.1%} of the answers contradict the best network"
            if search.network
            else "no network fits"
        )
        reason = (
            f"two hidden layers were looked for ({len(search.planes)} hyperplanes, {search.num_units} units above): "
            f"{share}; the network may be deeper, or wider than this search can follow"
        )
        return Finding(None, reason=reason)
    affine, open_sides = search.assembly.num_affine, search.assembly.sides_open
    warnings = []
    for layer, count in enumerate(affine, start=1):
        if count:
            text = (
                f"layer {layer}: the last {count} units stand for what is affine in this domain "
                f"(units that never change side there)"
            )
            if open_sides[layer - 1]:
                text += (
                    "; it absorbs the sides of the others, every choice is the same function in the domain"
                )
            warnings.append(text)
    undetermined: list[str] = []
    if search.information is not None:
        for layer, (units, network) in enumerate(
            zip(search.information.units[:-1], search.information.network.weights[:-1], strict=True), start=1
        ):
            count = len(network) - (affine[layer - 1] if layer <= len(affine) else 0)
            undetermined += [
                f"layer {layer}, unit {i}: weights that hardly show in any answer"
                for i in np.flatnonzero(units[:count] > OPEN)
            ]
    parts: list[str] = []
    if len(search.network.hidden) == 2 and not search.inquiry.coarse:
        parts = name_parts(search.network, search.network.hidden[1] - affine[1])
    return Finding(
        search.network,
        warnings=tuple(warnings),
        undetermined=(*undetermined, *parts),
        conclusive=bool(parts),  # no other method would tell them
        details={"num_planes": len(search.planes), "num_units": search.num_units},
        in_domain=search.is_bounded,
        error_bars=search.error_bars,
        kept=search if search.can_go_on else None,
    )


def name_parts(network: Network, num_units: int) -> list[str]:
    """Units of the last layer, ``num_units`` at its beginning, that share the direction of their output weights.

    With two outputs or more that is no accident, unless they reach one output alone. Parts of one unit whose zero set
    is not connected in the domain are found one by one, and where too many planes lie between them nothing tells that
    they are one.
    """
    columns = network.weights[-1][:, :num_units]
    columns = columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    if len(columns) < 2:
        return []
    apart = np.sqrt(np.maximum(1 - (columns.T @ columns) ** 2, 0.0))
    several = np.sum(np.abs(columns) > SHARED, axis=0) > 1
    pairs = np.argwhere(np.triu((apart < SHARED) & several, 1))
    return [f"layer 2, units {i} and {j}: whether they are parts of one unit" for i, j in pairs]
