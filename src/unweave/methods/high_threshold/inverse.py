"""High-threshold relu units to rounding from samples: inverse regression on rows where one unit is active.

Where only unit i is active, ``y = g(w_i.x - t_i)`` for some function g of one variable: the upper part of the network
along that unit. If g can be inverted there, ``w_i.x`` is a function of y, so with polynomials in y projected out of
the rows x, the direction ``w_i`` is the only one in which nothing is left: the smallest singular vector. With exact
answers this is exact when the inverse of g is a polynomial (an upper polynomial of degree one in each unit: sums and
products of units), and converges geometrically in the degree for smooth g. A few fixed changes of variable (logarithm,
log-odds) are tried as well. Degree, variable and range are chosen by the residual on rows not used in the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from unweave.methods.high_threshold.union import Union, score_batches

DEGREES = (1, 2, 3, 4, 6, 8, 10, 12, 15, 18)
CLEAR = 0.2
"""Rows count as one unit's when every other score is below minus this."""
EXACT = 1e-12
MOST_ROWS = 20_000


@dataclass(frozen=True)
class InverseFit:
    """One unit: ``w.x = polynomial(link(y))`` on rows where it is the only active one."""

    direction: np.ndarray
    offset: float
    """``w.x`` at the value of y where the unit switches on."""
    residual: float
    """Root mean square of ``w.x - polynomial`` on rows not used in the fit."""
    standard_error: float
    """Of the direction, from the residual."""
    num_rows: int
    link: str
    coefficients: np.ndarray
    """Legendre coefficients of the polynomial on ``span``."""
    span: tuple[float, float]
    column: int = 0
    """The output whose values were used."""

    def predict(self, y: np.ndarray) -> np.ndarray:
        """``w.x`` from y; NaN where y is outside the range of the fit."""
        v = LINKS[self.link](y)
        low, high = self.span
        with np.errstate(invalid="ignore"):
            values = legendre.legval(2 * (v - low) / (high - low) - 1, self.coefficients)
            return np.where((v >= low) & (v <= high), values, np.nan)


def _log_odds(y: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((y > 0) & (y < 1), np.log(y) - np.log1p(-y), np.nan)


def _area_tangent(y: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.abs(y) < 1, np.arctanh(y), np.nan)


def _logarithm(y: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(y > 0, np.log(y), np.nan)


LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "y": lambda y: np.asarray(y, dtype=np.float64),
    "log-odds y": _log_odds,
    "artanh y": _area_tangent,
    "log y": _logarithm,
}


def fit_relu_units(
    x: np.ndarray, y: np.ndarray, active: np.ndarray, resting: float, union: Union, *, clear: float = CLEAR
) -> list[InverseFit | None]:
    """The units of ``union`` (known to a few hundredths) from rows (x, y); None where too few rows are one unit's."""
    rows = own_rows(x, active, union, clear)
    return [
        fit_one_unit(x[mine], y[mine], resting, union.normals[i]) if len(mine) else None
        for i, mine in enumerate(rows)
    ]


def own_rows(x: np.ndarray, active: np.ndarray, union: Union, clear: float = CLEAR) -> list[np.ndarray]:
    """For each unit the active rows, at most 20 000, where every other score is below ``-clear``."""
    found: list[list[np.ndarray]] = [[] for _ in range(len(union))]
    for start, scores in score_batches(x, union):
        possible = scores > -clear
        single = active[start : start + len(scores)] & (possible.sum(axis=1) == 1)
        for i in range(len(union)):
            found[i].append(start + np.flatnonzero(single & possible[:, i]))
    return [np.concatenate(parts)[:MOST_ROWS] for parts in found]


def fit_one_unit(x: np.ndarray, y: np.ndarray, resting: float, towards: np.ndarray) -> InverseFit | None:
    """The unit whose rows these are; ``towards`` is roughly its direction and decides the sign."""
    n, d = x.shape
    if n < 2 * (d + 4):
        return None
    best: InverseFit | None = None
    for link, share in [(name, share) for share in (1.0, 0.75, 0.5) for name in LINKS]:
        found = _fit_link(x, y, resting, towards, link, share)
        if found is not None and (best is None or found.residual < 0.5 * best.residual):
            best = found
        if best is not None and best.residual < EXACT:
            break
    return best


def _fit_link(x, y, resting, towards, link, share) -> InverseFit | None:
    """The best degree for one change of variable, on the share of the rows closest to the resting value."""
    v, rest = LINKS[link](y), float(LINKS[link](np.array([resting]))[0])
    good = np.isfinite(v) & (np.abs(v) < 12 * (1 + abs(rest)))
    if not np.isfinite(rest) or good.sum() < 0.9 * len(y):
        return None
    if share < 1:
        good &= np.abs(v - rest) <= np.quantile(np.abs(v[good] - rest), share)
    x, v = x[good], v[good]
    n, d = x.shape
    span = (float(min(v.min(), rest)), float(max(v.max(), rest)))
    if not span[1] > span[0]:
        return None
    scaled = 2 * (v - span[0]) / (span[1] - span[0]) - 1
    at_rest = 2 * (rest - span[0]) / (span[1] - span[0]) - 1
    fitted = np.arange(n) % 4 != 3
    best: InverseFit | None = None
    for degree in DEGREES:
        if fitted.sum() < 2 * (d + degree + 1):
            break
        direction, coefficients, second = _smallest_direction(x[fitted], scaled[fitted], degree, towards)
        left = x[~fitted] @ direction - legendre.legval(scaled[~fitted], coefficients)
        residual = float(np.sqrt(np.mean(left**2)))
        if best is None or residual < 0.7 * best.residual:
            best = InverseFit(
                direction,
                float(legendre.legval(at_rest, coefficients)),
                residual,
                residual * np.sqrt(d) / max(second, 1e-300),
                n,
                link,
                coefficients,
                span,
            )
        if best.residual < EXACT:
            break
    return best


def _smallest_direction(x, scaled, degree, towards) -> tuple[np.ndarray, np.ndarray, float]:
    """The direction least visible in x once polynomials in ``scaled`` are projected out, its polynomial, and the
    second smallest singular value."""
    table = legendre.legvander(scaled, degree)
    q, r = np.linalg.qr(table)
    shares = q.T @ x
    left = x - q @ shares
    _, values, vectors = np.linalg.svd(np.linalg.qr(left, mode="r"))
    direction = vectors[-1] * np.sign(vectors[-1] @ towards or 1.0)
    coefficients = np.linalg.solve(r, shares @ direction)
    return direction, coefficients, float(values[-2]) if len(values) > 1 else float(np.linalg.norm(left))
