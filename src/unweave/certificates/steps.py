"""Checks of step networks: fresh questions on both sides of every recovered face.

A step network says the same almost everywhere as another one close to it; what tells them apart are points next to the
boundary. Random points of each face, where the others are silent, are asked a relative 1e-9 before and behind it.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter

GAP = 1e-9
POINTS_A_FACE = 3


def boundary_checks(network: Network, meter: Meter, rng: np.random.Generator) -> dict[str, float]:
    """How many face points were asked, and the share of them where the model does not switch as the network does."""
    before, behind = face_points(network, rng)
    inside = meter.domain.contains(before) & meter.domain.contains(behind)
    before, behind = before[inside], behind[inside]
    room = int(min(len(before), meter.ledger.left // 2))
    if not room:
        return {}
    before, behind = before[:room], behind[:room]
    with meter.stage(CERTIFICATE):
        answers = meter.ask(np.concatenate([before, behind]))
    wrong = np.any(answers != network(np.concatenate([before, behind])), axis=1)
    bad = np.logical_or(wrong[:room], wrong[room:])
    return {"num_face_points": float(room), "max_error_at_faces": float(np.mean(bad))}


def face_points(network: Network, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of points just before and behind each first-layer face at which the network's answer changes."""
    rows, offsets = network.weights[0], -network.biases[0]
    lengths = np.linalg.norm(rows, axis=1)
    normals, offsets = rows / lengths[:, None], offsets / lengths
    before, behind = [], []
    for normal, offset in zip(normals, offsets, strict=True):
        noise = rng.standard_normal((20 * POINTS_A_FACE, len(normal)))
        scales = rng.uniform(0.05, 1.0, size=(len(noise), 1)) * max(abs(offset), 1e-3)
        foot = offset * normal + scales * (noise - np.outer(noise @ normal, normal))
        step = GAP * np.maximum(np.linalg.norm(foot, axis=1), 1e-6)[:, None] * normal
        switches = np.any(network(foot - step) != network(foot + step), axis=1)
        chosen = np.flatnonzero(switches)[:POINTS_A_FACE]
        before.append((foot - step)[chosen])
        behind.append((foot + step)[chosen])
    return np.concatenate(before), np.concatenate(behind)
