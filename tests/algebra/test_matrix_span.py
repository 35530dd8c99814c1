"""Spans of symmetric matrices: isometry, ranks from spectra, projections."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.algebra.active_subspace import choose_rank, estimate_active_subspace
from unweave.algebra.matrix_span import (
    common_span,
    estimate_span,
    half_vectorise,
    outer_squares,
    projection_error,
    span_of_squares,
    unvectorise,
)


def unit_rows(count: int, size: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_half_vectorising_is_an_isometry_and_goes_back():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 7, 7))
    a = a + a.transpose(0, 2, 1)
    halves = half_vectorise(a)
    assert np.allclose(unvectorise(halves, 7), a, atol=1e-15)
    assert np.allclose(halves @ halves.T, np.einsum("nij,mij->nm", a, a))


@pytest.mark.parametrize("gram", [False, True])
def test_the_rank_is_read_off_the_spectrum_and_the_projection_is_right(gram):
    rng = np.random.default_rng(1)
    vectors = unit_rows(9, 6, 1)
    mixtures = np.einsum("nk,kij->nij", rng.standard_normal((40, 9)), outer_squares(vectors))
    noise = 1e-6 * rng.standard_normal(mixtures.shape)
    span = estimate_span(mixtures + noise + noise.transpose(0, 2, 1), gram=gram)
    assert span.dimension == 9
    assert span.gap > 100
    assert np.max(span.distances(vectors)) < 1e-4
    other = rng.standard_normal((6, 6))
    projected = span.project(other + other.T)
    assert np.allclose(span.project(projected), projected)
    assert projection_error(span, span_of_squares(vectors)) < 1e-8


def test_common_span_keeps_what_all_spans_share():
    shared, rng = unit_rows(5, 8, 2), np.random.default_rng(3)
    spans = [
        span_of_squares(np.concatenate([shared, unit_rows(3, 8, 10 + int(rng.integers(1000)))]))
        for _ in range(4)
    ]
    common = common_span(spans, 5)
    assert np.max(common.distances(shared)) < 1e-10
    assert common.spectrum[4] > 1 - 1e-12 > common.spectrum[5]


def test_active_subspace_of_gradients():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((4, 12))
    gradients = rng.standard_normal((9, 4)) @ rows + 1e-9 * rng.standard_normal((9, 12))
    found = estimate_active_subspace(gradients)
    assert found.dimension == 4
    assert found.gap > 1e6
    inside = found.basis @ (found.basis.T @ rows.T)
    assert np.allclose(inside, rows.T, atol=1e-7)


def test_ranks_of_degenerate_spectra():
    assert choose_rank(np.zeros(3)) == 0
    assert choose_rank(np.array([1.0, 0.9, 0.8])) == 3
    assert choose_rank(np.array([1.0, 0.5, 1e-6, 0.9e-6])) == 2
