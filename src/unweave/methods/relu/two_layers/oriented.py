"""The first hidden layer with its sides: features, and second-layer units given by their rows over them."""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Domain
from unweave.methods.relu.two_layers.preactivation import PreActivation
from unweave.probes.planes import Planes

NUM_HALVINGS, NUM_STEPS = 200, 60


class OrientedLayer:
    """Planes whose active sides are known."""

    def __init__(self, planes: Planes, orientation: np.ndarray):
        self.planes = planes
        self.rows: np.ndarray = orientation[:, None] * planes.normals
        self.offsets: np.ndarray = orientation * planes.offsets

    def features(self, x: np.ndarray) -> np.ndarray:
        return np.maximum(x @ self.rows.T + self.offsets, 0.0)

    def lowest(
        self, row: np.ndarray, x: np.ndarray, domain: Domain, hold: tuple[int, float] | None = None
    ) -> np.ndarray:
        """Where ``row . h`` is as low as descents from ``x`` come, each at its distance from the origin.

        ``hold``: a unit of the layer, which stays so far above its plane, relative to that distance.
        """
        sizes = np.linalg.norm(x, axis=1, keepdims=True)
        best, lowest = x, np.full(len(x), np.inf)
        for step in np.geomspace(0.5, 0.01, NUM_STEPS):
            x = sizes * x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
            if hold is not None:
                height = x @ self.rows[hold[0]] + self.offsets[hold[0]]
                x = x + (hold[1] * sizes[:, 0] - height)[:, None] * self.rows[hold[0]]
            x = domain.nearest(x)
            heights = x @ self.rows.T + self.offsets
            value = np.maximum(heights, 0.0) @ row
            best = np.where((value < lowest)[:, None], x, best)
            lowest = np.minimum(value, lowest)
            slope = ((heights > 0) * row) @ self.rows
            x = x - step * sizes * slope / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-300)
        return best

    def unit(
        self, row: np.ndarray, known: np.ndarray, output: np.ndarray, on: np.ndarray, off: np.ndarray
    ) -> PreActivation:
        """The unit with these weights and bias, which is on and off at the two points.

        Features whose weight is not ``known`` must rest at both, and so between them.
        """
        for _ in range(NUM_HALVINGS):
            point = (on + off) / 2
            positive = self.features(point[None])[0] @ row[:-1] + row[-1] > 0
            on, off = (point, off) if positive else (on, point)
        active = self.rows @ point + self.offsets > 0
        return PreActivation(
            point,
            np.where(active, row[:-1], 0.0) @ self.rows,
            np.sign(self.planes.normals @ point + self.planes.offsets),
            row[:-1],
            known,
            output,
            float(np.linalg.norm(row) * np.finfo(float).eps),
        )
