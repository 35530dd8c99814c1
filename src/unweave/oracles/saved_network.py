"""Networks that unweave itself has written: read back as the network they hold, nothing is executed.

``.safetensors``: ``layers.0.weight``, ``layers.0.bias``, ... with the metadata ``format = "unweave"`` and
``activations`` (a JSON list). ``.npz``: ``weight_0``, ``bias_0``, ..., ``activations``.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np

from unweave.errors import InputError
from unweave.network import Network
from unweave.oracles.python_callable import CallableOracle


def from_network(network: Network, name: str | None = None) -> CallableOracle:
    """A known network as an oracle."""
    name = name or f"network {network.describe()}"
    return CallableOracle(name, network.input_size, network.output_size, "float64", network)


def read_network(path: Path) -> Network:
    """The network in a ``.safetensors`` or ``.npz`` file."""
    return _read_safetensors(path) if path.suffix.lower() == ".safetensors" else _read_npz(path)


def _read_safetensors(path: Path) -> Network:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError) as error:
        raise InputError(f"{path} is not a readable safetensors file ({error})") from error
    if metadata.get("format") != "unweave" or "activations" not in metadata:
        raise InputError(
            f"{path} holds weights but no unweave network (no format and activations in its metadata); "
            f"give the model itself: a torch module, an .onnx file or a callable"
        )
    return _assemble(path, tensors, "layers.{}.weight", "layers.{}.bias", metadata["activations"])


def _read_npz(path: Path) -> Network:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise InputError(f"{path} is not a readable .npz file ({error})") from error
    if "activations" not in arrays:
        raise InputError(
            f"{path} is no unweave network: it has no entry 'activations' (and weight_0, bias_0, ...)"
        )
    return _assemble(path, arrays, "weight_{}", "bias_{}", arrays.pop("activations"))


def _assemble(path: Path, arrays: dict, weight: str, bias: str, activations: str | np.ndarray) -> Network:
    names = np.atleast_1d(np.asarray(activations)).tolist()
    if len(names) == 1 and str(names[0]).lstrip().startswith("["):
        try:
            names = json.loads(names[0])
        except ValueError as error:
            raise InputError(f"{path}: its list of activations is not JSON ({error})") from error
    num_layers = len(names)
    missing = [
        key for i in range(num_layers) for key in (weight.format(i), bias.format(i)) if key not in arrays
    ]
    if missing or not num_layers:
        raise InputError(
            f"{path} is not a complete unweave network: {', '.join(missing) or 'layers'} missing"
        )
    return Network(
        [arrays[weight.format(i)] for i in range(num_layers)],
        [arrays[bias.format(i)] for i in range(num_layers)],
        [str(name) for name in names],
    )
