"""Files torch writes: exported programs (``.pt2``), TorchScript archives, and state dicts, none of which needs pickle.

Programs and scripts are graphs that torch runs, so they are loaded as ONNX files are. A state dict holds weights but
not what stands between them: the activation is read from ``config.json`` beside it (``activation`` or ``hidden_act``),
as Hugging Face keeps it.
"""

from __future__ import annotations

import json
import re
import warnings
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.errors import InputError, MissingExtra
from unweave.core.network import Network

_ALIASES = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}


def is_torchscript(path: Path) -> bool:
    """Whether a ``.pt`` file is a TorchScript archive: a zip with code in it."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in f"/{name}" for name in archive.namelist())


def is_torch_archive(path: Path) -> bool:
    """Whether a file begins as one that ``torch.save`` has written: a whole zip, or a pickle of a binary protocol."""
    with path.open("rb") as file:
        return file.read(1) == b"\x80" or zipfile.is_zipfile(path)


def load_program(path: Path) -> Any:
    """The module of an exported program or of a TorchScript archive."""
    torch = _torch()
    try:
        if path.suffix.lower() == ".pt2":
            return torch.export.load(path).module()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # people still have such files
            return torch.jit.load(path, map_location="cpu")
    except Exception as error:
        text = " ".join(str(error).split())[:160]
        raise InputError(f"{path} could not be loaded ({type(error).__name__}: {text})") from error


def load_state(path: Path) -> Network | None:
    """The network of a state dict in a ``.pt`` file, read without running code; None where it holds something else."""
    torch = _torch()
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # whatever is not plain tensors is left to whoever allows pickle
        return None
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not all(
        isinstance(value, torch.Tensor) for value in loaded.values()
    ):
        return None
    return network_of_state({key: value.double().numpy() for key, value in loaded.items()}, path)


def network_of_state(tensors: Mapping[str, np.ndarray], path: Path) -> Network:
    """Dense layers in the order of their names: every ``NAME.weight`` (out, in) with its ``NAME.bias``."""
    matrices = [key for key, value in tensors.items() if key.endswith("weight") and value.ndim == 2]
    matrices.sort(key=_natural)
    others = [key for key in tensors if not re.search(r"(weight|bias)$", key)]
    weights = [np.asarray(tensors[key], dtype=np.float64) for key in matrices]
    chained = all(a.shape[0] == b.shape[1] for a, b in pairwise(weights))
    if not weights or not chained or others:
        raise InputError(
            f"{path} holds tensors that are no plain chain of dense layers; load them into their module, and "
            f"give that"
        )
    biases = [
        np.asarray(tensors.get(f"{key.removesuffix('weight')}bias", np.zeros(len(w))), dtype=np.float64)
        for key, w in zip(matrices, weights, strict=True)
    ]
    name = _activation_beside(path) if len(weights) > 1 else "identity"
    return Network(weights, biases, [*[name] * (len(weights) - 1), "identity"])


def _activation_beside(path: Path) -> str:
    config = path.parent / "config.json"
    try:
        record = json.loads(config.read_text())
        name = next(
            record[key] for key in ("activation", "hidden_act", "activation_function") if key in record
        )
    except (OSError, ValueError, TypeError, StopIteration) as error:
        raise InputError(
            f'{path} holds weights but no activation; put config.json beside it: {{"activation": "relu"}}'
        ) from error
    return act.get(_ALIASES.get(str(name), str(name))).name


def _natural(key: str) -> list[Any]:
    """``fc10`` after ``fc2``."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", key)]


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("torch", "torch") from error
    return torch
