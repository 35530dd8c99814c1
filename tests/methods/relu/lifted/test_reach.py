"""Where traced units meet planes in corners of the box, and where parts of them may lie beyond planes."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.reach import add_extremes, look_beyond
from unweave.methods.relu.lifted.traces import Traces

D = 6
LOW, HIGH = -2 * np.ones(D), 3 * np.ones(D)


def one_trace(level: float) -> tuple[Traces, np.ndarray]:
    """The unit ``sum(x) - level + |x_2 - 0.3|`` as known below the plane ``x_1 = 1``, and a point of its zero set."""
    normals = np.eye(D)[:2]
    planes = Planes(normals, np.array([-1.0, -0.3]), np.zeros((2, D + 1, D + 1)), np.ones(2))
    x = np.full((1, D), 3.0)
    x[0, 0] = 0.5
    facet = np.append(np.ones(D), -x.sum())  # until it is known where the zero set lies
    traces = Traces.none(planes, 2).begin(
        x, facet[None], np.array([[0.6, 0.8]]), np.full(1, 1e-12), np.full(1, 1e-12), np.zeros(1, dtype=int)
    )
    traces.gamma[0], traces.beta[0, 1], traces.known[0, 1] = np.append(np.ones(D), -level), 1.0, True
    return traces, x


def test_a_meeting_in_a_corner_of_a_plane_is_found():
    highest = 1 + 5 * 3 + 2.7
    traces, x = one_trace(highest - 0.1)
    rng = np.random.default_rng(0)
    faces = Faces.draw(traces.planes, LOW, HIGH, rng)
    assert not len(faces.meetings(traces, LOW, HIGH, rng))
    more = add_extremes(faces, traces, x, LOW, HIGH, rng)
    meetings = more.meetings(traces, LOW, HIGH, rng)
    assert len(meetings)
    assert np.all(meetings.plane == 0)
    assert np.allclose(meetings.x[:, 0], 1)
    assert np.max(meetings.room) > 1e-3


def test_a_part_beyond_a_plane_that_is_never_met_is_looked_for():
    highest = 1 + 5 * 3 + 2.7
    traces, x = one_trace(highest + 1.0)
    rng = np.random.default_rng(0)
    faces = Faces.draw(traces.planes, LOW, HIGH, rng)
    assert not len(add_extremes(faces, traces, x, LOW, HIGH, rng).meetings(traces, LOW, HIGH, rng))
    points = look_beyond(faces, traces, x, LOW, HIGH)
    assert np.all((points >= LOW) & (points <= HIGH))
    assert np.all(points[:, 0] > 1)
    values = traces.values(points, traces.planes.heights(points))[:, 0]
    assert np.max(values + (points[:, 0] - 1)) > 0
    assert len(points) <= 4
