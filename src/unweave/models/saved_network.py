"""Networks in files of ours (``formats.native``), and in safetensors files of others with their config.json."""

from __future__ import annotations

from pathlib import Path

from unweave.core.network import Network
from unweave.formats import native
from unweave.models.python_callable import CallableOracle
from unweave.models.torch_files import network_of_state


def from_network(network: Network, name: str | None = None) -> CallableOracle:
    """A known network as an oracle."""
    name = name or f"network {network.describe()}"
    return CallableOracle(name, network.input_size, network.output_size, "float64", network)


def read_network(path: Path) -> Network:
    """The network in a ``.safetensors`` or ``.npz`` file."""
    if path.suffix.lower() != ".safetensors":
        return native.read_npz(path)
    tensors, metadata = native.load_tensors(path, ours=False)
    return native.read_safetensors(path) if native.is_ours(metadata) else network_of_state(tensors, path)
