"""Exports to files: what is written computes the network, and damaged files are refused in one line."""

from __future__ import annotations

import os

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core import activations as act
from unweave.core.errors import ExportError, InputError, UnweaveError
from unweave.core.network import Network
from unweave.exports import export, load_network
from unweave.formats.check import probe_points, require_same, rounding_allowance

ACTIVATIONS = [*act.names(), "softplus(10)", "leaky_relu(0.2)", "elu(0.5)"]


def _network(activation: str) -> Network:
    network = random_network((5, 7, 4, 2), "tanh", seed=3)
    # one layer of the activation alone for the unbounded ones, so that far points stay finite
    kinds = ["tanh", activation] if activation in ("exp", "quadratic") else [activation, activation]
    return Network(network.weights, network.biases, [*kinds, "identity"])


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_native_formats_return_every_bit(tmp_path, suffix, activation):
    network = _network(activation)
    path = export(network, tmp_path / f"n.{suffix}")
    read = load_network(path)
    assert read.activations == network.activations
    assert np.array_equal(read.flat(), network.flat())
    assert os.listdir(tmp_path) == [path.name]


def test_an_overwrite_replaces_the_old_file(tmp_path):
    path = tmp_path / "n.npz"
    path.write_text("old")
    export(_network("relu"), path)
    assert load_network(path).activations[0] == "relu"


def test_format_overrules_the_suffix(tmp_path):
    path = export(_network("relu"), tmp_path / "weights.bin", format="safetensors")
    assert path.read_bytes()[8:9] == b"{"


@pytest.mark.parametrize("name", ["n.pt", "n.pth", "n.pkl", "n", "n.txt", "nowhere/n.onnx"])
def test_impossible_targets_are_refused_in_one_line(tmp_path, name):
    with pytest.raises(ExportError) as caught:
        export(_network("relu"), tmp_path / name)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_folder_is_no_target(tmp_path):
    (tmp_path / "n.onnx").mkdir()
    with pytest.raises(ExportError, match="is a folder"):
        export(_network("relu"), tmp_path / "n.onnx")


def test_float32_is_for_onnx_alone(tmp_path):
    with pytest.raises(ExportError, match="float64"):
        export(_network("relu"), tmp_path / "n.npz", dtype="float32")
    with pytest.raises(ExportError, match="float16"):
        export(_network("relu"), tmp_path / "n.onnx", dtype="float16")


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "missing"])
def test_damaged_files_are_refused_in_one_line(tmp_path, suffix, damage):
    path = tmp_path / f"n.{suffix}"
    if damage == "truncated":
        export(_network("tanh"), path)
        path.write_bytes(path.read_bytes()[:-200])
    elif damage != "missing":
        path.write_bytes({"empty": b"", "garbage": bytes(range(256)) * 4}[damage])
    with pytest.raises(InputError) as caught:
        load_network(path)
    assert "\n" not in str(caught.value)


def test_pickled_arrays_are_refused(tmp_path):
    path = tmp_path / "n.npz"
    with path.open("wb") as file:
        np.savez(file, activations=np.array(["tanh", object()], dtype=object))
    with pytest.raises(InputError, match="is pickled"):
        load_network(path)
    (tmp_path / "p.npz").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError):
        load_network(tmp_path / "p.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"weight_0": np.ones((2, 3))},
        {"activations": np.array(["tanh", "identity"]), "weight_0": np.ones((2, 3)), "bias_0": np.ones(2)},
        {"activations": np.array(["nonsense"]), "weight_0": np.ones((2, 3)), "bias_0": np.ones(2)},
        {"activations": np.array(["tanh"]), "weight_0": np.ones((2, 3)), "bias_0": np.ones(5)},
        {"activations": np.array(["tanh"]), "weight_0": np.array([["a"]]), "bias_0": np.ones(1)},
    ],
)
def test_incomplete_files_are_refused(tmp_path, arrays):
    path = tmp_path / "n.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError):
        load_network(path)


def test_foreign_safetensors_are_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"fc.weight": np.ones((2, 3))}, tmp_path / "n.safetensors")
    with pytest.raises(InputError, match="not written by unweave"):
        load_network(tmp_path / "n.safetensors")


def test_other_suffixes_point_to_resolve(tmp_path):
    with pytest.raises(InputError, match="resolve"):
        load_network(tmp_path / "n.onnx")


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_check_sees_one_wrong_parameter(activation):
    network = _network(activation)
    biases = [b.copy() for b in network.biases]
    biases[-1][0] += 1e-3
    wrong = Network(network.weights, biases, network.activations)
    require_same(network, network, "copy")
    with pytest.raises(ExportError, match="nothing was written"):
        require_same(network, wrong, "copy")


def test_the_check_allows_rounding_alone():
    network = random_network((20, 30, 20, 3), "relu", seed=1)
    x = probe_points(20)
    rounded = Network(
        [w.astype(np.float32) for w in network.weights],
        [b.astype(np.float32) for b in network.biases],
        network.activations,
    )
    error = np.abs(rounded(x) - network(x))
    assert np.all(error <= rounding_allowance(network, x, "float32"))
    assert np.any(error > rounding_allowance(network, x, "float64"))


def test_errors_derive_from_ours():
    assert issubclass(ExportError, UnweaveError)
    assert issubclass(ExportError, unweave.UnweaveError)


@pytest.mark.parametrize("suffix", ["onnx", "safetensors", "npz"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_file_resolves_to_the_network_it_was_written_from(tmp_path, suffix, activation):
    from unweave.models.resolve import resolve_network

    network = _network(activation)
    read = resolve_network(str(export(network, tmp_path / f"n.{suffix}")))
    assert read.activations == network.activations
    assert np.array_equal(read.flat(), network.flat())
