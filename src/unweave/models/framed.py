"""A model seen in better coordinates: in units of its own scaler or of its box, or through the user's rows.

``Scaled`` puts ``x = middle + unit u`` in front of a model that begins with a scaler, or whose inputs come from a box
that is long and narrow or far from the origin, so that questions of size one are of the size it was made for. The
user's rows say more: numbers move in units of their own range, everything else is held at one combination.

``Encoded`` takes what a network takes, categories as one input a level, and asks the model in its own terms. ``Framed``
moves only the inputs that are numbers, ``x = middle + unit u``, with every category and constant as in the commonest
combination of the rows; ``lift`` writes a network of ``u`` as one of the encoded inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.core.domains import Box, Domain
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.core.oracle import AnswersInPieces, Oracle
from unweave.evidence.data import Data
from unweave.models import log_odds
from unweave.models.python_callable import CallableOracle
from unweave.models.resolve import is_address, open_model, resolve

LOPSIDED = 4.0
"""Quotient of the widths of a box, or of its distance from the origin and its width, from which it is framed."""


@dataclass(frozen=True)
class Frame:
    """Coordinates ``u`` with ``x = middle + unit u``, for x between ``low`` and ``high``."""

    middle: np.ndarray
    unit: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def between(low: np.ndarray, high: np.ndarray, dtype: str) -> Frame:
        """The whole range is the cube of half width one, or most of it.

        A power of two and a short middle: rounding in x is rounding in u, and both ways are exact.
        """
        if dtype == "float32":
            low, high = _inwards(low, high)
        middle = ((low + high) / 2).astype(np.float32).astype(np.float64)
        return Frame(middle, 2.0 ** np.ceil(np.log2((high - low) / 2)), low, high)

    @staticmethod
    def everywhere(middle: np.ndarray, unit: np.ndarray) -> Frame:
        return Frame(middle, unit, np.full(len(unit), -np.inf), np.full(len(unit), np.inf))

    @property
    def box(self) -> Box:
        return Box((self.low - self.middle) / self.unit, (self.high - self.middle) / self.unit)

    def outside(self, u: np.ndarray) -> np.ndarray:
        """The model's inputs."""
        return np.clip(self.middle + self.unit * u, self.low, self.high)

    def snap(self, u: np.ndarray, dtype: str) -> np.ndarray:
        """The nearest ``u`` whose inputs a model of that arithmetic takes without rounding."""
        x = self.outside(u)
        x = x.astype(np.float32).astype(np.float64) if dtype == "float32" else x
        return (x - self.middle) / self.unit

    def lift(self, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A first layer of ``u`` as one of ``x``."""
        weight = weight / self.unit
        return weight, bias - weight @ self.middle


@dataclass
class Encoded:
    """The model as a function of encoded rows."""

    model: Oracle
    data: Data

    def __post_init__(self) -> None:
        self.name: str = self.model.name
        self.dtype: str = self.model.dtype
        self.input_size: int = self.data.input_size
        self.output_size: int = self.model.output_size
        self.notes: tuple[str, ...] = self.model.notes

    def __call__(self, x: np.ndarray) -> np.ndarray:
        answers = self.model(self.data.decode(x))
        self.notes = self.model.notes
        return answers


class Framed:
    """The model as a function of the moving inputs alone, each in units of its range."""

    patterns: np.ndarray

    encoded: Encoded
    frame: Frame
    name: str
    dtype: str
    output_size: int
    probes: int
    input_size: Any
    base: Any

    def __init__(self, model: Oracle, data: Data) -> None:
        self.encoded = Encoded(model, data)
        self.data = data
        self.name, self.dtype, self.output_size = model.name, model.dtype, model.output_size
        self.notes: tuple[str, ...] = model.notes
        self.probes = int(getattr(model, "probes", 0))
        numbers = data.numbers
        if not numbers.shape[1]:
            raise InputError(
                "no column of the data varies as a number: there is nothing to ask between the rows"
            )
        self.input_size = numbers.shape[1]
        self.frame = Frame.between(numbers.min(axis=0), numbers.max(axis=0), self.dtype)
        still = data.encoded[:, ~data.moving]
        self.patterns, counts = np.unique(still, axis=0, return_counts=True)
        self.counts = counts
        self.base = self.patterns[np.argmax(counts)]

    @property
    def domain(self) -> Domain:
        """Where ``u`` may be asked."""
        frame = self.frame
        return self.data.shape(frame.middle, frame.unit, frame.low, frame.high)

    def snap(self, x: np.ndarray) -> np.ndarray:
        """The nearest ``u`` whose inputs the model takes without rounding."""
        return self.frame.snap(x, self.dtype)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        answers = self.encoded(self.outside(x, self.base))
        self.notes = self.encoded.notes
        return answers

    def outside(self, u: np.ndarray, pattern: np.ndarray) -> np.ndarray:
        """Encoded rows from the moving inputs and one combination of the others."""
        x = np.empty((len(u), self.data.input_size))
        x[:, self.data.moving] = self.frame.outside(u)
        x[:, ~self.data.moving] = pattern
        return x

    def lift(self, network: Network, shifts: np.ndarray | None = None) -> Network:
        """The network of encoded inputs; ``shifts`` (units, other inputs) are the first layer's weights of those."""
        first = np.zeros((len(network.weights[0]), self.data.input_size))
        first[:, self.data.moving], bias = self.frame.lift(network.weights[0], network.biases[0])
        if shifts is not None:
            first[:, ~self.data.moving] = shifts
            bias = bias - shifts @ self.base
        return Network(
            [first, *network.weights[1:]], [bias, *network.biases[1:]], network.activations, network.upper
        )


class Scaled:
    """The model as a function of ``u``, with ``x = middle + unit u``."""

    model: Oracle
    frame: Frame
    logits: bool
    name: str
    dtype: str
    notes: tuple[str, ...]
    input_size: int
    output_size: int
    probes: int

    def __init__(self, model: Oracle, frame: Frame, logits: bool = False) -> None:
        self.model, self.frame, self.logits = model, frame, logits
        self.name, self.dtype, self.notes = model.name, model.dtype, model.notes
        self.input_size, self.output_size = model.input_size, model.output_size
        self.probes = int(getattr(model, "probes", 0))

    def snap(self, x: np.ndarray) -> np.ndarray:
        """The nearest ``u`` whose inputs the model takes without rounding."""
        return self.frame.snap(x, self.dtype)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate(list(self.answer_in_pieces(x)))

    def answer_in_pieces(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Piece by piece where the model itself answers so."""
        x = self.frame.outside(x)
        if isinstance(self.model, AnswersInPieces):
            yield from self.model.answer_in_pieces(x)
        else:
            yield self.model(x)
        self.notes = self.model.notes

    def lift(self, network: Network) -> Network:
        """The network of ``x``."""
        first, bias = self.frame.lift(network.weights[0], network.biases[0])
        return Network(
            [first, *network.weights[1:]], [bias, *network.biases[1:]], network.activations, network.upper
        )


def frame_box(oracle: Oracle, box: Box) -> Oracle:
    """The model in units of its box, where the box is much longer one way than another, or far from the origin."""
    low, high = (np.broadcast_to(side, oracle.input_size) for side in (box.low, box.high))
    width, aside = high - low, np.abs(low + high) / 2
    if np.max(width) < LOPSIDED * np.min(width) and np.max(aside / width) < LOPSIDED:
        return oracle
    return Scaled(oracle, Frame.between(low, high, oracle.dtype))


def scale_model(model: Any, oracle: Oracle) -> Oracle:
    """An estimator's oracle in units of the scaler it begins with; a classifier's probabilities, not its log-odds.

    How exact log-odds are depends on how close a probability is to 0 or 1: that is for whoever inverts them to know.
    """
    if not hasattr(model, "n_features_in_") or not isinstance(oracle, CallableOracle):
        return oracle
    from unweave.models.sklearn_model import leading_scaling, with_probabilities

    inner = with_probabilities(model, oracle)
    scaling = leading_scaling(model)
    if scaling is None and inner is oracle:
        return oracle
    factors, shift = (np.broadcast_to(part, oracle.input_size) for part in scaling or (1.0, 0.0))
    if not np.all(np.isfinite(factors) & (factors != 0)):
        factors, shift = np.ones(oracle.input_size), np.zeros(oracle.input_size)
    unit = 2.0 ** np.round(np.log2(np.abs(1 / factors)))
    return Scaled(inner, Frame.everywhere(-shift / factors, unit), logits=inner is not oracle)


def unsquashed(network: Network) -> Network:
    """The logits of a network that ends in sigmoid or softmax, without the shift no softmax can show."""
    plain = Network(network.weights, network.biases, (*network.activations[:-1], "identity"))
    return log_odds.without_shift(plain) if network.activations[-1] == "softmax" else plain


def frame_model(
    model: Any, data: Data, *, input_size: int | None = None, allow_pickle: bool = False
) -> Framed:
    """The model seen through the rows; an estimator's own column names and encoders say what these are."""
    if not is_address(model):
        model = open_model(model, allow_pickle)
        data = _suited(data, model)
    size = input_size
    if size is None and callable(model) and not hasattr(model, "input_size"):
        size = len(data.columns)
    oracle = resolve(model, input_size=size, allow_pickle=allow_pickle, domain=data)
    data.check_size(oracle.input_size, oracle.name)
    return Framed(oracle, data)


def _suited(data: Data, model: Any) -> Data:
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        data = data.ordered([str(name) for name in names])
    if hasattr(model, "n_features_in_"):
        from unweave.models.sklearn_model import encoded_columns

        data = data.with_categories(encoded_columns(model))
    return data


def _inwards(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The float32 numbers between which every rounded number stays."""
    a, b = low.astype(np.float32), high.astype(np.float32)
    a = np.where(a < low, np.nextafter(a, np.float32(np.inf)), a)
    b = np.where(b > high, np.nextafter(b, np.float32(-np.inf)), b)
    return a.astype(np.float64), b.astype(np.float64)
