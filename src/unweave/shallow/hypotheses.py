"""The hypotheses of Theorems 2.1, 2.2 and 2.5 of Soltanolkotabi, Javanmard and Lee 2017 on given data and weights.

Each is evaluated and reported as holds, fails or can't be checked, with its number. Constants the paper leaves
unspecified (the c in ``n <= c d^2``) are replaced by what the proof needs where that can be computed (``n <= d(d+1)/2``
and a positive least singular value of ``X * X``), and named as not checkable where not.
"""

from __future__ import annotations

import numpy as np

from unweave.algebra.symmetric_forms import design, num_forms
from unweave.core.network import Network
from unweave.shallow.checks import Check, Theorem
from unweave.shallow.interpolation import derivative_bounds
from unweave.shallow.lanczos import LeastCurvature
from unweave.shallow.loss import LocalLoss

LARGEST_SVD = 4_000_000
"""Entries of a matrix whose singular values are computed here."""


def check_theorems(
    here: LocalLoss, curvature: LeastCurvature | None, truth: Network | None
) -> tuple[Theorem, ...]:
    """All three, whichever may apply."""
    products = _product_check(here)
    return (
        *_theorem_21(here, products),
        _theorem_22(here, products, curvature, truth),
        _theorem_25(here, truth),
    )


def _theorem_21(here: LocalLoss, products: Check) -> tuple[Theorem, Theorem]:
    d, k = here.loss.input_size, here.loss.width
    positive, negative = int(np.sum(here.output > 0)), int(np.sum(here.output < 0))
    checks = (
        _quadratic_check(here),
        Check("k >= 2d", k >= 2 * d, f"k = {k}, 2d = {2 * d}", k),
        Check("d positive output weights", positive >= d, f"{positive} of at least {d}", positive),
        Check("d negative output weights", negative >= d, f"{negative} of at least {d}", negative),
    )
    return (
        Theorem("Theorem 2.1", "all local minima are global, all saddles have negative curvature", checks),
        Theorem("Theorem 2.1, second part", "the global optimum is 0 for any labels", (*checks, products)),
    )


def _theorem_22(
    here: LocalLoss, products: Check, curvature: LeastCurvature | None, truth: Network | None
) -> Theorem:
    n, d, k = here.loss.num_samples, here.loss.input_size, here.loss.width
    nonzero = here.output[here.output != 0]
    same = bool(len(nonzero)) and bool(np.all(nonzero > 0) or np.all(nonzero < 0))
    equal = bool(len(nonzero) == k and np.ptp(here.output) <= 1e-12 * abs(float(here.output[0])))
    checks = [
        _quadratic_check(here),
        _planted_check(truth),
        Check("k >= d", k >= d, f"k = {k}, d = {d}", k),
        Check("n >= d", n >= d, f"n = {n}, d = {d}", n),
        Check(
            "output weights of one sign, at least d", same and len(nonzero) >= d, f"{len(nonzero)} non-zero"
        ),
        Check("all output weights equal (for the bound)", equal, f"spread {float(np.ptp(here.output)):.1e}"),
        products,
        _bound_22(here, curvature, truth, same and equal),
    ]
    return Theorem(
        "Theorem 2.2", "planted labels of one sign: every local minimum is global, with loss 0", checks
    )


def _bound_22(
    here: LocalLoss, curvature: LeastCurvature | None, truth: Network | None, applies: bool
) -> Check:
    """The loss an approximate local minimum may have: the right-hand side of the theorem."""
    name = "loss within the bound for approximate minima"
    if here.loss.activation.name != "quadratic" or not applies:
        return Check(name, None, "needs quadratic units and equal output weights")
    if curvature is None:
        return Check(name, None, "the least curvature is not known")
    nu = abs(float(here.output[0]))
    sign = float(np.sign(here.output[0]))
    if truth is not None:
        matrix = (truth.weights[0] * truth.weights[1][0][:, None]).T @ truth.weights[0]
        nuclear, source = float(np.sum(np.abs(np.linalg.eigvalsh(matrix)))), "planted weights"
    else:
        spread = float(np.linalg.eigvalsh(here.loss.x.T @ here.loss.x)[0])
        if spread <= 0:
            return Check(name, None, "the planted weights are not known and fewer than d directions are seen")
        nuclear, source = float(np.sum(sign * here.loss.y)) / spread, "labels, if planted"
    eps_g = float(np.linalg.norm(here.gradient[: here.weights.size])) / np.sqrt(nu)
    eps_h = max(0.0, -curvature.lower)
    bound = eps_g * max(np.sqrt(1 + 14 * max(nuclear, 0.0)), 4 * eps_g) + eps_h / (2 * nu) * max(nuclear, 0.0)
    value = float(here.value)
    text = f"loss {value:.1e}, bound {bound:.1e} with the nuclear norm {nuclear:.1e} from the {source}"
    return Check(name, value <= bound or value < 1e-28, text, float(bound))


