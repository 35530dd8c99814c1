"""What answers determine about the parameters of a network."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from unweave.solve.layout import Layout


def gauge_rows(layout: Layout, theta: np.ndarray) -> scipy.sparse.csr_array:
    """One row for each homogeneous unit: the direction in which its incoming weights grow.

    The scale of such a unit is a symmetry that no answer determines; held at zero along these rows, it is fixed.
    """
    columns, values, lengths = [], [], []
    for layer, (kind, width) in enumerate(zip(layout.activations[:-1], layout.hidden, strict=True)):
        if kind.degree is None:
            continue
        weights = layout.block(theta, layer)[:, :-1]
        sizes = np.linalg.norm(weights, axis=1, keepdims=True)
        places = layout.starts[layer] + np.arange(width * (layout.fan_ins[layer] + 1)).reshape(width, -1)
        columns.append(places[:, :-1].ravel())
        values.append((weights / np.where(sizes > 0, sizes, 1.0)).ravel())
        lengths += [weights.shape[1]] * width
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    flat = [np.concatenate(parts) if parts else np.zeros(0) for parts in (values, columns)]
    return scipy.sparse.csr_array(
        (flat[0], flat[1].astype(int), starts), shape=(len(lengths), layout.num_parameters)
    )
