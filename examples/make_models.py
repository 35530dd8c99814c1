"""Writes the model files and recorded rows beside this script that the documentation and the demonstration use.

Run with a folder as argument to write them somewhere else.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from unweave import Network
from unweave.demo import paper_network
from unweave.exports import export


def random_rows(num_rows, size, rng):
    rows = rng.standard_normal((num_rows, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def relu_network(sizes, seed):
    """Unit rows, biases uniform in [-1, 1]."""
    rng = np.random.default_rng(seed)
    weights = [random_rows(m, d, rng) for d, m in pairwise(sizes)]
    biases = [rng.uniform(-1, 1, size=m) for m in sizes[1:]]
    return Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


def gelu_network(seed):
    """Rows of length 0.7 to 1.6, biases N(0, 0.3^2), free output weights."""
    rng = np.random.default_rng(seed)
    first = random_rows(16, 10, rng) * rng.uniform(0.7, 1.6, size=(16, 1))
    biases = [0.3 * rng.standard_normal(16), rng.standard_normal(1)]
    return Network([first, rng.standard_normal((1, 16))], biases, ["gelu", "identity"])


folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
for name, network in {
    "tanh_30_9.onnx": paper_network(30, (30, 9), seed=1),
    "relu_20_10_10.onnx": relu_network((20, 10, 10, 1), seed=2),
    "gelu_10_16.onnx": gelu_network(seed=3),
}.items():
    print(export(network, folder / name), network.describe())

hidden = relu_network((10, 10, 1), seed=4)
inputs = np.random.default_rng(5).standard_normal((484, 10))
np.savez(folder / "relu_10_10.npz", x=inputs, y=hidden(inputs)[:, 0])
print(folder / "relu_10_10.npz", "484 rows of", hidden.describe())
