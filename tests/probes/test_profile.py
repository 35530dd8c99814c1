"""One unit of one variable from its values along a line."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core import activations as act
from unweave.probes.profile import fit_profile

T = np.concatenate([[0.0], 2.0 ** np.arange(-5, 4), -(2.0 ** np.arange(-5, 4))])


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "erf", "gelu", "silu", "softplus", "relu"])
@pytest.mark.parametrize(("slope", "shift"), [(0.8, 0.3), (-2.5, -1.0)])
def test_slope_shift_and_weights_come_back(activation, slope, shift):
    outgoing, offset = np.array([1.5, -0.4]), np.array([0.2, 3.0])
    values = act.get(activation)(slope * T + shift)[:, None] * outgoing + offset
    found = fit_profile(T, values, activation)
    assert found is not None
    assert found.rms < 1e-12
    again = act.get(found.activation)(found.argument(T))[:, None] * found.outgoing + found.offset
    assert np.allclose(again, values, atol=1e-11)
    if activation == "relu":
        assert found.shift / found.slope == pytest.approx(shift / slope, abs=1e-9)
    else:
        assert abs(found.slope) == pytest.approx(abs(slope), rel=1e-9)
    z = found.argument(T)
    steep = np.abs(act.get(found.activation).first(z, np)) > 0.05
    assert np.allclose(found.invert(values, z + 0.05 * steep)[steep], z[steep], atol=1e-8)


def test_two_units_or_another_activation_leave_a_residual():
    two = np.tanh(T)[:, None] + np.tanh(2 * T - 1)[:, None]
    assert fit_profile(T, two, "tanh").rms > 1e-4
    assert fit_profile(T, np.tanh(T)[:, None], "erf").rms > 1e-4
    assert fit_profile(T, T[:, None], "relu") is None
