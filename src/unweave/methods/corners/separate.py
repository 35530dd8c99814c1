"""Rows of the units from derivatives at many places: a tensor of as many terms as units.

In k directions that span the rows, the derivative of output o at place p is ``sum_j D_pj V_oj C_j``, the slope of unit
j there, its weight and its row: a tensor places x outputs x directions of rank m. Two random combinations of its
outputs, A and B, have ``A x = t B x`` for the vectors x that all rows but one annul; so the eigenvectors are the dual
rows. Rows must be independent, and no two columns of weights proportional. A direction that only rounding has put into
the span, or a unit that shows next to nothing, is left out: the spectrum over places tells how many terms there are.
"""

from __future__ import annotations

import numpy as np

GAP = 10.0
"""A spectrum ends where it falls by more than this."""
MOST_COMPLEX = 0.3
"""Share of complex eigenvalues from which on there are no common rows."""


def separate_rows(tensor: np.ndarray, floor: float, rng: np.random.Generator) -> np.ndarray | None:
    """Unit rows (m, k) of slices (places, outputs, k); None where these have no common form."""
    tensor = tensor / np.linalg.norm(tensor, axis=(1, 2), keepdims=True)
    frame, over_places, _ = np.linalg.svd(tensor.reshape(len(tensor), -1), full_matrices=False)
    _, over_directions, directions = np.linalg.svd(tensor.reshape(-1, tensor.shape[2]), full_matrices=False)
    num_terms = min(_count(over_places, floor), _count(over_directions, floor))
    directions = directions[:num_terms]
    core = np.einsum("pr,pok,tk->rot", frame[:, :num_terms], tensor, directions)
    first, second = np.einsum("so,rot->srt", rng.standard_normal((2, tensor.shape[1])), core)
    try:
        values, duals = np.linalg.eig(np.linalg.solve(second, first))
        rows = np.linalg.inv(duals).real
    except np.linalg.LinAlgError:
        return None
    if np.mean(np.iscomplex(values)) > MOST_COMPLEX:
        return None
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) @ directions


def _count(values: np.ndarray, floor: float) -> int:
    """Terms of a spectrum: up to its largest fall into the floor, or all that are above it."""
    above = int(np.sum(values > floor * values[0]))
    falls = values[:above] / np.maximum(np.append(values[1 : above + 1], 0.0)[:above], floor * values[0])
    steep = np.flatnonzero(falls > GAP)
    return int(steep[-1]) + 1 if len(steep) else above
