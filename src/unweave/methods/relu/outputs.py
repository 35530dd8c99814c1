"""Which kinks are of the last hidden layer, from the directions in which the outputs bend: free of questions.

A unit of the last hidden layer bends the outputs along its own output weights wherever it is met; one below it along
whatever the units above pass on there, which differs from line to line. With two outputs or more, directions that
lines share are of last units. Where the layers above hardly ever switch those of units below are shared as well, so
this tells which kinks can wait, not which there are.
"""

from __future__ import annotations

import numpy as np

SAME = 1e-7
"""Directions within this of each other are one: kinks that lines do not resolve better tell nothing."""
FEWEST, MANY_LINES = 3, 6
"""Lines that have to share a direction; and how many there have to be for kinks that share none to tell anything."""
ALONE = 0.8
"""Share of the kinks of the last layer that are told by another line; those of a layer below hardly ever are."""
MOST_LATE = 0.9
"""Share of the kinks from which those of the last layer are all there is."""


def shared_outputs(
    jumps: np.ndarray, line: np.ndarray, counts: np.ndarray, fewest: int = FEWEST
) -> np.ndarray:
    """Which of the jumps (n, k) of the slope have a direction that several of the lines which count share."""
    n, k = jumps.shape
    if k < 2 or not n:
        return np.zeros(n, dtype=bool)
    direction = jumps / np.maximum(np.linalg.norm(jumps, axis=1, keepdims=True), 1e-300)
    place = direction @ np.cos(np.arange(1.0, k + 1))  # any fixed way to order directions
    direction, place = direction * np.sign(place)[:, None], np.abs(place)
    order = np.argsort(place, kind="stable")
    apart = np.linalg.norm(np.diff(direction[order], axis=0), axis=1) > SAME
    group = np.empty(n, dtype=int)
    group[order] = np.append(0, np.cumsum(apart))
    pairs = np.unique(np.column_stack([group, line])[counts], axis=0)
    num_lines = np.bincount(pairs[:, 0], minlength=n)
    return num_lines[group] >= fewest


def those_that_wait(late: np.ndarray) -> np.ndarray:
    """Of kinks that are open those of the last layer, unless that is the layer which is open."""
    return late if np.mean(late) <= MOST_LATE else np.zeros(len(late), dtype=bool)


def is_deeper(jumps: np.ndarray, line: np.ndarray) -> bool:
    """Whether kinks that the first layer does not explain are of more layers than one."""
    if len(np.unique(line)) < MANY_LINES or jumps.shape[1] < 2:
        return False
    shared = shared_outputs(jumps, line, np.ones(len(line), dtype=bool), 2)
    return float(np.mean(shared)) < ALONE
