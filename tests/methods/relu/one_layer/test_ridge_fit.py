"""One hidden layer fitted to answers of different accuracy."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.one_layer.ridge_fit import Ridges, fit_ridges


def test_without_units_the_affine_part_is_fitted_and_nothing_is_printed(capfd):
    rng = np.random.default_rng(0)
    x, affine = rng.standard_normal((60, 3)), rng.standard_normal((2, 4))
    y = x @ affine[:, :-1].T + affine[:, -1]
    start = Ridges(np.zeros((0, 4)), np.zeros((0, 2)), np.zeros((2, 4)))
    fitted = fit_ridges(start, x, y, np.full(60, 1e-6))
    assert np.max(np.abs(fitted.ridges.affine - affine)) < 1e-9
    assert capfd.readouterr() == ("", "")
