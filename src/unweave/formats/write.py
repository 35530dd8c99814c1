"""Writing a network to a file and reading it back: the format follows the suffix of the path.

A file is written beside its destination, read again, evaluated against the network on near and far probe
points, and only then moved into place; a failed export leaves whatever was there before untouched.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from unweave.core.arguments import file, one_of, shown
from unweave.core.errors import ExportError, InputError
from unweave.core.network import Network
from unweave.formats import native
from unweave.formats.check import require_same

FORMATS = ("onnx", "safetensors", "npz")


def export(
    network: Network, path: str | os.PathLike[str], *, format: str | None = None, dtype: str = "float64"
) -> Path:
    """Write ``network`` to ``path`` and return the path; ``ExportError`` if the file is not the network.

    Parameters
    ----------
    format
        ``"onnx"``, ``"safetensors"`` or ``"npz"``; by default the suffix of the path.
    dtype
        ``"float64"``, or ``"float32"`` for ONNX (parameters are rounded, and checked to float32 rounding).
    """
    target, kind = file("path", path), check_target(path, format)
    if network.is_open:
        raise ExportError(
            "only the first layer of this network is known, so there is no function to write; "
            "keep the whole result with save"
        )
    if not isinstance(dtype, str) or dtype not in ("float64", "float32"):
        raise ExportError(f"dtype={shown(dtype)}: use 'float64' or 'float32'")
    if dtype == "float32" and kind != "onnx":
        raise ExportError(f"{kind} files hold float64; leave dtype out, or export to .onnx for float32")
    with tempfile.TemporaryDirectory(prefix=".unweave-", dir=target.parent) as folder:
        draft = Path(folder) / f"network.{kind}"
        if kind == "onnx":
            from unweave.formats.onnx import run_onnx, write_onnx

            write_onnx(network, draft, dtype)
            require_same(network, run_onnx(draft, dtype), f"{target.name} in onnxruntime", dtype)
        else:
            write, read = (
                (native.write_npz, native.read_npz)
                if kind == "npz"
                else (native.write_safetensors, native.read_safetensors)
            )
            write(network, draft)
            copy = read(draft)
            native.require_equal(network, copy, target.name)
            require_same(network, copy, target.name)
        os.replace(draft, target)
    return target


def load_network(path: str | os.PathLike[str]) -> Network:
    """The network in a ``.safetensors`` or ``.npz`` file of ours, saved identifications included."""
    source = file("path", path)
    if source.suffix == ".safetensors":
        return native.read_safetensors(source)
    if source.suffix == ".npz":
        return native.read_npz(source)
    raise InputError(f"{source}: saved networks end in .safetensors or .npz; resolve() takes other models")


def check_target(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The format an export to ``path`` will have; ``ExportError`` if nothing can be written there."""
    target = file("path", path)
    if format is not None:
        one_of("format", format, FORMATS)
    kind = (format or target.suffix.removeprefix(".")).lower()
    if kind in ("pt", "pth", "pkl", "pickle", "joblib"):
        raise ExportError(
            f"{target}: .{kind} files are pickles, which unweave does not write; "
            f"use .onnx or .safetensors, or to_torch(network) in Python"
        )
    if kind not in FORMATS:
        raise ExportError(f"{target}: cannot write {kind!r}; end the name in .onnx, .safetensors or .npz")
    require_writable(target)
    return kind


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise ``ExportError`` unless a file can be put at ``path``."""
    target = file("path", path)
    if target.is_dir():
        raise ExportError(f"{target} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise ExportError(f"{target}: the folder {target.parent} does not exist; create it first")
    if not os.access(target.parent, os.W_OK):
        raise ExportError(f"{target}: the folder {target.parent} is not writable; choose another")
