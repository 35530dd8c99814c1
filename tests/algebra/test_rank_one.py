"""Rank-one elements: planted spans give back every component to rounding, counted and not clustered."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.algebra.matrix_span import MatrixSpan, estimate_span, outer_squares, span_of_squares
from unweave.algebra.rank_one import (
    ascend_spectral_norm,
    cluster_directions,
    find_components,
    polish_components,
)
from unweave.algebra.whitening import positive_definite_element, whitened_components


def planted(num_vectors: int, size: int, seed: int) -> tuple[np.ndarray, MatrixSpan]:
    """Random unit vectors and the span of their squares, seen through random combinations."""
    rng = np.random.default_rng([seed, num_vectors, size])
    vectors = rng.standard_normal((num_vectors, size))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    mixtures = np.einsum(
        "nk,kij->nij", rng.standard_normal((2 * num_vectors, num_vectors)), outer_squares(vectors)
    )
    return vectors, estimate_span(mixtures)


def worst_distance(found: np.ndarray, truth: np.ndarray) -> float:
    """The largest distance of a true vector from the nearest found one, up to sign."""
    both = np.concatenate([found, -found])
    return max(float(np.min(np.linalg.norm(both - w, axis=1))) for w in truth)


@pytest.mark.parametrize(("num_vectors", "size"), [(4, 4), (6, 10), (20, 8), (30, 12)])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_component_of_a_planted_span_is_found_to_rounding(num_vectors, size, seed):
    vectors, span = planted(num_vectors, size, seed)
    assert span.dimension == num_vectors
    found = find_components(span, np.random.default_rng(seed), accept=1 - 1e-10)
    exact = found.vectors[found.values > 1 - 1e-10]
    assert len(exact) == num_vectors
    assert worst_distance(exact, vectors) < 1e-10


def test_the_paper_ascent_reaches_the_same_components():
    vectors, span = planted(10, 8, 0)
    rng = np.random.default_rng(1)
    limits, values = ascend_spectral_norm(span, rng.standard_normal((80, span.dimension)))
    sharp = limits[values > 1 - 1e-3]
    assert worst_distance(sharp, vectors) < 0.05
    assert worst_distance(polish_components(span, sharp), vectors) < 1e-9


def test_power_steps_and_eigendecompositions_ascend_to_the_same_values():
    _, span = planted(7, 9, 3)
    starts = np.random.default_rng(2).standard_normal((40, span.dimension))
    _, quick = ascend_spectral_norm(span, starts, tolerance=1e-9)
    _, slow = ascend_spectral_norm(span, starts, tolerance=1e-9, power_steps=0)
    assert np.mean(np.abs(quick - slow) < 1e-4) > 0.9


def test_clusters_of_directions_up_to_sign():
    rng = np.random.default_rng(4)
    centres = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    data = np.repeat(centres, 20, axis=0) + 0.01 * rng.standard_normal((120, 6))
    data *= rng.choice([-1.0, 1.0], size=(120, 1))
    data /= np.linalg.norm(data, axis=1, keepdims=True)
    assert worst_distance(cluster_directions(data, 6, rng), centres) < 0.02


@pytest.mark.parametrize(("num_vectors", "size"), [(5, 5), (4, 9)])
def test_whitening_diagonalises_a_span_of_independent_squares(num_vectors, size):
    vectors, span = planted(num_vectors, size, 5)
    found = whitened_components(span, np.random.default_rng(0))
    assert found is not None
    assert worst_distance(found, vectors) < 1e-9


def test_whitening_declines_more_squares_than_inputs_and_indefinite_spans():
    _, span = planted(12, 6, 6)
    assert whitened_components(span, np.random.default_rng(0)) is None
    indefinite = np.array([[[1.0, 0.0], [0.0, -1.0]]])
    assert positive_definite_element(indefinite, np.random.default_rng(0)) is None


def test_a_span_without_rank_one_elements_says_so_by_its_values():
    span = span_of_squares(np.eye(4))
    blurred = MatrixSpan(
        np.linalg.qr(np.random.default_rng(7).standard_normal((10, 3)))[0].T, span.spectrum, span.size
    )
    found = find_components(blurred, np.random.default_rng(8), max_rounds=2)
    assert np.all(found.values < 1 - 1e-3)
