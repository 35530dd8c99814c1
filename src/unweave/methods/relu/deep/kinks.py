"""What of a relu network shows in a bounded domain, whatever the layers and sides that it is written with: its kinks.

A unit that switches in the domain is a kink: the zero set of a form ``z`` over ``(x, relu(z_1), ..., 1)``, the kinks
below it. Units that never switch are affine in these. On the part of the domain where a unit is on, kinks that do not
cross it are affine or nothing, so only those that do count there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core import activations as act
from unweave.core.network import Network

NOTHING = 1e-9
"""A weight by which a kink counts less than this, relative to others, is none."""
SAME = 1e-10
"""How far what a unit gives may be off, relative to the largest of it, where it is written in another way."""


@dataclass(frozen=True)
class Kinks:
    """Forms (kinks, d + kinks + 1) over the inputs, the kinks and one, and of the outputs; their values at points."""

    x: np.ndarray
    forms: np.ndarray
    outputs: np.ndarray
    z: np.ndarray
    """(points, kinks)"""
    layers: np.ndarray
    """Where each stands in the network it was read from, from 0."""
    leak: float

    @property
    def num_inputs(self) -> int:
        return self.x.shape[1]

    def __len__(self) -> int:
        return len(self.forms)

    @property
    def features(self) -> np.ndarray:
        """(points, d + kinks + 1)"""
        return np.hstack([self.x, np.maximum(self.z, 0.0), np.ones((len(self.x), 1))])

    def reduce(self, region: np.ndarray) -> np.ndarray:
        """The linear map (p, p) that writes a form by what crosses a part of the points (mask) only."""
        d, p = self.num_inputs, self.forms.shape[1]
        z = self.z[region]
        up, down = np.any(z > 0, axis=0), np.any(z <= 0, axis=0)
        turn = np.eye(p)
        for i in range(len(self) - 1, -1, -1):
            if not (up[i] and down[i]):
                column = turn[:, d + i].copy()
                turn[:, d + i] = 0.0
                if up[i]:
                    turn += np.outer(column, self.forms[i])
        return turn

    def region(self, kink: int, side: float = 1.0) -> np.ndarray:
        """Where a unit of this kink is seen."""
        return np.ones(len(self.x), dtype=bool) if self.leak else side * self.z[:, kink] > 0

    def reads(self, j: int) -> np.ndarray:
        """The kinks that count where the unit of kink j is on."""
        form = self.forms[j] @ self.reduce(self.region(j))
        return np.flatnonzero(np.abs(form[self.num_inputs : -1]) > NOTHING * np.max(np.abs(form[:-1])))

    def united(self, i: int, j: int, one: float, two: float, form: np.ndarray) -> Kinks:
        """The same with kinks i < j, which only the outputs read, as one, of this form; on these sides of them."""
        d = self.num_inputs
        outputs, forms, z = self.outputs.copy(), self.forms.copy(), self.z.copy()
        for kink, side in ((i, one), (j, two)):
            if side < 0:  # relu(z) = z + relu(-z)
                outputs += np.outer(self.outputs[:, d + kink], self.forms[kink])
        forms[j], z[:, j] = form, self.features @ form
        outputs[:, d + j] = self.outputs[:, d + i]
        kept = np.delete(np.arange(len(self)), i)
        # what it reads may have stood above its parts
        order = [*kept[kept != j], j]
        columns = np.r_[0:d, d + np.array(order), d + len(self)]
        return replace(
            self,
            forms=forms[order][:, columns],
            outputs=outputs[:, columns],
            z=z[:, order],
            layers=self.layers[order],
        )

    def spread(self, j: int, layers: np.ndarray) -> Kinks | None:
        """The same with a form of kink j of lower layers only on both of its sides; None where it has none."""
        d = self.num_inputs
        bad = np.flatnonzero((self.forms[j, d:-1] != 0) & (layers >= layers[j]))
        if not len(bad):
            return self
        form = self.forms[j].copy()
        turn = self.reduce(self.region(j))
        for i in bad[::-1]:
            weight, form[d + i] = form[d + i], 0.0
            form = form + weight * turn[d + i]
        z = self.features @ form
        if np.max(np.abs(np.maximum(self.z[:, j], 0.0) - np.maximum(z, 0.0))) > SAME:
            return None
        forms, values = self.forms.copy(), self.z.copy()
        forms[j], values[:, j] = form, z
        return replace(self, forms=forms, z=values)

    def without(self, j: int, i: int) -> Kinks | None:
        """The same with kink j not reading kink i, which what reads j reads instead; None where j bends at i.

        That is so where i crosses the part of the domain in which j is on, or off, but not the zero set of j.
        """
        d, weight, own = self.num_inputs, self.forms[j, self.num_inputs + i], np.maximum(self.z[:, j], 0.0)
        for turned in (False, True):
            form, part = self.forms[j].copy(), np.zeros(self.forms.shape[1])
            form[d + i], part[d + i] = 0.0, weight
            if turned:
                form, part = form + weight * self.forms[i], part - weight * self.forms[i]
            z = self.features @ form
            if np.max(np.abs(own - np.maximum(z, 0.0) - self.features @ part)) <= SAME:
                forms, outputs, values = self.forms.copy(), self.outputs.copy(), self.z.copy()
                forms[j], values[:, j] = form, z
                forms += np.outer(self.forms[:, d + j], part)
                outputs += np.outer(self.outputs[:, d + j], part)
                return replace(self, forms=forms, outputs=outputs, z=values)
        return None


def read_kinks(network: Network, x: np.ndarray) -> Kinks | None:
    """The kinks at the points x; None for layers that are not all of the same piecewise linear units."""
    leaks = {act.split_name(name) for name in network.hidden_activations}
    if len(leaks) != 1 or next(iter(leaks))[0] not in ("relu", "leaky_relu"):
        return None
    leak = next(iter(leaks))[1] or 0.0
    d, most = x.shape[1], sum(network.hidden)
    below, h = np.hstack([np.eye(d), np.zeros((d, most + 1))]), x
    kinks, values, layers = [], [], []
    for layer, (w, b) in enumerate(zip(network.weights[:-1], network.biases[:-1], strict=True)):
        forms, z = w @ below, h @ w.T + b
        forms[:, -1] += b
        for unit in range(len(w)):
            if np.all(z[:, unit] <= 0):
                forms[unit] *= leak
            elif not np.all(z[:, unit] > 0):
                size = float(np.max(np.abs(z[:, unit])))
                values.append(z[:, unit] / size)
                kinks.append(forms[unit] / size)
                layers.append(layer)
                forms[unit] *= leak
                forms[unit, d + len(kinks) - 1] += (1 - leak) * size
        below, h = forms, np.maximum(z, leak * z)
    outputs = network.weights[-1] @ below
    outputs[:, -1] += network.biases[-1]
    if not kinks:
        return None
    kept = np.r_[0 : d + len(kinks), d + most]
    return Kinks(x, np.array(kinks)[:, kept], outputs[:, kept], np.array(values).T, np.array(layers), leak)
