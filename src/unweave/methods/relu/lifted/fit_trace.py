"""A traced unit by least squares: it is linear in its parameters.

Kinks that it owns lie on its zero set and jump by its slope; measured facets are its own; crossings tell single
weights; places asked at for the purpose tell where its zero set lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unweave.methods.relu.lifted.sightings import Sightings
from unweave.methods.relu.lifted.traces import Traces

Places = tuple[np.ndarray, ...]
"""(x, errors, facets, jumps, errors of the jumps) at places of a zero set."""


@dataclass(frozen=True)
class Prior:
    """What all answers together said of a trace, when it knew the weights of fewer planes."""

    known: np.ndarray
    values: np.ndarray
    """Of (gamma, known beta)."""
    covariance: np.ndarray

    def rows(self, traces: Traces, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Equations for (gamma, beta of the planes known now), each with standard error one, and their right sides."""
        values, vectors = np.linalg.eigh(self.covariance)
        matrix = vectors.T / np.sqrt(np.maximum(values, 1e-20 * values[-1]))[:, None]
        d, place = (
            traces.gamma.shape[1],
            dict(zip(np.flatnonzero(self.known), range(len(values)), strict=False)),
        )
        known = np.flatnonzero(traces.known[j])
        # beyond the planes crossed since, the affine part is another one
        columns = [
            matrix[:, d + place[i]] if i in place else matrix[:, :d] @ (traces.sides[j, i] * traces.ridges[i])
            for i in known
        ]
        return np.column_stack([matrix[:, :d], *columns]), matrix @ self.values


def fit_trace(
    s: Sightings, traces: Traces, j: int, owned: np.ndarray, places: Places | None, prior: Prior | None = None
) -> None:
    """Fit trace ``j`` again, from the numbered kinks it owns, its crossings and places; its covariance follows.

    With a ``prior``, which rests on all of them, only from the kinks' places and the crossings since.
    """
    planes = traces.planes
    known = np.flatnonzero(traces.known[j])
    numbers = np.union1d(owned, [traces.seed[j]]).astype(int)
    x, d = s.x[numbers], s.x.shape[1]
    heights = planes.heights(x)
    signs = np.where(heights > 0, 1.0, -1.0)
    facet = traces.facets(np.full(len(numbers), j), signs)
    rate = np.einsum("nd,nd->n", facet[:, :-1], s.across[numbers])
    size = np.linalg.norm(facet[:, :-1], axis=1)
    ridges = traces.ridges[known]
    extended = np.hstack([x, np.ones((len(x), 1))])
    rows, right = [], []

    def add(matrix, target, error):
        rows.append(matrix / error[:, None])
        right.append(target / error)

    # on the zero set
    error = s.error[numbers] * np.abs(rate) + 1e-15 * size * (1 + np.linalg.norm(x, axis=1))
    add(np.hstack([extended, np.abs(heights[:, known])]), np.zeros(len(x)), error)
    if prior is not None:
        matrix, target = prior.rows(traces, j)
        add(matrix, target, np.ones(len(target)))
    elif places is not None:
        where, errors, facets, jumps, jump_errors = places
        high = planes.heights(where)
        own = np.where(high > 0, 1.0, -1.0)
        grid = np.hstack([where, np.ones((len(where), 1)), np.abs(high[:, known])])
        add(grid, np.zeros(len(where)), errors + 1e-16 * np.linalg.norm(facets, axis=1))
        normals = facets[:, :-1] / np.linalg.norm(facets[:, :-1], axis=1, keepdims=True)
        steep = np.hstack(
            [normals, np.zeros((len(where), 1)), (normals @ planes.normals[known].T) * own[:, known]]
        )
        turn = np.where(
            np.einsum("np,p->n", steep, np.append(traces.gamma[j], traces.beta[j, known])) < 0, -1.0, 1.0
        )
        add(steep, turn * jumps, jump_errors)
    if prior is None:
        # the jump along the line
        across = np.hstack([s.across[numbers], np.zeros((len(x), 1))])
        jump = np.einsum("nk,k->n", s.jump[numbers], traces.output[j]) * np.where(rate < 0, -1.0, 1.0)
        slopes = (s.across[numbers] @ planes.normals[known].T) * signs[:, known]
        add(np.hstack([across, slopes]), jump, s.jump_error[numbers] + 1e-14 * size)
        # facets
        for number, sign, own in zip(numbers, signs, facet, strict=True):
            if not np.isfinite(s.facet_error[number]):
                continue
            turn = 1.0 if s.facet[number, :-1] @ own[:-1] > 0 else -1.0
            block = np.hstack([np.eye(d), np.zeros((d, 1)), (sign[known, None] * ridges[:, :d]).T])
            add(
                block,
                turn * s.facet[number, :-1],
                np.full(d, s.facet_error[number] + 1e-14 * np.linalg.norm(own[:-1])),
            )
    # crossings
    eye = np.hstack([np.zeros((len(known), d + 1)), np.eye(len(known))])
    new = np.ones(len(known), dtype=bool) if prior is None else ~prior.known[known]
    add(eye[new], traces.beta[j, known][new], traces.beta_error[j, known][new] + 1e-14)
    a, b = np.vstack(rows), np.concatenate(right)
    weight, scale = np.ones(len(b)), np.linalg.norm(a, axis=0) + 1e-300
    start = np.concatenate([traces.gamma[j], traces.beta[j, known]])
    b = b - a @ start
    solution = np.zeros(a.shape[1])
    factor = misses = np.zeros(0)
    for _ in range(2):
        q, factor = np.linalg.qr(a / scale * weight[:, None])
        solution = scipy.linalg.solve_triangular(factor, q.T @ (b * weight), check_finite=False) / scale
        misses = np.abs(a @ solution - b)
        weight = 1 / np.sqrt(np.maximum(1.0, misses / max(3 * float(np.median(misses)), 3.0)))
    start = start + solution
    traces.gamma[j], traces.beta[j, known] = start[: d + 1], start[d + 1 :]
    root = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), check_finite=False).T / scale
    rough = max(1.0, float(np.sqrt(np.mean((misses * weight) ** 2))))
    rows_known = np.append(np.arange(d + 1), d + 1 + known)
    traces.covariance[j] = 0.0
    traces.covariance[j][np.ix_(rows_known, rows_known)] = rough**2 * root.T @ root
