"""Layout: how a flat vector of parameters becomes a function, and the Jacobian of that function.

A layout is an architecture without numbers: sizes, activations, and whether later layers also see earlier
ones (*skips*). The plain layout is that of ``Network.flat``: layer by layer, each row and then its bias.
With skips, layer l reads the concatenation of the previous layer's units, the ones before it, and x; that is
the form in which units such as softplus or GELU lose their sign (``phi(z) = z/2 + even(z)``). *Bent* outputs
are what is left of them after the best affine function over the points at hand: a network that is nearly
affine is fitted far faster by what bends in it.

Everything is written out (no automatic differentiation) for one array namespace ``xp``, ``numpy`` or
``jax.numpy``, so the same formulas run through LAPACK on a CPU and under ``jit`` and ``vmap`` on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.activations import Activation
from unweave.core.network import Network

Array = Any


@dataclass(frozen=True)
class Layout:
    """Sizes ``(inputs, hidden..., outputs)``, one activation a layer, whether layers skip, and outputs are bent."""

    sizes: tuple[int, ...]
    activations: tuple[Activation, ...]
    skips: bool = False
    bent: bool = False

    @staticmethod
    def of(network: Network) -> Layout:
        """The plain layout of a network: the one of ``Network.flat``."""
        sizes = (network.input_size, *network.hidden, network.output_size)
        return Layout(sizes, tuple(act.get(name) for name in network.activations))

    @staticmethod
    def uniform(sizes: tuple[int, ...], activation: Activation, skips: bool = False) -> Layout:
        """The same activation in every hidden layer and linear outputs."""
        return Layout(tuple(sizes), (activation,) * (len(sizes) - 2) + (act.get("identity"),), skips)

    @property
    def num_layers(self) -> int:
        return len(self.activations)

    @property
    def hidden(self) -> tuple[int, ...]:
        return self.sizes[1:-1]

    @cached_property
    def fan_ins(self) -> tuple[int, ...]:
        """Inputs of each layer, without the bias."""
        return tuple(
            sum(self.sizes[: i + 1]) if self.skips else self.sizes[i] for i in range(self.num_layers)
        )

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each layer's parameters begin, and the end of the last."""
        lengths = [(k + 1) * m for k, m in zip(self.fan_ins, self.sizes[1:], strict=True)]
        return tuple(int(s) for s in np.concatenate([[0], np.cumsum(lengths)]))

    @property
    def num_parameters(self) -> int:
        return self.starts[-1]

    def block(self, parameters: Array, layer: int) -> Array:
        """Weights with the biases in the last column, (units, inputs + 1), of one layer."""
        piece = parameters[self.starts[layer] : self.starts[layer + 1]]
        return piece.reshape(self.sizes[layer + 1], self.fan_ins[layer] + 1)

    def outgoing(self, layer: int, unit: int) -> np.ndarray:
        """Indices of every parameter that multiplies the output of a hidden unit (layer counted from 0)."""
        found = []
        for later in range(layer + 1, self.num_layers if self.skips else layer + 2):
            column = unit + (sum(self.sizes[layer + 2 : later + 1]) if self.skips else 0)
            rows = np.arange(self.sizes[later + 1])
            found.append(self.starts[later] + rows * (self.fan_ins[later] + 1) + column)
        return np.concatenate(found)

    def incoming(self, layer: int, unit: int) -> np.ndarray:
        """Indices of a hidden unit's own weights and bias."""
        width = self.fan_ins[layer] + 1
        return self.starts[layer] + unit * width + np.arange(width)

    def without(self, kept: list[np.ndarray]) -> tuple[Layout, np.ndarray]:
        """The layout with only the ``kept`` units (booleans, a hidden layer each), and the indices left."""
        removed = [
            np.concatenate([self.outgoing(layer, u), self.incoming(layer, u)])
            for layer, mask in enumerate(kept)
            for u in np.flatnonzero(~mask).tolist()
        ]
        stays = np.ones(self.num_parameters, dtype=bool)
        if removed:
            stays[np.concatenate(removed)] = False
        sizes = (self.sizes[0], *(int(mask.sum()) for mask in kept), self.sizes[-1])
        return replace(self, sizes=sizes), np.flatnonzero(stays)

    def padded(self) -> tuple[Layout, np.ndarray]:
        """The layout with hidden widths rounded up a little, and where its own parameters are in it.

        Few distinct shapes mean few compilations.
        """
        widths = tuple(_round_up(m) for m in self.hidden)
        wide = replace(self, sizes=(self.sizes[0], *widths, self.sizes[-1]))
        kept = [np.arange(w) < m for w, m in zip(widths, self.hidden, strict=True)]
        return wide, wide.without(kept)[1]

    def network(self, parameters: np.ndarray) -> Network:
        """The plain network with these parameters; only for layouts without skips."""
        blocks = [self.block(np.asarray(parameters), i) for i in range(self.num_layers)]
        return Network(
            [b[:, :-1] for b in blocks], [b[:, -1] for b in blocks], [a.name for a in self.activations]
        )

    def forward(self, parameters: Array, x: Array, xp: ModuleType = np) -> Array:
        """Outputs (n, outputs)."""
        features = h = x
        for layer in range(self.num_layers):
            block = self.block(parameters, layer)
            h = self.activations[layer].value(features @ block[:, :-1].T + block[:, -1], xp)
            features = xp.concatenate([h, features], axis=1) if self.skips else h
        return without_affine(x, h, xp) if self.bent else h

    def linearise(self, parameters: Array, x: Array, xp: ModuleType = np) -> tuple[Array, Array]:
        """Outputs (n, outputs) and their Jacobian (n * outputs, parameters); rows as ``outputs.ravel()``."""
        h, inputs, slopes = self._unfold(parameters, x, xp)
        num_points, num_outputs = h.shape
        sensitivities = self._sensitivities(parameters, slopes, xp)
        if xp is np:
            jacobian = np.empty((num_points, num_outputs, self.num_parameters), dtype=h.dtype)
            for layer, delta in enumerate(sensitivities):
                piece = jacobian[:, :, self.starts[layer] : self.starts[layer + 1]]
                piece = piece.reshape(num_points, num_outputs, self.sizes[layer + 1], -1, copy=False)
                np.multiply(delta[..., None], inputs[layer][:, None, None, :], out=piece[..., :-1])
                piece[..., -1] = delta
        else:
            pieces = []
            for layer, delta in enumerate(sensitivities):
                ones = xp.ones((num_points, 1), dtype=h.dtype)
                augmented = xp.concatenate([inputs[layer], ones], axis=1)
                piece = delta[..., None] * augmented[:, None, None, :]
                pieces.append(piece.reshape(num_points, num_outputs, -1))
            jacobian = xp.concatenate(pieces, axis=2)
        if self.bent:
            h = without_affine(x, h, xp)
            jacobian = without_affine(x, jacobian.reshape(num_points, -1), xp)
        return h, jacobian.reshape(num_points * num_outputs, self.num_parameters)

    def units(
        self, parameters: np.ndarray, x: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """A unit's parameters, its inputs with a one (n, inputs + 1), and the outputs' derivatives by its argument.

        Its columns of the Jacobian are the products of the two. For layouts that are not bent.
        """
        _, inputs, slopes = self._unfold(parameters, x, np)
        for layer, deltas in enumerate(self._sensitivities(parameters, slopes, np)):
            features = np.hstack([inputs[layer], np.ones((len(x), 1))])
            for unit in range(self.sizes[layer + 1]):
                yield self.incoming(layer, unit), features, deltas[:, :, unit]

    def _unfold(self, parameters: Array, x: Array, xp: ModuleType) -> tuple[Array, list[Array], list[Array]]:
        """Outputs, and the inputs and the slopes of every layer."""
        inputs, slopes, h, features = [], [], x, x
        for layer in range(self.num_layers):
            block = self.block(parameters, layer)
            z = features @ block[:, :-1].T + block[:, -1]
            inputs.append(features)
            slopes.append(self.activations[layer].first(z, xp))
            h = self.activations[layer].value(z, xp)
            features = xp.concatenate([h, features], axis=1) if self.skips else h
        return h, inputs, slopes

    def _sensitivities(self, parameters: Array, slopes: list[Array], xp: ModuleType) -> list[Array]:
        """d outputs / d pre-activations of every layer, each (n, outputs, units)."""
        last = self.num_layers - 1
        num_points, num_outputs = slopes[last].shape
        deltas: list[Array] = [None] * self.num_layers
        deltas[last] = slopes[last][:, :, None] * xp.eye(num_outputs, dtype=slopes[last].dtype)
        for layer in range(last - 1, -1, -1):
            width, total = self.sizes[layer + 1], 0.0
            for later in range(layer + 1, last + 1 if self.skips else layer + 2):
                column = sum(self.sizes[layer + 2 : later + 1]) if self.skips else 0
                weights = self.block(parameters, later)[:, column : column + width]
                if later == last and num_outputs == 1:
                    flow = deltas[last] * weights[None]
                else:
                    flow = (deltas[later].reshape(num_points * num_outputs, -1) @ weights).reshape(
                        num_points, num_outputs, width
                    )
                total = total + flow
            deltas[layer] = total * slopes[layer][:, None, :]
        return deltas


def without_affine(x: Array, y: Array, xp: ModuleType = np) -> Array:
    """``y`` (n, outputs) less its best affine function of ``x``, whose columns are not far from uncorrelated."""
    design = xp.concatenate([x, xp.ones((len(x), 1), dtype=x.dtype)], axis=1)
    return y - design @ xp.linalg.solve(design.T @ design, design.T @ y)


def _round_up(width: int) -> int:
    """The next multiple of 4, beyond 128 of a thirty-second of the next power of two."""
    step = max(4, 2 ** int(np.ceil(np.log2(width))) // 32)
    return -(-width // step) * step
