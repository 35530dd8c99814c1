"""Units of the last hidden layer that never show far out, from what the network leaves unexplained near the origin.

The argument of such a unit keeps one sign far out, so it has no kink there and its window lies where all units bend.
With the layers below known, the rest of the answers is a sum of units ``c phi(v . h + b)`` in known features h, and a
linear function of h where a unit is active far out: a small fit from several starts, the output weights projected out.
The first start is not drawn but computed: gradients of the rest are J' V c with J the Jacobian of the features and V
the rows of these units, so a few of them give the span of the rows, inside which the fit is one of few parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.common_span import common_span
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.evidence.meter import Meter

NUM_STARTS, NUM_STEPS = 24, 60
NUM_INSIDE = 300
"""Starts inside the span of the rows, where a fit takes few parameters."""
ENOUGH = 1e-4
"""A fit that leaves this fraction of the rest is in the basin."""
STEP = 1e-3
"""Half the distance of answers that a gradient is read from."""
MOSTLY = 1e-3
"""A fit that leaves less than this share of the rest's square needs no further unit: the network is not exact."""
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
    seen = rest.gradients(meter, most, rng)
    single = None
    for count in range(1, most + 1):
        best = rest.fit(count, None if seen is None else common_span(*seen, count, rng).basis, rng)
        single = best if single is None else single
        if rest.share(best) < (ENOUGH**2 if sure else MOSTLY):
            return _joined(network, best)
    return None if sure or single is None or rest.share(single) > SOME else _joined(network, single)


def last_features(network: Network, x: np.ndarray) -> np.ndarray:
    """What the last hidden layer reads."""
    for w, b, name in list(zip(network.weights, network.biases, network.activations, strict=True))[:-2]:
        x = act.get(name)(x @ w.T + b)
    return x


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
        return last_features(self.network, x)

    def share(self, units: _Units) -> float:
        """Of the rest's square, what units leave."""
        return units.cost / max(float(np.sum((self.values - self.values.mean(axis=0)) ** 2)), 1e-300)

    def fit(self, count: int, span: np.ndarray | None, rng: np.random.Generator) -> _Units:
        """The best of several fits of ``count`` units, the first that is in the basin.

        ``span``: directions that their rows lie in, for a first start.
        """
        features, starts = self.features(self.x), []
        if span is not None:
            inside = self._best(features @ span, self._draw_where_it_counts(count, features @ span, rng))
            starts.append(np.hstack([inside.rows[:, :-1] @ span.T, inside.rows[:, -1:]]))
        if span is None or count == 1:
            starts += self._draw(count, rng)
        return self._best(features, starts)

    def _draw(self, count: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Random rows and biases of ``count`` units, most of them off at most points."""
        width, size = (
            self.network.weights[-2].shape[1],
            float(np.sqrt(np.mean(self.network.weights[-2] ** 2))),
        )
        starts = []
        for start in range(NUM_STARTS):
            rows = size * rng.standard_normal((count, width + 1))
            rows[:, :-1] -= np.abs(rows.mean(axis=1, keepdims=True)) + 0.3 * size * (start % 4)
            starts.append(rows)
        return starts

    def _draw_where_it_counts(
        self, count: int, inside: np.ndarray, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Random units in a few directions, bent where most is left over."""
        strong = inside[np.argsort(-np.linalg.norm(self.values, axis=1))[: len(inside) // 4]]
        centre, spread = strong.mean(axis=0), strong.std(axis=0) + 1e-300
        starts = []
        for _ in range(NUM_INSIDE):
            rows = (
                rng.standard_normal((count, inside.shape[1]))
                * np.exp(rng.uniform(-1, 1, (count, 1)))
                / spread
            )
            biases = rng.uniform(-3, 1, count) - rows @ centre
            starts.append(np.column_stack([rows, biases]))
        return starts

    def _best(self, features: np.ndarray, starts: list[np.ndarray]) -> _Units:
        name, design = self.network.activations[-2], np.hstack([features, np.ones((len(features), 1))])
        best = None
        for rows in starts:
            found = _descend(_Units(name, design, self.values, rows))
            best = found if best is None or found.cost < best.cost else best
            if self.share(best) < ENOUGH**2:
                break
        assert best is not None
        return best

    def gradients(
        self, meter: Meter, most: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Jacobians of the features (m, directions, features) and slopes of the rest (m, directions).

        At the points where most is left over; None where a gradient says nothing.
        """
        num_inputs, width = self.x.shape[1], self.network.weights[-2].shape[1]
        d = min(num_inputs, width)
        if d <= most:
            return None
        num_places = min(2 + 2 * width * most // (d - most), len(self.x))
        places = self.x[np.argsort(-np.linalg.norm(self.values, axis=1))[:num_places]]
        along = np.linalg.qr(rng.standard_normal((num_inputs, d)))[0].T
        ends = STEP * np.array([1.0, -1.0])[:, None] * along[:, None]
        x = (places[:, None, None] + ends).reshape(-1, num_inputs)
        with meter.stage("quiet units"):
            values = meter.ask(x) - self.network(x)
        slopes, jacobians = (
            np.subtract(*np.moveaxis(v.reshape(num_places, d, 2, -1), 2, 0)) / (2 * STEP)
            for v in (values, self.features(x))
        )
        slopes = np.moveaxis(slopes, 2, 0)
        return np.concatenate([jacobians] * len(slopes)), np.concatenate(list(slopes))


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
        move = -np.linalg.lstsq(gram, jacobian.T @ self._residual.ravel(), rcond=None)[0]
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
