"""The landscapes of Goel and Panigrahy (after Ge, Lee and Ma) over the stored tensors T_2 and T_4.

With ``E f H_2(z.x) = T_2(z,z)/sqrt2 = uhat_2 sum c_i (z.w_i)^2`` and ``E f H_4(z.x) = T_4(z,z,z,z)/sqrt24 = uhat_4 sum
c_i (z.w_i)^4`` (up to products of units, rare under high thresholds):

* one by one: the local minima of ``G(z) = -sgn(uhat_4) E f H_4 + lambda (E f H_2 - uhat_2)^2`` are +- the columns of
  ``(T W)^{-1}``, T = diag(sqrt c_i); all of them, inverted, are the directions (Claim 2);
* simultaneous: ``sum_{j != k} T_4(w_j,w_j,w_k,w_k) - gamma sum T_4(w_j^4) + lambda sum (T_2(w_j,w_j) - uhat_2)^2``
  (Theorem 12), whose minimiser has the directions as its inverse transpose. The mixed term is the Hermite tensor
  itself; the sign of the last term of the paper's psi would not cancel. Noise makes an estimated T_4 negative in some
  direction, onto which all rows would collapse: T_4 is first brought close to what it must be, a sum of m fourth powers
  (``denoise_fourth``);
* orthonormal weights: the maxima of ``E f h_4(z.x)`` on the sphere.

Gradients and Hessians are analytic, the solver is second order (exact trust region, so saddles are left), and every
returned point is checked: small gradient, no negative curvature.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from unweave.core.errors import InputError
from unweave.moments.hermite import HermiteMoments

GAMMA = 0.01
SQRT2, SQRT24 = float(np.sqrt(2.0)), float(np.sqrt(24.0))


@dataclass(frozen=True)
class Landscape:
    """T_2 and T_4 restricted to the m directions that T_2 shows, in coordinates in which T_2 is the identity."""

    fourth: np.ndarray
    """(m, m, m, m): ``sgn(uhat_4) E f H_4`` as a tensor, so that maxima are wanted."""
    root: np.ndarray
    """(d, m): maps coordinates of directions back, ``w = root @ y``."""
    penalty: float
    """lambda, with uhat_2 = 1 in these coordinates."""

    @staticmethod
    def of(moments: HermiteMoments, num_units: int, *, factor: float = 1.5) -> Landscape:
        """From moments of order 4; lambda is ``factor`` times the largest ``|E f H_4| / (E f H_2)^2`` found.

        That ratio is ``|uhat_4| / (uhat_2^2 min c)``: below it G has no lower bound, well above it the minima of G
        are too shallow to tell from noise.
        """
        values, vectors = np.linalg.eigh(moments.tensor(2) / SQRT2)
        top = np.argsort(-values)[:num_units]
        if values[top[-1]] <= 0:
            raise InputError(
                f"T_2 has only {int(np.sum(values > 0))} positive directions; give fewer units than {num_units}"
            )
        root = vectors[:, top] * np.sqrt(values[top])
        whiten = vectors[:, top] / np.sqrt(values[top])
        fourth = moments.tensor(4) / SQRT24
        for _ in range(4):
            fourth = np.tensordot(fourth, whiten, axes=(0, 0))
        sign = np.sign(np.einsum("iijj->", fourth)) or 1.0
        fourth = denoise_fourth(sign * fourth)
        return Landscape(fourth, root, factor * _largest_value(fourth))

    @property
    def size(self) -> int:
        return len(self.fourth)

    @property
    def joint_penalty(self) -> float:
        """lambda of the simultaneous objective: m times larger, or mixed terms below zero have no lower bound."""
        return self.size * self.penalty

    def value(self, z: np.ndarray) -> float:
        """G at z, in whitened coordinates."""
        return float(-_contract(self.fourth, z, 4) + self.penalty * (z @ z - 1) ** 2)

    def gradient(self, z: np.ndarray) -> np.ndarray:
        return -4 * _contract(self.fourth, z, 3) + 4 * self.penalty * (z @ z - 1) * z

    def hessian(self, z: np.ndarray) -> np.ndarray:
        penalty = 8 * np.outer(z, z) + 4 * (z @ z - 1) * np.eye(len(z))
        return -12 * _contract(self.fourth, z, 2) + self.penalty * penalty

    def joint_value(self, flat: np.ndarray) -> float:
        """The simultaneous objective at m stacked vectors."""
        w = flat.reshape(self.size, self.size)
        own = np.array([_contract(self.fourth, z, 4) for z in w])
        pairs = self._pairs(w)
        norms = np.sum(w**2, axis=1) - 1
        return float(
            pairs.sum() - np.trace(pairs) - GAMMA * own.sum() + self.joint_penalty * np.sum(norms**2)
        )

    def joint_gradient(self, flat: np.ndarray) -> np.ndarray:
        w = flat.reshape(self.size, self.size)
        squares = [_contract(self.fourth, z, 2) for z in w]
        total = sum(squares)
        rows = [
            4 * (total - squares[k]) @ z
            - 4 * GAMMA * squares[k] @ z
            + 4 * self.joint_penalty * (z @ z - 1) * z
            for k, z in enumerate(w)
        ]
        return np.concatenate(rows)

    def joint_hessian(self, flat: np.ndarray) -> np.ndarray:
        m = self.size
        w = flat.reshape(m, m)
        squares = [_contract(self.fourth, z, 2) for z in w]
        total = np.sum(squares, axis=0)
        cubes = np.einsum("abce,kb->kace", self.fourth, w, optimize=True)
        blocks = np.zeros((m, m, m, m))
        for k, z in enumerate(w):
            for other in range(m):
                if other != k:
                    # d/dw_l of 4 A(w_l) w_k, A(v) = T_4(v, v, ., .)
                    blocks[k, :, other, :] = 8 * np.einsum("ace,c->ae", cubes[other], z)
            curve = 4 * (total - squares[k]) - 12 * GAMMA * squares[k]
            blocks[k, :, k, :] = curve + self.joint_penalty * (
                8 * np.outer(z, z) + 4 * (z @ z - 1) * np.eye(m)
            )
        return blocks.reshape(m * m, m * m)

    def _pairs(self, w: np.ndarray) -> np.ndarray:
        return np.einsum("abce,ja,jb,kc,ke->jk", self.fourth, w, w, w, w, optimize=True)


@dataclass(frozen=True)
class LocalMinimum:
    """A point with the figures of its second-order check."""

    point: np.ndarray
    value: float
    gradient_norm: float
    least_curvature: float

    @property
    def is_minimum(self) -> bool:
        return self.gradient_norm < 1e-6 and self.least_curvature > -1e-6


def minimise_one_by_one(
    landscape: Landscape, rng: np.random.Generator, *, max_starts: int | None = None
) -> list[LocalMinimum]:
    """Distinct local minima of G up to sign, at most m, from starts off those already found."""
    m = landscape.size
    found: list[LocalMinimum] = []
    for _ in range(8 * m if max_starts is None else max_starts):
        if len(found) == m:
            break
        start = rng.standard_normal(m)
        if found:
            known = np.linalg.qr(np.array([f.point for f in found]).T)[0]
            start = start - 0.9 * known @ (known.T @ start)
        best = _descend(landscape.value, landscape.gradient, landscape.hessian, start / np.linalg.norm(start))
        length = float(np.linalg.norm(best.point))
        if not best.is_minimum or length < 1e-3:
            continue
        cosines = [abs(f.point @ best.point) / (np.linalg.norm(f.point) * length) for f in found]
        if max(cosines, default=0.0) < 0.8:
            found.append(best)
    return found


def minimise_simultaneously(landscape: Landscape, rng: np.random.Generator) -> LocalMinimum:
    """A local minimum of the joint objective from an orthonormal start, as a point of length m^2."""
    m = landscape.size
    start = np.linalg.qr(rng.standard_normal((m, m)))[0].ravel()
    return _descend(landscape.joint_value, landscape.joint_gradient, landscape.joint_hessian, start)


def directions_from_inverse(landscape: Landscape, points: np.ndarray) -> np.ndarray:
    """Unit directions (k, d) from the columns ``z_i`` (rows of ``points``) of ``(T W)^{-1}``: invert, normalise."""
    back = np.linalg.pinv(points).T @ landscape.root.T
    back = back / np.linalg.norm(back, axis=1, keepdims=True)
    return back


def orthonormal_directions(
    moments: HermiteMoments, num_units: int, rng: np.random.Generator, *, order: int = 4, max_steps: int = 200
) -> np.ndarray:
    """Maxima of ``|E f h_l(z.x)|`` on the sphere, l = ``order`` even and at least 4: orthonormal weights, up to sign.

    Shifted power iteration from random starts, each new direction orthogonal to those found.
    """
    if order < 4 or order % 2:
        raise InputError(f"order={order}: orthonormal weights need an even order of at least 4")
    tensor = moments.tensor(order)
    d, found = moments.input_size, np.zeros((0, moments.input_size))
    sign = np.sign(_contract_traces(tensor)) or 1.0
    for _ in range(num_units):
        best, largest = np.zeros(d), -np.inf
        for _ in range(10):
            z = _off(rng.standard_normal(d), found)
            for _ in range(max_steps):
                image = sign * _contract(tensor, z, order - 1)
                after = _off(image + 2 * np.linalg.norm(image) * z, found)
                settled = np.linalg.norm(after - z) < 1e-10
                z = after
                if settled:
                    break
            value = sign * float(_contract(tensor, z, order))
            if value > largest:
                best, largest = z, value
        found = np.vstack([found, best])
    return found


def denoise_fourth(fourth: np.ndarray, *, num_rounds: int = 3) -> np.ndarray:
    """A symmetric tensor (m, m, m, m) close to ``fourth`` and to the sums of m fourth powers with positive weights.

    Such a sum is, as an (m^2, m^2) matrix, positive of rank m, and symmetric in its four places: the two are enforced
    in turn (Cadzow 1988), symmetry last.
    """
    m = len(fourth)
    for _ in range(num_rounds):
        values, vectors = eigh(fourth.reshape(m * m, m * m), subset_by_index=[m * m - m, m * m - 1])
        half = vectors * np.sqrt(np.maximum(values, 0.0))
        low_rank = (half @ half.T).reshape(m, m, m, m)
        # The matrix is symmetric and so are its eigenvectors as matrices: three orders of the places are left.
        fourth = (low_rank + low_rank.transpose(0, 2, 1, 3) + low_rank.transpose(0, 3, 2, 1)) / 3
    return fourth


def landscape_starts(
    chunks: Iterable[tuple[np.ndarray, np.ndarray]],
    input_size: int,
    kind: str,
    num_units: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Directions (at most num_units, d) of the units behind 0/1 labels by one of the landscapes.

    Signs are chosen so that the third moment along each direction is positive. ``chunks`` are (x, labels).
    """
    moments = HermiteMoments(input_size, order=4)
    for x, labels in chunks:
        moments.update(x, np.asarray(labels, dtype=np.float64))
    if kind == "orthonormal":
        found = orthonormal_directions(moments, num_units, rng)
    else:
        landscape = Landscape.of(moments, num_units)
        if kind == "simultaneous":
            points = _distinct(minimise_simultaneously(landscape, rng).point.reshape(num_units, num_units))
        else:
            points = np.array([f.point for f in minimise_one_by_one(landscape, rng)])
        found = directions_from_inverse(landscape, points.reshape(-1, landscape.size))
    third = np.einsum("abc,ka,kb,kc->k", moments.tensor(3), found, found, found, optimize=True)
    return found * np.where(third < 0, -1.0, 1.0)[:, None]


