"""The closed form against plain least squares, and the bound of its design's singular values."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.algebra.symmetric_forms import design, least_singular_value, num_forms, sample_gram, smat
from unweave.shallow.quadratic import fit_symmetric_form, fit_units


@pytest.mark.parametrize("n", [4, 15, 20, 21, 22, 60])
def test_the_form_is_the_least_squares_solution(n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((n, 6)), rng.standard_normal(n)
    rows = design(x)
    best = np.linalg.lstsq(rows, y, rcond=None)[0]
    found = fit_symmetric_form(x, y)
    assert np.allclose(found, smat(best, 6), atol=1e-7)
    assert np.allclose(np.einsum("ni,ij,nj->n", x, found, x), rows @ best, atol=1e-8)


def test_units_carry_the_form_whatever_the_size_of_the_output_weights():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((15, 6)), rng.standard_normal(15)
    output = np.concatenate([rng.uniform(0.1, 3, 6), -rng.uniform(0.1, 3, 6)])
    weights, kept = fit_units(x, y, 12, output)
    assert np.array_equal(kept, output)
    assert np.allclose((x @ weights.T) ** 2 @ output, y, atol=1e-10)


def test_too_few_units_of_a_sign_are_refused_and_chosen_signs_need_d_units():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 6)), rng.standard_normal(60)
    assert fit_units(x, y, 12, np.ones(12)) is None
    assert fit_units(x, y, 3, None) is None
    weights, output = fit_units(x, y, 6, None)
    best = design(x) @ np.linalg.lstsq(design(x), y, rcond=None)[0]
    assert np.allclose((x @ weights.T) ** 2 @ output, best, atol=1e-10)


@pytest.mark.parametrize("n", [5, 10, 21, 50])
def test_the_least_singular_value_is_bounded_from_below(n):
    x = np.random.default_rng(n).standard_normal((n, 6))
    values = np.linalg.svd(design(x), compute_uv=False)
    found = least_singular_value(x)
    assert found.rank == min(n, num_forms(6))
    assert 0.5 * values[-1] <= found.lower <= values[-1] <= found.largest
    assert np.allclose(sample_gram(x), design(x) @ design(x).T)


def test_repeated_samples_do_not_count_as_small_singular_values():
    x = np.random.default_rng(0).standard_normal((8, 6))
    found = least_singular_value(np.vstack([x, x]))
    assert found.rank == 8
    assert found.lower <= np.linalg.svd(design(np.vstack([x, x])), compute_uv=False)[7]
