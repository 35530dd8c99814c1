"""Every second-layer unit that a set of facets shows: clusters, then groups grown from one facet, parts joined."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.units import Facets, Group, Unit, fit_group, grow, read_cluster

COVERED = 0.02
"""Facets this close, relative to their size, to what a larger group predicts belong to it."""


def find_units(facets: Facets, *, least: int = 3) -> list[Unit]:
    """Every unit that the facets show, largest groups first."""
    free = np.ones(len(facets), dtype=bool)
    groups: list[Group] = []
    relative = facets.error / facets.size
    if facets.output.shape[1] > 1:
        for seed in np.argsort(relative):
            if not free[seed]:
                continue
            rows = np.flatnonzero(free & facets.alike(facets.output[seed], facets.turn[seed]))
            group = read_cluster(facets, rows) if len(rows) >= least else None
            if group is not None:
                groups.append(group)
                free[group.members] = False
    tried = np.zeros(len(facets), dtype=bool)
    for seed in np.argsort(relative):
        if not free[seed] or tried[seed]:
            continue
        group = grow(facets, int(seed), free)
        tried[group.members] = True
        if len(group.members) >= least:
            groups.append(group)
            free[group.members] = False
    groups = _merge(facets, sorted(groups, key=lambda g: -len(g.members)))
    return [_finish(facets, g) for g in groups]


def _merge(facets: Facets, groups: list[Group], most: int = 1500) -> list[Group]:
    """Groups that are parts of one unit joined: together they must still fit, with facets to spare."""
    d, tried = facets.facet.shape[1] - 1, 0
    merged: list[Group] = []
    for group in groups:
        home = None
        if any(_covers(facets, other, group) for other in merged):
            continue  # misread facets of a unit that is known
        for number, other in enumerate(merged):
            seed = other.members[0]
            if not facets.alike(facets.output[seed], facets.turn[seed])[group.members[0]] or tried >= most:
                continue
            between = ~other.shown & ~group.shown & (other.sides != group.sides)
            if between.sum() > d - 1:
                continue
            tried += 1
            members = np.append(other.members, group.members)
            for turn in (1.0, -1.0):
                joint = fit_group(facets, members, np.append(other.turns, turn * group.turns), num_passes=2)
                if np.max(joint.deviations) <= DEVIATIONS:
                    home = number, joint
                    break
            if home is not None:
                break
        if home is None:
            merged.append(group)
        else:
            merged[home[0]] = home[1]
    return merged


def _covers(facets: Facets, unit: Group, group: Group) -> bool:
    """Whether the facets of a small group are those of a larger one, but for errors larger than their bars."""
    if len(group.members) > 0.5 * len(unit.members):
        return False
    rows = group.members
    if np.max(np.linalg.norm(facets.output[rows] - facets.output[unit.members[0]], axis=1)) > 10 * COVERED:
        return False
    signs = facets.signs[rows]
    inside = np.all(unit.shown | (signs == unit.sides), axis=1)
    predicted = unit.gamma + (signs * np.where(unit.shown, unit.beta, 0.0)) @ facets.ridges
    apart = np.minimum(
        np.linalg.norm(facets.scaled[rows] - predicted, axis=1),
        np.linalg.norm(facets.scaled[rows] + predicted, axis=1),
    )
    return bool(
        np.sum(inside) >= 0.5 * len(rows) and np.all(apart[inside] <= COVERED * facets.size[rows][inside])
    )


def _finish(facets: Facets, group: Group) -> Unit:
    weights = (facets.size[group.members] / facets.error[group.members]) ** 2
    output = weights @ facets.output[group.members]
    return Unit(
        beta=np.where(group.shown, group.beta, 0.0),
        gamma=facets.unscaled(group.gamma),
        shown=group.shown,
        told=group.told,
        signs=group.sides,
        output=output / np.linalg.norm(output),
        members=facets.numbers[group.members],
        misfit=float(np.median(group.deviations)),
    )
