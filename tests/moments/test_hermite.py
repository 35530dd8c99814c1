"""Hermite sums against direct averages; merging, baselines and refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermeval

from unweave.core.errors import InputError
from unweave.moments.hermite import HermiteMoments, Quadratic
from unweave.moments.residual import accumulate_residual, fit_quadratic


def rows(num_rows: int, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num_rows, size))
    return x, np.maximum(x @ rng.standard_normal(size) + 0.3, 0.0) - 0.5 * np.abs(x[:, 0])


def direct(x: np.ndarray, y: np.ndarray, entry: tuple[int, ...]) -> float:
    """The average of y times the product of one-dimensional Hermite polynomials."""
    value = y.copy()
    for i in range(x.shape[1]):
        value *= hermeval(x[:, i], np.eye(9)[entry.count(i)])
    return float(np.mean(value))


@pytest.mark.parametrize("order", range(7))
def test_every_tensor_is_the_average_of_hermite_polynomials(order):
    x, y = rows(500, 3)
    moments = HermiteMoments(3, order).update(x, y)
    for k in range(order + 1):
        tensor = moments.tensor(k)
        for entry in itertools.product(range(3), repeat=k):
            assert tensor[entry] == pytest.approx(direct(x, y, entry), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_merging_in_any_order_gives_the_same_tensors(lengths, random):
    x, y = rows(sum(lengths) + 1, 4)
    whole = HermiteMoments(4).update(x, y)
    ends = np.cumsum([*lengths, 1])
    parts = [
        HermiteMoments(4).update(x[end - length : end], y[end - length : end])
        for end, length in zip(ends, [*lengths, 1], strict=True)
    ]
    random.shuffle(parts)
    total = parts[0]
    for part in parts[1:]:
        total.merge(part)
    assert total.count == whole.count
    for k in range(5):
        np.testing.assert_allclose(total.packed(k), whole.packed(k), rtol=1e-11, atol=1e-12)


def test_several_outputs_are_those_of_each_output():
    x, y = rows(400, 4)
    both = HermiteMoments(4, num_outputs=2).update(x, np.column_stack([y, y**2]))
    single = HermiteMoments(4).update(x, y**2)
    for k in range(5):
        np.testing.assert_allclose(both.tensor(k)[1], single.tensor(k), atol=1e-12)


def test_rows_at_the_baseline_are_counted_and_cost_no_products():
    x, y = rows(2000, 4)
    y = np.where(y > 1.0, y, 0.25)
    plain = HermiteMoments(4).update(x, y)
    dropped = HermiteMoments(4, baseline=0.25).update(x, y)
    assert dropped.count == 2000
    assert dropped.num_used == int(np.sum(y > 1.0))
    # the two differ by the error of the averages of the Hermite polynomials themselves
    ones = HermiteMoments(4).update(x, np.ones(2000))
    for k in range(1, 5):
        np.testing.assert_allclose(
            plain.packed(k), dropped.packed(k) + 0.25 * ones.packed(k), rtol=1e-10, atol=1e-11
        )
    assert dropped.packed(0)[0] == pytest.approx(np.mean(y))


def test_a_quadratic_is_fitted_exactly_and_its_tensors_are_put_back():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 5))
    matrix = rng.standard_normal((1, 5, 5))
    truth = Quadratic(np.array([0.7]), rng.standard_normal((1, 5)), matrix + matrix.transpose(0, 2, 1))
    y = truth(x)[:, 0]
    found = fit_quadratic((x, y))
    np.testing.assert_allclose(found.constant, truth.constant, atol=1e-10)
    np.testing.assert_allclose(found.linear, truth.linear, atol=1e-10)
    np.testing.assert_allclose(found.matrix, truth.matrix, atol=1e-10)
    moments = accumulate_residual((x, y))
    np.testing.assert_allclose(moments.tensor(2), truth.matrix[0], atol=1e-9)
    assert np.max(np.abs(moments.packed(4))) < 1e-9


def test_the_residual_pass_has_less_error():
    rng = np.random.default_rng(5)
    size, w = 6, np.eye(6)[0]
    x = rng.standard_normal((60_000, size))
    y = 3 * np.maximum(x @ w + 0.4, 0)
    exact = -3 * 0.4 * np.exp(-0.08) / np.sqrt(2 * np.pi) * np.einsum("i,j,k->ijk", w, w, w)
    once = np.linalg.norm(HermiteMoments(size).update(x, y).tensor(3) - exact)
    twice = np.linalg.norm(accumulate_residual((x, y)).tensor(3) - exact)
    assert twice < once / 3


@pytest.mark.parametrize("baseline", [0.0, 0.5])
def test_the_expected_error_is_that_of_the_average(baseline):
    x, y = rows(4000, 3)
    moments = HermiteMoments(3, baseline=baseline).update(x, y)
    for k in range(5):
        norms = np.zeros(len(x))
        for entry in itertools.product(range(3), repeat=k):
            factors = [hermeval(x[:, i], np.eye(9)[entry.count(i)]) for i in range(3)]
            norms += np.prod(factors, axis=0) ** 2
        mean = moments.tensor(k) - (baseline if k == 0 else 0.0)
        spread = np.mean((y - baseline) ** 2 * norms) - np.sum(mean**2)
        assert float(moments.expected_error(k)[0]) == pytest.approx(np.sqrt(spread / 4000), rel=1e-10)


def test_refusals_name_the_remedy():
    x, y = rows(10, 3)
    moments = HermiteMoments(3, 2).update(x, y)
    with pytest.raises(InputError, match="give order=3"):
        moments.tensor(3)
    with pytest.raises(InputError, match="different sizes, orders or baselines"):
        moments.merge(HermiteMoments(3, 3))
    with pytest.raises(InputError, match=r"give x \(n, 3\)"):
        moments.update(x[:, :2], y)
    with pytest.raises(InputError, match="NaN"):
        moments.update(np.full((2, 3), np.nan), np.ones(2))
    assert moments.count == 10
    with pytest.raises(InputError, match="no rows"):
        HermiteMoments(3).tensor(1)
    with pytest.raises(InputError, match="more rows"):
        fit_quadratic((x[:5], y[:5]))
    with pytest.raises(InputError, match="again"):
        accumulate_residual(iter([(x, y)]))
