"""The network against the model on the user's own rows: where the claim matters to them."""

from __future__ import annotations

import numpy as np

from unweave.certificates.base import Check
from unweave.core.network import Network
from unweave.solve.weighted import relative_errors

OWN_ROWS = "your rows"


def check_own_rows(
    network: Network, x: np.ndarray, y: np.ndarray, tolerance: float, every: np.ndarray
) -> Check:
    """Whether answers ``y`` to some of the rows are reproduced; ``every`` are all of them, to see which units switch.

    A kinked unit that is on the same side of its hyperplane on every row bends the function only between them.
    """
    middle, spread = every.mean(axis=0), every.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    first = network.weights[0]
    standard = Network(
        [first * spread, *network.weights[1:]],
        [network.biases[0] + first @ middle, *network.biases[1:]],
        network.activations,
    )
    if network.activations[-1] == "identity" or not network.hidden:
        errors = relative_errors(standard, (x - middle) / spread, y)
    else:  # squashed answers: as they are
        errors = np.max(np.abs(network(x) - y), axis=1) / max(float(np.std(y)), 1e-300)
    worst, rms = float(np.max(errors, initial=0.0)), float(np.sqrt(np.mean(errors**2))) if len(x) else 0.0
    num_off = int(np.sum(~(errors <= tolerance)))
    passed = None if not len(x) else num_off == 0
    words = f"on {len(x)} of your rows: max relative error {worst:.1e}, rms {rms:.1e}"
    silent = num_silent(network, every)
    if silent:
        words += (
            f"; {silent} of {network.hidden[0]} units of the first layer switch nowhere among your rows: "
            f"what is claimed of their kinks holds only where none of your data lie"
        )
    reason = ""
    if passed is False:
        reason = (
            f"the network differs on {num_off} of {len(x)} of your rows, by up to {worst:.1e}: what agrees holds only "
            f"where none of your data lie"
        )
    figures = {
        "num_rows": float(len(x)),
        "max_relative_error": worst,
        "rms_relative_error": rms,
        "num_silent": float(silent),
    }
    return Check(OWN_ROWS, passed, figures, words, reason, needed=True)


def num_silent(network: Network, x: np.ndarray) -> int:
    """Units of a kinked first layer that are on one side of their hyperplane on all rows."""
    if network.activations[0].partition("(")[0] not in ("relu", "leaky_relu") or not network.hidden:
        return 0
    z = x @ network.weights[0].T + network.biases[0]
    return int(np.sum(np.all(z > 0, axis=0) | np.all(z <= 0, axis=0)))
