"""Relu units from exact tensors to 1e-8; from samples near the truth and never falsely sure."""

from dataclasses import replace

import numpy as np
import pytest

from unweave.core.errors import InputError
from unweave.methods.general_relu.directions import least_khatri_rao, span_directions, stated_directions
from unweave.methods.general_relu.improper import learn_improper
from unweave.methods.general_relu.recover import recover_from_moments
from unweave.methods.general_relu.scalars import fit_scalars, fix_signs, recover_scalars
from unweave.moments.hermite import HermiteMoments
from unweave.moments.population import ReluUnits, population_tensors
from unweave.moments.residual import accumulate_residual


def random_units(size: int, count: int, seed: int, largest_bias: float = 1.0) -> ReluUnits:
    rng = np.random.default_rng([seed, size, count])
    rows = rng.standard_normal((count, size))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = rng.uniform(0.5, 2.0, count) * rng.choice([-1, 1], count)
    return ReluUnits(rows, rng.uniform(-largest_bias, largest_bias, count), weights)


def unsigned(units: ReluUnits, seed: int = 0) -> ReluUnits:
    """The same units with random common signs of rows and biases."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], len(units))
    return replace(units, directions=signs[:, None] * units.directions, biases=signs * units.biases)


def worst_error(truth: ReluUnits, found: ReluUnits, *, up_to_sign: bool = False) -> float:
    assert len(found) == len(truth)
    cosines = truth.directions @ found.directions.T
    nearest = np.argmax(np.abs(cosines), axis=1)
    assert len(set(nearest)) == len(truth)
    signs = np.sign(cosines[np.arange(len(truth)), nearest]) if up_to_sign else np.ones(len(truth))
    rows = truth.directions - signs[:, None] * found.directions[nearest]
    biases = truth.biases - signs * found.biases[nearest]
    weights = truth.weights - found.weights[nearest]
    return float(np.max(np.abs(np.column_stack([rows, biases, weights]))))


CASES = [(5, 5, 1), (10, 10, 1), (10, 4, 1), (5, 9, 2), (6, 14, 2)]


@pytest.mark.parametrize("as_stated", [True, False])
@pytest.mark.parametrize(("size", "count", "order"), CASES)
def test_exact_tensors_give_every_parameter(size, count, order, as_stated):
    truth = random_units(size, count, 1)
    found = recover_from_moments(population_tensors(truth, 2 * order + 2), order=order, as_stated=as_stated)
    assert worst_error(truth, found.units) < 1e-8
    assert found.signs_determined.all()
    assert found.signs_note == "signs determined"
    assert found.consistent
    assert found.risk < 1e-16
    assert max(found.guarantees.residuals) < 1e-8
    assert found.guarantees.least_weight == pytest.approx(np.min(np.abs(truth.weights)))
    assert found.guarantees.largest_bias == pytest.approx(np.max(np.abs(truth.biases)))
    assert found.guarantees.least_khatri_rao > 1e-3


def test_orders_up_to_four_suffice_for_more_units_than_inputs():
    truth = random_units(6, 11, 3)
    found = recover_from_moments(population_tensors(truth, 4), order=2)
    assert worst_error(truth, found.units) < 1e-8


def test_a_unit_missing_from_one_tensor_is_in_the_next():
    # He_1(0) = 0 takes a unit out of T_3, He_2(1) = 0 out of T_4
    truth = replace(random_units(5, 4, 2), biases=np.array([0.0, 1.0, -1.0, 0.4]))
    tensors = population_tensors(truth, 4)
    for as_stated in (True, False):
        assert worst_error(truth, recover_from_moments(tensors, as_stated=as_stated).units) < 1e-8


@pytest.mark.parametrize(("size", "count", "split"), [(6, 6, 1), (5, 9, 2), (4, 9, 2)])
def test_directions_as_stated(size, count, split):
    truth = random_units(size, count, 5)
    tensors = population_tensors(truth, 2 * split + 2)
    found = stated_directions(tensors, size, np.random.default_rng(0), split=split)
    assert len(found) == count
    cosines = np.max(np.abs(truth.directions @ found.vectors.T), axis=1)
    np.testing.assert_allclose(cosines, 1.0, atol=1e-9)
    if count < len(found.spectra[0]):
        assert found.gap > 1e6


def test_directions_from_spans():
    truth = random_units(7, 15, 6)
    found = span_directions(population_tensors(truth, 4), 7, np.random.default_rng(0))
    assert len(found) == 15
    np.testing.assert_allclose(np.max(np.abs(truth.directions @ found.vectors.T), axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(("size", "count", "split"), [(5, 5, 1), (5, 9, 2), (5, 5, 3)])
def test_scalars_from_exact_directions(size, count, split):
    truth = unsigned(random_units(size, count, 7, largest_bias=2.0))
    found = recover_scalars(population_tensors(truth, 2 * split + 2), truth.directions, split=split)
    np.testing.assert_allclose(found.biases, truth.biases, atol=1e-8)
    np.testing.assert_allclose(found.weights, truth.weights, atol=1e-8)
    rough = fit_scalars(population_tensors(truth, 4), truth.directions)
    np.testing.assert_allclose(rough.biases, truth.biases, atol=0.02)


@pytest.mark.parametrize("offset", [0.0, 0.7, None])
@pytest.mark.parametrize(("size", "count"), [(6, 6), (5, 9)])
def test_signs_from_the_lowest_orders(size, count, offset):
    truth = replace(random_units(size, count, 8), offset=0.7 if offset is None else offset)
    signed = fix_signs(unsigned(truth, 3), population_tensors(truth, 1), offset=offset)
    assert np.all(signed.determined)
    assert signed.num_patterns == 1
    assert worst_error(truth, signed.units) < 1e-8
    assert signed.units.offset == pytest.approx(truth.offset, abs=1e-9)


def test_dependent_rows_with_zero_biases_leave_the_signs_open():
    """Claim 4.8: with ``sum a_i w_i = 0`` and no biases all signs may be turned at once."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((4, 3))
    relation = np.linalg.svd(rows.T)[2][-1]
    norms = np.linalg.norm(rows, axis=1)
    truth = ReluUnits(rows / norms[:, None], np.zeros(4), relation * norms)
    turned = replace(truth, directions=-truth.directions)
    x = rng.standard_normal((200, 3))
    np.testing.assert_allclose(truth(x), turned(x), atol=1e-12)
    found = recover_from_moments(population_tensors(truth, 6), order=2)
    assert not found.signs_determined.any()
    assert found.num_sign_patterns == 2
    assert "not determined by the function" in found.signs_note
    np.testing.assert_allclose(found.network(x)[:, 0], truth(x), atol=1e-8)


