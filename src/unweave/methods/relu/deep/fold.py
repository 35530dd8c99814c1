"""A unit that stands in a network twice: always on, and turned round where it is off.

A unit that lines hardly ever see off is first taken for one that is always on; where it is off, contradictions show one
more. ``relu(z) = z + relu(-z)``: where the two have opposite rows, and the layer above reads both alike, they are one
unit, and the difference of their biases goes to the layer above. A weight that only one of them has shown is theirs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unweave.methods.relu.deep.known import Known

SAME = 1e-7
"""Relative difference up to which rows, and what is read of them, are the same."""
FEWEST = 2
"""Units above that have to read both."""

Entries = tuple[tuple[int, int, int], ...]
"""(layer, unit, feature) of open weights, layers counted from 1."""


def fold_turned(known: Known, open_entries: Entries, x: np.ndarray) -> tuple[Known, Entries]:
    """The layers with such pairs below the last as one unit each, and what is open then; ``x``: all points asked."""
    for _ in range(sum(len(b) for b in known.biases)):
        pair = None if any(known.leaks) else _find_pair(known, open_entries, x)
        if pair is None:
            break
        layer, steady, turned = pair
        weights, biases = [w.copy() for w in known.weights], [b.copy() for b in known.biases]
        share = np.linalg.norm(weights[layer][steady]) / np.linalg.norm(weights[layer][turned])
        shift = biases[layer][steady] + share * biases[layer][turned]
        above = weights[layer + 1]
        above[:, turned] = above[:, steady] * share
        biases[layer + 1] += above[:, steady] * shift
        weights[layer + 1] = np.delete(above, steady, axis=1)
        weights[layer][turned] *= -1.0
        biases[layer][turned] *= -1.0
        weights[layer] = np.delete(weights[layer], steady, axis=0)
        biases[layer] = np.delete(biases[layer], steady)
        known = replace(known, weights=tuple(weights), biases=tuple(biases), open_entries=())
        open_entries = tuple(
            (
                l,
                u - (l == layer + 1 and u > steady),
                i - (l == layer + 2 and i > steady),
            )
            for l, u, i in open_entries
            if (l, u) != (layer + 1, steady) and not (l == layer + 2 and i in (steady, turned))
        )
    return known, open_entries


def _find_pair(known: Known, open_entries: Entries, x: np.ndarray) -> tuple[int, int, int] | None:
    """(layer from 0, the unit that is always on, the other), below the last layer."""
    for layer, z in enumerate(known.arguments(x)[:-1]):
        w, above = known.weights[layer], known.weights[layer + 1]
        size = np.linalg.norm(w, axis=1)
        for steady in np.flatnonzero(np.all(z > 0, axis=0)):
            opposite = np.linalg.norm(w / size[:, None] + w[steady] / size[steady], axis=1) < SAME
            for turned in np.flatnonzero(opposite):
                hidden = {u for l, u, i in open_entries if l == layer + 2 and i in (steady, turned)}
                told = np.setdiff1d(np.arange(len(above)), list(hidden))
                read, other = above[told, steady] * size[steady], above[told, turned] * size[turned]
                alike = np.linalg.norm(read - other) < SAME * np.linalg.norm(read)
                if len(told) >= FEWEST and alike:
                    return layer, int(steady), int(turned)
    return None
