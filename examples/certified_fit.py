"""Fit arbitrary labels, and prove that the fit is a global minimum; then certify a network trained elsewhere."""

import numpy as np

from unweave import certify, fit

rng = np.random.default_rng(0)
x, y = rng.standard_normal((150, 20)), rng.standard_normal(150)

print("Quadratic units, random labels, 40 hidden units:")
found = fit(x, y, activation="quadratic", width=40)
print(
    f"  {found.certificate.verdict}: loss {found.loss:.1e}, at most {found.certificate.gap:.1e} above the best"
)

print("Softplus units, the same labels, 10 hidden units:")
found = fit(x, y, activation="softplus(10)", width=10)
print(f"  {found.certificate.verdict}: {found.certificate.reason}")

print("The same network with one weight moved:")
weights = found.network.weights[0].copy()
weights[0, 0] += 0.1
moved = type(found.network)([weights, found.network.weights[1]], [None, None], found.network.activations)
print(f"  {certify(moved, x, y).verdict}")