def test_samples_give_a_start_and_the_width():
    truth = random_units(6, 4, 12)
    x = np.random.default_rng(1).standard_normal((60_000, 6))
    moments = accumulate_residual((x, truth(x)))
    found = recover_from_moments(moments)
    assert found.consistent
    assert worst_error(truth, found.units, up_to_sign=True) < 0.2
    stated = recover_from_moments(moments, as_stated=True, num_units=4)
    assert found.risk < stated.risk


def test_few_samples_are_not_taken_for_certain():
    truth = random_units(6, 6, 13)
    x = np.random.default_rng(1).standard_normal((1500, 6))
    found = recover_from_moments(HermiteMoments(6).update(x, truth(x)), num_units=6)
    cosines = truth.directions @ found.units.directions.T
    nearest = np.argmax(np.abs(cosines), axis=1)
    wrong = cosines[np.arange(6), nearest] < 0
    assert not np.any(wrong & found.signs_determined[nearest] & (np.max(np.abs(cosines), axis=1) > 0.95))


def test_a_linear_function_has_no_units():
    tensors = population_tensors(ReluUnits(np.zeros((0, 4)), np.zeros(0), np.zeros(0), 1.5), 4)
    found = recover_from_moments(tensors, offset=None)
    assert len(found.units) == 0
    assert found.units.offset == pytest.approx(1.5)


def test_khatri_rao_tells_when_the_order_is_too_low():
    rows = random_units(4, 6, 1).directions
    assert least_khatri_rao(rows, 1) == 0.0
    assert least_khatri_rao(rows, 2) > 1e-3


def test_too_few_orders_are_refused():
    truth = random_units(4, 3, 1)
    with pytest.raises(InputError, match="order=4"):
        recover_from_moments(population_tensors(truth, 3))
    with pytest.raises(InputError, match="order=6"):
        recover_from_moments(population_tensors(truth, 5), order=2, as_stated=True)


class TestImproper:
    def chunks(self, f, num_rows, size, seed=0):
        rng = np.random.default_rng(seed)
        for _ in range(4):
            x = rng.standard_normal((num_rows // 4, size))
            yield x, f(x)

    def test_far_units_become_the_linear_rest(self):
        near = random_units(5, 4, 21)
        far = ReluUnits(random_units(5, 2, 22).directions, np.array([9.0, 10.0]), np.array([1.0, -0.6]))
        fit = learn_improper(self.chunks(lambda x: near(x) + far(x), 4000, 5), unsigned(near, 5))
        assert fit.network.hidden == (6,)
        assert fit.rms < 1e-10
        x = np.random.default_rng(9).standard_normal((500, 5))
        np.testing.assert_allclose(fit.network(x)[:, 0], near(x) + far(x), atol=1e-9)

    def test_units_found_from_tensors_of_the_near_ones(self):
        near = random_units(5, 4, 23)
        far = ReluUnits(random_units(5, 2, 24).directions, np.array([9.0, -9.0]), np.array([1.0, 2.0]))
        both = ReluUnits(
            np.vstack([near.directions, far.directions]),
            np.concatenate([near.biases, far.biases]),
            np.concatenate([near.weights, far.weights]),
        )
        found = recover_from_moments(population_tensors(both, 4))
        assert len(found.units) == 4
        fit = learn_improper(self.chunks(both, 4000, 5), found.units)
        assert len(fit.network.biases[0]) <= 6
        x = np.random.default_rng(9).standard_normal((500, 5))
        np.testing.assert_allclose(fit.network(x)[:, 0], both(x), atol=1e-8)

    def test_bounds_and_truncation_hold(self):
        truth = random_units(4, 3, 25)
        fit = learn_improper(self.chunks(truth, 2000, 4), truth, truncation=4.0)
        assert 0 < fit.num_truncated < fit.num_rows == 2000
        bounded = learn_improper(self.chunks(truth, 2000, 4), truth, bound=0.5)
        assert bounded.rms > 100 * fit.rms
        with pytest.raises(InputError, match="larger truncation"):
            learn_improper(self.chunks(truth, 2000, 4), truth, truncation=0.1)
