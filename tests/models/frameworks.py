"""Models of frameworks that the test environment does not carry: ``make frameworks`` installs them and runs this.

Keras, Equinox, Flax NNX and Linen, TFLite; the docs' table of doors names the test of each row.

One network, 5-6-2 tanh, in every framework; every door must answer as it does.
"""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import equinox as eqx
import flatbuffers
import flax.linen as linen
import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tfl
from flax import nnx

import unweave
from unweave.core.errors import InputError
from unweave.models.resolve import resolve, resolve_network

RNG = np.random.default_rng(0)
TRUTH = unweave.Network(
    [RNG.normal(size=(6, 5)), RNG.normal(size=(2, 6))],
    [RNG.normal(size=6), RNG.normal(size=2)],
    ["tanh", "identity"],
)
X = RNG.normal(size=(9, 5))


def _keras():
    layers = [keras.layers.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    for layer, w, b in zip(model.layers, TRUTH.weights, TRUTH.biases, strict=True):
        layer.set_weights([w.T, b])
    return model


def _equinox():
    model = eqx.nn.MLP(5, 2, 6, 1, activation=jnp.tanh, key=jax.random.key(0))
    for i, (w, b) in enumerate(zip(TRUTH.weights, TRUTH.biases, strict=True)):
        model = eqx.tree_at(
            lambda m, i=i: (m.layers[i].weight, m.layers[i].bias), model, (jnp.array(w), jnp.array(b))
        )
    return model


class _Nnx(nnx.Module):
    def __init__(self):
        self.first, self.last = nnx.Linear(5, 6, rngs=nnx.Rngs(0)), nnx.Linear(6, 2, rngs=nnx.Rngs(1))
        for layer, w, b in zip((self.first, self.last), TRUTH.weights, TRUTH.biases, strict=True):
            layer.kernel[...], layer.bias[...] = jnp.array(w.T), jnp.array(b)

    def __call__(self, x):
        return self.last(jnp.tanh(self.first(x)))


class _Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        hidden = jnp.tanh(linen.Dense(6, name="first")(x))
        return linen.Dense(2, name="last")(hidden)


def _linen():
    names = zip(("first", "last"), TRUTH.weights, TRUTH.biases, strict=True)
    return _Linen().bind({"params": {name: {"kernel": w.T, "bias": b} for name, w, b in names}})


def _tflite(path):
    """The network as a TFLite file, written with the schema that LiteRT ships: two dense layers, tanh between."""
    model = tfl.ModelT()
    model.version, model.buffers = 3, [tfl.BufferT()]
    graph, codes = tfl.SubGraphT(), []
    graph.tensors, graph.operators = [], []

    def tensor(name, shape, data=None):
        entry = tfl.TensorT()
        entry.name, entry.shape, entry.type = name, list(shape), tfl.TensorType.FLOAT32
        entry.buffer = 0
        if data is not None:
            buffer = tfl.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data, np.float32).tobytes(), np.uint8)
            model.buffers.append(buffer)
            entry.buffer = len(model.buffers) - 1
        graph.tensors.append(entry)
        return len(graph.tensors) - 1

    def operator(kind, inputs, outputs, options=None):
        code = tfl.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = kind
        code.version = 1
        codes.append(code)
        step = tfl.OperatorT()
        step.opcodeIndex, step.inputs, step.outputs = len(codes) - 1, inputs, outputs
        if options is not None:
            step.builtinOptionsType = tfl.BuiltinOptions.FullyConnectedOptions
            step.builtinOptions = options
        graph.operators.append(step)

    dense = tfl.FullyConnectedOptionsT()
    x, first, bent, last = tensor("x", (1, 5)), tensor("z", (1, 6)), tensor("h", (1, 6)), tensor("y", (1, 2))
    weights = [tensor(f"w{i}", w.shape, w) for i, w in enumerate(TRUTH.weights)]
    biases = [tensor(f"b{i}", b.shape, b) for i, b in enumerate(TRUTH.biases)]
    operator(tfl.BuiltinOperator.FULLY_CONNECTED, [x, weights[0], biases[0]], [first], dense)
    operator(tfl.BuiltinOperator.TANH, [first], [bent])
    operator(tfl.BuiltinOperator.FULLY_CONNECTED, [bent, weights[1], biases[1]], [last], dense)
    graph.inputs, graph.outputs = [x], [last]
    model.subgraphs, model.operatorCodes = [graph], codes
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def test_a_tflite_file_answers_as_the_network_and_gives_it_away(tmp_path):
    path = _tflite(tmp_path / "model.tflite")
    oracle = resolve(path)
    assert (oracle.input_size, oracle.output_size, oracle.dtype) == (5, 2, "float32")
    assert np.allclose(oracle(X), TRUTH(X), rtol=0, atol=1e-5)
    found = unweave.identify(path)
    assert found.network is not None
    assert unweave.compare(found.network, TRUTH).max_relative_error < 1e-3
    (tmp_path / "broken.tflite").write_bytes(b"TFL3 but no model")
    with pytest.raises(InputError, match="not a readable TFLite model"):
        resolve(tmp_path / "broken.tflite")


@pytest.mark.parametrize(
    ("make", "sizes"),
    [(_keras, {}), (_equinox, {}), (_Nnx, {}), (_linen, {"input_size": 5})],
    ids=["keras", "equinox", "nnx", "linen"],
)
def test_every_framework_answers_as_the_network_does(make, sizes):
    oracle = resolve(make(), **sizes)
    assert (oracle.input_size, oracle.output_size, oracle.dtype) == (5, 2, "float32")
    assert np.allclose(oracle(X), TRUTH(X), rtol=0, atol=1e-5)


def test_keras_files_need_no_sizes_and_hold_their_network(tmp_path):
    path = tmp_path / "model.keras"
    _keras().save(path)
    assert np.allclose(resolve(path)(X), TRUTH(X), atol=1e-5)
    assert unweave.compare(resolve_network(path), TRUTH).max_relative_error < 1e-5


def test_a_keras_softmax_is_part_of_the_model():
    model = keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(3, "softmax")])
    odds = np.exp(X @ np.asarray(model.get_weights()[0]) + model.get_weights()[1])
    assert np.allclose(resolve(model)(X), odds / odds.sum(axis=1, keepdims=True), atol=1e-5)
    assert resolve_network(model).activations[-1] == "softmax"


def test_code_in_a_keras_file_is_refused(tmp_path):
    model = keras.Sequential([keras.layers.Input((5,)), keras.layers.Lambda(lambda x: x + 1)])
    model.save(tmp_path / "lambda.keras")
    with pytest.raises(InputError, match="allow_pickle=True"):
        resolve(tmp_path / "lambda.keras")


def test_batches_of_every_size_compile_few_programs():
    compiled = []

    @jax.jit
    def model(x):
        compiled.append(x.shape)
        return jnp.tanh(x @ jnp.ones((5, 1)))

    oracle = resolve(model, input_size=5)
    for n in range(1, 100):
        assert oracle(X[:1].repeat(n, axis=0)).shape == (n, 1)
    assert len(compiled) <= 4


def test_a_keras_model_is_identified():
    found = unweave.identify(_keras())
    assert found.network is not None
    assert unweave.compare(found.network, TRUTH).max_relative_error < 1e-4
