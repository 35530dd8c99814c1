"""What a bounded domain shows of the parameters of a piecewise-linear network, and how well.

A unit that never changes side in the domain, a weight whose input is off wherever its unit is on, and sums of weights
that are always on together leave whole directions of the parameters without any effect on the function there: every
choice along them is the same function in the domain. These are counted and set aside. All other directions must be
known: their standard errors follow from the Jacobian on points of the domain.

The normal matrix tells directions apart to half the digits; along those that it cannot tell from zero the Jacobian is
multiplied out, which tells the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unweave.core.domains import Domain
from unweave.core.network import Network
from unweave.solve.information import gauge_rows, unit_errors
from unweave.solve.layout import Layout
from unweave.solve.weighted import answer_accuracy

MOST_PARAMETERS = 1600
"""Larger networks are not looked at: the cost is cubic."""
ROWS = 3.0
"""Residuals a parameter that the Jacobian is made of."""
HALF = 1e-7
"""Singular values, relative to the largest, that the normal matrix cannot tell from zero."""
INVISIBLE = 1e-12
"""Relative size of the singular values of directions that change nothing but by rounding."""


@dataclass(frozen=True)
class Visible:
    """Standard errors of what the domain shows."""

    deviations: np.ndarray
    """Largest of each unit's standard errors, relative to its largest parameter, invisible directions set aside."""
    num_hidden: int
    """Directions of the parameters that change nothing in the domain, beside the scales of units."""
    condition: float


def measure_visible(
    network: Network, x: np.ndarray, domain: Domain, noise: float, unit: float, rng: np.random.Generator
) -> Visible | None:
    """From points ``x`` that were asked and as many more of the domain; None where the network is too large."""
    layout, theta = Layout.of(network), network.flat()
    size = layout.num_parameters
    if size > MOST_PARAMETERS:
        return None
    count = int(ROWS * size / network.output_size) + 1
    x = x[rng.permutation(len(x))[:count]]
    x = np.concatenate([x, domain.sample(count, x.shape[1], rng), domain.edge(count // 4, x.shape[1], rng)])
    matrix, parts = (
        np.zeros((size, size)),
        np.array_split(x, len(x) * network.output_size * size // 4_000_000 + 1),
    )
    for part in parts:
        jacobian = _rows(network, layout, theta, part, noise, unit)
        matrix += jacobian.T @ jacobian
    scales = np.sqrt(np.diag(matrix))
    seen = scales > 0
    scales = np.where(seen, scales, 1.0)
    gauge = gauge_rows(layout, theta).toarray() * (scales * seen)
    gauge /= np.maximum(np.linalg.norm(gauge, axis=1, keepdims=True), 1e-300)
    matrix = matrix / np.outer(scales, scales) + gauge.T @ gauge
    squares, vectors = scipy.linalg.eigh(matrix, check_finite=False)
    weak = squares <= HALF**2 * squares[-1]
    values = np.sqrt(np.maximum(squares, 0.0))
    if weak.any():
        basis = vectors[:, weak]
        product = [
            _rows(network, layout, theta, part, noise, unit) @ (basis / scales[:, None]) for part in parts
        ]
        factor = np.linalg.qr(np.concatenate([*product, gauge @ basis]), mode="r")
        _, values[weak], turn = scipy.linalg.svd(factor)
        vectors[:, weak] = basis @ turn.T
    hidden = values <= INVISIBLE * values.max()
    root = vectors[:, ~hidden] / values[~hidden]
    spread = np.sqrt(np.sum(root**2, axis=1)) / scales
    errors = unit_errors(network, np.where(seen, spread, 0.0))
    return Visible(errors, int(np.sum(hidden)), float(values.max() / values[~hidden].min()))


def _rows(
    network: Network, layout: Layout, theta: np.ndarray, x: np.ndarray, noise: float, unit: float
) -> np.ndarray:
    """The Jacobian at ``x``, each row divided by the accuracy of its answer."""
    return layout.linearise(theta, x)[1] / answer_accuracy(network, x, noise, unit).reshape(-1, 1)
