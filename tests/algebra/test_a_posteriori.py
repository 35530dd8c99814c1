"""A posteriori checks against brute force and on systems where the theorems say what must come out."""

from __future__ import annotations

import numpy as np

from unweave.algebra.a_posteriori import check_components
from unweave.algebra.matrix_span import MatrixSpan, outer_squares, span_of_squares
from unweave.algebra.rank_one import climb


def unit_rows(count: int, size: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_bounds_agree_with_brute_force():
    vectors = unit_rows(6, 5, 0)
    checks = check_components(span_of_squares(vectors), vectors)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200_000, 5))
    ratios = np.sum((x @ vectors.T) ** 2, axis=1) / np.sum(x**2, axis=1)
    assert checks.frame_lower <= ratios.min() < 1.2 * checks.frame_lower + 1e-3
    assert 0.97 * checks.frame_upper < ratios.max() <= checks.frame_upper
    gram = np.einsum("nij,mij->nm", outer_squares(vectors), outer_squares(vectors))
    s = rng.standard_normal((200_000, 6))
    ratios = np.einsum("nk,kl,nl->n", s, gram, s) / np.sum(s**2, axis=1)
    assert checks.riesz_lower <= ratios.min() < 1.2 * checks.riesz_lower + 1e-2
    assert 0.97 * checks.riesz_upper < ratios.max() <= checks.riesz_upper


def test_an_orthonormal_system_passes_everything():
    vectors = np.linalg.qr(np.random.default_rng(2).standard_normal((6, 6)))[0]
    checks = check_components(span_of_squares(vectors), vectors)
    assert checks.nu < 1e-12
    assert checks.dichotomy_applies
    assert all(checks.near_rank_one)
    assert min(checks.lambda_1) > 1 - 1e-12
    assert max(checks.first_order) < 1e-12
    assert max(checks.second_order) <= 1
    assert max(checks.error_bounds) < 1e-4


def test_local_maxima_of_a_blurred_span_satisfy_the_optimality_conditions_and_others_do_not():
    rng = np.random.default_rng(3)
    exact = span_of_squares(unit_rows(7, 6, 4))
    blurred = np.linalg.qr((exact.basis + 0.05 * rng.standard_normal(exact.basis.shape)).T)[0].T
    span = MatrixSpan(blurred, exact.spectrum, 6)
    maxima = climb(span, rng.standard_normal((30, 6)), max_steps=3000, tolerance=1e-13)
    # a fixed point of the power method is one of the ascent when it is the leading eigenvector of its
    # projection
    settled = []
    for u in maxima:
        for _ in range(300):
            u = np.linalg.eigh(span.project(outer_squares(u)))[1][:, -1]
        settled.append(u)
    checks = check_components(span, np.array(settled))
    assert max(checks.first_order) < 1e-6
    assert max(checks.second_order) <= 1 + 1e-6
    elsewhere = check_components(span, unit_rows(5, 6, 9))
    assert max(elsewhere.first_order) > 0.05


def test_theorem_8_bounds_the_true_error():
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    truth = basis + 0.01 * rng.standard_normal((8, 8))
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    exact = span_of_squares(truth)
    blurred = np.linalg.qr((exact.basis + 1e-4 * rng.standard_normal(exact.basis.shape)).T)[0].T
    span = MatrixSpan(blurred, exact.spectrum, 8)
    found = climb(span, truth)
    checks = check_components(span, found)
    errors = np.minimum(np.linalg.norm(found - truth, axis=1), np.linalg.norm(found + truth, axis=1))
    assert np.all(errors <= np.array(checks.error_bounds))
