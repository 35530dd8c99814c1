"""Whitening: the rank-one elements of a span of at most d outer squares, by one eigendecomposition.

If W is spanned by ``a_i a_i'`` with independent a_i and ``G = U D U'`` is a positive definite element of
it, then ``D^{-1/2} U' a_i`` are orthogonal (Fornasier, Vybiral, Daubechies; Theorem 2 of Fornasier et al.),
so the eigenvectors of any other whitened element are the whitened weights. When W has fewer dimensions than
d, everything happens in the d' = dim W directions that its elements act on.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.matrix_span import MatrixSpan


def whitened_components(
    span: MatrixSpan, rng: np.random.Generator, *, max_steps: int = 500
) -> np.ndarray | None:
    """Unit vectors (dim W, d) whose squares span W, or None when W has no positive definite element."""
    if span.dimension > span.size:
        return None
    elements = span.matrices(np.eye(span.dimension))
    frame = np.linalg.svd(np.concatenate(list(elements), axis=1), full_matrices=False)[0][:, : span.dimension]
    inner = np.einsum("ia,kij,jb->kab", frame, elements, frame, optimize=True)
    definite = positive_definite_element(inner, rng, max_steps=max_steps)
    if definite is None:
        return None
    values, vectors = np.linalg.eigh(definite)
    root = vectors * np.sqrt(values)
    whiten = vectors / np.sqrt(values)
    mixture = np.einsum("k,kij->ij", rng.standard_normal(len(inner)), inner)
    directions = np.linalg.eigh(whiten.T @ mixture @ whiten)[1]
    found = frame @ root @ directions
    return (found / np.linalg.norm(found, axis=0)).T


def positive_definite_element(
    elements: np.ndarray, rng: np.random.Generator, *, max_steps: int = 500, margin: float = 1e-3
) -> np.ndarray | None:
    """An element of the span of symmetric ``elements`` (k, n, n) with a large least eigenvalue, or None.

    Ascent of the least eigenvalue over unit coordinates, from the projection of the identity and random
    starts.
    """
    identity = np.einsum("kii->k", elements)
    starts = [identity, *rng.standard_normal((4, len(elements)))]
    best, largest = None, margin
    for start in starts:
        c = start / max(float(np.linalg.norm(start)), 1e-300)
        for step in range(max_steps // len(starts)):
            matrix = np.einsum("k,kij->ij", c, elements)
            values, vectors = np.linalg.eigh(matrix)
            score = float(values[0] / max(abs(values[-1]), 1e-300))
            if score > largest:
                best, largest = matrix, score
            u = vectors[:, 0]
            c = c + np.einsum("i,kij,j->k", u, elements, u) / np.sqrt(1 + step)
            c /= max(float(np.linalg.norm(c)), 1e-300)
        if best is not None:
            return best
    return None
