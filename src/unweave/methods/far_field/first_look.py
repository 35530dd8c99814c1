"""What the crossings of one far circle tell at once: the activation, and whether there is one hidden layer or more."""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.activations import Activation
from unweave.methods.far_field.sight import Sight
from unweave.probes.activation_profile import ask_profile, fit_shape, has_gaussian_tail, rank_activations
from unweave.probes.far_circle import Circle, Crossing
from unweave.probes.far_rows import choose_radii

PROFILES = 6
"""Crossings that are asked for their profile, the strongest ones, or in turn for their tail until one tells."""
DECIDING, UNKNOWN = 3, 1e-6
"""Crossings of one hidden layer whose profiles decide whether it is any known activation, and what most of them leave,
relative to their spread, where it is none; the right one leaves the rounding of places."""
CLEARLY = 1.25
"""An activation is preferred to the usual one whose profiles leave less by this factor."""


def see_activation(
    sight: Sight, circle: Circle, crossings: list[Crossing], candidates: list[str]
) -> Activation:
    """From the tail of the strongest crossing, or, where that drowns in the noise, from whole profiles.

    Profiles are asked as near to the origin as the others' saturation allows: coarse arithmetic blurs them far out.
    """
    if len(candidates) == 1:
        return act.get(candidates[0])
    strength = np.array([float(np.linalg.norm(c.jump)) for c in crossings])
    with sight.meter.stage("activation"):
        if not sight.coarse:
            strongest = [crossings[i] for i in np.argsort(-strength, kind="stable")[:PROFILES].tolist()]
            tails = (has_gaussian_tail(sight.meter.ask, circle, c, sight.noise) for c in strongest)
            chosen = "erf" if next((t for t in tails if t is not None), False) else "tanh"
            return act.get(chosen) if chosen in candidates else sight.activation
        radii = choose_radii(crossings, sight.activation, sight.radius)
        # the nearer and the stronger, the clearer
        order = np.argsort(-strength / radii, kind="stable")[:PROFILES]
        ranked = [
            rank_activations(*ask_profile(sight.meter.ask, circle, crossings[i], float(radii[i])), candidates)
            for i in order.tolist()
        ]
    levels = {name: float(np.exp(np.mean([np.log(r[name] + 1e-300) for r in ranked]))) for name in candidates}
    best = min(levels, key=lambda name: levels[name])
    return act.get(best if CLEARLY * levels[best] < levels[candidates[0]] else candidates[0])


def looks_affine(sight: Sight, circle: Circle, crossings: list[Crossing]) -> bool:
    """One hidden layer: values at a plateau and at its antipode have the same sum everywhere."""
    num_units = len(crossings)
    angles = np.array([c.angle for c in crossings])
    plateaus = np.array([crossings[0].before, *(c.after for c in crossings)])
    chosen = np.unique(np.linspace(0, num_units, 5).astype(int)[:4])
    edges = np.concatenate([[angles[-1] - np.pi], angles, [angles[0] + np.pi]])
    middles = (edges[chosen] + edges[chosen + 1]) / 2
    with sight.meter.stage("depth"):
        antipodes = sight.meter.ask(circle.point(middles + np.pi, sight.radius))
    sums = plateaus[chosen] + antipodes
    return bool(np.max(np.abs(sums - sums[0])) <= 10 * sight.tolerance)


def say_unknown(sight: Sight, circle: Circle, crossings: list[Crossing], candidates: list[str]) -> str:
    """Why the units of one hidden layer are none of the candidates; nothing where they may be, or answers are coarse.

    With one hidden layer the answers across a crossing are an affine function of the activation.
    """
    if sight.coarse or len(crossings) < DECIDING:
        return ""
    strongest = sorted(crossings, key=lambda c: -float(np.linalg.norm(c.jump)))[:DECIDING]
    with sight.meter.stage("activation"):
        profiles = [ask_profile(sight.meter.ask, circle, crossing) for crossing in strongest]
    names = [act.get(name) for name in candidates]
    left = np.median([min(fit_shape(t, y, name, 1).residual for name in names) for t, y in profiles])
    if left < UNKNOWN:
        return ""
    return (
        f"one hidden layer whose activation is none of {', '.join(candidates)}: across a unit's plane the answers "
        f"differ from the nearest by {left:.0e} of their change; name another with activation="
    )
