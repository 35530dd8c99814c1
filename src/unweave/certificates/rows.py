"""The certificate from rows: the recovered network against rows that no fit has seen.

*Function.* Errors on the held-out rows, relative as in ``certificates.queries``. Exact answers must be reproduced to
1e-9; noisy ones to the noise the method stated: no single error beyond twelve of its standard deviations, and a root
mean square that chance explains.

*Parameters.* The Jacobian on the fitting rows, read as a stream, gives a standard error for every parameter
(``solve.streamed``). Units whose parameters the rows do not determine are named.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unweave.certificates.base import Check
from unweave.certificates.certificate import EXACT, Certificate, name_units
from unweave.core.network import Network
from unweave.solve.information import unit_errors
from unweave.solve.streamed import streamed_information
from unweave.solve.weighted import relative_errors

NUM_NEEDED = 10
"""Held-out rows a claim needs: exact agreement on ten rows is no accident."""
ROUNDING = 2.0**-52
NOISE = "noise of held-out rows"


def certify_on_rows(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    *,
    noise: float | None = None,
    further: tuple[Check, ...] = (),
) -> tuple[Certificate, np.ndarray | None]:
    """Check ``network`` on held-out rows (x, y); also the standard error of each parameter, in ``flat``'s order.

    ``batches`` are the fitting rows; ``noise`` is the stated standard deviation of one answer, None for exact ones;
    ``further`` are checks made already. Above the layers of an open network stands a function: its answers are
    compared, its parameters are not known.
    """
    outputs = network(x)
    spread = max(float(np.sqrt(np.mean(np.var(y, axis=0)))), 1e-300)
    level = ROUNDING * float(np.sqrt(np.mean(y**2))) if noise is None else noise
    if network.is_open:
        errors, estimate = np.max(np.abs(outputs - y), axis=1) / spread, None
    else:
        errors = relative_errors(network, x, y)
        estimate = streamed_information(network, batches)
    deviations = None if estimate is None else level * estimate.deviations
    units = None if deviations is None else unit_errors(network, deviations)
    certificate = Certificate.of_errors(
        errors,
        len(x),
        num_points=len(x),
        tolerance=EXACT if noise is None else max(EXACT, 12 * noise / spread),
        condition=None if estimate is None else estimate.condition,
        max_standard_error=None if units is None else float(np.max(units, initial=0.0)),
        undetermined=() if units is None else name_units(network, units),
        checks=further if noise is None else (_check_noise(outputs - y, noise, spread), *further),
        fresh={
            "answers": y,
            "outputs": outputs,
            "errors": errors,
            **({} if units is None else {"deviations": units}),
        },
        num_needed=NUM_NEEDED,
    )
    return certificate, deviations


def _check_noise(errors: np.ndarray, noise: float, spread: float) -> Check:
    """Whether the errors are as small as the noise that was stated or estimated."""
    ratio = float(np.sqrt(np.mean(errors**2))) / max(noise, 1e-300)
    excess = ratio - 1 - 4 / np.sqrt(2 * errors.size)
    passed = bool(noise <= EXACT * spread or excess <= 0.05)
    words = f"the errors on the held-out rows are {ratio:.2f} times the stated noise of one answer"
    return Check(
        NOISE, passed, {"ratio": ratio}, words, "" if passed else f"{words}: noise does not explain them"
    )
