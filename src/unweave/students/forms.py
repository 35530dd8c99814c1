"""The form in which an activation is fitted, and the way back to a plain network.

* sigmoid is fitted as tanh (``sigmoid(z) = (1 + tanh(z/2))/2``): the same functions, better conditioned.
* softplus, GELU, SiLU and their kin obey ``phi(z) = z/2 + even(z)``. In the plain form a unit of the wrong
  sign is emulated by surplus linear pairs that no pruning can remove, so they are fitted as even units with
  linear skips, where signs do not exist. The signs follow afterwards: layer l+1 reads the inputs of layer l
  through the skip ``K = B diag(s) R / 2``, B the outgoing weights and R the rows of layer l: linear in the
  signs s.
* everything else is fitted as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from unweave.algebra.signs import solve_signs
from unweave.core import activations as act
from unweave.core.activations import Activation, Reflection
from unweave.core.network import Network
from unweave.solve.layout import Layout


@dataclass(frozen=True)
class Plain:
    """A plain network, and the units whose sign other choices explain as well."""

    network: Network
    undetermined: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """How networks with ``activation`` are fitted: by units ``unit``, with or without skips."""

    activation: Activation
    unit: Activation
    skips: bool

    @staticmethod
    def of(name: str) -> Form:
        activation = act.get(name)
        if activation.name == "sigmoid":
            return Form(activation, act.get("tanh"), False)
        reflection = activation.reflection
        if reflection is not None and reflection.sign > 0 and reflection.linear != 0:
            return Form(activation, even_part(activation), True)
        return Form(activation, activation, False)

    def layout(self, sizes: tuple[int, ...]) -> Layout:
        return Layout.uniform(sizes, self.unit, self.skips)

    @property
    def free_per_unit(self) -> int:
        """Continuous symmetries a unit has of its own: a positive scale, or the shift of an exponential."""
        return 1 if self.activation.degree is not None or self.activation.name == "exp" else 0

    def network(self, layout: Layout, parameters: np.ndarray, *, rtol: float) -> Plain | None:
        """The plain network of this activation, or None when no signs explain the skips to ``rtol``."""
        if self.skips:
            return _plain(layout, parameters, self.activation, rtol)
        network = layout.network(parameters)
        return Plain(network.as_sigmoid() if self.activation.name == "sigmoid" else network)


@lru_cache
def even_part(activation: Activation) -> Activation:
    """``even(z) = phi(z) + linear z / 2``, which has no sign."""
    assert activation.reflection is not None
    slope = activation.reflection.linear / 2
    return Activation(
        f"even part of {activation.name}",
        lambda z, xp: activation.value(z, xp) + slope * z,
        lambda z, xp: activation.first(z, xp) + slope,
        activation.second,
        Reflection(1.0, 0.0, 0.0),
    )


def _plain(layout: Layout, parameters: np.ndarray, activation: Activation, rtol: float) -> Plain | None:
    """Signs by layers, from the skips; the skips themselves are then implied and dropped."""
    assert activation.reflection is not None
    slope = -activation.reflection.linear / 2
    blocks = [layout.block(parameters, i).copy() for i in range(layout.num_layers)]
    weights, biases, undetermined = [], [], []
    for layer, width in enumerate(layout.hidden):
        rows, following = blocks[layer], blocks[layer + 1]
        outgoing, skip = following[:, :width], following[:, width:-1]
        vectors = slope * (outgoing.T[:, :, None] * rows[:, None, :-1]).reshape(width, -1)
        solution = solve_signs(vectors, skip.ravel(), rtol * float(np.max(np.abs(vectors), initial=1e-300)))
        if solution.signs is None:
            return None
        undetermined += [
            f"layer {layer + 1}, unit {u + 1}: sign" for u in np.flatnonzero(~solution.determined)
        ]
        rows *= solution.signs[:, None]
        # B even(z) = B phi(z) - slope B z, so the bias loses what z's own bias brought in through phi
        following[:, -1] -= slope * outgoing @ rows[:, -1]
        weights.append(rows[:, : layout.sizes[layer]])
        biases.append(rows[:, -1])
    weights.append(blocks[-1][:, : layout.sizes[-2]])
    biases.append(blocks[-1][:, -1])
    network = Network(weights, biases, [activation.name] * len(layout.hidden) + ["identity"])
    return Plain(network, tuple(undetermined))
