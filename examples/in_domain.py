"""Identify a network whose inputs must stay inside a ball: no far-out queries, widths and depth not given."""

import numpy as np

from unweave import Ball, Network, compare, identify

rng = np.random.default_rng(0)
truth = Network(
    [rng.standard_normal((8, 6)) / 2, rng.standard_normal((3, 8)) / 2, rng.standard_normal((1, 3))],
    [0.3 * rng.standard_normal(8), 0.3 * rng.standard_normal(3), [0.5]],
    ["tanh", "tanh", "identity"],
)

found = identify(truth, domain=Ball(5.0), method="in-domain", activation="tanh")
print(found.outcome, "-", found.network)
print(f"{found.ledger.total} queries for {truth.num_parameters} parameters")
if found.network is not None:
    error = compare(truth, found.network).max_relative_error
    print(f"largest relative error of a parameter: {error:.1e}")
