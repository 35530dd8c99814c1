"""One cell of the map of a piecewise linear function: its affine piece, and the lines and cells around it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Cell:
    """``value + gradient (x - centre)`` inside the lines ``(a, b, neighbour)``: ``a x + b >= 0``."""

    centre: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    """(k, 2) within the plane."""
    error: float
    """Of the gradient."""
    lines: dict[int, tuple[np.ndarray, float]] = field(default_factory=dict)
    """By the number of the cell behind."""
    corners: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    behind: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    """Behind the edge from each corner to the next: the number of a cell, or -1 at the end of the plane."""
    asked: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    """Points at which the function agrees, with the answers."""
    whole: bool = False
    """Whether the function agrees at every corner."""

    def at(self, x: np.ndarray) -> np.ndarray:
        return self.value + (x - self.centre) @ self.gradient.T
