"""Units of the last hidden layer that never show far out, from what the network leaves unexplained near the origin.

The argument of such a unit keeps one sign far out, so it has no kink there and its window lies where all units bend.
With the layers below known, the rest of the answers is a sum of units ``c phi(v . h + b)`` in known features h, and a
linear function of h where a unit is active far out: a small fit from several starts, the output weights projected out.
The first start is not drawn but computed: the gradient of a single unit's output is a multiple of J' v wherever it is
taken, J the Jacobian of the features, so a few gradients give v by linear algebra.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter

NUM_STARTS, NUM_STEPS = 24, 60
ENOUGH = 1e-4
"""A fit that leaves this fraction of the rest is in the basin."""
STEP = 1e-3
"""Half the distance of answers that a gradient is read from."""
SOME = 0.5
"""A fit that leaves more than this share of the rest's square explains nothing."""


def add_quiet_units(
    meter: Meter, network: Network, rng: np.random.Generator, most: int = 1, sure: bool = False
) -> Network | None:
    """The network with as few further units in its last hidden layer as explain the rest, ``most`` at the most.

    Where no number of them explains all of it, the single unit that explains most, unless it has to be ``sure``; None
    where that is not much.
    """
    rest = _Rest.ask(meter, network, most, rng)
    single = None
    for count in range(1, most + 1):
        best = rest.fit(count, meter, rng)
        single = best if single is None else single
        if rest.share(best) < ENOUGH**2:
            return _joined(network, best)
    return None if sure or single is None or rest.share(single) > SOME else _joined(network, single)


@dataclass(frozen=True)
class _Rest:
    """What a network leaves unexplained at points near the origin, and the features of its last hidden layer there."""

    network: Network
    x: np.ndarray
    values: np.ndarray

    @classmethod
    def ask(cls, meter: Meter, network: Network, most: int, rng: np.random.Generator) -> _Rest:
        x = rng.standard_normal((8 * network.weights[-2].shape[1] * most + 60, network.input_size))
        radii = np.exp(rng.uniform(np.log(0.3), np.log(30.0), size=(len(x), 1)))
        x *= radii / np.linalg.norm(x, axis=1, keepdims=True)
        with meter.stage("quiet units"):
            values = meter.ask(x) - network(x)
        return cls(network, x, values)

    def features(self, x: np.ndarray) -> np.ndarray:
        """What the last hidden layer reads."""
        layers = zip(self.network.weights, self.network.biases, self.network.activations, strict=True)
        for w, b, name in list(layers)[:-2]:
            x = act.get(name)(x @ w.T + b)
        return x

    def share(self, units: _Units) -> float:
        """Of the rest's square, what units leave."""
        return units.cost / max(float(np.sum((self.values - self.values.mean(axis=0)) ** 2)), 1e-300)

    def fit(self, count: int, meter: Meter, rng: np.random.Generator) -> _Units:
        """The best of several fits of ``count`` units, the first that is in the basin."""
        name, design = self.network.activations[-2], _with_ones(self.features(self.x))
        size = float(np.sqrt(np.mean(self.network.weights[-2] ** 2)))
        starts = self._computed_starts(meter, size, rng) if count == 1 else []
        for start in range(NUM_STARTS):
            rows = size * rng.standard_normal((count, design.shape[1]))
            rows[:, :-1] -= np.abs(rows.mean(axis=1, keepdims=True)) + 0.3 * size * (start % 4)
            starts.append(rows)
        best = None
        for rows in starts:
            found = _descend(_Units(name, design, self.values, rows))
            best = found if best is None or found.cost < best.cost else best
            if self.share(best) < ENOUGH**2:
                break
        assert best is not None
        return best

    def _computed_starts(self, meter: Meter, size: float, rng: np.random.Generator) -> list[np.ndarray]:
        """Rows along the one direction that gradients of the rest have in common, with several lengths and biases."""
        width = self.network.weights[-2].shape[1]
        d = min(self.x.shape[1], width)
        if d < 2:
            return []
        num_places = 2 + 2 * width // (d - 1)
        weight = np.linalg.norm(self.values, axis=1)
        places = self.x[np.argsort(-weight)[:num_places]]
        along = np.linalg.qr(rng.standard_normal((self.x.shape[1], d)))[0].T
        x = (places[:, None, None] + STEP * np.array([1.0, -1.0])[:, None] * along[:, None]).reshape(
            -1, self.x.shape[1]
        )
        with meter.stage("quiet units"):
            values = meter.ask(x) - self.network(x)
        strongest = int(np.argmax(np.linalg.norm(self.values, axis=0)))
        slopes, jacobians = (
            np.subtract(*np.moveaxis(v.reshape(len(places), d, 2, -1), 2, 0)) / (2 * STEP)
            for v in (values[:, [strongest]], self.features(x))
        )
        length = np.linalg.norm(slopes[:, :, 0], axis=1) + 1e-300
        system = np.zeros((len(places), d, width + len(places)))
        system[:, :, :width] = jacobians
        for place in range(len(places)):
            system[place, :, width + place] = -slopes[place, :, 0] / length[place]
        row = np.linalg.svd(system.reshape(-1, width + len(places)))[2][-1, :width]
        row *= size * np.sqrt(width) / max(float(np.linalg.norm(row)), 1e-300)
        at = self.features(places[:1]) @ row
        return [np.append(f * row, b - f * at)[None] for f in (1.0, -1.0) for b in (-0.5, -2.0, 1.0)]


def _with_ones(features: np.ndarray) -> np.ndarray:
    return np.hstack([features, np.ones((len(features), 1))])


def _joined(network: Network, more: _Units) -> Network:
    weights, biases = [w.copy() for w in network.weights], [b.copy() for b in network.biases]
    weights[-2] = np.vstack([weights[-2], more.rows[:, :-1]])
    biases[-2] = np.append(biases[-2], more.rows[:, -1])
    weights[-1] = np.hstack([weights[-1], more.solution[:-1].T])
    biases[-1] = biases[-1] + more.solution[-1]
    return Network(weights, biases, network.activations)


class _Units:
    """The rest as the outputs of a few units and a constant, for given rows."""

    def __init__(self, name: str, design: np.ndarray, rest: np.ndarray, rows: np.ndarray):
        self._name, self._design, self._rest, self.rows = name, design, rest, rows
        phi, z = act.get(name), design @ rows.T
        columns = np.column_stack([phi(z), np.ones(len(z))])
        self._slopes = phi.first(z, np)
        self._basis = np.linalg.qr(columns)[0]
        self.solution = np.linalg.lstsq(columns, rest, rcond=None)[0]
        self._residual = columns @ self.solution - rest
        self.cost = float(np.sum(self._residual**2))

    def moved(self, damping: float) -> _Units:
        """After one damped Gauss-Newton step in the rows."""
        jacobian = np.einsum("nu,nf,uk->nkuf", self._slopes, self._design, self.solution[:-1])
        flat = jacobian.reshape(len(jacobian), -1)
        flat = flat - self._basis @ (self._basis.T @ flat)
        jacobian = flat.reshape(-1, self.rows.size)
        gram = jacobian.T @ jacobian
        gram[np.diag_indices_from(gram)] += damping * (np.diag(gram) + 1e-12 * np.trace(gram)) + 1e-300
        move = -np.linalg.solve(gram, jacobian.T @ self._residual.ravel())
        return _Units(self._name, self._design, self._rest, self.rows + move.reshape(self.rows.shape))


def _descend(here: _Units) -> _Units:
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
