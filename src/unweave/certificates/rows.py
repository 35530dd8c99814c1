"""The certificate from rows: the recovered network against rows that no fit has seen.

*Function.* Errors on the held-out rows, relative as in ``certificate``. Exact answers must be reproduced to 1e-9; noisy
ones to the noise the method stated: no single error beyond twelve of its standard deviations, and a root mean square
that chance explains.

*Parameters.* The Jacobian on the fitting rows, read as a stream, gives a standard error for every parameter
(``solve.streamed``). Units whose parameters the rows do not determine are named.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unweave.certificates.certificate import CONFIDENCE, EXACT, Certificate, name_units
from unweave.core.network import Network
from unweave.solve.streamed import parameter_errors
from unweave.solve.weighted import relative_errors

NUM_NEEDED = 10
"""Held-out rows a claim needs: exact agreement on ten rows is no accident."""
ROUNDING = 2.0**-52


def certify_on_rows(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    *,
    noise: float | None = None,
) -> tuple[Certificate, np.ndarray | None]:
    """Check ``network`` on held-out rows (x, y); also the standard error of each parameter, in ``flat``'s order.

    ``batches`` are the fitting rows; ``noise`` is the stated standard deviation of one answer, None for exact ones.
    """
    errors = relative_errors(network, x, y)
    outputs = network(x)
    spread = max(float(np.sqrt(np.mean(np.var(y, axis=0)))), 1e-300)
    level = ROUNDING * float(np.sqrt(np.mean(y**2))) if noise is None else noise
    estimate = parameter_errors(network, batches, noise=level)
    checks: dict[str, float] = {}
    tolerance = EXACT
    if noise is not None:
        tolerance = max(EXACT, 12 * noise / spread)
        ratio = float(np.sqrt(np.mean((outputs - y) ** 2))) / max(noise, 1e-300)
        checks["held_out_noise_ratio"] = ratio
        excess = max(0.0, ratio - 1 - 4 / np.sqrt(2 * y.size)) if noise > EXACT * spread else 0.0
        checks["max_error_rms_beyond_noise"] = tolerance * 20 * excess
    units = None if estimate is None else estimate.unit_errors(network)
    certificate = Certificate(
        max_relative_error=float(np.max(errors, initial=0.0)),
        rms_relative_error=float(np.sqrt(np.mean(errors**2))) if len(errors) else 0.0,
        num_points=len(x),
        tolerance=tolerance,
        fraction_outside=1 - (1 - CONFIDENCE) ** (1 / max(len(x), 1)),
        condition=None if estimate is None else estimate.condition,
        max_standard_error=None if units is None else float(np.max(units, initial=0.0)),
        undetermined=() if units is None else name_units(network, units),
        checks=checks,
        fresh={
            "answers": y,
            "outputs": outputs,
            "errors": errors,
            **({} if units is None else {"deviations": units}),
        },
        num_needed=NUM_NEEDED,
    )
    return certificate, None if estimate is None else estimate.errors
