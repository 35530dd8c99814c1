"""The first layer of a deep network from samples alone, whatever the layers above it are."""

import numpy as np

import unweave

rng = np.random.default_rng(5)
d = 8
rows = np.linalg.qr(rng.standard_normal((d, d)))[0] + 0.15 * rng.standard_normal((d, d)) / np.sqrt(d)
rows /= np.linalg.norm(rows, axis=1, keepdims=True)
thresholds = rng.uniform(1.6, 2.2, d)
mix = rng.uniform(0.5, 1.5, (4, d))


def model(x):
    """Eight relu units with high thresholds under two more layers nobody tells us about."""
    units = np.maximum(x @ rows.T - thresholds, 0.0)
    return np.tanh(np.tanh(units @ mix.T - 0.3) @ np.array([1.0, 0.7, 0.4, 0.9]) + 0.2)


x = rng.standard_normal((60_000, d))
found = unweave.learn(x, model(x), method=unweave.HighThreshold(unit="relu"))
print(found.verdict())

truth = unweave.Network([rows], [-thresholds], ["relu"], upper="unknown")
print(f"worst relative error of the first layer: {unweave.compare(truth, found).max_relative_error:.1e}")
