"""Random starts for over-wide students: uniform directions, log-uniform norms, ridge regression on top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.solve.layout import Layout

NORMS = (0.5, 2.0)
BIAS = 0.3
RIDGE = 1e-4


def draw_start(
    layout: Layout,
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    first: Sequence[np.ndarray] = (),
) -> np.ndarray:
    """Parameters for a student in standard coordinates; only the output layer has looked at the answers.

    ``first`` (units, inputs + 1) are rows, biases last, of the first units of its first layers, where these are known.
    """
    theta = np.zeros(layout.num_parameters)
    features = x
    for layer in range(layout.num_layers - 1):
        width, fan_in = layout.sizes[layer + 1], layout.fan_ins[layer]
        rows = rng.standard_normal((width, fan_in))
        rows *= np.exp(rng.uniform(np.log(NORMS[0]), np.log(NORMS[1]), (width, 1))) / np.linalg.norm(
            rows, axis=1, keepdims=True
        )
        biases = BIAS * rng.standard_normal((width, 1))
        if layer < len(first):
            known = first[layer]
            rows[: len(known)], biases[: len(known)] = known[:, :-1], known[:, -1:]
        theta[layout.starts[layer] : layout.starts[layer + 1]] = np.hstack([rows, biases]).ravel()
        h = layout.activations[layer].value(features @ rows.T + biases.T, np)
        features = np.concatenate([h, features], axis=1) if layout.skips else h
    design = np.hstack([features, np.ones((len(x), 1))])
    gram = design.T @ design
    gram[np.diag_indices_from(gram)] += RIDGE * np.trace(gram) / len(gram)
    theta[layout.starts[-2] :] = np.linalg.solve(gram, design.T @ y).T.ravel()
    return theta
