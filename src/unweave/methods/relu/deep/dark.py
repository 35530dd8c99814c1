"""What units of the last layer do where features are on with which none of their kinks was seen.

Where a feature is on and a unit never switches, the unit is on or off throughout: at the border of that region, where
the feature adds nothing, its argument tells which. There its output is linear, so the weight that is not known does not
hinder the fit of the layer, and shows in the linear part of the answers: alone, or in a sum with those of other units
that are on there as well, of which the shortest are taken.
"""

from __future__ import annotations

import numpy as np

NUM_NEAR = 30
"""Points nearest to the border of a feature, as far as its weight goes, that tell whether a unit is on there."""
SURE = 0.9
"""Share of them that have to agree."""
SAME = 1e-6
"""What is left of the linear part, relative to the largest share in it, below which weights explain it."""


def find_states(z: np.ndarray, h: np.ndarray, rows: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Signs (units, features) of arguments where features are on whose weights are not seen; 0: known, or unsure.

    ``z`` (n, units): arguments without the weights that are not seen.
    """
    states, on = np.zeros(seen.shape), h > 0
    for unit in np.flatnonzero(~seen.all(axis=1)):
        dark = on & ~seen[unit]
        for feature in np.flatnonzero(~seen[unit]):
            at = np.flatnonzero(dark[:, feature] & (dark.sum(axis=1) == 1))
            at = at if len(at) >= NUM_NEAR else np.flatnonzero(dark[:, feature])
            share = h[at, feature] / np.maximum(np.abs(z[at, unit]), 1e-300)
            near = at[np.argsort(share, kind="stable")[:NUM_NEAR]]
            if len(near):
                positive = float(np.mean(z[near, unit] > 0))
                states[unit, feature] = float(positive >= SURE) - float(positive <= 1 - SURE)
    return states


def signs_at(z: np.ndarray, h: np.ndarray, seen: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Signs (n, units) of arguments; 0 where features with weights that are not seen are on and do not agree."""
    signs = np.where(z > 0, 1.0, -1.0)
    for unit in np.flatnonzero(~seen.all(axis=1)):
        dark = (h > 0) & ~seen[unit]
        some, total = dark.sum(axis=1), dark @ states[unit]
        signs[:, unit] = np.where(
            some == 0, signs[:, unit], np.where(np.abs(total) < some, 0.0, np.sign(total))
        )
    return signs


def fill_weights(
    rows: np.ndarray, seen: np.ndarray, parts: np.ndarray, rest: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with weights that ``rest`` (features, outputs) tells, and which weights are known then.

    ``parts`` (units, features, outputs): what the answers gain for the feature from each weight that is not seen, zero
    where the unit is off; ``least``: weights from which the shortest way is taken where several show in one sum.
    """
    rows, seen = rows.copy(), seen.copy()
    scale = np.max(np.abs(parts), initial=1e-300)
    for feature in np.flatnonzero(~seen.all(axis=0)):
        units = np.flatnonzero(~seen[:, feature] & np.any(parts[:, feature] != 0, axis=1))
        if not len(units):
            continue
        a, start = parts[units, feature].T, least[units, feature]
        target = rest[feature] - a @ start
        step = np.linalg.lstsq(a, target, rcond=1e-9)[0]
        reach = np.max(np.abs(a) @ np.abs(start + step)) + np.max(np.abs(rest[feature]))
        if np.max(np.abs(a @ step - target)) <= SAME * (reach + SAME * scale):
            rows[units, feature], seen[units, feature] = start + step, True
    return rows, seen
