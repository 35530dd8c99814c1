"""Two hidden layers inside a bounded domain: a sum of units over planes and of what is linear beside them.

The answers are ``sum_j output_j relu(z_j) + sum_i e_i |u_i| + affine`` with u_i the heights over the planes of the
first layer and ``z_j = gamma_j . (x, 1) + sum_i beta_ji |u_i|``: every bend of a plane that does not change along it,
and all that is affine, may come from units that are always active in the domain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.methods.relu.lifted.assemble import robust_solve
from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.traces import Traces

SAME = 1e-3
"""Planes closer than this are one, to the digits that lines tell them at least."""


@dataclass(frozen=True)
class RidgeSum:
    """The units and all that is linear beside them, as one function."""

    rows: np.ndarray
    """(n, d + 1) planes."""
    gamma: np.ndarray
    beta: np.ndarray
    output: np.ndarray
    """(m, k)."""
    above: np.ndarray
    """(n + d + 1, k): of |u_i|, x and 1."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.forward(np.hstack([x, np.ones((len(x), 1))]))[0]

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Answers, the planes' heights and the units' values at points (x, 1)."""
        u = x @ self.rows.T
        z = x @ self.gamma.T + np.abs(u) @ self.beta.T
        return np.maximum(z, 0.0) @ self.output + np.hstack([np.abs(u), x]) @ self.above, u, z

    def on(self, x: np.ndarray) -> np.ndarray:
        """(points, m): which units are active at points x."""
        return self.forward(np.hstack([x, np.ones((len(x), 1))]))[2] > 0

    def other_columns(self, x: np.ndarray, u: np.ndarray, z: np.ndarray) -> np.ndarray:
        """(points, k, parameters): derivatives by all that follows the units' own weights in ``flat``."""
        count, (n, k) = len(x), (len(self.rows), self.output.shape[1])
        slopes = (z > 0)[:, None, :] * self.output.T
        bends = np.where(u > 0, 1.0, -1.0)[:, None, :] * (slopes @ self.beta + self.above[:n].T)
        linear = np.hstack([np.maximum(z, 0.0), np.abs(u), x])
        parts = (
            bends[:, :, :, None] * x[:, None, None, :],
            linear[:, None, :, None] * np.eye(k)[:, None, :],
        )
        return np.concatenate([part.reshape(count, k, -1) for part in parts], axis=2)

    def over(self, rows: np.ndarray) -> RidgeSum | None:
        """The same sum over these planes, all of its own among them; None if one of its own is not."""
        apart = np.minimum(
            np.linalg.norm(_unit(rows)[:, None] - _unit(self.rows), axis=2),
            np.linalg.norm(_unit(rows)[:, None] + _unit(self.rows), axis=2),
        )
        place = apart.argmin(axis=0)
        if len(rows) < len(self.rows) or np.any(apart.min(axis=0) > SAME) or len(set(place)) < len(place):
            return None
        (m, n), k = self.beta.shape, self.output.shape[1]
        rows, beta, bends = rows.copy(), np.zeros((m, len(rows))), np.zeros((len(rows), k))
        rows[place], beta[:, place], bends[place] = self.rows, self.beta, self.above[:n]
        return RidgeSum(rows, self.gamma, beta, self.output, np.vstack([bends, self.above[n:]]))

    def take(self, units: np.ndarray) -> RidgeSum:
        """With these units only."""
        return replace(self, gamma=self.gamma[units], beta=self.beta[units], output=self.output[units])

    def flat(self) -> np.ndarray:
        parts = np.hstack([self.gamma, self.beta]), self.rows, self.output, self.above
        return np.concatenate([part.ravel() for part in parts])

    def at(self, flat: np.ndarray) -> RidgeSum:
        (m, n), (width, k) = self.beta.shape, (self.rows.shape[1], self.output.shape[1])
        units, rows, output, above = np.split(flat, np.cumsum([m * (width + n), n * width, m * k]))
        units = units.reshape(m, width + n)
        return RidgeSum(
            rows.reshape(n, width),
            units[:, :width],
            units[:, width:],
            output.reshape(m, k),
            above.reshape(-1, k),
        )


def put_up(traces: Traces, faces: Faces, x: np.ndarray, y: np.ndarray, bars: np.ndarray) -> RidgeSum:
    """The units as traced, with all that is linear fitted to the answers."""
    gamma, beta = keep_signs(traces, faces)
    none = np.zeros((len(traces.planes) + x.shape[1] + 1, y.shape[1]))
    start = RidgeSum(traces.ridges, gamma, beta, traces.output, none)
    x = np.hstack([x, np.ones((len(x), 1))])
    values, u, z = start.forward(x)
    # the sizes of jumps fix the outputs to fewer digits than all answers together
    design = np.hstack([np.abs(u), x, np.maximum(z, 0.0)])
    found = robust_solve(design, y - values, 1 / bars, num_passes=6)
    above, more = found[: len(none)], found[len(none) :]
    return replace(start, output=traces.output + more, above=above)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)


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
