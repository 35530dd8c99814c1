"""Sigmoid units under an unknown polynomial: directions from moments, then variable projection.

``f(x) = P(sigmoid(w_1.x + b_1), ..., sigmoid(w_m.x + b_m))`` with P of degree one in each unit: a constant, the units
and their products in pairs. For given units the coefficients of P are a linear least-squares problem, so only the
units are searched: Levenberg-Marquardt on what P cannot explain (variable projection in Kaufman's form). Starts are the
directions of T_2 and T_3 with slopes and thresholds from a small grid. With exact answers the fit ends at rounding.

Each unit's sign cannot be known when P is free: ``sigmoid(-s) = 1 - sigmoid(s)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from unweave.core.network import Network
from unweave.methods.base import Finding
from unweave.methods.high_threshold.starts import find_starts
from unweave.moments.hermite import HermiteMoments
from unweave.moments.residual import accumulate_residual
from unweave.solve.descend import Settings, minimise

SLOPES, THRESHOLDS = (1.0, 2.0, 4.0), (2.0, 1.0, 3.0)
EXACT = 1e-9
MOST_ROWS = 8000


@dataclass(frozen=True)
class PairPolynomial:
    """``P(h) = c_0 + sum c_i h_i + sum_{i<j} c_ij h_i h_j``, coefficients in that order."""

    coefficients: np.ndarray
    num_units: int

    def __call__(self, h: np.ndarray) -> np.ndarray:
        return pair_basis(h) @ self.coefficients

    def slopes(self, h: np.ndarray) -> np.ndarray:
        """The derivative in each unit, (n, m)."""
        m = self.num_units
        mixed = np.zeros((m, m))
        mixed[np.triu_indices(m, 1)] = self.coefficients[1 + m :]
        return self.coefficients[1 : 1 + m] + h @ (mixed + mixed.T)


@dataclass(frozen=True)
class SigmoidFit:
    """Units and the polynomial above them, with the residual relative to the spread of y."""

    weights: np.ndarray
    biases: np.ndarray
    top: PairPolynomial
    residual: float


def pair_basis(h: np.ndarray) -> np.ndarray:
    """Columns 1, h_i, h_i h_j (i < j)."""
    left, right = np.triu_indices(h.shape[1], 1)
    return np.column_stack([np.ones(len(h)), h, h[:, left] * h[:, right]])


def fit_sigmoid_units(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, biases: np.ndarray, *, max_steps: int = 200
) -> SigmoidFit:
    """Levenberg-Marquardt over the units with the polynomial projected out."""
    rows = np.column_stack([x, np.ones(len(x))])

    def split(theta: np.ndarray) -> np.ndarray:
        return theta.reshape(len(weights), -1)

    latest = {}

    def project(theta: np.ndarray) -> tuple[PairPolynomial, np.ndarray, np.ndarray]:
        if latest.get("theta") is not theta:  # a trial that is taken is linearised next
            latest.update(theta=theta, projection=_project(rows, y, split(theta)))
        return latest["projection"]

    def linearise(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (top, rest, q), h = project(theta), expit(rows @ split(theta).T)
        pull = top.slopes(h) * h * (h - 1)
        jacobian = (pull[:, :, None] * rows[:, None, :]).reshape(len(x), -1)
        return rest, jacobian - q @ (q.T @ jacobian)

    found = minimise(
        lambda theta: project(theta)[1],
        linearise,
        np.column_stack([weights, biases]).ravel(),
        scale=max(float(np.std(y)), 1e-300),
        settings=Settings(
            target=1e-15,
            max_steps=max_steps,
            damping=1e-3,
            geodesic=False,
            stall_steps=0,
            patience=2,
            stationary_gain=5e-7,
        ),
    )
    units = split(found.parameters)
    return SigmoidFit(units[:, :-1], units[:, -1], _project(rows, y, units)[0], found.rms)


def recover_sigmoid_units(
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    num_units: int | None = None,
    max_tries: int = 3,
) -> Finding:
    """Units and polynomial from rows; an open network whose upper part is the polynomial found."""
    moments = accumulate_residual((x, y), order=3)
    count = min(num_units or _num_units(moments, y), x.shape[1])
    if not count:
        return Finding(None, "no direction stands out of the noise of T_2; give more rows")
    some = rng.permutation(len(x))[: min(MOST_ROWS, max(3000, 12 * count * (x.shape[1] + 1 + count)))]
    xs, ys = x[some], y[some]
    directions = find_starts(moments, count, rng)
    best: SigmoidFit | None = None
    for attempt in range(max_tries):
        fit = _fit_from(xs, ys, directions)
        if best is None or fit.residual < best.residual:
            best = fit
        if best.residual < EXACT:
            break
        turn = 0.2 * (1 + attempt) * rng.standard_normal(directions.shape) / np.sqrt(x.shape[1])
        directions = _unit(find_starts(moments, count, rng) + turn)
    assert best is not None
    details = {"standard_errors": np.full(count, best.residual), "coefficients": best.top.coefficients}
    if best.residual > 1e-3:
        reason = (
            f"{count} sigmoid units under products of pairs leave {best.residual:.1e} of the spread; another number "
            "of units or more rows may help"
        )
        return Finding(None, reason, details=details)
    order = np.argsort(-np.linalg.norm(best.weights, axis=1))
    m = len(order)
    top = _reordered(best.top, order)
    network = Network([best.weights[order]], [best.biases[order]], ["sigmoid"], top)
    warnings = (f"each of the {m} units' signs is a choice: sigmoid(-s) = 1 - sigmoid(s)",)
    return Finding(network, "", warnings, (), {}, details)


def _fit_from(x, y, directions) -> SigmoidFit:
    """The best of the grid of slopes and thresholds after a few steps, followed to the end."""
    trials = []
    rows = max(1000, 3 * directions.size + 3 * len(directions) ** 2)
    for slope in SLOPES:
        for threshold in THRESHOLDS:
            biases = np.full(len(directions), -slope * threshold)
            trials.append(fit_sigmoid_units(x[:rows], y[:rows], slope * directions, biases, max_steps=8))
    trials.sort(key=lambda fit: fit.residual)
    best = trials[0]
    for start in trials[:3]:
        fit = fit_sigmoid_units(x[: 2 * rows], y[: 2 * rows], start.weights, start.biases)
        if fit.residual < 1e-6:
            fit = fit_sigmoid_units(x, y, fit.weights, fit.biases, max_steps=20)
        best = fit if fit.residual < best.residual else best
        if best.residual < EXACT:
            break
    return best


def _project(rows, y, units) -> tuple[PairPolynomial, np.ndarray, np.ndarray]:
    """The best polynomial for these units, what it leaves of y, and an orthonormal basis of what it can explain."""
    basis = pair_basis(expit(rows @ units.T))
    scale = np.maximum(np.linalg.norm(basis, axis=0), 1e-300)
    q, r = np.linalg.qr(basis / scale)
    shares = q.T @ y
    if np.min(np.abs(np.diag(r))) > 1e-12:
        coefficients = np.linalg.solve(r, shares)
    else:
        coefficients = np.linalg.lstsq(r, shares, rcond=1e-13)[0]
    return PairPolynomial(coefficients / scale, len(units)), y - q @ shares, q


def _num_units(moments: HermiteMoments, y: np.ndarray) -> int:
    values = np.linalg.eigvalsh(moments.tensor(2))
    noise = 2 * float(np.std(y)) * np.sqrt(moments.input_size / moments.count)
    return int(np.sum(np.abs(values) > 1.5 * noise))


def _reordered(top: PairPolynomial, order: np.ndarray) -> PairPolynomial:
    m = top.num_units
    mixed = np.zeros((m, m))
    mixed[np.triu_indices(m, 1)] = top.coefficients[1 + m :]
    mixed = (mixed + mixed.T)[np.ix_(order, order)]
    linear = top.coefficients[1 : 1 + m][order]
    return PairPolynomial(np.concatenate([top.coefficients[:1], linear, mixed[np.triu_indices(m, 1)]]), m)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
