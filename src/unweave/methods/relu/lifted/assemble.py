"""From planes and ridge sums to a network: sides, the slope of the leak, and what is affine in the domain.

A unit ``c phi(s u)``, s = +-1, a the slope of phi's leak, is ``c (1 - a)/2 (|u| + lambda s u)`` with
``lambda = (1 + a)/(1 - a)``. So the affine part of a ridge sum reads ``gamma = lambda sum_i beta_i s_i n_i``, and the
part of the answers that is linear in the second layer reads ``lambda/2 sum_l s_l o_l z_l``: two linear solves tell the
sides of both layers and the leak. In a bounded domain units that never change side there add an affine rest: it is
written as units that are always active in the domain, as few as its rank. The rest absorbs sides: every choice is then
the same function in the domain. Where the domain has no end such a rest is one unit of the second layer that was not met,
being on nearly everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.signs import solve_signs
from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.units import Unit

SIGN_ERROR = 1e-6
"""Largest error of an affine part, relative to its unit, with which signs are still told by their sum alone."""
SAME = 0.02
"""How far the sizes of all signs may scatter around one value for them to be signs."""


@dataclass(frozen=True)
class Assembly:
    """The network, and which of its units only stand for what is affine in the domain."""

    network: Network
    leak: float
    num_affine: tuple[int, int]
    """Always active units of the first and second layer, the last ones of each."""
    sides_open: tuple[bool, bool]
    """Whether an affine rest absorbs the sides of the layer."""


def assemble(
    planes: Planes,
    units: list[Unit],
    x: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    domain: Domain,
    *,
    free: bool = False,
) -> Assembly:
    """The network whose ridge sums these are, its output layer from the answers ``y`` to ``x``.

    ``free``, in a bounded domain: nothing is concluded about sides, and affine rests are taken as they come.
    """
    d, m1, m2 = x.shape[1], len(planes), len(units)
    bounded = not np.isinf(domain.reach(d))
    ratios, leak, plain = (np.ones(m1), 0.0, False) if free else orient_first(planes, units)
    lam = (1 + leak) / (1 - leak)
    sides = np.where(ratios < 0, -1.0, 1.0)
    if free:
        beta, rest, constants = _keep_signs(planes, units, x, sides)
    else:
        beta, rest, constants = _complete(planes, units, sides, lam)
    rows1, biases1 = sides[:, None] * planes.normals, sides * planes.offsets
    scale = np.linalg.norm(np.array([u.gamma[:d] for u in units]), axis=1)
    extra, shares = (
        low_rank(rest, 1e-6 * max(float(np.median(scale)), 1e-300))
        if bounded and not plain
        else (
            np.zeros((0, d)),
            np.zeros((m2, 0)),
        )
    )
    height = 1.1 * largest_value(domain, extra) + 1.0 if len(extra) else np.zeros(0)
    weights1, offsets1 = np.vstack([rows1, extra]), np.append(biases1, height)
    weights2 = np.hstack([2 / (1 - leak) * beta, shares])
    constants = constants - shares @ height
    features = leaky(x @ weights1.T + offsets1, leak)
    z = features @ weights2.T + constants
    outputs = np.array([u.output for u in units])
    signs, r, plain_top = orient_second(z, outputs, features, y, bars, lam, bounded, free)
    columns = outputs * (1 - leak) ** -1.0  # phi bends by (1 - a) of its output weight
    weights2, constants = signs[:, None] * weights2, signs * constants
    num_top = 0
    if r is not None:
        size = np.max(np.abs(y), axis=0).max()
        reach = np.sqrt(np.mean(features**2, axis=0)) + 1e-300
        rows, loads = low_rank(r * reach, 1e-7 * size)
        if not bounded:  # the strongest only: what else is left over is rounding and units that were not met
            rows, loads = rows[:1], loads[:, :1]
        rows = rows / reach
        if len(rows) and not bounded:  # its bias shows where it is off, if it is anywhere
            turn = np.where(np.sum(np.sign(features @ rows.T), axis=0) < 0, -1.0, 1.0)
            rows, loads, lift = turn[:, None] * rows, turn * loads, np.zeros(len(rows))
        elif len(rows):
            lift = 1.5 * np.max(np.abs(features @ rows.T), axis=0) + 1.0
        if len(rows):
            weights2, constants = np.vstack([weights2, rows]), np.append(constants, lift)
            columns = np.vstack([columns, loads.T])
            num_top = len(rows) if bounded else 0
    hidden = leaky(features @ weights2.T + constants, leak)
    constant = np.median(y - hidden @ columns, axis=0)
    name = "relu" if leak == 0 else f"leaky_relu({leak!r})"
    network = Network(
        [weights1, weights2, columns.T], [offsets1, constants, constant], [name, name, "identity"]
    )
    return Assembly(network, leak, (len(extra), num_top), (not plain, not plain_top))


def orient_first(planes: Planes, units: list[Unit]) -> tuple[np.ndarray, float, bool]:
    """lambda s_i for every plane, the slope of the leak, and whether nothing affine is left over."""
    d, m = planes.normals.shape[1], len(planes)
    system, target, owner = [], [], []
    for number, unit in enumerate(units):
        size = np.linalg.norm(unit.gamma[:d]) + np.linalg.norm(unit.beta)
        hidden = planes.normals[~unit.told]
        if len(hidden) >= d or size == 0:
            continue
        matrix = (planes.normals * (unit.beta * unit.told)[:, None]).T / size
        right = unit.gamma[:d] / size
        if len(hidden):
            basis = np.linalg.qr(hidden.T, mode="complete")[0][:, len(hidden) :]
            matrix, right = basis.T @ matrix, basis.T @ right
        system.append(matrix)
        target.append(right)
        owner += [number] * len(right)
    if not system:
        return np.ones(m), 0.0, False
    a, b, owner = np.concatenate(system), np.concatenate(target), np.array(owner)
    weight = np.ones(len(units))
    solution = np.zeros(m)
    for _ in range(30):
        w = weight[owner]
        solution = np.linalg.lstsq(a * w[:, None], b * w, rcond=1e-10)[0]
        miss = np.zeros(len(units))
        np.maximum.at(miss, owner, np.abs(a @ solution - b))
        typical = max(float(np.median(miss[miss > 0])) if np.any(miss > 0) else 0.0, 1e-13)
        weight = 1 / np.sqrt(1 + (miss / (3 * typical)) ** 2)
    told = np.linalg.norm(a * weight[owner][:, None], axis=0) > 1e-6
    sizes = np.abs(solution[told])
    common = float(np.median(sizes)) if len(sizes) else 1.0
    plain = bool(len(sizes) and np.mean(np.abs(sizes / common - 1) < SAME) > 0.9 and common > 1 - SAME)
    if not plain:
        good = miss[owner] <= 1e3 * typical
        found = solve_signs(a[good].T, b[good], SIGN_ERROR)
        if found.signs is not None and found.determined.all():
            return found.signs, 0.0, True
    leak = short_slope((common - 1) / (common + 1)) if plain else 0.0
    return solution, leak, plain


def orient_second(
    z: np.ndarray,
    outputs: np.ndarray,
    features: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    lam: float,
    bounded: bool,
    free: bool,
) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """Signs of the second layer; what is left linear in the features (inputs of the layer, outputs), or None."""
    n, k = y.shape
    m = z.shape[1]
    target = y - np.abs(z) @ (outputs / 2)
    design = (z[:, None, :] * outputs.T[None] / 2).reshape(n * k, m)
    design = np.hstack([design, np.tile(np.eye(k), (n, 1))])
    w = np.repeat(1 / bars, k)
    solution = robust_solve(design, target.reshape(n * k, 1), w)[:, 0]
    signs = np.where(solution[:m] < 0, -1.0, 1.0)
    plain = bool(np.mean(np.abs(np.abs(solution[:m]) / lam - 1) < SAME) > 0.9)
    if plain and not free:
        return signs, None, plain
    total = robust_solve(np.hstack([features, np.ones((n, 1))]), target, 1 / bars)[:-1].T
    # sides for which the rest is of least rank: as few always active units as may be
    reach = np.sqrt(np.mean(features**2, axis=0))
    inner = np.linalg.lstsq(np.hstack([features, np.ones((n, 1))]), z, rcond=None)[0][:-1].T
    atoms = outputs[:, :, None] * inner[:, None, :] * lam / 2
    signs = np.where(least_rank(total * reach, atoms * reach) < 0, -1.0, 1.0)
    return signs, total - np.einsum("l,lkm->km", signs, atoms), False


def least_rank(target: np.ndarray, atoms: np.ndarray, num_passes: int = 30) -> np.ndarray:
    """Coefficients for which ``target - sum_l c_l atoms_l`` has the least nuclear norm, by reweighted least squares."""
    k = len(target)
    weight, solution = np.eye(k), np.zeros(len(atoms))
    flat = atoms.reshape(len(atoms), k, -1)
    for _ in range(num_passes):
        a = np.einsum("ij,ljm->lim", weight, flat).reshape(len(atoms), -1).T
        solution = np.linalg.lstsq(a, (weight @ target).ravel(), rcond=1e-12)[0]
        rest = target - np.einsum("l,lkm->km", solution, flat)
        values, vectors = np.linalg.eigh(rest @ rest.T)
        values = np.maximum(values, 1e-10 * max(values[-1], 1e-300))
        weight = (vectors * (values[-1] / values) ** 0.25) @ vectors.T
    return solution


def _complete(planes: Planes, units: list[Unit], sides: np.ndarray, lam: float):
    """Weights on planes that all facets of a unit leave on one side, as its affine part tells them; what is left."""
    d = planes.normals.shape[1]
    beta, rest = np.array([u.beta for u in units]), np.zeros((len(units), d))
    constants = np.array([u.gamma[-1] for u in units]) - lam * beta @ (sides * planes.offsets)
    for number, unit in enumerate(units):
        left = unit.gamma[:d] - lam * (unit.beta * sides) @ planes.normals
        # on its active side a plane's ridge is linear at all facets and lies in the affine part
        active = np.flatnonzero(~unit.shown & (unit.signs == sides))
        if 0 < len(active) < d:
            part = np.linalg.lstsq(planes.normals[active].T, left, rcond=None)[0]
            fitted = part @ planes.normals[active]
            if np.linalg.norm(left - fitted) <= 1e-3 * np.linalg.norm(unit.gamma[:d]):
                beta[number, active] = part / (1 + lam) * sides[active]
                constants[number] -= part @ planes.offsets[active]
                left = left - fitted
        rest[number] = left
    return beta, rest, constants


def _keep_signs(planes: Planes, units: list[Unit], x: np.ndarray, sides: np.ndarray):
    """Weights that keep each unit's sign beyond planes its zero set never meets, and the affine rests with them.

    Where the sign does not change, the size of such a weight shows nowhere: the layer above absorbs it.
    """
    d = x.shape[1]
    heights = planes.heights(x)
    beta, rest = np.array([u.beta for u in units]), np.zeros((len(units), d))
    constants = np.zeros(len(units))
    extended = np.hstack([x, np.ones((len(x), 1))])
    for number, unit in enumerate(units):
        hidden = np.flatnonzero(~unit.shown)
        z = extended @ unit.gamma + np.abs(heights) @ beta[number]
        beyond = heights[:, hidden] * unit.signs[hidden] < 0
        steep = np.linalg.norm(unit.gamma[:d]) + np.abs(unit.beta).sum()
        gamma = unit.gamma.copy()
        for column, plane in enumerate(hidden):
            near = np.argsort(
                np.abs(heights[:, plane]) + 1e6 * (np.delete(beyond, column, axis=1).any(axis=1))
            )[:15]
            keep = np.sign(np.sum(np.sign(z[near]))) or 1.0
            # beta (|u| - s u) is nothing on the side of the facets and grows beyond
            beta[number, plane] = keep * steep
            gamma -= (
                keep * steep * unit.signs[plane] * np.append(planes.normals[plane], planes.offsets[plane])
            )
        rest[number] = gamma[:d] - (beta[number] * sides) @ planes.normals
        constants[number] = gamma[-1] - (beta[number] * sides) @ planes.offsets
    return beta, rest, constants


def low_rank(matrix: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """``shares @ rows`` of the least rank that leaves less than ``least``: rows of length one, and the shares."""
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    rank = int(np.sum(s > max(least, 1e-9 * (s[0] if len(s) else 0.0))))
    return vt[:rank], u[:, :rank] * s[:rank]


def largest_value(domain: Domain, rows: np.ndarray) -> np.ndarray:
    """How large each of the linear functions ``rows`` gets in a bounded domain, at most."""
    points = np.concatenate(
        [
            domain.sample(400, rows.shape[1], np.random.default_rng(1)),
            domain.edge(400, rows.shape[1], np.random.default_rng(2)),
        ]
    )
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, 0.55 * (high - low)
    return np.abs(rows @ middle) + np.abs(rows) @ half


def robust_solve(
    design: np.ndarray, target: np.ndarray, weights: np.ndarray, num_passes: int = 12
) -> np.ndarray:
    """Weighted least squares that a minority of wrong rows does not spoil; columns scaled."""
    a, b = design * weights[:, None], target * weights[:, None]
    scale = np.linalg.norm(a, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    a = a / scale
    robust, solution = np.ones(len(a)), np.zeros((a.shape[1], b.shape[1]))
    for _ in range(num_passes):
        solution = np.linalg.lstsq(a * robust[:, None], b * robust[:, None], rcond=1e-13)[0]
        misses = np.max(np.abs(a @ solution - b), axis=1)
        robust = 1 / np.maximum(1.0, misses / max(3 * float(np.median(misses)), 1.0))
    return solution / scale[:, None]


def leaky(z: np.ndarray, leak: float) -> np.ndarray:
    return np.where(z > 0, z, leak * z)


def short_slope(value: float) -> float:
    """The slope of the leak with the fewest digits that the solve allows."""
    if abs(value) < SAME / 4:
        return 0.0
    for digits in range(1, 8):
        if abs(round(value, digits) - value) <= 1e-3 * abs(value) * 10 ** (1 - digits):
            return float(round(value, digits))
    return float(value)