def _theorem_25(here: LocalLoss, truth: Network | None) -> Theorem:
    n, d, k = here.loss.num_samples, here.loss.input_size, here.loss.width
    norms = np.linalg.norm(here.weights, axis=1)
    smallest, largest = float(np.min(np.abs(here.output))), float(np.max(np.abs(here.output)))
    singular = np.linalg.svd(here.weights, compute_uv=False)
    planted = here.weights if truth is None else truth.weights[0]
    spectrum = np.linalg.svd(planted, compute_uv=False)
    ratio = n * spectrum[0] ** 8 / max(spectrum[-1] ** 4 * d**2, 1e-300)
    covariance = here.loss.x.T @ here.loss.x / n
    drift = float(np.linalg.norm(covariance - np.eye(d), 2))
    noise = 2 * np.sqrt(d / n) + d / n
    checks = [
        _bounded_check(here),
        *_slope_checks(here, norms),
        _planted_check(truth),
        Check("0 < v_min", smallest > 0, f"|v| from {smallest:.2g} to {largest:.2g}", smallest),
        Check("0 < w_min", bool(norms.min() > 0), f"|w| from {norms.min():.2g} to {norms.max():.2g}"),
        Check("k >= d", k >= d, f"k = {k}, d = {d}", k),
        Check("n >= d", n >= d, f"n = {n}, d = {d}", n),
        Check(
            "n <= c sigma_min^4/sigma_max^8 d^2",
            None,
            f"the paper names no constant; n sigma_max^8/(sigma_min^4 d^2) = {ratio:.1e}",
            float(ratio),
        ),
        Check(
            "inputs N(0, I)",
            None if drift <= 2 * noise else False,
            f"covariance off the identity by {drift:.2g}, chance allows about {noise:.2g}",
            drift,
        ),
        _jacobian_check(here),
        Check(
            "start close to the planted weights",
            None,
            f"the paper names no constant; sigma(W) from {singular[-1]:.2g} to {singular[0]:.2g}",
        ),
    ]
    return Theorem(
        "Theorem 2.5", "descent from near the planted weights converges to loss 0 at a linear rate", checks
    )


def _quadratic_check(here: LocalLoss) -> Check:
    name = here.loss.activation.name
    return Check("quadratic activation", name == "quadratic", name)


def _planted_check(truth: Network | None) -> Check:
    if truth is None:
        return Check("labels from a planted network", None, "give it with truth=")
    return Check("labels from a planted network", True, "given")


def _product_check(here: LocalLoss) -> Check:
    """Whether ``X * X`` has a trivial null space, which makes loss 0 possible for any labels."""
    n, d = here.loss.x.shape
    name, most = "sigma_min(X * X) > 0", num_forms(d)
    if n > most:
        return Check(name, False, f"n = {n} exceeds d(d+1)/2 = {most}: the theory covers no more samples")
    if n * most > LARGEST_SVD:
        return Check(name, None, f"the {n} x {most} matrix is too large for its singular values")
    values = np.linalg.svd(design(here.loss.x), compute_uv=False)
    clear = bool(values[-1] > 1e-12 * values[0])
    return Check(
        name, clear, f"{values[-1]:.2e}, largest {values[0]:.2e}; n = {n} of {most}", float(values[-1])
    )


def _bounded_check(here: LocalLoss) -> Check:
    name = "phi' and phi'' bounded"
    activation = here.loss.activation
    if not activation.smooth:
        return Check(name, False, f"{activation.name} is not differentiable everywhere")
    far = np.array([1e3])
    bounds = derivative_bounds(activation, -far, far)
    if bounds is None:
        return Check(name, None, f"no bounds are known for {activation.name}")
    first, second = float(bounds[0][0]), float(bounds[1][0])
    return Check(
        name, first < 1e3 and second < 1e3, f"|phi'| <= {first:.3g}, |phi''| <= {second:.3g}", second
    )


def _slope_checks(here: LocalLoss, norms: np.ndarray) -> list[Check]:
    """``mu(s) = E phi'(s g)`` and ``gamma(s) = E phi''(s g)`` by Stein's identity, composite Gauss-Legendre."""
    reach = np.geomspace(max(float(norms.min()), 0.05) / 2, max(float(norms.max()), 0.1) * 2, 12)
    coefficients = np.array([here.loss.activation.hermite_coefficients(2, 0.0, s) for s in reach])
    mu, gamma = coefficients[:, 1] / reach, np.sqrt(2) * coefficients[:, 2] / reach**2
    checks = []
    for symbol, values in (("mu", mu), ("gamma", gamma)):
        size = np.max(np.abs(values))
        zero = bool(size < 1e-10)
        nowhere = bool(np.all(values > 1e-9) or np.all(values < -1e-9))
        span = f"s from {reach[0]:.2g} to {reach[-1]:.2g}"
        kind = "zero" if zero else f"from {values.min():.3g} to {values.max():.3g}"
        checks.append(
            Check(
                f"{symbol}(s) zero everywhere or nowhere", zero or nowhere, f"{kind} for {span}", float(size)
            )
        )
    return checks


def _jacobian_check(here: LocalLoss) -> Check:
    name = "Jacobian of full row rank"
    n, p = here.loss.num_samples, here.loss.num_parameters
    if n > p:
        return Check(name, False, f"{n} samples, {p} parameters")
    if n * p > LARGEST_SVD:
        return Check(name, None, f"the {n} x {p} matrix is too large for its singular values")
    values = np.linalg.svd(here.jacobian(), compute_uv=False)
    clear = bool(values[-1] > 1e-13 * values[0])
    return Check(name, clear, f"singular values from {values[-1]:.2e} to {values[0]:.2e}", float(values[-1]))
