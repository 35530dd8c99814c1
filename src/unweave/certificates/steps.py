"""Checks of step networks: fresh questions on both sides of every recovered face.

A step network says the same almost everywhere as another one close to it; what tells them apart are points next to the
boundary. Random points of each face, where the others are silent, are asked a relative 1e-9 before and behind it.
"""

from __future__ import annotations

import numpy as np

from unweave.certificates.base import Check, FreshQueries
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE

FACES = "points at faces"
GAP = 1e-9
POINTS_A_FACE = 3


def check_faces(network: Network, fresh: FreshQueries) -> list[Check]:
    """Whether the model switches at points of the recovered faces as the network does."""
    meter = fresh.meter
    before, behind = face_points(network, fresh.rng)
    inside = meter.domain.contains(before) & meter.domain.contains(behind)
    before, behind = before[inside], behind[inside]
    room = int(min(len(before), meter.ledger.left // 2))
    if not room:
        return [Check(FACES, None)]
    before, behind = before[:room], behind[:room]
    with meter.stage(CERTIFICATE):
        answers = meter.ask(np.concatenate([before, behind]))
    wrong = np.any(answers != network(np.concatenate([before, behind])), axis=1)
    share = float(np.mean(np.logical_or(wrong[:room], wrong[room:])))
    seen = "switches as the network does" if share == 0 else f"does not switch in {share:.0%} of the cases"
    words = f"at {room} points of the recovered faces the model {seen}"
    return [
        Check(
            FACES,
            share == 0,
            {"num_points": float(room), "wrong_share": share},
            words,
            words if share else "",
        )
    ]


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
