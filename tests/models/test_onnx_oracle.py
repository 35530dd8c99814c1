"""ONNX graphs as oracles, and read as networks."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from models.graphs import NODES, dense_model, make_model
from truth import random_network
from unweave.comparison import compare
from unweave.core import activations
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.formats.onnx import write_onnx
from unweave.models.resolve import resolve, resolve_network

HIDDEN = [name for name in NODES if name != "identity"]


@pytest.mark.parametrize("style", ["gemm", "matmul"])
@pytest.mark.parametrize("name", HIDDEN)
def test_float64_graphs_are_evaluated_in_float64(name, style, tmp_path, rng):
    norms = (0.2, 0.4) if name == "exp" else (0.7, 1.6)
    network = random_network((5, 7, 4, 2), name.split("(")[0], seed=3, norms=norms)
    network = Network(network.weights, network.biases, [name, name, "identity"])
    dense_model(network, style=style, path=tmp_path / "model.onnx")
    oracle = resolve(tmp_path / "model.onnx")
    x = 2 * rng.standard_normal((300, 5))
    expected = network(x)
    assert (oracle.input_size, oracle.output_size, oracle.dtype, oracle.probes) == (5, 2, "float64", 0)
    assert np.max(np.abs(oracle(x) - expected)) < 1e-14 * max(np.max(np.abs(expected)), 1)


@pytest.mark.parametrize("name", HIDDEN)
def test_float32_graphs_are_evaluated_in_float32(name, rng):
    network = random_network((5, 7, 2), name.split("(")[0], seed=3)
    network = Network(network.weights, network.biases, [name, "identity"])
    oracle = resolve(dense_model(network, dtype=np.float32))
    x = rng.standard_normal((50, 5))
    assert oracle.dtype == "float32"
    error = np.max(np.abs(oracle(x) - network(x))) / np.max(np.abs(network(x)))
    assert 1e-10 < error < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("style", ["gemm", "matmul"])
@pytest.mark.parametrize("name", HIDDEN)
def test_dense_graphs_are_read_as_networks(name, style, dtype):
    network = random_network((4, 6, 3, 2), name.split("(")[0], seed=1, norms=(0.5, 1.0))
    network = Network(network.weights, network.biases, [name, name, "identity"])
    found = resolve_network(dense_model(network, style=style, dtype=dtype))
    assert found.activations == network.activations
    assert compare(network, found).max_relative_error < (1e-6 if dtype == np.float32 else 1e-15)


def _one_layer(middle, extra=None, dtype=np.float64):
    """Gemm, the given nodes from ``z`` to ``h``, Gemm; and the weights."""
    network = random_network((3, 5, 1), "tanh", seed=2)
    (w0, w1), (b0, b1) = network.weights, network.biases
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["z"], transB=1),
        *middle,
        helper.make_node("Gemm", ["h", "w1", "b1"], ["y"], transB=1),
    ]
    constants = {"w0": w0, "b0": b0, "w1": w1, "b1": b1, **(extra or {})}
    constants = {key: np.asarray(value, dtype=dtype) for key, value in constants.items()}
    return network, make_model(nodes, constants, dtype=dtype)


def test_gelu_written_out_by_exporters_is_recognised_and_exact(rng):
    middle = [
        helper.make_node("Div", ["z", "root"], ["s"]),
        helper.make_node("Erf", ["s"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["p"]),
        helper.make_node("Mul", ["z", "p"], ["q"]),
        helper.make_node("Mul", ["q", "half"], ["h"]),
    ]
    truth, model = _one_layer(middle, {"root": np.sqrt(2.0), "one": 1.0, "half": 0.5})
    truth = Network(truth.weights, truth.biases, ["gelu", "identity"])
    x = rng.standard_normal((100, 3))
    assert np.max(np.abs(resolve(model)(x) - truth(x))) < 1e-14
    assert compare(truth, resolve_network(model)).max_relative_error < 1e-15


@pytest.mark.parametrize(
    ("name", "middle", "extra"),
    [
        ("silu", [("Sigmoid", ["z"], ["s"]), ("Mul", ["z", "s"], ["h"])], {}),
        ("mish", [("Softplus", ["z"], ["s"]), ("Tanh", ["s"], ["t"]), ("Mul", ["z", "t"], ["h"])], {}),
        ("relu6", [("Clip", ["z", "zero", "six"], ["h"])], {"zero": 0.0, "six": 6.0}),
        ("quadratic", [("Mul", ["z", "z"], ["h"])], {}),
        ("quadratic", [("Pow", ["z", "two"], ["h"])], {"two": 2.0}),
        (
            "gelu_tanh",
            [
                ("Pow", ["z", "three"], ["c"]),
                ("Mul", ["c", "k"], ["d"]),
                ("Add", ["z", "d"], ["e"]),
                ("Mul", ["e", "r"], ["f"]),
                ("Tanh", ["f"], ["g"]),
                ("Add", ["g", "one"], ["i"]),
                ("Mul", ["z", "half"], ["j"]),
                ("Mul", ["j", "i"], ["h"]),
            ],
            {"three": 3.0, "k": 0.044715, "r": np.sqrt(2 / np.pi), "one": 1.0, "half": 0.5},
        ),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_written_out_are_recognised(name, middle, extra, dtype):
    truth, model = _one_layer([helper.make_node(*step) for step in middle], extra, dtype)
    found = resolve_network(model)
    assert found.activations == (name, "identity")
    expected = Network(truth.weights, truth.biases, [name, "identity"])
    assert compare(expected, found).max_relative_error < (1e-6 if dtype == np.float32 else 1e-15)


@pytest.mark.parametrize(("name", "kind"), [("hardswish", "HardSwish"), ("selu", "Selu"), ("celu", "Celu")])
def test_nodes_with_float32_parameters_are_read(name, kind):
    truth, model = _one_layer([helper.make_node(kind, ["z"], ["h"])], {}, np.float32)
    found = resolve_network(model)
    assert found.activations == (name, "identity")
    expected = Network(truth.weights, truth.biases, [name, "identity"])
    assert compare(expected, found).max_relative_error < 1e-6


def test_step_units_are_read():
    middle = [
        helper.make_node("Greater", ["z", "zero"], ["g"]),
        helper.make_node("Cast", ["g"], ["h"], to=TensorProto.DOUBLE),
    ]
    truth, model = _one_layer(middle, {"zero": 0.0})
    found = resolve_network(model)
    assert found.activations == ("step", "identity")
    assert np.array_equal(found.weights[0], truth.weights[0])


def test_scalings_are_folded_into_the_layers(rng):
    mean, deviation = rng.standard_normal(3), rng.uniform(0.5, 2, 3)
    network = random_network((3, 5, 2), "tanh", seed=4)
    (w0, w1), (b0, b1) = network.weights, network.biases
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "deviation"], ["scaled"]),
        helper.make_node("Gemm", ["scaled", "w0", "b0"], ["z"], transB=1, alpha=2.0, beta=0.5),
        helper.make_node("Tanh", ["z"], ["h"]),
        helper.make_node("MatMul", ["h", "w1"], ["m"]),
        helper.make_node("Add", ["m", "b1"], ["a"]),
        helper.make_node("Mul", ["three", "a"], ["t"]),
        helper.make_node("Sub", ["one", "t"], ["y"]),
    ]
    constants = {"w0": w0, "b0": b0, "w1": w1.T.copy(), "b1": b1, "mean": mean, "deviation": deviation}
    constants |= {"three": np.array(3.0), "one": np.array([1.0])}
    model = make_model(nodes, constants, outputs=[("y", ("n", 2))])
    x = rng.standard_normal((20, 3))
    expected = 1 - 3 * (np.tanh((x - mean) / deviation @ (2 * w0).T + 0.5 * b0) @ w1.T + b1)
    assert np.allclose(resolve(model)(x), expected, rtol=1e-13, atol=1e-13)
    found = resolve_network(model)
    assert found.hidden == (5,)
    assert np.allclose(found(x), expected, rtol=1e-13, atol=1e-13)


def test_inputs_of_more_dimensions_are_flattened(rng):
    weights = rng.standard_normal((2, 1, 3, 3))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Tanh", ["c"], ["y"]),
    ]
    model = make_model(
        nodes, {"w": weights.astype(np.float32)}, dtype=np.float32,
        input_shape=("n", 1, 4, 4), outputs=[("y", ("n", 2, 2, 2))],
    )  # fmt: skip
    oracle = resolve(model, input_size=16)
    assert (oracle.input_size, oracle.output_size) == (16, 8)
    x = rng.standard_normal((3, 16))
    patch = x.reshape(3, 4, 4)[:, 1:4, 0:3]
    expected = np.tanh(np.einsum("nij,kij->nk", patch, weights[:, 0]))
    assert np.allclose(oracle(x).reshape(3, 2, 2, 2)[:, :, 1, 0], expected, atol=1e-5)
    with pytest.raises(InputError, match="input_size=4 does not fit"):
        resolve(model, input_size=4)
    with pytest.raises(InputError, match="contains Conv"):
        resolve_network(model)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_fixed_batch_size_is_respected(batch_size, rng):
    network = random_network((3, 4, 2), "tanh")
    model = dense_model(network, input_shape=(batch_size, 3), outputs=[("y", (batch_size, 2))])
    x = rng.standard_normal((6, 3))
    assert np.allclose(resolve(model)(x), network(x), rtol=1e-14)
    assert [value.type.tensor_type.shape.dim[0].dim_value for value in model.graph.input] == [batch_size]


def test_rows_are_not_mixed_when_the_batch_is_fixed(rng):
    """A node that looks across the batch keeps the model at one row a call."""
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["z"], transB=1),
        helper.make_node("ReduceMean", ["z"], ["m"], keepdims=1),
        helper.make_node("Sub", ["z", "m"], ["y"]),
    ]
    weight = rng.standard_normal((2, 3))
    model = make_model(nodes, {"w": weight}, input_shape=(1, 3), outputs=[("y", (1, 2))])
    x = rng.standard_normal((4, 3))
    z = x @ weight.T
    assert np.allclose(resolve(model)(x), z - z.mean(axis=1, keepdims=True), rtol=1e-12, atol=1e-13)


def test_open_shapes_are_filled_from_the_first_layer_or_asked_for(rng):
    network = random_network((3, 4, 2), "tanh")
    model = dense_model(network, input_shape=("n", "d"), outputs=[("y", None)])
    oracle = resolve(model)
    assert (oracle.input_size, oracle.output_size, oracle.probes) == (3, 2, 1)
    open_model = make_model(
        [helper.make_node("Tanh", ["x"], ["y"])], {}, input_shape=("n", "d"), outputs=[("y", ("n", "d"))]
    )
    with pytest.raises(InputError, match="pass input_size"):
        resolve(open_model)
    assert resolve(open_model, input_size=6).output_size == 6


def test_a_final_softmax_is_part_of_the_model(rng):
    for num_classes in (2, 4):
        network = random_network((3, 6, num_classes), "relu", seed=5)
        (w0, w1), (b0, b1) = network.weights, network.biases
        nodes = [
            helper.make_node("Gemm", ["x", "w0", "b0"], ["z"], transB=1),
            helper.make_node("Relu", ["z"], ["h"]),
            helper.make_node("Gemm", ["h", "w1", "b1"], ["logits"], transB=1),
            helper.make_node("Softmax", ["logits"], ["y"]),
        ]
        model = make_model(
            nodes, {"w0": w0, "b0": b0, "w1": w1, "b1": b1}, outputs=[("y", ("n", num_classes))]
        )
        oracle = resolve(model)
        x = rng.standard_normal((40, 3))
        logits = network(x)
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        assert not oracle.notes
        assert np.allclose(oracle(x), expected, rtol=1e-12, atol=1e-12)
        assert np.allclose(resolve_network(model)(x), expected, rtol=1e-12, atol=1e-12)


def test_classifiers_with_labels_and_dictionaries_give_their_probabilities(rng):
    w, b = rng.standard_normal((3, 4)), rng.standard_normal(3)
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        helper.make_node(
            "ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]
        ),
    ]
    model = make_model(
        nodes,
        {"w": w.astype(np.float32), "b": b.astype(np.float32)},
        dtype=np.float32,
        input_shape=("n", 4),
        outputs=[("label", ("n",)), ("probabilities", None)],
    )
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    score = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    dictionary = helper.make_map_type_proto(TensorProto.INT64, score)
    model.graph.output[1].type.CopyFrom(helper.make_sequence_type_proto(dictionary))
    oracle = resolve(model)
    x = rng.standard_normal((10, 4))
    odds = np.exp(x @ w.T + b)
    assert oracle.output_size == 3
    assert np.allclose(oracle(x), odds / odds.sum(axis=1, keepdims=True), atol=1e-5)


def test_errors_name_the_remedy(tmp_path, rng):
    network = random_network((3, 4, 2), "tanh")
    two_outputs = dense_model(network, outputs=[("y", ("n", 2)), ("h0", ("n", 4))])
    with pytest.raises(InputError, match=r"2 float outputs .* give a callable"):
        resolve(two_outputs)
    two_inputs = make_model([helper.make_node("Add", ["x", "u"], ["y"])], {})
    two_inputs.graph.input.append(helper.make_tensor_value_info("u", TensorProto.DOUBLE, ("n", 3)))
    with pytest.raises(InputError, match=r"2 inputs \(x, u\)"):
        resolve(two_inputs)
    garbage = tmp_path / "garbage.onnx"
    garbage.write_bytes(b"this is not a model at all")
    with pytest.raises(InputError, match="not a readable ONNX model"):
        resolve(garbage)
    flat = make_model([helper.make_node("Tanh", ["x"], ["y"])], {}, input_shape=(3,), outputs=[("y", (3,))])
    with pytest.raises(InputError, match="no batch dimension"):
        resolve(flat)
    labels = dense_model(network)
    labels.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(InputError, match="not a float tensor"):
        resolve(labels)


def test_residual_connections_are_not_read_as_chains():
    network = random_network((3, 3, 1), "tanh")
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["z"], transB=1),
        helper.make_node("Tanh", ["z"], ["h"]),
        helper.make_node("Add", ["h", "x"], ["r"]),
        helper.make_node("Gemm", ["r", "w1", "b1"], ["y"], transB=1),
    ]
    (w0, w1), (b0, b1) = network.weights, network.biases
    with pytest.raises(InputError, match="branches"):
        resolve_network(make_model(nodes, {"w0": w0, "b0": b0, "w1": w1, "b1": b1}))


def test_unknown_activations_are_refused_by_name():
    middle = [
        helper.make_node("Softplus", ["z"], ["s"]),
        helper.make_node("Erf", ["s"], ["t"]),
        helper.make_node("Mul", ["z", "t"], ["h"]),
    ]
    _, model = _one_layer(middle)
    with pytest.raises(InputError, match="Softplus, Erf, Mul"):
        resolve_network(model)
    assert activations.names()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*activations.names(), "softplus(10)", "elu(0.5)", "leaky_relu(0.3)"])
def test_what_we_write_we_read_and_evaluate(name, dtype, tmp_path, rng):
    network = random_network((3, 5, 2), "tanh", seed=8)
    network = Network(network.weights, network.biases, [name, "identity"])
    write_onnx(network, tmp_path / "model.onnx", dtype)
    tolerance = 1e-14 if dtype == "float64" else 1e-5
    x = rng.standard_normal((100, 3))
    expected = network(x)
    assert np.max(np.abs(resolve(tmp_path / "model.onnx")(x) - expected)) < tolerance * np.max(
        np.abs(expected)
    )
    assert compare(network, tmp_path / "model.onnx").max_relative_error <= tolerance
