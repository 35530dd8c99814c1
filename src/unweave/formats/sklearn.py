"""The network as a fitted scikit-learn ``MLPRegressor``: relu, tanh, sigmoid or identity hidden units."""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.core.errors import ExportError, MissingExtra
from unweave.core.network import Network
from unweave.formats.check import require_same

_NAMES = {"relu": "relu", "tanh": "tanh", "sigmoid": "logistic", "identity": "identity"}


def to_sklearn(network: Network) -> Any:
    """A fitted ``MLPRegressor`` that computes the network, checked on probe points."""
    try:
        from sklearn.neural_network import MLPRegressor
    except ImportError as error:
        raise MissingExtra("scikit-learn", "sklearn") from error
    kinds = set(network.activations[:-1])
    if network.activations[-1] != "identity" or len(kinds) != 1 or not kinds <= set(_NAMES):
        raise ExportError(
            f"an MLPRegressor has one hidden activation ({', '.join(_NAMES)}) and linear outputs, "
            f"not {'/'.join(network.activations)}; use to_torch or export to .onnx"
        )
    model: Any = MLPRegressor(hidden_layer_sizes=network.hidden, activation=_NAMES[kinds.pop()])
    model.coefs_ = [np.array(w.T) for w in network.weights]
    model.intercepts_ = [np.array(b) for b in network.biases]
    model.n_layers_ = network.num_layers + 1
    model.n_outputs_ = network.output_size
    model.n_features_in_ = network.input_size
    model.out_activation_ = "identity"
    model.n_iter_ = model.t_ = 0
    require_same(network, lambda x: model.predict(x).reshape(len(x), -1), "the scikit-learn model")
    return model
