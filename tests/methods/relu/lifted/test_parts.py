"""Parts of one second-layer unit put together, and the unit told once more from where it rarely is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unweave.methods.relu.lifted.faces import Faces
from unweave.methods.relu.lifted.parts import fit_where_rare, put_together
from unweave.methods.relu.lifted.planes import Planes
from unweave.methods.relu.lifted.ridge_sum import RidgeSum
from unweave.methods.relu.lifted.traces import Traces

D = 3
LOW, HIGH = -np.ones(D), np.ones(D)
OUTPUT = np.array([0.6, -0.8])


def two_parts(between: np.ndarray, offsets: np.ndarray) -> tuple[Traces, np.ndarray, np.ndarray]:
    """Two traces of one unit that is on beyond ``between`` on either side only, and its (gamma, beta)."""
    others = np.array([[0.0, 0.8, 0.6], [0.0, -0.6, 0.8]])
    normals, offsets = np.vstack([between, others]), np.append(offsets, [0.1, -0.2])
    n, m = len(normals), len(between)
    planes = Planes(normals, offsets, np.zeros((n, D + 1, D + 1)), np.ones(n))
    beta = np.append(np.full(m, 1.0), [0.05, -0.07])
    gamma = np.array([0.02, 0.03, -0.04, -0.75 * m])
    start = Traces.none(planes, 2).begin(
        np.array([[0.99, 0.0, 0.0], [-0.99, 0.0, 0.0]]),
        np.ones((2, D + 1)),
        np.tile(OUTPUT, (2, 1)),
        np.full(2, 1e-12),
        np.full(2, 1e-12),
        np.arange(2),
    )
    known = np.zeros((2, n), dtype=bool)
    known[:, m:] = True
    own = gamma + (start.sides[:, :m] * beta[:m]) @ start.ridges[:m]
    error = np.where(known, 1e-12, np.inf)
    return replace(start, gamma=own, beta=known * beta, known=known, beta_error=error), gamma, beta


@pytest.mark.parametrize(
    ("between", "offsets"),
    [
        (np.array([[1.0, 0.0, 0.0], [0.96, 0.28, 0.0]]), np.array([0.2, -0.2])),
        (np.array([[1.0, 0.0, 0.0]] * 3), np.array([0.3, 0.0, -0.3])),
    ],
    ids=["told", "open"],
)
def test_two_parts_become_one_unit(between, offsets):
    traces, gamma, beta = two_parts(between, offsets)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (4000, D))
    heights = traces.planes.heights(x)
    truth = x @ gamma[:-1] + gamma[-1] + np.abs(heights) @ beta
    assert 0.01 < np.mean(truth > 0) < 0.5
    joined, which = put_together(traces, Faces.draw(traces.planes, LOW, HIGH, rng), x)
    assert (len(joined), which) == (1, [0])
    assert joined.known.all()
    fresh = rng.uniform(-1, 1, (4000, D))
    heights = traces.planes.heights(fresh)
    truth = fresh @ gamma[:-1] + gamma[-1] + np.abs(heights) @ beta
    found = joined.values(fresh, heights)[:, 0]
    assert np.max(np.abs(np.maximum(found, 0) - np.maximum(truth, 0))) < 1e-10


def test_units_of_other_outputs_or_weights_stay_two():
    between, offsets = np.array([[1.0, 0.0, 0.0]] * 3), np.array([0.3, 0.0, -0.3])
    traces, _, _ = two_parts(between, offsets)
    rng = np.random.default_rng(0)
    faces, x = Faces.draw(traces.planes, LOW, HIGH, rng), rng.uniform(-1, 1, (2000, D))
    turned = replace(traces, output=np.array([OUTPUT, [0.8, 0.6]]))
    assert put_together(turned, faces, x)[1] == []
    other = traces.beta.copy()
    other[1, -1] += 1e-3
    assert put_together(replace(traces, beta=other), faces, x)[1] == []


def test_a_unit_is_told_by_the_answers_where_it_rarely_is():
    rng = np.random.default_rng(2)
    rows = np.hstack([rng.standard_normal((4, D)), rng.uniform(-0.5, 0.5, (4, 1))])
    gamma, beta = rng.standard_normal((2, D + 1)), rng.standard_normal((2, 4))
    gamma[1, -1] += 2.5
    truth = RidgeSum(rows, gamma, beta, rng.standard_normal((2, 2)), rng.standard_normal((8, 2)))
    x = rng.uniform(-1, 1, (1000, D))
    y, bars = truth(x), np.full(1000, 1e-14)
    assert 0.5 < np.mean(truth.on(x)[:, 1]) < 0.98
    off = gamma.copy()
    off[1] *= 1 + 1e-7 * rng.standard_normal(D + 1)
    # what is linear on the common side has been fitted to the answers there
    above = truth.above.copy()
    above[4:] -= (off[1] - gamma[1])[:, None] * truth.output[1]
    wrong = replace(truth, gamma=off, above=above)
    assert np.max(np.abs(wrong(x) - y)) > 1e-8
    right = fit_where_rare(wrong, 1, x, y, bars)
    assert np.max(np.abs(right(x) - y)) < 1e-12
