"""From planes and traced units to a network that is the model inside a bounded domain.

There the answers are ``sum_j output_j relu(z_j) + sum_i e_i relu(u_i) + affine``: every bend of a plane that does not
change along it, and all that is affine, may come from units that are always active in the domain. So e and the affine
part are a linear fit to answers, and are carried by as few always active units as their rank. A unit keeps its sign
beyond planes that its zero set never meets; the size of such a weight shows nowhere in the domain.
"""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.methods.relu.lifted.assemble import Assembly, largest_value, low_rank, robust_solve
from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.traces import Traces

EPS = float(np.finfo(float).eps)


def compose(
    planes: Planes,
    traces: Traces,
    sides: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    domain: Domain,
    faces: Faces,
) -> Assembly:
    """The network; ``sides`` (n,) the active side of each plane, e and the affine part from answers ``y`` to ``x``."""
    d, m = x.shape[1], len(traces)
    gamma, beta = keep_signs(traces, faces)
    heights = planes.heights(x)
    z = x @ gamma[:, :d].T + gamma[:, d] + np.abs(heights) @ beta.T
    bent = np.maximum(sides * heights, 0.0)
    target = y - np.maximum(z, 0.0) @ traces.output
    design = np.hstack([bent, x, np.ones((len(x), 1)), np.maximum(z, 0.0)])
    # the sizes of jumps fix the outputs to fewer digits than all answers together
    solution = robust_solve(design, target, 1 / bars, num_passes=6)
    e, tilt, constant, more = np.split(solution, [len(planes), len(planes) + d, len(planes) + d + 1])
    outputs, constant = traces.output + more, constant[0]
    # |u| = 2 relu(s u) - s u
    rest = gamma[:, :d] - (beta * sides) @ planes.normals
    offsets = gamma[:, d] - (beta * sides) @ planes.offsets
    reach = np.std(x, axis=0) + 1e-300
    scale = np.concatenate(
        [1 / np.linalg.norm(gamma[:, :d] * reach, axis=1), 1 / (np.std(y, axis=0) + 1e-300)]
    )
    linear = np.concatenate([rest, tilt.T]) * reach * scale[:, None]
    rows, shares = low_rank(linear, 1e-9)
    rows, shares = rows / reach, shares / scale[:, None]
    height = 1.1 * largest_value(domain, rows) + 1.0 if len(rows) else np.zeros(0)
    weights1 = np.vstack([sides[:, None] * planes.normals, rows])
    biases1 = np.append(sides * planes.offsets, height)
    weights2 = np.hstack([2 * beta, shares[:m]])
    biases2 = offsets - shares[:m] @ height
    above = np.vstack([e, shares[m:].T])
    constant = constant - shares[m:] @ height
    features = np.maximum(x @ weights1.T + biases1, 0.0)
    size = np.sqrt(np.mean(features**2, axis=0)) + 1e-300
    tops, loads = low_rank((above * size[:, None]).T, 1e-9 * float(np.std(y)))
    tops = tops / size
    lift = 1.5 * np.max(np.abs(features @ tops.T), axis=0) + 1.0 if len(tops) else np.zeros(0)
    weights3 = np.hstack([outputs.T, loads])
    network = Network(
        [weights1, np.vstack([weights2, tops]), weights3],
        [biases1, np.append(biases2, lift), constant - loads @ lift],
        ["relu", "relu", "identity"],
    )
    return Assembly(network, 0.0, (len(rows), len(tops)), (True, True))


def evaluation_error(network: Network, x: np.ndarray) -> np.ndarray:
    """Rounding (n,) of the sums of a relu network itself: four last digits of all that is added up."""
    h, size = x, np.abs(x)
    for number, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        h = h @ w.T + b
        size = size @ np.abs(w).T + np.abs(b)
        if number < network.num_layers - 1:
            size = size * (h > 0)
            h = np.maximum(h, 0.0)
    return 4 * EPS * np.max(size, axis=1)


def keep_signs(traces: Traces, faces: Faces) -> tuple[np.ndarray, np.ndarray]:
    """(gamma, beta) with weights on planes never met that keep each unit's sign beyond them."""
    gamma, beta = traces.gamma.copy(), traces.beta.copy()
    values, known = faces.look(traces)
    votes = np.where(known, np.sign(values), 0.0)
    for j in range(len(traces)):
        steep = 1.5 * (np.linalg.norm(gamma[j, :-1]) + np.abs(beta[j]).sum())
        for plane in np.flatnonzero(~traces.known[j]):
            keep = np.sign(votes[faces.plane == plane, j].sum())
            # keep steep relu(-s u): nothing on the known side, growing beyond
            beta[j, plane] = keep * steep / 2
            gamma[j] -= keep * steep / 2 * traces.sides[j, plane] * traces.ridges[plane]
    return gamma, beta
