"""Network: dense layers with their weights, biases and activations, and the symmetries no observer can see.

``f(x) = phi_L(W_L ... phi_1(W_1 x + b_1) ... + b_L)``. Two parameter sets describe the same function when
they differ by a permutation of hidden units, by flips of units whose activation has a reflection, by positive
scales of homogeneous units, by shifts of exponential units, or by writing one activation by another
(sigmoid by tanh, softplus(b) by softplus, celu and selu by elu). ``canonical`` picks one representative of each class.

An *open* network knows its first layers only: ``upper``, what stands above them, is a function or ``UNKNOWN``. Then all
its layers are hidden, and what a symmetry changes is made good inside ``upper``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unweave.core import activations as act
from unweave.core.arguments import numbers, shown
from unweave.core.errors import InputError
from unweave.core.outputs import ROWWISE, apply_output, output_name

UNKNOWN = "unknown"
"""``Network(..., upper=UNKNOWN)``: what stands above the given layers is not known."""
Upper = Callable[[np.ndarray], np.ndarray] | str | None


@dataclass(frozen=True, eq=False)
class Network:
    """Layers of ``weights[i]`` (out, in), ``biases[i]`` (out,) and ``activations[i]`` (a name).

    Examples
    --------
    >>> import unweave
    >>> network = unweave.Network([[[1.0, -1.0]], [[2.0]]], [[0.5], [1.0]], ["relu", "identity"])
    >>> network, network([[2.0, 1.0]])
    (Network(2-1-1 relu, 5 parameters), array([[4.]]))
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    activations: tuple[str, ...]
    upper: Upper = None
    """What stands above the last layer: nothing (None), a function of its outputs (n, units), or ``UNKNOWN``."""

    def __init__(
        self,
        weights: Sequence[np.ndarray],
        biases: Sequence[np.ndarray | None],
        activations: Sequence[str],
        upper: Upper = None,
    ):
        if not (upper is None or callable(upper) or (isinstance(upper, str) and upper == UNKNOWN)):
            raise InputError(f"upper={shown(upper)}: give a function of the units' outputs, or {UNKNOWN!r}")
        for name, given in (("weights", weights), ("biases", biases), ("activations", activations)):
            if isinstance(given, str | bytes | dict) or not hasattr(given, "__len__"):
                raise InputError(f"Network({name}={shown(given)}): give a sequence, one entry a layer")
        if not len(weights) == len(biases) == len(activations) or not len(weights):
            raise InputError(
                f"a Network needs as many weights as biases and activations, at least one of each; "
                f"got {len(weights)}, {len(biases)}, {len(activations)}"
            )
        matrices = tuple(np.array(numbers("weights", w), ndmin=2) for w in weights)
        vectors = tuple(
            np.zeros(len(w)) if b is None else np.array(numbers("biases", b)).reshape(-1)
            for w, b in zip(matrices, biases, strict=True)
        )
        for i, (w, b) in enumerate(zip(matrices, vectors, strict=True)):
            if w.ndim != 2 or b.shape != (w.shape[0],):
                raise InputError(
                    f"layer {i}: weights {w.shape} do not fit biases {b.shape}; want (out, in) and (out,)"
                )
            if i and w.shape[1] != matrices[i - 1].shape[0]:
                raise InputError(
                    f"layer {i} takes {w.shape[1]} inputs but layer {i - 1} has {len(matrices[i - 1])} units"
                )
        for array in (*matrices, *vectors):
            array.setflags(write=False)
        object.__setattr__(self, "weights", matrices)
        object.__setattr__(self, "biases", vectors)
        names = [act.get(a).name for a in activations[:-1]]
        last = output_name(activations[-1]) if upper is None else act.get(activations[-1]).name
        object.__setattr__(self, "activations", (*names, last))
        object.__setattr__(self, "upper", upper)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Outputs (n, outputs) for inputs (n, inputs)."""
        h = self.units(x)
        if isinstance(self.upper, str):
            raise InputError("what stands above the first layer is not known; units(x) gives its outputs")
        if self.upper is None:
            return h
        return np.asarray(self.upper(h), dtype=np.float64).reshape(len(h), -1)

    def units(self, x: np.ndarray) -> np.ndarray:
        """Outputs of the last layer given here, below ``upper``."""
        h = x if isinstance(x, np.ndarray) and x.dtype == np.float64 else numbers("x", x)
        if h.ndim != 2 or h.shape[1] != self.input_size:
            raise InputError(f"expected inputs of shape (n, {self.input_size}), got {h.shape}")
        for w, b, name in zip(self.weights[:-1], self.biases, self.activations, strict=False):
            h = act.get(name)(h @ w.T + b)
        return apply_output(self.activations[-1], h @ self.weights[-1].T + self.biases[-1])

    def __repr__(self) -> str:
        return f"Network({self.describe()}, {self.num_parameters} parameters)"

    def describe(self) -> str:
        """The architecture on one line: ``10-16-8-1 tanh``; different activations are listed in order."""
        kinds = list(dict.fromkeys(self.hidden_activations)) or ["linear"]
        if self.is_open:
            rest = "the rest unknown" if self.upper == UNKNOWN else "the rest a function"
            return f"{'-'.join(map(str, (self.input_size, *self.hidden)))} {'/'.join(kinds)}, {rest}"
        last = "" if self.activations[-1] == "identity" else f", {self.activations[-1]} outputs"
        sizes = (self.input_size, *self.hidden, self.output_size)
        return f"{'-'.join(map(str, sizes))} {'/'.join(kinds)}{last}"

    @property
    def input_size(self) -> int:
        return self.weights[0].shape[1]

    @property
    def output_size(self) -> int:
        return (
            self.weights[-1].shape[0] if not self.is_open else self(np.zeros((1, self.input_size))).shape[1]
        )

    @property
    def is_open(self) -> bool:
        """Whether something stands above the layers given here."""
        return self.upper is not None

    @property
    def is_piecewise_linear(self) -> bool:
        """Whether every hidden unit is a (leaky) relu, and there are some."""
        return bool(self.hidden) and all(act.get(name).degree == 1 for name in self.hidden_activations)

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return tuple(len(w) for w in self.weights[: self._num_hidden])

    @property
    def hidden_activations(self) -> tuple[str, ...]:
        return self.activations[: self._num_hidden]

    @property
    def _num_hidden(self) -> int:
        return len(self.weights) - (not self.is_open)

    @property
    def num_layers(self) -> int:
        return len(self.weights)

    @property
    def num_parameters(self) -> int:
        return sum(w.size + b.size for w, b in zip(self.weights, self.biases, strict=True))

    def flat(self) -> np.ndarray:
        """All parameters as one vector: layer by layer, each row with its bias behind it."""
        return np.concatenate(
            [np.hstack([w, b[:, None]]).ravel() for w, b in zip(self.weights, self.biases, strict=True)]
        )

    def with_flat(self, parameters: np.ndarray) -> Network:
        """The same architecture with the parameters of ``flat``'s layout."""
        weights, biases, start = [], [], 0
        for w in self.weights:
            block = parameters[start : start + len(w) * (w.shape[1] + 1)].reshape(len(w), -1)
            weights.append(block[:, :-1])
            biases.append(block[:, -1])
            start += block.size
        if start != len(parameters):
            raise InputError(f"expected {start} parameters, got {len(parameters)}")
        return Network(weights, biases, self.activations, self.upper)

    def first_layer(self) -> Network:
        """The first layer alone, with what stands above it left unknown."""
        if not self._num_hidden:
            raise InputError("a network without hidden layers has no first layer apart from its outputs")
        return Network(self.weights[:1], self.biases[:1], self.activations[:1], UNKNOWN)

    def permuted(self, layer: int, order: Sequence[int] | np.ndarray) -> Network:
        """The same function with the units of hidden ``layer`` in another order."""
        weights, biases = self._copies()
        weights[layer], biases[layer] = weights[layer][order], biases[layer][order]
        if layer == self.num_layers - 1 and self.is_open:
            back = np.argsort(order)
            return Network(weights, biases, self.activations, _below(self.upper, lambda h: h[:, back]))
        weights[layer + 1] = weights[layer + 1][:, order]
        return Network(weights, biases, self.activations, self.upper)

    def flipped(self, layer: int, units: np.ndarray) -> Network:
        """The same function with the chosen units (booleans) of hidden ``layer`` reflected.

        For activations whose reflection leaves a linear term (relu, softplus, gelu, silu), those terms of
        the chosen units must cancel in the next layer's eyes; otherwise the flip is refused, since it would
        change the function.
        """
        units = np.asarray(units, dtype=bool)
        activation = act.get(self.activations[layer])
        if not units.any():
            return self
        if activation.reflection is None:
            raise InputError(f"units of activation {activation.name!r} have no reflection")
        sign, constant, linear = activation.reflection
        weights, biases = self._copies()
        if layer == self.num_layers - 1 and self.is_open:
            if linear:
                raise InputError(
                    f"flipping {activation.name} units leaves a linear term in the inputs behind"
                )
            weights[layer][units] *= -1
            biases[layer][units] *= -1
            factors, terms = np.where(units, sign, 1.0), np.where(units, constant, 0.0)
            return Network(
                weights, biases, self.activations, _below(self.upper, lambda h: factors * h + terms)
            )
        outgoing = weights[layer + 1][:, units]
        rows, offsets = weights[layer][units], biases[layer][units]
        left_over = linear * outgoing @ rows
        scale = abs(linear) * np.abs(outgoing) @ np.abs(rows)
        if np.any(np.abs(left_over) > 1e-9 * np.maximum(scale, 1e-300)):
            raise InputError(
                f"flipping these {activation.name} units leaves a linear term the next layer cannot absorb"
            )
        # phi(z) = sign * phi(-z) + constant + linear * (-z), with sign^2 = 1
        biases[layer + 1] = biases[layer + 1] + constant * outgoing.sum(axis=1) - linear * outgoing @ offsets
        weights[layer + 1][:, units] = sign * outgoing
        weights[layer][units] *= -1
        biases[layer][units] *= -1
        return Network(weights, biases, self.activations, self.upper)

    def rescaled(self, layer: int, factors: np.ndarray) -> Network:
        """The same function with homogeneous units of hidden ``layer`` multiplied by positive ``factors``."""
        activation = act.get(self.activations[layer])
        factors = np.asarray(factors, dtype=np.float64)
        if activation.degree is None or np.any(factors <= 0):
            raise InputError(f"units of activation {activation.name!r} cannot be rescaled by {factors}")
        weights, biases = self._copies()
        weights[layer] *= factors[:, None]
        biases[layer] *= factors
        gains = factors**activation.degree
        if layer == self.num_layers - 1 and self.is_open:
            return Network(weights, biases, self.activations, _below(self.upper, lambda h: h / gains))
        weights[layer + 1] /= gains
        return Network(weights, biases, self.activations, self.upper)

    def normalised(self) -> Network:
        """Continuous symmetries removed.

        Activations are written by the one that stands for them (sigmoid by tanh, softplus(b) by softplus, celu and
        selu by elu), homogeneous rows have length one, exponential units no bias, logits behind a softmax no mean.
        """
        weights, biases = self._copies()
        names, upper = list(self.activations), self.upper
        for i in range(self._num_hidden):
            scales, shifts = np.ones(len(weights[i])), np.zeros(len(weights[i]))
            rewriting = act.get(names[i]).rewriting
            if rewriting is not None:
                names[i] = rewriting.name
                weights[i] = weights[i] * rewriting.inner
                biases[i] = biases[i] * rewriting.inner + rewriting.offset
                scales, shifts = scales * rewriting.gain, shifts + rewriting.shift
            degree = act.get(names[i]).degree
            if degree is not None:
                norms = np.linalg.norm(weights[i], axis=1)
                norms = np.where(norms > 0, norms, 1.0)
                weights[i], biases[i] = weights[i] / norms[:, None], biases[i] / norms
                scales = scales * norms**degree
            if names[i] == "exp":
                scales = scales * np.exp(biases[i])
                biases[i] = np.zeros_like(biases[i])
            # The layer above now sees h with scales * h + shifts the former outputs.
            if i < self.num_layers - 1:
                if shifts.any():
                    biases[i + 1] = biases[i + 1] + weights[i + 1] @ shifts
                weights[i + 1] = weights[i + 1] * scales
            else:
                upper = _below(upper, lambda h, scales=scales, shifts=shifts: scales * h + shifts)
        if names[-1] in ROWWISE:
            weights[-1] = weights[-1] - weights[-1].mean(axis=0)
            biases[-1] = biases[-1] - biases[-1].mean()
        return Network(weights, biases, names, upper)

    def as_sigmoid(self) -> Network:
        """The same function with every tanh layer written with sigmoids: ``tanh(z) = 2 sigmoid(2z) - 1``."""
        weights, biases = self._copies()
        names = list(self.activations)
        for i in range(self.num_layers - 1):
            if names[i] == "tanh":
                names[i] = "sigmoid"
                weights[i], biases[i] = 2 * weights[i], 2 * biases[i]
                biases[i + 1] = biases[i + 1] - weights[i + 1].sum(axis=1)
                weights[i + 1] = 2 * weights[i + 1]
        return Network(weights, biases, names, self.upper)

    def canonical(self) -> Network:
        """One representative of all parameter sets that describe this function through these symmetries."""
        network = self.normalised()
        for layer in range(network._num_hidden):
            rows = network.weights[layer]
            if act.get(network.activations[layer]).flips:
                sizes = np.abs(rows)
                first = np.argmax(sizes >= (1 - 1e-9) * sizes.max(axis=1, keepdims=True), axis=1)
                leading = rows[np.arange(len(rows)), first]
                leading = np.where(leading == 0, network.biases[layer], leading)
                network = network.flipped(layer, leading < 0)
            keys = np.column_stack([network.weights[layer], network.biases[layer]])
            # Numbers equal up to rounding must not decide the order.
            keys = np.round(keys / max(float(np.max(np.abs(keys))), 1e-300), 9)
            network = network.permuted(layer, np.lexsort(keys.T[::-1]))
        return network

    def _copies(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return [w.copy() for w in self.weights], [b.copy() for b in self.biases]


def unseen_symmetries(network: Network) -> str:
    """What every network of this kind leaves open, in words."""
    kinds = [act.get(name) for name in network.hidden_activations]
    seen = ["the order of hidden units"] if any(width > 1 for width in network.hidden) else []
    if any(kind.flips for kind in kinds):
        seen.append("the signs of units")
    if any(kind.degree for kind in kinds):
        seen.append("positive scales of units")
    if any(kind.name == "exp" for kind in kinds):
        seen.append("shifts of exponential units")
    if any(kind.name == "sigmoid" for kind in kinds):
        seen.append("writing sigmoid as tanh")
    if network.activations[-1] in ROWWISE and not network.is_open:
        seen.append("a common shift of the logits (their mean is set to zero)")
    return ", ".join(seen) or "nothing: every parameter is determined"


def _below(upper: Upper, change: Callable[[np.ndarray], np.ndarray]) -> Upper:
    """``upper`` after ``change`` of its inputs; the unknown stays unknown."""
    return (lambda h: upper(change(h))) if callable(upper) else upper
