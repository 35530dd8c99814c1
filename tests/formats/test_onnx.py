"""ONNX files: every activation runs in onnxruntime in both precisions, and is read back exactly."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from truth import random_network
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.exports import export
from unweave.formats.onnx import IR_VERSION, OPSET, build_model, read_written

ACTIVATIONS = [*act.names(), "softplus(10)", "leaky_relu(0.2)", "elu(0.5)"]


def _session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_float64_files_are_exact_in_onnxruntime(tmp_path, activation):
    network = random_network((4, 6, 2), "tanh", seed=5)
    network = Network(network.weights, network.biases, [activation, "identity"])
    session = _session(export(network, tmp_path / "n.onnx"))
    x = 3 * np.random.default_rng(0).standard_normal((500, 4))
    y = session.run(None, {"x": x})[0]
    assert y.dtype == np.float64
    assert np.max(np.abs(y - network(x))) <= 3e-15 * np.max(np.abs(network(x))) * 10


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_composed_activations_hold_over_the_whole_line(tmp_path, activation):
    network = Network([[[1.0]]], [[0.0]], [activation])
    session = _session(export(network, tmp_path / "n.onnx"))
    z = np.concatenate([np.linspace(-40, 40, 4001), [-700.0, 700.0], np.geomspace(1e-12, 1, 50)])[:, None]
    expected, got = network(z), session.run(None, {"x": z})[0]
    assert np.all(np.abs(got - expected) <= 5e-16 * (4 + np.abs(z) + np.abs(expected)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_float32_files_run(tmp_path, activation):
    network = random_network((4, 6, 2), "tanh", seed=6)
    network = Network(network.weights, network.biases, [activation, "identity"])
    session = _session(export(network, tmp_path / "n.onnx", dtype="float32"))
    x = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    y = session.run(None, {"x": x})[0]
    assert y.dtype == np.float32
    if activation != "step":
        assert np.max(np.abs(y - network(x))) < 1e-4 * np.max(np.abs(network(x)))


def test_opset_and_names_are_stated(tmp_path):
    model = onnx.load(str(export(random_network((3, 4, 1)), tmp_path / "n.onnx")))
    assert (model.ir_version, model.opset_import[0].version) == (IR_VERSION, OPSET)
    assert [value.name for value in (*model.graph.input, *model.graph.output)] == ["x", "y"]
    assert [node.op_type for node in model.graph.node] == ["Gemm", "Tanh", "Gemm"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_written_files_are_read_back_exactly(activation, dtype):
    network = random_network((4, 6, 2), "tanh", seed=7)
    network = Network(network.weights, network.biases, [activation, "identity"])
    read = read_written(onnx.load_from_string(build_model(network, dtype).SerializeToString()))
    assert read is not None
    assert read.activations == network.activations
    assert np.array_equal(read.flat(), network.flat().astype(dtype).astype(np.float64))


def test_metadata_is_not_believed():
    model = build_model(random_network((3, 4, 1)))
    model.metadata_props[0].value = '["sigmoid", "identity"]'
    assert read_written(model) is None
    model.metadata_props[0].value = "nonsense"
    assert read_written(model) is None
    changed = build_model(random_network((3, 4, 1)))
    changed.graph.node[1].op_type = "Sigmoid"
    assert read_written(changed) is None
    del changed.metadata_props[:]
    assert read_written(changed) is None
