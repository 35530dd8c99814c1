"""A unit of the last hidden layer that never shows far out, from what the network leaves unexplained near the origin.

Its argument keeps one sign far out, so it has no kink there and its window lies where all units bend. With the layers
below known, the rest of the answers is one unit ``c phi(v . h + b)`` in known features h, and a linear function of h
where the unit is active far out: a small fit from several starts, the output weights projected out.
"""

from __future__ import annotations

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter

NUM_STARTS, NUM_STEPS = 24, 60
ENOUGH = 1e-4
"""A fit that leaves this fraction of the rest is in the basin."""


def add_quiet_unit(meter: Meter, network: Network, rng: np.random.Generator) -> Network | None:
    """The network with one more unit in its last hidden layer; None where no unit explains most of the rest."""
    below = network.weights[-2].shape[1]
    x = rng.standard_normal((8 * below + 60, network.input_size))
    radii = np.exp(rng.uniform(np.log(0.3), np.log(30.0), size=(len(x), 1)))
    x *= radii / np.linalg.norm(x, axis=1, keepdims=True)
    with meter.stage("quiet units"):
        rest = meter.ask(x) - network(x)
    features = x
    for w, b, name in list(zip(network.weights, network.biases, network.activations, strict=True))[:-2]:
        features = act.get(name)(features @ w.T + b)
    design = np.hstack([features, np.ones((len(x), 1))])
    size = float(np.sqrt(np.mean(network.weights[-2] ** 2)))
    best, spread = None, float(np.sum((rest - rest.mean(axis=0)) ** 2))
    for start in range(NUM_STARTS):
        row = size * rng.standard_normal(below + 1)
        row[:-1] -= abs(row.mean()) + 0.3 * size * (start % 4)
        found = _descend(_OneUnit(network.activations[-2], design, rest, row))
        best = found if best is None or found.cost < best.cost else best
        if best.cost < ENOUGH**2 * spread:
            break
    if best is None or best.cost > 0.5 * spread:
        return None
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    weights[-2] = np.vstack([weights[-2], best.row[:-1]])
    biases[-2] = np.append(biases[-2], best.row[-1])
    weights[-1] = np.column_stack([weights[-1], best.solution[0]])
    biases[-1] = biases[-1] + best.solution[1]
    return Network(weights, biases, network.activations)


class _OneUnit:
    """The rest as one unit's output and a constant, for one row."""

    def __init__(self, name: str, design: np.ndarray, rest: np.ndarray, row: np.ndarray):
        self._name, self._design, self._rest, self.row = name, design, rest, row
        phi, z = act.get(name), design @ row
        columns = np.column_stack([phi(z), np.ones(len(z))])
        self._slopes = phi.first(z, np)
        self._basis = np.linalg.qr(columns)[0]
        self.solution = np.linalg.lstsq(columns, rest, rcond=None)[0]
        self._residual = columns @ self.solution - rest
        self.cost = float(np.sum(self._residual**2))

    def moved(self, damping: float) -> _OneUnit:
        """After one damped Gauss-Newton step in the row."""
        jacobian = (self._slopes[:, None] * self._design)[:, None, :] * self.solution[0][None, :, None]
        flat = jacobian.reshape(len(jacobian), -1)
        flat = flat - self._basis @ (self._basis.T @ flat)
        jacobian = flat.reshape(-1, len(self.row))
        gram = jacobian.T @ jacobian
        gram[np.diag_indices_from(gram)] += damping * (np.diag(gram) + 1e-12 * np.trace(gram)) + 1e-300
        move = -np.linalg.solve(gram, jacobian.T @ self._residual.ravel())
        return _OneUnit(self._name, self._design, self._rest, self.row + move)


def _descend(here: _OneUnit) -> _OneUnit:
    damping = 1e-2
    for _ in range(NUM_STEPS):
        trial = here.moved(damping)
        if trial.cost < here.cost:
            done = here.cost - trial.cost < 1e-9 * here.cost
            here, damping = trial, 0.3 * damping
        else:
            damping *= 5
            done = damping > 1e6
        if done:
            break
    return here
