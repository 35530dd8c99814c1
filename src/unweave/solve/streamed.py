"""Least squares and standard errors on more rows than fit into memory: normal equations as sums over chunks.

Normal equations lose half the digits, which is harmless for standard errors and for steps that are repeated; the last
digits of an exact fit belong to ``solve.polish``.
"""

from __future__ import annotations

from collections.abc import Callable

from unweave.core.network import Network
from unweave.solve.information import Information, from_normal, gauge_rows
from unweave.solve.layout import Layout
from unweave.solve.normal import Batches, NormalEquations, sum_normally

MOST_PARAMETERS = 4000


def streamed_information(network: Network, batches: Batches) -> Information | None:
    """What rows determine, with the length of homogeneous units' rows held; None for too many parameters."""
    if network.num_parameters > MOST_PARAMETERS:
        return None
    layout, theta = Layout.of(network), network.flat()
    return from_normal(sum_normally(layout, theta, batches), gauge_rows(layout, theta))


def fit_streamed(
    network: Network, batches: Callable[[], Batches], *, max_steps: int = 8, gain: float = 1e-6
) -> tuple[Network, NormalEquations]:
    """Gauss-Newton on all rows from a start inside the basin; each step is kept only if the residual falls."""
    layout, theta = Layout.of(network), network.flat()
    here = sum_normally(layout, theta, batches())
    for _ in range(max_steps):
        step = from_normal(here, gauge_rows(layout, theta)).step
        for shrink in (1.0, 0.25, 0.06):
            trial = theta - shrink * step
            after = sum_normally(layout, trial, batches())
            if after.loss < here.loss:
                break
        else:
            break
        settled = after.loss > (1 - gain) * here.loss
        theta, here = trial, after
        if settled:
            break
    return layout.network(theta), here
