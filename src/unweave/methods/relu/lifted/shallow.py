"""One hidden layer from its planes: bends and affine part are linear in the answers, the sides follow from both."""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.methods.relu.lifted.assemble import (
    SAME,
    Assembly,
    largest_value,
    leaky,
    least_rank,
    low_rank,
    robust_solve,
    short_slope,
)
from unweave.methods.relu.lifted.planes import Planes


def assemble_one(
    planes: Planes, x: np.ndarray, y: np.ndarray, bars: np.ndarray, domain: Domain, *, rough: float
) -> Assembly:
    """The network of one hidden layer over these planes; ``rough``: relative error of its affine part."""
    m, heights = len(planes), np.abs(planes.heights(x))
    solution = robust_solve(np.hstack([heights, x, np.ones((len(x), 1))]), y, 1 / bars)
    return assemble_bends(planes, solution[:m], solution[m:-1].T, x, y, domain, rough=rough)


def assemble_bends(
    planes: Planes,
    half: np.ndarray,
    tilt: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    domain: Domain,
    *,
    rough: float,
) -> Assembly:
    """The same where ``f(x) = half . |heights| + tilt x`` and a constant is known already."""
    d, m = x.shape[1], len(planes)
    atoms = half[:, :, None] * planes.normals[:, None, :]
    reach = np.std(x, axis=0) + 1e-300
    ratios = np.linalg.lstsq((atoms * reach).reshape(m, -1).T, (tilt * reach).ravel(), rcond=1e-10)[0]
    left = np.linalg.norm((tilt - np.einsum("i,ikd->kd", ratios, atoms)) * reach) / np.linalg.norm(
        tilt * reach
    )
    common = float(np.median(np.abs(ratios)))
    plain = bool(left < max(100 * rough, 1e-6) and np.mean(np.abs(np.abs(ratios) / common - 1) < SAME) > 0.9)
    plain = plain and common > 1 - SAME
    leak = short_slope((common - 1) / (common + 1)) if plain else 0.0
    lam = (1 + leak) / (1 - leak)
    if not plain:
        ratios = least_rank(tilt * reach, atoms * reach)
    sides = np.where(ratios < 0, -1.0, 1.0)
    weights, biases, columns = sides[:, None] * planes.normals, sides * planes.offsets, 2 / (1 - leak) * half
    extra = 0
    if not plain and not np.isinf(domain.reach(d)):
        rest = (tilt - lam * np.einsum("i,ikd->kd", sides, atoms)) * reach
        rows, loads = low_rank(rest, max(rough, 1e-9) * float(np.linalg.norm(tilt * reach)))
        # the sign is free in the domain: what grows from its beginning to its middle stays on beyond its end
        rows = rows / reach
        sign = np.where(rows @ np.mean(x, axis=0) < 0, -1.0, 1.0)
        rows, loads = sign[:, None] * rows, loads * sign
        extra = len(rows)
        if extra:
            weights, biases = (
                np.vstack([weights, rows]),
                np.append(biases, 1.1 * largest_value(domain, rows) + 1.0),
            )
            columns = np.vstack([columns, loads.T])
    hidden = leaky(x @ weights.T + biases, leak)
    constant = np.median(y - hidden @ columns, axis=0)
    name = "relu" if leak == 0 else f"leaky_relu({leak!r})"
    network = Network([weights, columns.T], [biases, constant], [name, "identity"])
    return Assembly(network, leak, (extra, 0), (not plain, False))
