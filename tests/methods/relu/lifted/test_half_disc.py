"""Weights on planes from float32 answers on half discs beyond them."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.methods.relu.lifted.half_disc import cross_half_discs
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.traces import Traces
from unweave.methods.relu.lifted.wander import Meetings
from unweave.models.python_callable import from_callable
from unweave.probes.inquiry import open_inquiry

NORMAL = np.array([0.6, 0.8])
UNIT = np.array([0.03, -0.05, 0.0])
"""Meets the plane through the origin there; the answers are of order one."""


def cross(weight: float, *, shift: float = 0.0, blur: float = 1e-9, other: float = np.inf):
    """The weight of a unit that is ``shift`` off what is known of it, with another bend so far beyond the plane."""

    def answer(x: np.ndarray) -> np.ndarray:
        beyond = np.maximum(x @ NORMAL, 0.0)
        z = x @ UNIT[:2] + shift + weight * beyond
        more = 0.1 * np.maximum(beyond - other, 0.0) if np.isfinite(other) else 0.0
        values = 0.7 + x @ np.array([0.3, -0.2]) + 0.4 * beyond + np.maximum(z, 0.0) + more
        return values.astype(np.float32).astype(float)[:, None]

    rng, box = np.random.default_rng(0), unweave.Box(-1.0, 1.0)
    meter = Meter(from_callable(answer, input_size=2, domain=box), domain=box)
    inquiry = open_inquiry(meter, measure_precision(meter, rng), rng)
    planes = Planes(NORMAL[None], np.zeros(1), 1e-18 * np.eye(3)[None], np.ones(1))
    x = np.array([[-0.1, 0.0]])
    traces = Traces.none(planes, 1).begin(
        x, UNIT[None], np.ones((1, 1)), np.array([1e-12]), np.array([blur]), np.zeros(1, dtype=int)
    )
    none = np.zeros(1, dtype=int)
    meetings = Meetings(none, none, np.zeros((1, 2)), -np.ones((1, 1)), UNIT[None], np.array([0.05]))
    done, found, error = cross_half_discs(inquiry, traces, meetings)
    return bool(done[0]), float(found[0]), float(error[0])


@pytest.mark.parametrize("weight", [0.8, -0.8, 0.02, 0.0])
def test_a_weight_is_read_however_sharply_it_bends_the_zero_set(weight):
    done, found, error = cross(weight)
    assert done
    assert abs(found - weight) <= 6 * error
    assert error < 1e-2 * (np.linalg.norm(UNIT) + abs(weight))


def test_a_meeting_that_is_known_roughly_is_found_before_the_plane_first():
    done, found, error = cross(0.3, shift=3e-4, blur=3e-4)
    assert done
    assert abs(found - 0.3) <= 6 * error
    assert error < 5e-3


def test_another_bend_close_by_is_not_taken_for_the_unit():
    done, found, error = cross(0.3, other=0.004)
    assert not done or abs(found - 0.3) <= 6 * error
