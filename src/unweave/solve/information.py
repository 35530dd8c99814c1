"""What answers determine about the parameters of a network: standard errors, null directions, the gauge.

Near the optimum, answers with independent errors of one size leave the parameters with the covariance ``(J'J)^-1``
times its square (the Cramer-Rao bound for Gaussian noise). The columns of J are scaled to length one first, so that
what counts as zero does not depend on units. A singular value decomposition tells sizes down to rounding; normal
equations, which are sums over any number of rows, tell half the digits; a triangular factor is the cheapest where
everything is determined.

The scale of a homogeneous unit (relu) is a symmetry that no answer determines. Its row is held at its length, by one
more row of J that is then taken off the covariance again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
import scipy.sparse

from unweave.core.network import Network
from unweave.solve.layout import Layout
from unweave.solve.normal import NormalEquations, double_precision

NULL = 1e-7
"""Relative size of singular values that normal equations cannot tell from zero."""
TOUCHED = 1e-6
"""Parameters are not determined that have a larger part in a null direction."""
WELL_CONDITIONED = 5e-7
"""Least diagonal of a triangular factor for which normal equations give it: below, they would keep fewer than three
digits, and QR takes over."""
SINGULAR = 1e11
"""Parameters whose error a triangular factor amplifies by more than this are not determined."""


@dataclass(frozen=True)
class Information:
    """Of a Jacobian with columns scaled to length one, and a residual."""

    scales: np.ndarray
    """Lengths of the columns, 1 where they vanish."""
    spread: np.ndarray
    """Error of each scaled parameter when every answer has error one; infinite where nothing is determined."""
    step: np.ndarray
    """What Gauss-Newton subtracts from the parameters: nothing along null directions, or at all where these were not
    computed and something is not determined."""
    condition: float
    """Condition number of the scaled Jacobian; infinite where something is not determined."""
    values: np.ndarray = field(repr=False, default_factory=lambda: np.zeros(0))
    """Singular values of the scaled Jacobian, largest first, where they were computed ..."""
    null: np.ndarray = field(repr=False, default_factory=lambda: np.zeros((0, 0)))
    """... and with them the directions of scaled parameters, one a column, that change no answer."""

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviation of each parameter, in ``Network.flat``'s order, when every answer has error one."""
        return self.spread / self.scales

    @property
    def is_regular(self) -> bool:
        """Whether everything is determined."""
        return bool(np.all(np.isfinite(self.spread)))


def unit_errors(network: Network, errors: np.ndarray) -> np.ndarray:
    """Largest of the parameters' errors among each unit's incoming ones, relative to the largest of those."""
    units, layout = [], Layout.of(network)
    for layer in range(layout.num_layers):
        largest = np.max(np.abs(layout.block(network.flat(), layer)), axis=1)
        units.append(np.max(layout.block(errors, layer), axis=1) / np.maximum(largest, 1e-300))
    return np.concatenate(units)


def decompose(jacobian: np.ndarray, r: np.ndarray) -> Information:
    """By a singular value decomposition."""
    norms = np.linalg.norm(jacobian, axis=0)
    scales = np.where(norms > 0, norms, 1.0)
    u, values, vt = scipy.linalg.svd(jacobian / scales, full_matrices=False, check_finite=False)
    k = int(np.sum(values > np.finfo(float).eps * max(jacobian.shape) * max(float(values[0]), 1e-300)))
    null = vt[k:].T if len(vt) == vt.shape[1] else scipy.linalg.null_space(vt[:k])
    root = vt[:k] / values[:k, None]
    step = vt[:k].T @ ((u[:, :k].T @ r) / values[:k]) / scales
    values = np.concatenate([values, np.zeros(jacobian.shape[1] - len(values))])
    return _with_null(scales, np.sum(root**2, axis=0), step, values, null)


