"""Networks in safetensors and npz files: float64 arrays beside the names of the activations, no pickle.

A safetensors file holds ``layers.0.weight``, ``layers.0.bias``, ... and in its metadata
``{"format": "unweave", "activations": <JSON list>}``; an npz file holds ``weight_0``, ``bias_0``, ..., and
``activations``. An open network is marked by ``"upper": "unknown"``: what stands above its layers is never written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.errors import ExportError, InputError, UnweaveError
from unweave.core.network import UNKNOWN, Network
from unweave.core.npz import open_npz

FORMAT = "unweave"


def network_tensors(network: Network) -> dict[str, np.ndarray]:
    """The parameters under their names in a safetensors file."""
    tensors = {}
    for i, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        tensors[f"layers.{i}.weight"] = np.ascontiguousarray(w)
        tensors[f"layers.{i}.bias"] = np.ascontiguousarray(b)
    return tensors


def network_metadata(network: Network) -> dict[str, str]:
    """The text beside the parameters in a safetensors file."""
    kinds = {"activations": json.dumps(network.activations)}
    return {**kinds, "upper": UNKNOWN} if network.is_open else kinds


def write_safetensors(network: Network, path: Path) -> None:
    """Write the network to ``path``."""
    save_tensors(path, network_tensors(network), network_metadata(network))


def save_tensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write named arrays and text to a safetensors file marked as ours."""
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, metadata={"format": FORMAT, **metadata})


def is_ours(metadata: Mapping[str, str]) -> bool:
    """Whether the text of a safetensors file says that unweave wrote it."""
    return metadata.get("format") == FORMAT


def load_tensors(path: Path, *, ours: bool = True) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the text of a safetensors file; one of ours unless ``ours`` is False."""
    from safetensors import SafetensorError, safe_open

    _require_file(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is no readable safetensors file ({_short(error)}); write it again"
        ) from error
    if ours and not is_ours(metadata):
        raise InputError(f"{path} was not written by unweave; give the original model file")
    return tensors, metadata


def read_safetensors(path: Path) -> Network:
    """The network in a safetensors file of ours."""
    tensors, metadata = load_tensors(path)
    if "activations" not in metadata:
        raise InputError(f"{path} holds no network (the model was not identified); give another file")
    return network_from(path, tensors, metadata)


def network_from(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> Network:
    """The network among the arrays and text of a safetensors file."""
    try:
        names = json.loads(metadata["activations"])
    except (KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: the list of activations is damaged; write the file again") from error
    return _assemble(
        path,
        names,
        lambda i: (tensors[f"layers.{i}.weight"], tensors[f"layers.{i}.bias"]),
        metadata.get("upper"),
    )


def write_npz(network: Network, path: Path) -> None:
    """Write the network to ``path``."""
    arrays: dict[str, Any] = {"activations": np.array(network.activations)}
    for i, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        arrays[f"weight_{i}"], arrays[f"bias_{i}"] = w, b
    np.savez(path, **arrays)


def read_npz(path: Path) -> Network:
    """The network in an npz file of ours; pickled arrays are refused."""
    _require_file(path)
    with open_npz(path) as file:
        arrays = {name: file.read(name) for name in file.names}
    if "activations" not in arrays:
        raise InputError(f"{path} has no array 'activations'; give a file written by unweave")
    names = [str(name) for name in np.atleast_1d(arrays["activations"])]
    return _assemble(path, names, lambda i: (arrays[f"weight_{i}"], arrays[f"bias_{i}"]))


def require_equal(network: Network, read: Network, what: str) -> None:
    """Raise ``ExportError`` unless every parameter came back bit for bit."""
    same = (read.activations, read.is_open) == (network.activations, network.is_open) and all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip((*network.weights, *network.biases), (*read.weights, *read.biases), strict=True)
    )
    if not same:
        raise ExportError(f"{what} does not hold the network's parameters; nothing was written")


def _assemble(path: Path, names: Any, arrays_of: Any, upper: str | None = None) -> Network:
    try:
        pairs = [arrays_of(i) for i in range(len(names))]
        return Network([w for w, _ in pairs], [b for _, b in pairs], names, upper)
    except UnweaveError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: layers are missing ({_short(error)}); write it again") from error


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the path")


def _short(error: BaseException) -> str:
    """The first line of an exception's text."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]
