"""A single neuron that looks at 20 of 10 000 inputs, taken apart in a few hundred questions."""

import numpy as np

import unweave

rng = np.random.default_rng(0)
weights = np.zeros(10_000)
weights[rng.choice(10_000, 20, replace=False)] = rng.standard_normal(20)


def model(x):
    return 2.0 * np.tanh(x @ weights + 0.3) - 1.0


found = unweave.identify(model, input_size=10_000, method="ridge")
row, bias = found.network.weights[0][0], found.network.biases[0][0]
sign = np.sign(row @ weights)
print(f"{found.outcome}: {np.count_nonzero(row)} weights found in {found.ledger.total} questions")
print(
    f"largest error of a weight {np.max(np.abs(sign * row - weights)):.1e}, of the bias {abs(sign * bias - 0.3):.1e}"
)
