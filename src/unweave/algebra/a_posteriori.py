"""A posteriori checks of a system of found weights (Fornasier et al., Theorems 8, 10 and 13).

From unit vectors w_j and the span W-hat they were found in: the frame bounds ``c_f |x|^2 <= sum (w_j.x)^2
<= C_F |x|^2`` with ``nu = C_F - 1``, the Riesz bounds of ``w_j w_j'``, lambda_1 of each ``M_j = P_W(w_j
w_j')`` normalised, the first- and second-order conditions (47) and (48) for a local maximum of the spectral
norm, and the error bound ``sqrt(8) (c_r^{-1/2} sqrt(nu) + nu + 2 delta) / (lambda_1 - lambda_2)`` of
Theorem 8. delta, the distance of W-hat from the true span, is not observable; the largest distance of a
found ``w_j w_j'`` from W-hat stands in for it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from unweave.algebra.matrix_span import MatrixSpan, outer_squares


@dataclass(frozen=True)
class Checks:
    """Figures only; small frame and Riesz deviations and lambda_1 near 1 are what the theorems ask for."""

    frame_lower: float
    frame_upper: float
    riesz_lower: float
    riesz_upper: float
    delta: float
    """Largest ``|(1 - P_W) w_j w_j'|_F``, standing in for the error of the span."""
    lambda_1: tuple[float, ...]
    spectral_gaps: tuple[float, ...]
    """``lambda_1 - lambda_2`` of each element."""
    first_order: tuple[float, ...]
    """Largest violation of (47) over unit X in the span; 0 at a stationary point."""
    second_order: tuple[float, ...]
    """Largest ratio of the two sides of (48) over the span; at most 1 at a local maximum."""

    @property
    def nu(self) -> float:
        return self.frame_upper - 1

    @property
    def slack(self) -> float:
        """``38 delta + 13 nu`` of Theorem 13."""
        return 38 * self.delta + 13 * max(self.nu, 0.0)

    @property
    def dichotomy_applies(self) -> bool:
        """Whether Theorem 13 says that lambda_1 is near 0 or near 1."""
        return self.slack < 0.25

    @property
    def near_rank_one(self) -> tuple[bool, ...]:
        """``lambda_1^2 >= 1 - slack`` where Theorem 13 applies, ``>= 3/4`` where it does not."""
        least = 1 - min(self.slack, 0.25)
        return tuple(value**2 >= least for value in self.lambda_1)

    @property
    def error_bounds(self) -> tuple[float, ...]:
        """Theorem 8 for each vector; infinite where the system is no Riesz basis."""
        nu = max(self.nu, 0.0)
        if self.riesz_lower <= 0:
            return tuple(np.inf for _ in self.lambda_1)
        top = np.sqrt(8) * (np.sqrt(nu / self.riesz_lower) + nu + 2 * self.delta)
        return tuple(float(top / gap) if gap > 0 else np.inf for gap in self.spectral_gaps)

    def to_dict(self) -> dict[str, float | list[float]]:
        """All figures, with those derived from them, for a record."""
        record = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {**record, "nu": self.nu, "slack": self.slack, "error_bounds": list(self.error_bounds)}


def check_components(span: MatrixSpan, vectors: np.ndarray) -> Checks:
    """All figures for unit ``vectors`` (k, d) against the span they were found in."""
    frame = np.linalg.eigvalsh(vectors.T @ vectors)
    riesz = np.linalg.eigvalsh((vectors @ vectors.T) ** 2)
    figures = [_check_one(span, u) for u in vectors]
    lambdas, gaps, first, second = zip(*figures, strict=True) if figures else ((), (), (), ())
    return Checks(
        frame_lower=float(max(frame[0], 0.0)),
        frame_upper=float(frame[-1]),
        riesz_lower=float(riesz[0]) if len(riesz) else 0.0,
        riesz_upper=float(riesz[-1]) if len(riesz) else 0.0,
        delta=float(np.max(span.distances(vectors), initial=0.0)),
        lambda_1=lambdas,
        spectral_gaps=gaps,
        first_order=first,
        second_order=second,
    )


def _check_one(span: MatrixSpan, w: np.ndarray) -> tuple[float, float, float, float]:
    """lambda_1, lambda_1 - lambda_2 and the violations of (47) and (48) at ``M = P_W(w w') / |.|``."""
    coordinates = span.coordinates(outer_squares(w))
    length = float(np.linalg.norm(coordinates))
    if length == 0:
        return 0.0, 0.0, np.inf, np.inf
    m = coordinates / length
    values, vectors = np.linalg.eigh(span.matrices(m))
    elements = span.matrices(np.eye(span.dimension))
    top, rest = values[-1], values[:-1]
    images = elements @ vectors[:, -1]
    first = float(np.linalg.norm(images @ vectors[:, -1] - top * m))
    with np.errstate(divide="ignore"):
        weights = np.sqrt(2 / (np.abs(top - rest) * abs(top)))
    mixed = (images @ vectors[:, :-1]) * weights
    mixed = mixed - np.outer(m, m @ mixed)  # X = M itself is on neither side of (48)
    if not np.all(np.isfinite(mixed)):
        return float(top), 0.0, first, np.inf
    second = float(np.linalg.norm(mixed, 2) ** 2) if mixed.size else 0.0
    return float(top), float(top - values[-2]) if len(values) > 1 else float(top), first, second
