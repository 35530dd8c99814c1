"""One hidden layer from rough answers to the network: the units that ``shallow`` finds, their sides, one last fit.

Without bounds the affine part of the answers is the sum of what the units add on their sides, which tells the sides;
inside bounds units that never change side there add an affine rest, written as few units that are always active.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.lifted.planes import Planes as FittedPlanes
from unweave.methods.relu.lifted.shallow import assemble_bends
from unweave.methods.relu.one_layer.ridge_fit import Ridges, fit_ridges
from unweave.methods.relu.one_layer.ridges import RidgeSum
from unweave.methods.relu.one_layer.shallow import ORDINARY, ShallowSearch
from unweave.methods.relu.one_layer.sharpen import as_network, sharpen
from unweave.methods.relu.one_layer.sides import orient_ridges
from unweave.probes.inquiry import Inquiry
from unweave.probes.planes import Planes

TOO_ROUGH = (
    "answers are too rough to tell all kinks apart, or the model has more than one hidden layer of relu units; ask a "
    "float64 version of the model"
)
OPEN_SIDES = "the affine part of the answers does not tell on which side the units are active"
MAX_SECONDS = 150.0
OPEN = 0.01
"""A unit whose weights are known to no better than this, relative to its largest, is named as open."""
NEARLY, WORSE = 0.2, 1.3
"""How far a side may be from one for a fit to try it, and how much worse the fit without a linear term may be."""
DEVIATIONS = 6.0
ROUGHEST = 1e4
"""Largest error of the affine part, relative to all of it, in that of one answer."""


def recover_roughly(
    inquiry: Inquiry, problem: Problem, rng: np.random.Generator, *, whole: bool = True
) -> Finding:
    """The network of one hidden layer that explains every answer, or why there is none.

    ``whole``: these answers are rounded by this layer alone, not by one below it as well.
    """
    deadline = clock.now() + problem.within(MAX_SECONDS)
    if whole and isinstance(problem.kept, ShallowSearch) and problem.suspects is not None:
        search = problem.kept
        search.deadline = deadline
        explained = search.go_on(problem.suspects)
    else:
        search = ShallowSearch(inquiry, rng, deadline)
        explained = search.run()
    if not explained or search.ridges is None or search.fitted is None:
        return Finding(None, reason=TOO_ROUGH)
    if not search.ridges.num_units:
        return Finding(_affine(search.ridges))
    found = _everywhere(search, problem, deadline, whole and not inquiry.meter.is_squashed)
    bounded = np.isfinite(inquiry.meter.domain.reach(inquiry.input_size))
    if bounded and found.network is None:
        found = _inside(search)
    return replace(found, error_bars=search.inquiry.bars, kept=search if whole else None)


def _everywhere(search: ShallowSearch, problem: Problem, deadline: float, whole: bool) -> Finding:
    """Sides from the affine part; then a fit without a linear term."""
    ridges, fitted = search.ridges, search.fitted
    assert ridges is not None
    assert fitted is not None
    errors = fitted.unit_errors()
    planes = Planes(
        ridges.rows[:, :-1],
        ridges.rows[:, -1],
        ridges.columns,
        errors,
        -ridges.rows[:, -1:] * ridges.rows[:, :-1],
    )
    half, tilt, error = _bends(ridges, errors)
    constant = ridges.affine[:, -1] + ridges.rows[:, -1] @ ridges.columns / 2
    signs = _plain_signs(half.reshape(len(half), -1), tilt.ravel())
    finding = Finding(None)
    if signs is None:
        finding = orient_ridges(RidgeSum(planes, tilt, constant), problem, error=DEVIATIONS * error)
        network = finding.network
        if network is None or len(network.weights[0]) != ridges.num_units or finding.undetermined:
            return Finding(None, reason=finding.reason or OPEN_SIDES)
        if network.activations[0] != "relu":
            return finding
        signs = np.sign(np.einsum("md,md->m", network.weights[0], ridges.rows[:, :-1]))
    x, y, bars = search.answers()
    start = replace(ridges.flipped(signs < 0), skip=False)
    start = replace(start, affine=np.hstack([np.zeros_like(tilt), start.affine[:, -1:]]))
    rows = search.choose_rows(x)
    last = fit_ridges(start, x[rows], y[rows], bars[rows], deadline=deadline)
    if last.rms > WORSE * max(fitted.rms, ORDINARY):
        return Finding(None, reason=OPEN_SIDES)
    if problem.precision.kind == "float32" and whole:
        rng = problem.rng("relu alone")
        last = sharpen(search.meter, last, x[rows], y[rows], problem.precision.unit, rng, deadline)
    return replace(finding, network=as_network(last.ridges), undetermined=_open_units(last.unit_errors()))


def _bends(ridges: Ridges, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Half of every unit's bend (m, k, d), the affine part beside them all, and the error of its entries."""
    half = ridges.columns[:, :, None] * ridges.rows[:, None, :-1] / 2
    tilt = ridges.affine[:, :-1] + half.sum(axis=0)
    sizes = np.max(np.abs(half), axis=(1, 2))
    return half, tilt, float(np.linalg.norm(errors * sizes) + np.median(errors) * np.max(np.abs(tilt)))


def _plain_signs(half: np.ndarray, tilt: np.ndarray) -> np.ndarray | None:
    """The sides of plain relu units where the affine part is close to one sum of all half bends; a fit decides."""
    if len(half) > half.shape[1]:
        return None
    weights, _, rank, _ = np.linalg.lstsq(half.T, tilt, rcond=1e-9)
    if rank < len(half) or np.any(np.abs(np.abs(weights) - 1) > NEARLY):
        return None
    return np.sign(weights)


def _inside(search: ShallowSearch) -> Finding:
    """Sides as far as the affine part tells them, and what is affine in the domain as units that are always active."""
    ridges, meter = search.ridges, search.meter
    assert ridges is not None
    m, d = ridges.num_units, search.inquiry.input_size
    planes = FittedPlanes(ridges.rows[:, :-1], ridges.rows[:, -1], np.zeros((m, d + 1, d + 1)), np.ones(m))
    assert search.fitted is not None
    _, tilt, error = _bends(ridges, search.fitted.unit_errors())
    x = search.answers()[0]
    x = x[search.choose_rows(x)]
    reach = np.std(x, axis=0)
    rough = error * np.sqrt(len(tilt)) * np.linalg.norm(reach) / max(np.linalg.norm(tilt * reach), 1e-300)
    rough = float(np.clip(rough, search.inquiry.relative, ROUGHEST * search.inquiry.relative))
    # with the fit's own values: it was made of all answers at once
    assembly = assemble_bends(planes, ridges.columns / 2, tilt, x, ridges(x), meter.domain, rough=rough)
    warnings = []
    if assembly.num_affine[0]:
        text = (
            f"layer 1: the last {assembly.num_affine[0]} units stand for what is affine in this domain (units that "
            f"never change side there)"
        )
        if assembly.sides_open[0]:
            text += "; it absorbs the sides of the others, every choice is the same function in the domain"
        warnings.append(text)
    return Finding(
        assembly.network,
        warnings=tuple(warnings),
        undetermined=_open_units(search.fitted.unit_errors()),
        details={"num_planes": m},
    )


def _open_units(errors: np.ndarray) -> tuple[str, ...]:
    """The units whose weights hardly show in any answer."""
    return tuple(
        f"layer 1, unit {i}: determined only to {errors[i]:.0%}" for i in np.flatnonzero(errors > OPEN)
    )


def _affine(ridges: Ridges) -> Network:
    return Network([ridges.affine[:, :-1]], [ridges.affine[:, -1]], ["identity"])
