"""The global optimum for quadratic units in closed form: one least-squares solve and one eigendecomposition.

With ``phi(z) = z^2`` the network is the quadratic form ``x' M x``, ``M = W' diag(v) W``. The best M of all symmetric
matrices is a linear least-squares problem (Lemma 6.1 of Soltanolkotabi, Javanmard and Lee 2017: a W with this M is a
global minimum for any data). Its positive eigenpairs go to units with positive output weights, its negative ones to
units with negative output weights. That fits whenever there are enough units of each sign: always with d of each
(k >= 2d), and with k >= d where the output weights may be chosen.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, get_blas_funcs, get_lapack_funcs

from unweave.algebra.symmetric_forms import design, num_forms, sample_gram, smat

REFINEMENTS = 4


def fit_symmetric_form(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The symmetric M (d, d) least in norm among those that minimise ``sum_i (x_i' M x_i - y_i)^2``."""
    n, d = x.shape
    found = _from_samples(x, y) if n <= num_forms(d) else _from_forms(x, y)
    if found is None:
        found = smat(np.linalg.lstsq(design(x), y, rcond=None)[0], d)
    return found


def fit_units(
    x: np.ndarray, y: np.ndarray, width: int, output: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """W (k, d) and v (k,) at the global optimum; None where the signs of v have no room for it.

    ``output`` None: v may be chosen, and becomes +1 or -1.
    """
    matrix = fit_symmetric_form(x, y)
    values, vectors = np.linalg.eigh(matrix)
    values = np.where(np.abs(values) <= 4 * len(values) * 2.0**-52 * np.max(np.abs(values)), 0.0, values)
    if output is None:
        if width < np.count_nonzero(values):
            return None
        output = _choose_signs(values, width)
    weights = np.zeros((width, len(values)))
    for sign in (1.0, -1.0):
        pairs = np.flatnonzero(sign * values > 0)
        units = np.flatnonzero(sign * output > 0)
        if len(pairs) > len(units):
            return None
        units = units[: len(pairs)]
        weights[units] = np.sqrt(values[pairs] / output[units])[:, None] * vectors[:, pairs].T
    return weights, output


def _choose_signs(values: np.ndarray, width: int) -> np.ndarray:
    """At least as many units of each sign as eigenvalues; the rest shared between the signs."""
    num_positive, num_negative = int(np.sum(values > 0)), int(np.sum(values < 0))
    positive = min(max(num_positive, width // 2), width - num_negative)
    return np.where(np.arange(width) < positive, 1.0, -1.0)


def _from_samples(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """M = X' diag(a) X with (X X')^2 a = y, for no more samples than free entries of M."""
    gram = sample_gram(x)
    factorise, solve = get_lapack_funcs(("potrf", "potrs"), (gram,))
    factor, failed = factorise(gram, lower=1, overwrite_a=1, clean=0)
    if failed:
        return None
    a, matrix = np.zeros(len(y)), np.zeros((x.shape[1], x.shape[1]))
    rest, size = y, float(y @ y)
    for _ in range(REFINEMENTS):
        a = a + solve(factor, rest, lower=1)[0]
        matrix = (x * a[:, None]).T @ x
        rest = y - np.einsum("ij,ij->i", x @ matrix, x)
        if rest @ rest <= 1e-30 * size:
            break
    return matrix if rest @ rest <= 1e-22 * size else None


def _from_forms(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """M by the normal equations over its free entries, refined; None when they are not clearly regular."""
    rows = design(x)
    (multiply,) = get_blas_funcs(("syrk",), (rows,))
    gram = multiply(1.0, rows, trans=1, lower=1)
    try:
        factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    found, before = np.zeros(rows.shape[1]), np.inf
    for _ in range(REFINEMENTS):
        step = cho_solve(factor, rows.T @ (y - rows @ found), check_finite=False)
        found, size = found + step, float(np.linalg.norm(step))
        if size <= 1e-15 * float(np.linalg.norm(found)):
            break
        if size > 1e-3 * before:
            return None
        before = size
    return smat(found, x.shape[1])
