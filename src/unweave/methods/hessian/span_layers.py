"""Two hidden layers from spans of Hessians: which weights belong to which layer, and everything else.

``Hess f(x) = A Gamma(x) A' + V(x) T(x) V(x)'`` with ``v_l(x) = A G(x) b_l``.

*Attribution.* As stated (sec. 6.1): ``I(w) = sum_k |grad f(t_k w)|^2``, t_k = -19..20; first-layer weights
have the largest. The principled way: the ``a_i a_i'`` lie in the span at *every* base point while the
``v_l`` move, so the first layer is what spans around several base points have in common
(``algebra.matrix_span.common_span``).

*Second layer.* With A known, ``A^{-1} Hess A^{-T} = Gamma + G B T B' G``: off the diagonal the transformed
Hessians near the origin span the squares of ``G b_l`` only. Together with all diagonal matrices that is a
space spanned by rank-one matrices, the unit vectors and the ``G b_l``, and its dimension tells the width of
the second layer.

*The rest* (sec. 6.2): least squares over D1, D2, D3 and the shifts in ``c . phi(D1 V' A^{-T} D2 phi(D3 A' x
+ w) + z) + c0``, with the signs and sizes of D1 from a linear solve, then over all parameters. ``descend``
is the plain gradient descent of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.active_subspace import choose_rank
from unweave.algebra.matrix_span import MatrixSpan, half_vectorise
from unweave.algebra.rank_one import find_components
from unweave.core.activations import Activation
from unweave.core.network import Network
from unweave.solve.descend import Minimum, Settings, minimise
from unweave.solve.fit import spread_of


def independent_directions(vectors: np.ndarray, count: int, *, least: float = 0.05) -> np.ndarray:
    """The first ``count`` vectors, in order, that are not nearly combinations of those before."""
    chosen: list[np.ndarray] = []
    for u in vectors:
        frame = np.linalg.qr(np.array(chosen).T)[0] if chosen else np.zeros((len(u), 0))
        if np.linalg.norm(u - frame @ (frame.T @ u)) > least:
            chosen.append(u)
        if len(chosen) == count:
            break
    return np.array(chosen).reshape(len(chosen), vectors.shape[1])


def complete_directions(vectors: np.ndarray) -> np.ndarray:
    """``vectors`` (k, d) with k <= d, and an orthonormal basis of their complement in place of missing ones."""
    complement = np.linalg.svd(vectors, full_matrices=True)[2][len(vectors) :]
    return np.concatenate([vectors, complement])


@dataclass(frozen=True)
class SecondLayer:
    """Unit vectors (m1, m0) proportional to ``G b_l``, and the spectrum that told their number."""

    vectors: np.ndarray
    values: np.ndarray
    spectrum: np.ndarray
    width: int
    """The number of units: as many vectors unless some were not found."""


def find_second_layer(
    hessians: np.ndarray, rows: np.ndarray, rng: np.random.Generator, *, width: int | None, floor: float
) -> SecondLayer:
    """Second-layer weights from Hessians (n, m0, m0) near one point, given the first layer's rows (m0, m0)."""
    inverse = np.linalg.inv(rows)
    inner = np.einsum("ij,njk,lk->nil", inverse.T, hessians, inverse.T, optimize=True)
    size = len(rows)
    inner[:, np.arange(size), np.arange(size)] = 0.0
    _, spectrum, basis = np.linalg.svd(half_vectorise(inner), full_matrices=False)
    count = choose_rank(spectrum, floor, least_gap=2.0) if width is None else width
    count = max(min(count, size, len(basis)), 1)
    diagonals = half_vectorise(np.eye(size)[:, :, None] * np.eye(size)[:, None, :])
    span = MatrixSpan(np.concatenate([diagonals, basis[:count]]), spectrum, size)
    found = find_components(span, rng, num_components=size + count, accept=0.9, exact=False, max_rounds=6)
    # the unit vectors lie in the span as well: the rest are the second layer
    spread = np.max(np.abs(found.vectors), axis=1) < 0.97
    vectors, values = found.vectors[spread], found.values[spread]
    return SecondLayer(vectors[:count], values[:count], spectrum, count)


