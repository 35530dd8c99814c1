"""Exponential units that add up coordinates: ``u(a) = exp(rho (a - t))``, weights 0 or 1.

* ``recover_cliques`` (Goel and Panigrahy, Theorem 8): ``E f x_i x_j`` is large exactly when i and j belong to one unit;
  above the gap these pairs form a graph whose cliques are the units' supports.
* ``recover_disjoint_supports`` (Theorem 9): ``g(z) = exp(-|z|^2/2) E[f exp(z.x)]`` grows, from a coordinate of a unit,
  towards the other coordinates of that unit; ``g(z) - lambda |z|_1 - gamma |z|^2`` is climbed in a box from every
  coordinate. The box keeps the exponential average within what samples can estimate.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import InputError


def recover_cliques(x: np.ndarray, y: np.ndarray) -> list[tuple[int, ...]]:
    """Supports of the units, each of at least two coordinates; an error when the graph is not made of cliques."""
    d = x.shape[1]
    correlations = (x * y[:, None]).T @ x / len(x)
    pairs = np.triu_indices(d, 1)
    values = np.sort(correlations[pairs])
    if len(values) < 2:
        raise InputError(f"{d} inputs have no pairs to compare; give at least 3")
    cut = int(np.argmax(np.diff(values)))
    linked = correlations > (values[cut] + values[cut + 1]) / 2
    np.fill_diagonal(linked, True)
    supports = {tuple(int(i) for i in np.flatnonzero(row)) for row in linked}
    for support in supports:
        if not linked[np.ix_(support, support)].all():
            raise InputError("the correlation graph is not made of cliques: products of units are too strong")
    return sorted(support for support in supports if len(support) > 1)


def recover_disjoint_supports(
    x: np.ndarray, y: np.ndarray, *, box: float = 0.5, gamma: float = 1e-3, max_steps: int = 60
) -> list[tuple[int, ...]]:
    """Supports of disjoint units with positive coefficients, by penalised ascent from every coordinate."""
    found = set()
    for start in range(x.shape[1]):
        z = np.zeros(x.shape[1])
        z[start] = box
        slopes = np.delete(slope_of_average(x, y, z), start)
        ordered = np.sort(slopes)
        cut = int(np.argmax(np.diff(ordered))) if len(ordered) > 1 else 0
        penalty = float(ordered[cut] + ordered[min(cut + 1, len(ordered) - 1)]) / 2
        for _ in range(max_steps):
            climb = slope_of_average(x, y, z) - penalty - 2 * gamma * z
            after = np.clip(z + 0.2 * box * np.sign(climb), 0.0, box)
            after[start] = box
            if np.array_equal(after, z):
                break
            z = after
        found.add(tuple(int(i) for i in np.flatnonzero(z > box / 2)))
    return sorted(found)


def slope_of_average(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The gradient of ``exp(-|z|^2/2) E[f exp(z.x)]``: ``E[f (x - z) exp(z.x - |z|^2/2)]``."""
    weights = y * np.exp(x @ z - z @ z / 2)
    return (weights @ x) / len(x) - weights.mean() * z
