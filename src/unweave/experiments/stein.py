"""Average gradients and Hessians from samples of a known Gaussian density, by Stein's identity.

``E[f(x) (-1)^k grad^k p(x) / p(x)] = E[grad^k f(x)]``: with ``x ~ N(mu, S)`` and ``z = S^{-1}(x - mu)`` the
scores are ``z`` for the gradient and ``z z' - S^{-1}`` for the Hessian, so values alone replace finite
differences (Fornasier, Klock and Rauchensteiner 2019, sec. 1; Janzamin, Sedghi and Anandkumar 2014). One
sample serves many averages: reweighted by ``p'/p`` it is a sample of a narrower Gaussian elsewhere, and the
average Hessians around several centres span the squares of a shallow network's weights, ready for
``algebra.matrix_span``.

A quadratic fitted by weighted least squares is taken off first and its own derivatives put back: the identity
stays exact and its variance falls by the share of f that a quadratic explains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.matrix_span import MatrixSpan, estimate_span
from unweave.core.errors import InputError


@dataclass(frozen=True)
class Gaussian:
    """The density N(mean, covariance) the inputs were drawn from."""

    mean: np.ndarray
    covariance: np.ndarray

    @staticmethod
    def standard(size: int) -> Gaussian:
        return Gaussian(np.zeros(size), np.eye(size))

    def first_scores(self, x: np.ndarray) -> np.ndarray:
        """``-grad p / p`` (n, d)."""
        return np.linalg.solve(self.covariance, (x - self.mean).T).T

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Up to the constant ``d log(2 pi) / 2``."""
        quadratic = np.sum((x - self.mean) * self.first_scores(x), axis=1)
        return -0.5 * quadratic - 0.5 * float(np.linalg.slogdet(self.covariance)[1])


@dataclass(frozen=True)
class AverageDerivatives:
    """``E grad f`` (outputs, d) and ``E Hess f`` (outputs, d, d) under one Gaussian."""

    gradient: np.ndarray
    hessian: np.ndarray
    num_effective: float
    """The number of equally weighted samples that would be as informative."""


def average_derivatives(
    x: np.ndarray, y: np.ndarray, density: Gaussian, *, target: Gaussian | None = None, control: bool = True
) -> AverageDerivatives:
    """Averages of the derivatives of y (n, outputs) under ``target``, from samples x of ``density``.

    ``control`` takes off a quadratic fitted by least squares before averaging and puts its derivatives back.
    """
    if len(x) != len(y) or x.ndim != 2 or x.shape[1] != len(density.mean):
        raise InputError(
            f"samples {x.shape} and answers {y.shape} do not fit a density of {len(density.mean)} inputs"
        )
    target = density if target is None else target
    logs = target.log_density(x) - density.log_density(x)
    weights = np.exp(logs - np.max(logs))
    weights /= weights.sum()
    values = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
    size, outputs = x.shape[1], values.shape[1]
    gradient, hessian = np.zeros((outputs, size)), np.zeros((outputs, size, size))
    if control:
        values, gradient, hessian = _take_off_quadratic(x - target.mean, values, weights)
    z = target.first_scores(x)
    weighted = weights[:, None] * values
    gradient = gradient + weighted.T @ z
    scored = np.einsum("no,ni,nj->oij", weighted, z, z, optimize=True)
    hessian = hessian + scored - weighted.sum(axis=0)[:, None, None] * np.linalg.inv(target.covariance)
    return AverageDerivatives(gradient, hessian, float(1 / np.sum(weights**2)))


def _take_off_quadratic(offsets: np.ndarray, values: np.ndarray, weights: np.ndarray):
    """What a quadratic in ``offsets`` leaves of the values, and the quadratic's mean gradient and Hessian."""
    size = offsets.shape[1]
    rows, columns = np.triu_indices(size)
    products = offsets[:, rows] * offsets[:, columns]
    design = np.column_stack([np.ones(len(offsets)), offsets, products])
    weighted = weights[:, None] * design
    coefficients = np.linalg.lstsq(weighted.T @ design, weighted.T @ values, rcond=1e-14)[0]
    hessian = np.zeros((values.shape[1], size, size))
    hessian[:, rows, columns] = coefficients[1 + size :].T
    hessian = hessian + np.swapaxes(hessian, 1, 2)
    # under the target the offsets have mean zero, so the mean gradient is the linear part
    return values - design @ coefficients, coefficients[1 : 1 + size].T, hessian


def span_from_samples(
    x: np.ndarray,
    y: np.ndarray,
    density: Gaussian,
    rng: np.random.Generator,
    *,
    num_centres: int,
    dimension: int | None = None,
    shrink: float = 0.7,
    spread: float = 0.5,
) -> tuple[MatrixSpan, np.ndarray]:
    """The span of average Hessians around ``num_centres`` centres, and those Hessians (n, outputs, d, d).

    Centres are drawn ``spread`` deviations of the density from its mean, each average is over a Gaussian
    ``shrink`` times as wide; smaller values tell units apart better and leave fewer effective samples.
    """
    factor = np.linalg.cholesky(density.covariance)
    centres = density.mean + spread * rng.standard_normal((num_centres, x.shape[1])) @ factor.T
    averages = [
        average_derivatives(x, y, density, target=Gaussian(centre, shrink**2 * density.covariance))
        for centre in centres
    ]
    hessians = np.array([a.hessian for a in averages])
    span = estimate_span(hessians.reshape(-1, *hessians.shape[2:]), dimension=dimension, gram=False)
    return span, hessians
