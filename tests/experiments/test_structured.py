"""The structured cases recover planted instances."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core.errors import InputError
from unweave.experiments.structured_even import recover_even_units
from unweave.experiments.structured_exponential import recover_cliques, recover_disjoint_supports
from unweave.experiments.structured_low_threshold import search_directions
from unweave.experiments.structured_weighted import accept_rows, recover_from_accepted, recover_high_degrees


def _orthogonal(d: int, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def _distances(truth: np.ndarray, found: np.ndarray, *, signs: bool = True) -> np.ndarray:
    cosines = truth @ found.T
    best = np.max(cosines if signs else np.abs(cosines), axis=1)
    return np.sqrt(np.maximum(2 - 2 * best, 0.0))


def test_even_activations_without_threshold():
    rng = np.random.default_rng(1)
    w = _orthogonal(5, rng)
    x = rng.standard_normal((100_000, 5))
    h = np.cos(1.5 * x @ w.T)
    y = h.sum(axis=1) + 0.1 * h[:, 0] * h[:, 1]
    assert _distances(w, recover_even_units(x, y, 5, rng), signs=False).max() < 0.05


def test_exponential_units_form_cliques():
    rng = np.random.default_rng(2)
    supports = [(0, 3, 5), (1, 2, 7), (4, 6, 8)]
    x = rng.standard_normal((200_000, 9))
    units = np.array([np.exp(0.5 * (x[:, list(s)].sum(axis=1) - 3.0)) for s in supports])
    y = units.sum(axis=0) + 0.2 * units[0] * units[1]
    assert recover_cliques(x, y) == supports


def test_exponential_units_by_penalised_ascent():
    rng = np.random.default_rng(3)
    supports = [(0, 4), (1, 3), (2, 5)]
    x = rng.standard_normal((400_000, 6))
    units = [np.exp(x[:, list(s)].sum(axis=1)) for s in supports]
    assert recover_disjoint_supports(x, np.sum(units, axis=0)) == supports


def test_a_graph_without_cliques_is_refused():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((50_000, 4))
    with pytest.raises(InputError, match="cliques"):
        recover_cliques(x, x[:, 0] * x[:, 1] + x[:, 1] * x[:, 2])


def test_low_thresholds_without_linear_terms():
    rng = np.random.default_rng(5)
    w = _orthogonal(3, rng)
    x = rng.standard_normal((100_000, 3))
    steps = x @ w.T > 0.5
    y = (steps[:, 0] & steps[:, 1]).astype(float) + (steps[:, 1] & steps[:, 2]) + (steps[:, 0] & steps[:, 2])
    assert _distances(w, search_directions(x, y, 0.5, 3, rng)).max() < 0.15
    with pytest.raises(InputError, match="exponential"):
        search_directions(np.zeros((10, 7)), np.zeros(10), 0.5, 1, rng)


def test_sigmoid_units_from_rows_kept_in_proportion_to_f():
    rng = np.random.default_rng(6)
    w = _orthogonal(5, rng)
    x = rng.standard_normal((400_000, 5))
    y = (1 / (1 + np.exp(-3 * (x @ w.T - 3.5)))).sum(axis=1)
    kept = accept_rows(x, y, rng)
    assert len(kept) < len(x) / 50
    assert _distances(w, recover_from_accepted(kept, 5, rng)).max() < 0.1


def test_higher_degrees_in_single_units():
    rng = np.random.default_rng(7)
    w = _orthogonal(6, rng)
    x = rng.standard_normal((200_000, 6))
    h = np.maximum(x @ w.T - 1.5, 0)
    y = (h + np.array([0, 0.5, 1, 0.5, 0, 1]) * h**2).sum(axis=1) + h[:, 0] * h[:, 1]
    assert _distances(w, recover_high_degrees(x, y, 6, rng)).max() < 0.1
