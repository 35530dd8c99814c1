"""The layers known so far, oriented: their features and Jacobians anywhere, and where they bend along lines.

Everything here is offline arithmetic. Inner parameters count in units of the given layers: ``h_0 = x``, and
``h_l = phi(W_l h_{l-1} + b_l)`` with ``phi(z) = max(z, leak z)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from unweave.probes.lines import Lines


@dataclass(frozen=True)
class Known:
    """Hidden layers 1..l with their sides."""

    input_size: int
    weights: tuple[np.ndarray, ...] = ()
    biases: tuple[np.ndarray, ...] = ()
    leaks: tuple[float, ...] = field(default=())
    open_entries: tuple[tuple[tuple[int, int], ...], ...] = field(default=())
    """For every layer (unit, feature) of weights that nothing has shown: they are set so that the unit is off there."""

    @property
    def depth(self) -> int:
        return len(self.weights)

    @property
    def width(self) -> int:
        """Number of features the next layer sees."""
        return len(self.biases[-1]) if self.weights else self.input_size

    def extended(
        self, rows: np.ndarray, leak: float = 0.0, open_entries: tuple[tuple[int, int], ...] = ()
    ) -> Known:
        """One layer more, from rows (units, width + 1) of weights and bias."""
        return Known(
            self.input_size,
            (*self.weights, rows[:, :-1]),
            (*self.biases, rows[:, -1]),
            (*self.leaks, leak),
            (*self._entries(), open_entries),
        )

    def first(self, depth: int) -> Known:
        return Known(
            self.input_size,
            self.weights[:depth],
            self.biases[:depth],
            self.leaks[:depth],
            self._entries()[:depth],
        )

    def _entries(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        return (*self.open_entries, *[()] * (self.depth - len(self.open_entries)))

    def is_unsure(self, x: np.ndarray) -> np.ndarray:
        """At which points (n,) a unit would be on but for a weight that nothing has shown: it may be."""
        out, h = np.zeros(len(x), dtype=bool), x
        if not any(self.open_entries):
            return out
        for (w, b, leak), entries in zip(self.layers(), self._entries(), strict=True):
            z = h @ w.T + b
            for unit, feature in entries:
                rest = z[:, unit] - w[unit, feature] * h[:, feature]
                out |= (h[:, feature] > 0) & (rest > 0)
            h = _activate(z, leak)
        return out

    def layers(self) -> Iterable[tuple[np.ndarray, np.ndarray, float]]:
        return zip(self.weights, self.biases, self.leaks, strict=True)

    def features(self, x: np.ndarray) -> np.ndarray:
        h = x
        for w, b, leak in self.layers():
            h = _activate(h @ w.T + b, leak)
        return h

    def arguments(self, x: np.ndarray) -> list[np.ndarray]:
        """What the units of every layer are applied to."""
        h, out = x, []
        for w, b, leak in self.layers():
            z = h @ w.T + b
            out.append(z)
            h = _activate(z, leak)
        return out

    def jacobian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features (n, width) and their derivatives by the input (n, width, d)."""
        h = x
        jac = np.broadcast_to(np.eye(self.input_size), (len(x), self.input_size, self.input_size))
        for w, b, leak in self.layers():
            z = h @ w.T + b
            jac = (w @ jac) * np.where(z > 0, 1.0, leak)[:, :, None]
            h = _activate(z, leak)
        return h, jac

    def gradients(self, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """For every layer the arguments (n, units) and their derivatives by the input (n, units, d)."""
        h, zs, gs = x, [], []
        jac = np.broadcast_to(np.eye(self.input_size), (len(x), self.input_size, self.input_size))
        for w, b, leak in self.layers():
            z, g = h @ w.T + b, w @ jac
            zs.append(z)
            gs.append(g)
            jac = g * np.where(z > 0, 1.0, leak)[:, :, None]
            h = _activate(z, leak)
        return zs, gs

    def active(self, h: np.ndarray) -> np.ndarray:
        """Which features (n, width) pass anything on: all of a leaky layer and of the input."""
        if not self.weights or self.leaks[-1]:
            return np.ones(h.shape, dtype=bool)
        return h > 0

    def clearance(self, x: np.ndarray) -> np.ndarray:
        """Distance (n,) to the nearest zero set of a known unit, in first order."""
        best = np.full(len(x), np.inf)
        for z, g in zip(*self.gradients(x), strict=True):
            size = np.linalg.norm(g, axis=2)
            apart = np.where(size > 1e-12, np.abs(z) / np.maximum(size, 1e-300), np.inf)
            best = np.minimum(best, apart.min(axis=1, initial=np.inf))
        return best

    def breaks(self, lines: Lines, i: int) -> np.ndarray:
        """Parameters at which a known unit bends along line ``i``, its two ends included."""
        origin, direction = lines.origins[i], lines.directions[i]
        t = np.array([lines.low[i], lines.high[i]])
        h = origin + t[:, None] * direction
        for w, b, leak in self.layers():
            z = h @ w.T + b
            row, unit = np.nonzero((z[:-1] > 0) != (z[1:] > 0))
            before, after = z[row, unit], z[row + 1, unit]
            share = before / (before - after)
            new = t[row] + (t[row + 1] - t[row]) * share
            # features are straight between breaks: those of the layer at a new break are interpolated
            between = h[row] + (h[row + 1] - h[row]) * share[:, None]
            fresh = between @ w.T + b
            fresh[np.arange(len(row)), unit] = 0.0
            order = np.argsort(np.concatenate([t, new]), kind="stable")
            t = np.concatenate([t, new])[order]
            h = _activate(np.concatenate([z, fresh])[order], leak)
        return t


def _activate(z: np.ndarray, leak: float) -> np.ndarray:
    return np.maximum(z, leak * z) if leak else np.maximum(z, 0.0)