def _distinct(points: np.ndarray) -> np.ndarray:
    """Rows that are no copies of an earlier one, as rows of a joint minimum become when noise outweighs T_4."""
    kept: list[np.ndarray] = []
    for z in points:
        if all(abs(z @ k) < 0.8 * np.linalg.norm(z) * np.linalg.norm(k) for k in kept):
            kept.append(z)
    return np.array(kept)


def _descend(value, gradient, hessian, start: np.ndarray) -> LocalMinimum:
    found = minimize(
        value, start, jac=gradient, hess=hessian, method="trust-exact", options={"maxiter": 300, "gtol": 1e-9}
    )
    curvature = float(np.linalg.eigvalsh(hessian(found.x))[0])
    return LocalMinimum(found.x, float(found.fun), float(np.linalg.norm(gradient(found.x))), curvature)


def _contract(tensor: np.ndarray, z: np.ndarray, times: int) -> np.ndarray:
    for _ in range(times):
        tensor = tensor @ z
    return tensor


def _contract_traces(tensor: np.ndarray) -> float:
    while tensor.ndim > 0:
        tensor = np.einsum("...ii->...", tensor)
    return float(tensor)


def _largest_value(fourth: np.ndarray, num_starts: int = 20, num_steps: int = 60) -> float:
    """The largest value of the form on the sphere, by shifted power iteration."""
    m = len(fourth)
    z = np.random.default_rng(0).standard_normal((num_starts, m))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    flat = fourth.reshape(m, -1)
    for _ in range(num_steps):
        cubes = np.einsum("na,nb,nc->nabc", z, z, z).reshape(len(z), -1)
        image = cubes @ flat.T
        z = image + np.linalg.norm(image, axis=1, keepdims=True) * z
        z /= np.linalg.norm(z, axis=1, keepdims=True)
    return float(np.max(np.abs([_contract(fourth, v, 4) for v in z])))


def _off(z: np.ndarray, known: np.ndarray) -> np.ndarray:
    z = z - known.T @ (known @ z)
    return z / max(float(np.linalg.norm(z)), 1e-300)
