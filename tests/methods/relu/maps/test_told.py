"""Sides of a layer from zero sets above it, by trying all of them."""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.maps.told import Chain, tell

BELOW, UNITS, ABOVE, PLACES = 6, 5, 8, 90


def _chains(steady: bool, seed: int) -> tuple[list[Chain], list[np.ndarray], np.ndarray, np.ndarray]:
    """Zero sets of a third layer over units turned at random; their rows, how they are turned, what is passed on."""
    rng = np.random.default_rng(seed)
    first, shift = rng.standard_normal((BELOW, 2)), 0.5 * rng.standard_normal(BELOW)
    rows = np.hstack([rng.standard_normal((UNITS, BELOW)), 0.2 * rng.standard_normal((UNITS, 1))])
    passed = np.append(rng.standard_normal(BELOW), 0.0)
    above = rng.standard_normal((ABOVE, UNITS + 1)) * np.append(np.ones(UNITS), float(steady))
    turned = rng.choice([-1.0, 1.0], size=UNITS)

    def features(x: np.ndarray) -> np.ndarray:
        return np.hstack([np.maximum(x @ first.T + shift, 0), np.ones((len(x), 1))])

    def outputs(x: np.ndarray) -> np.ndarray:
        return np.hstack([np.maximum(features(x) @ rows.T, 0), features(x) @ passed[:, None]])

    chains = []
    for weights in above:
        offset = float(np.median(outputs(rng.uniform(-3, 3, size=(400, 2))) @ weights))
        low, high = rng.uniform(-3, 3, size=(2, 4 * PLACES, 2))
        apart = (outputs(low) @ weights > offset) != (outputs(high) @ weights > offset)
        low, high = low[apart][:PLACES], high[apart][:PLACES]
        for _ in range(60):
            middle = (low + high) / 2
            same = (outputs(low) @ weights > offset) == (outputs(middle) @ weights > offset)
            low, high = np.where(same[:, None], middle, low), np.where(same[:, None], high, middle)
        h = features(low)
        signs = np.sign(h @ rows.T) * turned
        across = (features(low[:1] + 1e-7) - h[:1]) / 1e-7
        chains.append(Chain(np.vstack([h, across]), np.vstack([signs, signs[:1]])))
    return chains, [(s * r)[:, None] for s, r in zip(turned, rows, strict=True)], turned, passed


def test_zero_sets_above_tell_the_sides_of_a_layer():
    chains, bases, turned, _ = _chains(steady=False, seed=1)
    found = tell(chains, bases)
    assert found is not None
    np.testing.assert_array_equal(found[0], turned)
    assert len(found[1]) == 0


def test_a_unit_that_never_switches_is_found_beside_the_sides():
    chains, bases, turned, passed = _chains(steady=True, seed=1)
    found = tell(chains, bases)
    assert found is not None
    np.testing.assert_array_equal(found[0], turned)
    assert len(found[1]) == 1
    row = found[1][0, :-1] * np.sign(found[1][0, :-1] @ passed[:-1])
    np.testing.assert_allclose(row, passed[:-1] / np.linalg.norm(passed), atol=1e-4)


def test_nothing_is_told_by_zero_sets_of_other_units():
    chains, bases, _, _ = _chains(steady=False, seed=2)
    rng = np.random.default_rng(0)
    others = [Chain(c.features + 1e-2 * rng.standard_normal(c.features.shape), c.signs) for c in chains]
    assert tell(others, bases) is None
