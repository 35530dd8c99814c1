"""From a sum of ridges to a network: which side each unit is active on, the leak, a linear rest.

A unit ``c phi(s (n.x + b))``, s = +-1, bends by ``c (1 - a)`` and tilts by ``s c (1 + a) / 2``, a the slope of the
leak. So the affine part reads ``beta = lambda sum_i s_i v_i`` with ``v_i`` half the bends and
``lambda = (1 + a) / (1 - a)``. Where no signs fit, opposite units on one plane (real s_i) or a linear skip do, and a
skip leaves the sides open: every choice is the same function.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.signs import SignSolution, solve_signs, solve_weights
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.one_layer.ridges import RidgeSum
from unweave.probes.inquiry import SAFETY, Inquiry


def orient_units(model: RidgeSum, inquiry: Inquiry, problem: Problem) -> Finding:
    """The network that a ridge sum came from, with what its function leaves open."""
    planes = model.planes
    if not len(planes):
        affine = _affine(model)
        warning = f"no kink anywhere in {inquiry.meter.domain}: the function is affine there"
        return Finding(affine, warnings=(*_missing_units(0, inquiry, problem), warning))
    bounded = not np.isinf(inquiry.meter.domain.reach(inquiry.input_size))
    return orient_ridges(
        model,
        problem,
        error=SAFETY * _tilt_error(model, inquiry),
        warnings=_missing_units(len(planes), inquiry, problem),
        always_active="units always active in the domain" if bounded else "",
    )


def orient_ridges(
    model: RidgeSum,
    problem: Problem,
    *,
    error: float,
    warnings: tuple[str, ...] = (),
    always_active: str = "",
) -> Finding:
    """The same for a ridge sum however it was found.

    ``error`` is the largest error to expect of an entry of the affine part or of a sum of half bends;
    ``always_active`` names, in words, units that would look linear, where there can be any.
    """
    planes = model.planes
    if not len(planes):
        return Finding(_affine(model), "no kink is left: there are no hidden units", warnings=warnings)
    tilt = model.gradient.ravel()
    half = model.bends.reshape(len(planes), len(tilt)) / 2
    known_leak = [a for a in problem.activations if act.get(a).family == "leaky_relu"]
    plain = not known_leak or any(a == "relu" for a in problem.activations)
    solution = solve_signs(half, tilt, error) if plain or not known_leak else None
    if solution is not None and solution.signs is not None:
        undetermined = _open_sides(solution)
        network = assemble(model, solution.signs, 0.0)
        return Finding(network, warnings=warnings, undetermined=undetermined, details=_details(model))
    weights = solve_weights(half, tilt, error)
    if weights is not None and half.shape[0] < half.shape[1]:
        ratio = np.abs(weights)
        spread = SAFETY * error / np.maximum(np.linalg.norm(half, axis=1), 1e-300) + 1e-9
        common = np.average(ratio, weights=1 / spread**2)
        if np.all(np.abs(ratio - common) <= spread * (1 + common)) and abs(common - 1) > spread.min():
            slope = _short((common - 1) / (common + 1), 10 * float(spread.min()))
            network = assemble(model, np.sign(weights), slope)
            return Finding(network, warnings=warnings, details={**_details(model), "slope": slope})
        single = np.abs(ratio - 1) <= spread * 2
        warnings += (
            f"{int((~single).sum())} hyperplanes carry two opposite units each; equal rows cannot be told apart",
        )
        network = _assemble_pairs(model, np.where(single, np.sign(weights), weights))
        return Finding(network, warnings=warnings, details=_details(model))
    leak = _leaky_signs(half, tilt, error)
    if leak is not None:
        solution, ratio = leak
        assert solution.signs is not None
        slope = _short((ratio - 1) / (ratio + 1), 1e-9)
        network = assemble(model, solution.signs, slope)
        return Finding(
            network, warnings=warnings, undetermined=_open_sides(solution), details=_details(model)
        )
    if solution is not None and not solution.complete:
        return _with_open_sides(model, half, tilt, warnings, conclusive=not always_active)
    return _with_linear_rest(model, half, tilt, always_active, warnings)


def _tilt_error(model: RidgeSum, inquiry: Inquiry) -> float:
    planes = model.planes
    bends = np.max(np.abs(model.bends), axis=(1, 2), initial=0.0)
    rounding = 100 * inquiry.relative * (inquiry.slope + np.max(np.abs(model.gradient)) + bends.sum())
    return float(np.linalg.norm(planes.errors * bends) + rounding)


def _missing_units(num_found: int, inquiry: Inquiry, problem: Problem) -> tuple[str, ...]:
    if problem.hidden is None or len(problem.hidden) != 1 or problem.hidden[0] <= num_found:
        return ()
    missing = problem.hidden[0] - num_found
    return (
        f"{missing} of the {problem.hidden[0]} hidden units are invisible in {inquiry.meter.domain}: no output weight, "
        f"a row of zeros, a hyperplane outside the domain, or one shared with another unit",
    )


def _open_sides(solution: SignSolution) -> tuple[str, ...]:
    names = tuple(
        f"layer 1, unit {i}: the side it is active on (flipping it with others gives the same function)"
        for i in np.flatnonzero(~solution.determined)
    )
    return names


def _details(model: RidgeSum) -> dict:
    return {"plane_errors": model.planes.errors, "num_units": len(model.planes)}


def _affine(model: RidgeSum) -> Network:
    return Network([model.gradient], [model.constant], ["identity"])


def assemble(model: RidgeSum, signs: np.ndarray, slope: float = 0.0) -> Network:
    """The network with these sides and this slope of the leak."""
    planes = model.planes
    outputs = planes.jumps.T / (1 - slope)
    tilt = (1 + slope) / 2 * signs
    constant = model.constant - outputs @ (tilt * planes.offsets)
    name = "relu" if slope == 0 else f"leaky_relu({slope!r})"
    return Network(
        [signs[:, None] * planes.normals, outputs], [signs * planes.offsets, constant], [name, "identity"]
    )


def _assemble_pairs(model: RidgeSum, weights: np.ndarray) -> Network:
    """Units with real weights s: ``(1 + s)/2`` of the bend on the positive side, ``(1 - s)/2`` on the other."""
    planes = model.planes
    rows, offsets, outputs = [], [], []
    for i, s in enumerate(weights):
        for side, share in ((1.0, (1 + s) / 2), (-1.0, (1 - s) / 2)):
            if share != 0:
                rows.append(side * planes.normals[i])
                offsets.append(side * planes.offsets[i])
                outputs.append(share * planes.jumps[i])
    constant = model.constant - (weights * planes.offsets / 2) @ planes.jumps
    return Network([np.array(rows), np.array(outputs).T], [np.array(offsets), constant], ["relu", "identity"])


def _leaky_signs(half: np.ndarray, tilt: np.ndarray, error: float) -> tuple[SignSolution, float] | None:
    """Signs up to a common positive factor: the vectors' part across the tilt must cancel."""
    size = np.linalg.norm(tilt)
    if size <= error or not len(half):
        return None
    along = tilt / size
    solution = solve_signs(half - np.outer(half @ along, along), np.zeros_like(tilt), error)
    if solution.signs is None:
        return None
    total = float(solution.signs @ (half @ along))
    if abs(total) <= error:
        return None
    signs = solution.signs * np.sign(total)
    determined = solution.determined if solution.num_solutions > 2 else np.ones(len(half), dtype=bool)
    return SignSolution(signs, determined, solution.num_solutions, solution.complete), float(size) / abs(
        total
    )