def from_normal(equations: NormalEquations, gauge: scipy.sparse.csr_array | None = None) -> Information:
    """By normal equations, with the rows of ``gauge`` held."""
    xp = equations.xp
    with double_precision(xp):
        diagonal = xp.diag(equations.matrix)
        scales = xp.sqrt(xp.where(diagonal > 0, diagonal, 1.0))
        matrix, gradient = equations.matrix / (scales[:, None] * scales[None, :]), equations.gradient / scales
        held = np.zeros((0, len(scales)))
        if gauge is not None:
            held = np.where(np.array(diagonal) > 0, gauge.toarray() / np.array(scales), 0.0)
            held /= np.maximum(np.linalg.norm(held, axis=1, keepdims=True), 1e-300)
            matrix = matrix + held.T @ held
        values = np.sqrt(np.maximum(np.array(xp.linalg.eigvalsh(matrix)), 0.0))[::-1]
        if values[-1] > NULL * values[0]:
            inverse, null = xp.linalg.inv(matrix), np.zeros((len(values), 0))
            variances, step, moved = xp.diag(inverse), inverse @ gradient, inverse @ held.T
        else:
            squares, vectors = (np.array(part) for part in xp.linalg.eigh(matrix))
            good = squares > (NULL * values[0]) ** 2
            root, null = vectors[:, good] / np.sqrt(squares[good]), vectors[:, ~good]
            variances, step = np.sum(root**2, axis=1), root @ (root.T @ np.array(gradient))
            moved = root @ (root.T @ held.T)
        variances = np.array(variances) - np.sum(np.array(moved) ** 2, axis=1)
        scales, step = np.array(scales), np.array(step / scales)
    return _with_null(scales, np.maximum(variances, 0.0), step, values, null)


def from_triangle(jacobian: np.ndarray, r: np.ndarray) -> Information:
    """By a triangular factor ``R``: by Cholesky where that is accurate enough, else by QR."""
    scales = np.linalg.norm(jacobian, axis=0)
    jacobian = jacobian / np.where(scales == 0, 1.0, scales)
    factor, projected = _triangle(jacobian, r)
    spread = np.full(len(scales), np.inf)
    if np.min(np.abs(np.diag(factor)), initial=np.inf) > 1e-13:
        (invert,) = scipy.linalg.get_lapack_funcs(("trtri",), (factor,))
        spread = np.linalg.norm(invert(factor)[0], axis=1)
    spread = np.where((scales == 0) | (spread > SINGULAR), np.inf, spread)
    scales = np.where(scales == 0, 1.0, scales)
    step = np.zeros(len(scales))
    if np.all(np.isfinite(spread)):
        step = scipy.linalg.solve_triangular(factor, projected, check_finite=False) / scales
    condition = float(np.linalg.norm(factor) * np.max(spread, initial=0.0))
    return Information(scales, spread, step, condition)


def gauge_rows(layout: Layout, theta: np.ndarray) -> scipy.sparse.csr_array:
    """One row for each homogeneous unit: the direction in which its incoming weights grow."""
    columns, values, lengths = [], [], []
    for layer, (kind, width) in enumerate(zip(layout.activations[:-1], layout.hidden, strict=True)):
        if kind.degree is None:
            continue
        weights = layout.block(theta, layer)[:, :-1]
        sizes = np.linalg.norm(weights, axis=1, keepdims=True)
        places = layout.starts[layer] + np.arange(width * (layout.fan_ins[layer] + 1)).reshape(width, -1)
        columns.append(places[:, :-1].ravel())
        values.append((weights / np.where(sizes > 0, sizes, 1.0)).ravel())
        lengths += [weights.shape[1]] * width
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    flat = [np.concatenate(parts) if parts else np.zeros(0) for parts in (values, columns)]
    return scipy.sparse.csr_array(
        (flat[0], flat[1].astype(int), starts), shape=(len(lengths), layout.num_parameters)
    )


def _with_null(scales, variances, step, values, null) -> Information:
    touched = np.max(np.abs(null), axis=1, initial=0.0) > TOUCHED
    condition = float("inf") if null.shape[1] else float(values[0] / values[-1])
    return Information(scales, np.where(touched, np.inf, np.sqrt(variances)), step, condition, values, null)


def _triangle(jacobian: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``R`` and ``Q' r``."""
    try:
        factor = scipy.linalg.cholesky(jacobian.T @ jacobian, overwrite_a=True, check_finite=False)
        if np.min(np.diag(factor), initial=1.0) > WELL_CONDITIONED:
            return factor, scipy.linalg.solve_triangular(factor, jacobian.T @ r, trans=1, check_finite=False)
    except np.linalg.LinAlgError:
        pass
    both = np.hstack([jacobian, r[:, None]])
    triangle = np.asarray(scipy.linalg.qr(both, mode="r", overwrite_a=True, check_finite=False)[0])
    count = jacobian.shape[1]
    return triangle[:count, :count], triangle[:count, count]
