"""Relu networks from their answers alone: one hidden layer, then two; widths and depth are found."""

from itertools import pairwise

import numpy as np

import unweave


def relu_network(sizes, seed):
    """Unit rows, biases uniform in [-1, 1]."""
    rng = np.random.default_rng(seed)
    weights, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        rows = rng.standard_normal((fan_out, fan_in))
        weights.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        biases.append(rng.uniform(-1, 1, size=fan_out))
    return unweave.Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


for sizes in ((20, 40, 1), (10, 20, 3), (20, 10, 10, 1)):
    secret = relu_network(sizes, seed=1)
    found = unweave.identify(lambda x, secret=secret: secret(x), input_size=sizes[0], seed=2)
    print(f"{found.outcome}: {found.network.describe() if found.network else found.reason} by {found.method}")
    if found.network is None:
        continue
    error = unweave.compare(secret, found.network).max_relative_error
    print(
        f"  {found.ledger.total / secret.num_parameters:.1f} queries a parameter, worst parameter error {error:.1e}"
    )
