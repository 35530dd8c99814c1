"""Builds a network from the steps of a model, one after the other: affine maps and activations.

Affine steps that follow each other are multiplied out, so preprocessing in front of a network and scalings
between its layers become part of the layers they touch.
"""

from __future__ import annotations

import numpy as np

from unweave.core.errors import InputError
from unweave.core.network import Network


class LayerChain:
    """A network under construction; ``name`` is the model's name in messages."""

    def __init__(self, input_size: int, name: str):
        self.name = name
        self._layers: list[tuple[np.ndarray, np.ndarray, str]] = []
        self._weight = np.eye(input_size)
        self._bias = np.zeros(input_size)
        self._pending = False
        self._softmax = ""

    @property
    def width(self) -> int:
        return len(self._weight)

    def affine(self, weight: np.ndarray, bias: np.ndarray | None = None) -> None:
        """Apply ``h -> weight h + bias``."""
        self._refuse_after_softmax()
        weight = np.asarray(weight, dtype=np.float64)
        if weight.ndim != 2 or weight.shape[1] != self.width:
            raise InputError(
                f"{self.name}: a layer of shape {weight.shape} does not fit the {self.width} values before it"
            )
        shift = np.zeros(len(weight)) if bias is None else np.asarray(bias, dtype=np.float64).reshape(-1)
        if self._pending:
            self._bias, self._weight = weight @ self._bias, weight @ self._weight
        else:
            self._bias, self._weight = np.zeros(len(weight)), weight
        self._bias = self._bias + shift
        self._pending = True

    def scale(self, factors: np.ndarray | float, shift: np.ndarray | float = 0.0) -> None:
        """Apply ``h -> factors * h + shift``, value by value."""
        self._refuse_after_softmax()
        if np.all(np.asarray(factors) == 1) and np.all(np.asarray(shift) == 0):
            return
        factors = np.broadcast_to(np.asarray(factors, dtype=np.float64).reshape(-1), self.width)
        self._weight = factors[:, None] * self._weight
        self._bias = factors * self._bias + np.asarray(shift, dtype=np.float64).reshape(-1)
        self._pending = True

    def activation(self, name: str) -> None:
        """Apply an activation to every value."""
        self._refuse_after_softmax()
        if name == "identity":
            return
        self._layers.append((self._weight, self._bias, name))
        self._weight, self._bias = np.eye(len(self._weight)), np.zeros(len(self._weight))
        self._pending = False

    def softmax(self, name: str = "softmax") -> None:
        """The last step is a softmax, or a log_softmax."""
        self._refuse_after_softmax()
        self._softmax = name

    def network(self) -> Network:
        """Everything appended so far as a network."""
        layers = list(self._layers)
        if self._pending or self._softmax or not layers:
            layers.append((self._weight, self._bias, self._softmax or "identity"))
        weights, biases, names = zip(*layers, strict=True)
        return Network(weights, biases, names)

    def _refuse_after_softmax(self) -> None:
        if self._softmax:
            raise InputError(f"{self.name}: a softmax inside the network is not supported, only at its end")
