"""Resolving: functions, names, files, networks, and every mistake with its remedy."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from sklearn.linear_model import LinearRegression
from torch import nn

import unweave
from truth import random_network
from unweave.core.domains import Box
from unweave.core.errors import InputError, OracleError
from unweave.core.oracle import Oracle
from unweave.models.resolve import num_probes, resolve, resolve_network


def test_functions_are_asked_once_for_their_outputs():
    asked = []

    def function(x):
        asked.append(x)
        return np.sin(x).sum(axis=1)

    oracle = resolve(function, input_size=3)
    assert isinstance(oracle, Oracle)
    assert (oracle.input_size, oracle.output_size, oracle.dtype, num_probes(oracle)) == (3, 1, "float64", 1)
    assert len(asked) == 1
    assert asked[0].shape == (1, 3)
    assert oracle(np.ones((4, 3))).shape == (4, 1)
    assert resolve(oracle) is oracle


def test_the_question_for_the_outputs_stays_in_the_domain():
    def function(x):
        assert np.all((x >= 5) & (x <= 6))
        return x

    assert resolve(function, input_size=2, domain=Box(5, 6)).output_size == 2
    with pytest.raises(OracleError, match="failed on one point"):
        resolve(function, input_size=2)


def test_single_precision_functions_are_noticed():
    assert resolve(lambda x: x.astype(np.float32), input_size=2).dtype == "float32"
    assert resolve(lambda x: x.tolist(), input_size=2).dtype == "float64"


def test_functions_that_do_not_fit_are_explained():
    for function, sizes, error, message in [
        (lambda x: x, {}, InputError, "pass input_size"),
        (lambda x: 3.0, {"input_size": 2}, OracleError, r"np.array\(\[f\(row\) for row in x\]\)"),
        (lambda x: [["a", "b"]], {"input_size": 2}, OracleError, "did not answer with numbers"),
        (lambda x: x @ np.eye(5), {"input_size": 2}, OracleError, "check input_size"),
        (lambda x: x, {"input_size": 2, "output_size": 1}, InputError, "output_size=1 does not fit"),
        (lambda x: x, {"input_size": 0}, InputError, "positive whole number"),
        (lambda x: x, {"input_size": 2.5}, InputError, "positive whole number"),
    ]:
        with pytest.raises(error, match=message) as caught:
            resolve(function, **sizes)
        assert "\n" not in str(caught.value)


def test_names_of_modules_and_files_are_imported(tmp_path, monkeypatch):
    (tmp_path / "helper_of_model.py").write_text("factor = 2.0\n")
    (tmp_path / "my_model.py").write_text(
        "import numpy as np\nfrom helper_of_model import factor\n"
        "def f(x):\n    return factor * x.sum(axis=1)\n"
        "class Holder:\n    g = staticmethod(f)\n"
    )
    monkeypatch.chdir(tmp_path)
    x = np.ones((3, 2))
    for name in ("my_model:f", "my_model:Holder.g", "my_model.py:f", str(tmp_path / "my_model.py") + ":f"):
        assert np.array_equal(resolve(name, input_size=2)(x), np.full((3, 1), 4.0))
    assert str(tmp_path) not in sys.path
    for name, message in [
        ("my_model:nothing", "no attribute 'nothing'"),
        ("no_such_module_here:f", "importing no_such_module_here failed"),
        ("absent.py:f", "does not exist"),
        ("my_model.py", "name the model in it"),
    ]:
        with pytest.raises(InputError, match=message):
            resolve(name, input_size=2)


def test_networks_and_what_holds_one(rng):
    network = random_network((3, 4, 2))
    x = rng.standard_normal((5, 3))
    for model in (network, SimpleNamespace(network=network)):
        oracle = resolve(model)
        assert (oracle.input_size, oracle.output_size, num_probes(oracle)) == (3, 2, 0)
        assert np.array_equal(oracle(x), network(x))
        assert resolve_network(model) is network
    with pytest.raises(InputError, match="input_size=4 does not fit"):
        resolve(network, input_size=4)


def _save(network, path, **metadata):
    layers = enumerate(zip(network.weights, network.biases, strict=True))
    tensors = {
        f"layers.{i}.{k}": v for i, pair in layers for k, v in zip(("weight", "bias"), pair, strict=True)
    }
    save_file(tensors, path, metadata={k: str(v) for k, v in metadata.items()})


def test_saved_networks_come_back_exactly(tmp_path, rng):
    network = random_network((3, 4, 2), "erf")
    names = json.dumps(network.activations)
    _save(network, tmp_path / "net.safetensors", format="unweave", activations=names)
    arrays = {f"weight_{i}": w for i, w in enumerate(network.weights)}
    arrays |= {f"bias_{i}": b for i, b in enumerate(network.biases)}
    np.savez(tmp_path / "list.npz", **arrays, activations=np.array(network.activations))
    x = rng.standard_normal((5, 3))
    for name in ("net.safetensors", "list.npz"):
        assert np.array_equal(resolve(tmp_path / name)(x), network(x))
        found = resolve_network(str(tmp_path / name))
        assert found.activations == network.activations
        assert np.array_equal(found.flat(), network.flat())
        assert unweave.compare(network, tmp_path / name).max_relative_error == 0


def test_files_that_do_not_hold_a_network_are_explained(tmp_path):
    network = random_network((3, 4, 2))
    _save(network, tmp_path / "plain.safetensors")
    _save(
        network, tmp_path / "short.safetensors", format="unweave", activations='["tanh", "tanh", "identity"]'
    )
    _save(network, tmp_path / "json.safetensors", format="unweave", activations='["tanh", ')
    (tmp_path / "garbage.safetensors").write_bytes(b"garbage")
    (tmp_path / "garbage.npz").write_bytes(b"garbage")
    np.savez(tmp_path / "other.npz", a=np.eye(2))
    np.savez(tmp_path / "objects.npz", activations=np.array([{"a": 1}], dtype=object))
    (tmp_path / "model.xyz").write_bytes(b"")
    for name, message in [
        ("plain.safetensors", "no activation"),
        ("short.safetensors", "layers are missing"),
        ("json.safetensors", "activations is damaged"),
        ("garbage.safetensors", "no readable safetensors"),
        ("garbage.npz", "not a readable npz"),
        ("other.npz", "no array 'activations'"),
        ("objects.npz", "is pickled"),
        ("model.xyz", "unknown kind of file '.xyz'"),
        ("absent.onnx", "does not exist"),
        ("absent", "does not exist"),
        (".", "is a directory"),
    ]:
        with pytest.raises(InputError, match=message) as caught:
            resolve(str(tmp_path / name))
        assert "\n" not in str(caught.value)


class Thing:
    """Something that answers nothing."""


def test_what_does_not_answer_is_refused():
    for model in (3, None, [1, 2], {"a": 1}, Thing()):
        with pytest.raises(InputError, match="nothing that answers"):
            resolve(model)
    for model in (3, lambda x: x, LinearRegression().fit(np.eye(3), np.ones(3))):
        with pytest.raises(InputError):
            resolve_network(model)


def test_pickles_are_refused_unless_trusted(tmp_path, rng):
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    regressor = LinearRegression().fit(rng.standard_normal((20, 3)), rng.standard_normal(20))
    torch.save(module, tmp_path / "model.pt")
    torch.save(module.state_dict(), tmp_path / "state.pth")
    joblib.dump(regressor, tmp_path / "model.joblib")
    joblib.dump(regressor, tmp_path / "model.pkl")
    (tmp_path / "garbage.pickle").write_bytes(b"garbage")
    x = rng.standard_normal((5, 3))
    for name in ("model.pt", "model.joblib", "model.pkl", "garbage.pickle"):
        with pytest.raises(InputError, match=r"pickled .* allow_pickle=True"):
            resolve(tmp_path / name)
    with torch.no_grad():
        expected = module(torch.as_tensor(x)).numpy()
    assert np.array_equal(resolve(tmp_path / "model.pt", allow_pickle=True)(x), expected)
    for name in ("model.joblib", "model.pkl"):
        assert np.array_equal(resolve(tmp_path / name, allow_pickle=True)(x)[:, 0], regressor.predict(x))
    for trusted in (False, True):
        with pytest.raises(InputError, match="no activation"):
            resolve(tmp_path / "state.pth", allow_pickle=trusted)
    with pytest.raises(InputError, match="could not be loaded"):
        resolve(tmp_path / "garbage.pickle", allow_pickle=True)


def test_no_framework_is_imported_before_it_is_needed():
    code = (
        "import sys, numpy as np, unweave\n"
        "unweave.resolve(lambda x: x, input_size=2)(np.zeros((1, 2)))\n"
        "print([m for m in ('torch', 'onnx', 'onnxruntime', 'sklearn', 'jax') if m in sys.modules])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
