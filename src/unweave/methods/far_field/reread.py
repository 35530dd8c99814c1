"""A first layer read again on another circle, once the network above it is known.

Where a unit's row cannot be read through the top, because the answers hardly depend on it just there, the same unit
crosses another circle at another vertex. What was learnt above stays: units are recognised by the directions of their
rows, and the top's inputs are put into the new order and signs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.optimize import linear_sum_assignment

from unweave.core.network import Network
from unweave.methods.far_field.exact import read_through
from unweave.methods.far_field.first_layer import FirstLayer
from unweave.methods.far_field.sight import Sight

SAME = 0.99
"""Cosine of the angle between two readings of one row."""


def read_elsewhere(
    sight: Sight, layer: FirstLayer, top: Network, others: Iterable[FirstLayer]
) -> tuple[Network, float] | None:
    """The whole network through the first of ``others`` that shows every unit of ``layer``; None if none does."""
    for other in others:
        turned = None if other.num_pending else turn_inputs(top, layer.rows, other.rows)
        found = None if turned is None else read_through(sight, other, turned)
        if found is not None:
            return found
    return None


def turn_inputs(top: Network, rows: np.ndarray, others: np.ndarray) -> Network | None:
    """``top``, whose inputs are the units of ``rows``, for the same units in the order and signs of ``others``."""
    if len(rows) != len(others):
        return None
    cosines = _units(others) @ _units(rows).T
    ours, theirs = linear_sum_assignment(-np.abs(cosines))
    matched = cosines[ours, theirs]
    if np.min(np.abs(matched)) < SAME:
        return None
    first = top.weights[0][:, theirs] * np.sign(matched)
    return Network([first, *top.weights[1:]], top.biases, top.activations)


def _units(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