@dataclass(frozen=True)
class Deparametrised:
    """``f(x) = c . phi0(D1 P D2 phi0(D3 R x + w) + z) + c0``, phi0 = phi - phi(0), with R and P known."""

    rows: np.ndarray
    profiles: np.ndarray
    phi: Activation
    free_outputs: bool
    """Whether c and c0 are unknown; in the paper's class they are 1 and 0."""

    @property
    def centre(self) -> float:
        return float(self.phi(np.zeros(1))[0])

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.rows), len(self.profiles)

    def split(self, p: np.ndarray) -> list[np.ndarray]:
        """D1, D2, D3, w, z, c, c0."""
        m0, m1 = self.sizes
        return np.split(p, np.cumsum([m1, m0, m0, m0, m1, m1]))

    def network(self, p: np.ndarray) -> Network:
        d1, d2, d3, w, z, c, c0 = self.split(p)
        second = d1[:, None] * self.profiles * d2
        name = self.phi.name
        biases = [w, z - self.centre * second.sum(axis=1), c0 - self.centre * c.sum()]
        return Network([d3[:, None] * self.rows, second, c[None]], biases, [name, name, "identity"])

    def linearise(self, p: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and Jacobian at projected inputs ``t = x R'`` (n, m0)."""
        d1, d2, d3, w, z, c, c0 = self.split(p)
        s = t * d3 + w
        g, g1 = self.phi(s) - self.centre, self.phi.first(s, np)
        q = (g * d2) @ self.profiles.T
        u = q * d1 + z
        h, slope = self.phi(u) - self.centre, self.phi.first(u, np) * c
        back = (slope * d1) @ self.profiles
        outer = back * d2 * g1
        pieces = [slope * q, back * g, outer * t, outer, slope, h, np.ones((len(t), 1))]
        if not self.free_outputs:
            pieces[-2], pieces[-1] = np.zeros_like(h), np.zeros((len(t), 1))
        return h @ c + c0[0], np.hstack(pieces)

    def fit(self, start: np.ndarray, x: np.ndarray, y: np.ndarray, *, max_steps: int = 60) -> Minimum:
        """Levenberg-Marquardt on everything but the directions."""
        t = x @ self.rows.T

        def linearise(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            outputs, jacobian = self.linearise(p, t)
            return outputs - y, jacobian

        settings = Settings(target=1e-12, max_steps=max_steps, stall_steps=0, stationary_gain=1e-3)
        return minimise(
            lambda p: linearise(p)[0], linearise, start, scale=spread_of(y[:, None]), settings=settings
        )

    def start(self, x: np.ndarray, y: np.ndarray, slope: float) -> np.ndarray:
        """D3 = slope, D2 undoes the derivative at 0, and signs and sizes of D1 by linear least squares."""
        m0, m1 = self.sizes
        steep = abs(float(self.phi.first(np.zeros(1), np)[0]))
        features = (self.phi(slope * x @ self.rows.T) - self.centre) @ self.profiles.T
        beta = np.linalg.lstsq(np.column_stack([features, np.ones(len(x))]), y, rcond=1e-10)[0]
        signs = np.where(beta[:m1] < 0, -1.0, 1.0)
        sizes = np.maximum(np.abs(beta[:m1]) / steep, 1e-2)
        # sizes go into the outputs where these are free: the profiles are about as long as their rows
        d1, c = (signs, sizes) if self.free_outputs else (signs * sizes, np.ones(m1))
        c0 = beta[-1:] if self.free_outputs else np.zeros(1)
        return np.concatenate([d1, np.ones(m0), np.full(m0, slope), np.zeros(m0 + m1), c, c0])