def _with_linear_rest(model: RidgeSum, half, tilt, always_active: str, warnings: tuple[str, ...]) -> Finding:
    """No sides give the affine part: any do, with what they leave of it."""
    network, rank = _with_pairs(model, half, tilt)
    where = f", or {always_active}" if always_active else ""
    return Finding(
        network,
        reason="the function contains a linear term, so the sides of its units are not determined by it",
        warnings=(
            *warnings,
            f"a linear term remains (a skip connection{where}); it is written as {rank} pairs relu(t) - relu(-t)",
        ),
        undetermined=tuple(
            f"layer 1, unit {i}: the side it is active on (the linear term absorbs it)"
            for i in range(len(model.planes))
        ),
        details=_details(model),
    )


def _with_open_sides(model: RidgeSum, half, tilt, warnings: tuple[str, ...], *, conclusive: bool) -> Finding:
    """Too many units for a search through their sides: whether some give the affine part is not known."""
    network, rank = _with_pairs(model, half, tilt)
    count = len(model.planes)
    return Finding(
        network,
        reason=f"the sides of the {count} units were not found: they are too many for what their sum shows",
        warnings=(*warnings, f"what the sides leave open is written as {rank} pairs relu(t) - relu(-t)"),
        undetermined=(
            *(f"layer 1, unit {i}: the side it is active on" for i in range(count)),
            "layer 1: whether its units leak",
        ),
        details=_details(model),
        conclusive=conclusive,
    )


def _with_pairs(model: RidgeSum, half, tilt) -> tuple[Network, int]:
    """Sides as close to the affine part as a projection gives, what is left as pairs of relu units, their number."""
    signs = np.where(np.linalg.lstsq(half.T, tilt, rcond=None)[0] < 0, -1.0, 1.0)
    base = assemble(model, signs, 0.0)
    rest = (tilt - signs @ half).reshape(model.gradient.shape)
    u, sizes, vt = np.linalg.svd(rest, full_matrices=False)
    rank = int(np.sum(sizes > 1e-10 * max(sizes[0], 1e-300)))
    sides = u[:, :rank] * sizes[:rank]
    rows = np.concatenate([base.weights[0], vt[:rank], -vt[:rank]])
    columns = np.hstack([base.weights[1], sides, -sides])
    biases = np.concatenate([base.biases[0], np.zeros(2 * rank)])
    return Network([rows, columns], [biases, base.biases[1]], ["relu", "identity"]), rank


def _short(value: float, tolerance: float) -> float:
    """The number with fewest digits within ``tolerance`` of ``value``."""
    for digits in range(1, 16):
        if abs(round(value, digits) - value) <= min(tolerance, 1e-5):
            return float(round(value, digits))
    return float(value)
