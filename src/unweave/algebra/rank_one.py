"""Rank-one elements of a space of symmetric matrices: the weights in a span of Hessians.

For a space W spanned (nearly) by ``w_j w_j'`` the local maxima of ``|P_W(u u')|_F^2`` over unit vectors u
are the ``w_j``; equivalently those of ``|M|`` over ``M in W, |M|_F = 1`` (Fornasier et al., program (46)).
Two iterations:

* ``ascend_spectral_norm``: Algorithm 3 of the paper, ``M <- P_S P_W(M + gamma u1 u1')`` from random elements;
* ``climb``: the subspace power method (Kileel and Pereira 2019), ``u <- normalise(P_W(u u') u + shift u)``,
  which costs one projection and no eigenvectors a step, and is the default.

Components are *counted*: limits that agree up to sign are one component, and later starts are drawn from
the part of W that the components found so far do not explain. In a span that contains rank-one matrices
exactly, Gauss-Newton on ``(1 - P_W) u u' = 0`` polishes them to rounding. ``cluster_directions`` is the
k-means++ of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unweave.algebra.matrix_span import MatrixSpan, half_vectorise, outer_squares


@dataclass(frozen=True)
class Components:
    """Unit ``vectors`` (k, d), strongest first, with ``values = |P_W(u u')|_F`` (1: exactly rank one)."""

    vectors: np.ndarray = field(repr=False)
    values: np.ndarray
    hits: np.ndarray
    """How many starts ended at each component."""

    def __len__(self) -> int:
        return len(self.vectors)

    def top(self, count: int) -> Components:
        return Components(self.vectors[:count], self.values[:count], self.hits[:count])


def find_components(
    span: MatrixSpan,
    rng: np.random.Generator,
    *,
    num_components: int | None = None,
    accept: float = 0.0,
    same: float = 1e-2,
    num_starts: int | None = None,
    max_rounds: int = 12,
    exact: bool = True,
) -> Components:
    """Distinct local maxima of ``|P_W(u u')|``, by the subspace power method.

    Parameters
    ----------
    num_components
        Stop when so many with a value of at least ``accept`` are found; the dimension of the span by default.
    same
        Two limits whose squared sine is below this are one component.
    num_starts
        Starts a round; twice the number of components by default.
    exact
        Polish each component to a rank-one matrix of the span by Gauss-Newton where that improves it.
    """
    wanted = span.dimension if num_components is None else num_components
    per_round = max(2 * wanted, 16) if num_starts is None else num_starts
    found = Components(np.zeros((0, span.size)), np.zeros(0), np.zeros(0, dtype=int))
    for _ in range(max_rounds):
        vectors = climb(span, _starts(span, found, per_round, rng))
        if exact:
            vectors = polish_components(span, vectors)
        found = _merge(span, found, vectors, same)
        if np.sum(found.values >= accept) >= wanted:
            break
    return found


def climb(
    span: MatrixSpan, starts: np.ndarray, *, shift: float = 0.1, max_steps: int = 400, tolerance: float = 1e-9
) -> np.ndarray:
    """Subspace power method from unit ``starts`` (n, d), all at once; settled rows are left alone."""
    u = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    active = np.arange(len(u))
    for _ in range(max_steps):
        before = u[active]
        # two products with the basis of half-vectorised matrices: no array of starts x dimension x size is formed
        projected = span.matrices(span.coordinates(outer_squares(before)))
        after = np.matmul(projected, before[:, :, None])[:, :, 0] + shift * before
        after /= np.linalg.norm(after, axis=1, keepdims=True)
        u[active] = after
        active = active[np.linalg.norm(after - before, axis=1) > tolerance]
        if not len(active):
            break
    return u


def ascend_spectral_norm(
    span: MatrixSpan,
    starts: np.ndarray,
    *,
    gamma: float = 2.0,
    tolerance: float = 1e-5,
    max_steps: int = 200,
    power_steps: int = 60,
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 3 from elements with coordinates ``starts`` (n, k): leading eigenvectors and eigenvalues.

    Warm power iterations, at most ``power_steps``, replace the eigendecomposition of a step wherever they settle to
    rounding on an eigenvalue above ``sqrt(1/2)``: the squares of all eigenvalues sum to 1, so it is the largest.
    """
    size = span.size
    basis = span.matrices(np.eye(span.dimension)).reshape(span.dimension, size * size)
    c = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    values, vectors = np.linalg.eigh((c @ basis).reshape(-1, size, size))
    flipped = -values[:, 0] > values[:, -1]
    c[flipped] *= -1
    u = np.where(flipped[:, None], vectors[:, :, 0], vectors[:, :, -1])
    top = np.maximum(values[:, -1], -values[:, 0])
    active = np.arange(len(c))
    for _ in range(max_steps):
        squares = outer_squares(u[active]).reshape(len(active), -1)
        moved = c[active] + gamma * (squares @ basis.T)
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        c[active] = moved
        leading, value = _leading((moved @ basis).reshape(-1, size, size), u[active], power_steps)
        u[active] = leading
        gain, top[active] = value - top[active], value
        active = active[gain >= tolerance]
        if not len(active):
            break
    return u, top


def _leading(matrices: np.ndarray, warm: np.ndarray, power_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Largest eigenvalues of matrices of Frobenius norm 1, with eigenvectors, from nearby ones."""
    u, value = warm.copy(), np.zeros(len(warm))
    unsettled, left = np.arange(len(warm)), matrices
    # Four steps between looks: a look costs as much as the steps, and lambda_1^4 >= 1/4 needs no rescaling in between.
    for _ in range(power_steps // 4):
        before = u[unsettled][:, :, None]
        for _ in range(3):
            before = np.matmul(left, before)
        before = before[:, :, 0] / np.maximum(np.linalg.norm(before[:, :, 0], axis=1), 1e-300)[:, None]
        after = np.matmul(left, before[:, :, None])[:, :, 0]
        size = np.linalg.norm(after, axis=1)
        after /= np.maximum(size, 1e-300)[:, None]
        u[unsettled], value[unsettled] = after, size
        far = np.max(np.abs(after - before), axis=1) > 1e-13
        if np.mean(far) < 0.8:
            unsettled, left = unsettled[far], left[far]
        if not far.any():
            break
    rest = np.union1d(unsettled, np.flatnonzero(value**2 <= 0.5 + 1e-9))
    if len(rest):
        values, vectors = np.linalg.eigh(matrices[rest])
        u[rest], value[rest] = vectors[:, :, -1], values[:, -1]
    return u, value


def polish_components(span: MatrixSpan, vectors: np.ndarray, *, max_steps: int = 8) -> np.ndarray:
    """Gauss-Newton on ``(1 - P_W) u u' = 0`` from each vector; a step is kept only if the residual falls."""
    size = span.size
    polished = vectors.copy()
    for i, u in enumerate(vectors):
        residual, distance = _residual(span, u)
        for _ in range(max_steps):
            moves = np.zeros((size, size, size))
            moves[np.arange(size), np.arange(size), :] += u
            moves += moves.transpose(0, 2, 1)
            jacobian = half_vectorise(moves)
            jacobian = jacobian - (jacobian @ span.basis.T) @ span.basis
            normal = jacobian @ jacobian.T + np.outer(u, u)
            step = np.linalg.lstsq(normal, jacobian @ residual, rcond=1e-14)[0]
            trial = u - step
            trial /= np.linalg.norm(trial)
            after, closer = _residual(span, trial)
            if not closer < distance:
                break
            settled = closer > 0.5 * distance
            u, residual, distance = trial, after, closer
            if settled:
                break
        polished[i] = u
    return polished


def cluster_directions(
    vectors: np.ndarray,
    num_clusters: int,
    rng: np.random.Generator,
    *,
    num_runs: int = 10,
    max_steps: int = 300,
) -> np.ndarray:
    """k-means++ on unit vectors with signs fixed by the largest entry: normalised centres (k, d)."""
    leading = np.argmax(np.abs(vectors), axis=1)
    data = vectors * np.sign(vectors[np.arange(len(vectors)), leading])[:, None]
    best, least = data[:num_clusters], np.inf
    for _ in range(num_runs):
        centres = _spread_centres(data, num_clusters, rng)
        for _ in range(max_steps):
            labels = np.argmin(_squared_distances(data, centres), axis=1)
            sums = (labels == np.arange(len(centres))[:, None]).astype(np.float64) @ data
            counts = np.bincount(labels, minlength=len(centres))
            moved = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
            if np.allclose(moved, centres, atol=1e-10):
                break
            centres = moved
        inertia = float(np.min(_squared_distances(data, centres), axis=1).sum())
        if inertia < least:
            best, least = centres, inertia
    return best / np.maximum(np.linalg.norm(best, axis=1, keepdims=True), 1e-300)


def _spread_centres(data: np.ndarray, num_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Greedy k-means++: of ``2 + log k`` candidates, drawn by squared distance, the one that leaves the least."""
    num_candidates = 2 + int(np.log(num_clusters))
    chosen = [int(rng.integers(len(data)))]
    nearest = _squared_distances(data, data[chosen])[:, 0]
    for _ in range(1, num_clusters):
        total = nearest.sum()
        candidates = rng.choice(len(data), num_candidates, p=nearest / total if total > 0 else None)
        left = np.minimum(nearest[:, None], _squared_distances(data, data[candidates]))
        best = int(np.argmin(left.sum(axis=0)))
        chosen.append(int(candidates[best]))
        nearest = left[:, best]
    return data[chosen].copy()


def _squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(np.sum(a**2, axis=1)[:, None] - 2 * a @ b.T + np.sum(b**2, axis=1), 0.0)


def _residual(span: MatrixSpan, u: np.ndarray) -> tuple[np.ndarray, float]:
    square = half_vectorise(np.outer(u, u))
    residual = square - (square @ span.basis.T) @ span.basis
    return residual, float(np.linalg.norm(residual))


def _starts(span: MatrixSpan, found: Components, count: int, rng: np.random.Generator) -> np.ndarray:
    """Leading eigenvectors of random elements of the span, off the components found so far."""
    coordinates = rng.standard_normal((count, span.dimension))
    known = span.coordinates(outer_squares(found.vectors))
    if 0 < len(known) < span.dimension:
        directions = np.linalg.qr(known.T)[0]
        coordinates -= (coordinates @ directions) @ directions.T
    values, vectors = np.linalg.eigh(span.matrices(coordinates))
    largest = np.argmax(np.abs(values), axis=1)
    return vectors[np.arange(count), :, largest]


def _merge(span: MatrixSpan, found: Components, vectors: np.ndarray, same: float) -> Components:
    """Add new limits: counted with a known component that they agree with up to sign, the better one kept."""
    kept, hits = list(found.vectors), list(found.hits)
    values = list(found.values)
    strengths = np.linalg.norm(span.coordinates(outer_squares(vectors)), axis=1)
    for i in np.argsort(-strengths, kind="stable"):
        u, value = vectors[i], float(strengths[i])
        cosines = np.abs(np.array(kept) @ u) if kept else np.zeros(0)
        j = int(np.argmax(cosines)) if len(cosines) else -1
        if j >= 0 and cosines[j] ** 2 > 1 - same:
            hits[j] += 1
            if value > values[j]:
                kept[j], values[j] = u, value
        else:
            kept.append(u)
            values.append(value)
            hits.append(1)
    order = np.argsort(-np.array(values), kind="stable")
    return Components(np.array(kept)[order], np.array(values)[order], np.array(hits, dtype=int)[order])
