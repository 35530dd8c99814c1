"""Where deep networks are looked at near the origin."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.methods.far_field.inside import ACTIVE, _around


@pytest.mark.parametrize("num_units", [5, 12])
def test_gentle_points_lie_where_the_arguments_are_least(num_units):
    rng = np.random.default_rng(num_units)
    rows = rng.standard_normal((num_units, 8)) * np.array([100.0, *np.ones(7)])
    place = np.array([0.05, *rng.standard_normal(7)])
    biases = -rows @ place
    centre, spread = _around(rows, biases)
    np.testing.assert_allclose(rows @ centre + biases, 0.0, atol=1e-8)
    z = rng.standard_normal((20_000, len(spread)))
    arguments = rows @ (centre + z @ spread).T + biases[:, None]
    assert np.sqrt(np.mean(arguments**2)) == pytest.approx(ACTIVE, rel=0.02)


def test_points_reach_nearly_all_units_whose_biases_no_centre_removes():
    rng = np.random.default_rng(0)
    rows, biases = rng.standard_normal((40, 6)), 5 * rng.standard_normal(40)
    centre, spread = _around(rows, biases)
    z = rng.standard_normal((2000, len(spread)))
    arguments = (centre + z @ spread) @ rows.T + biases
    switching = np.mean(arguments > 0, axis=0)
    assert np.median(np.minimum(switching, 1 - switching)) > 0.1
    assert np.mean(switching * (1 - switching) > 0) >= 0.95  # one has a short row and a large bias
