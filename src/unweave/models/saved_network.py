"""Networks that unweave itself has written, as oracles; the formats live in ``formats.native``."""

from __future__ import annotations

from pathlib import Path

from unweave.core.network import Network
from unweave.formats import native
from unweave.models.python_callable import CallableOracle


def from_network(network: Network, name: str | None = None) -> CallableOracle:
    """A known network as an oracle."""
    name = name or f"network {network.describe()}"
    return CallableOracle(name, network.input_size, network.output_size, "float64", network)


def read_network(path: Path) -> Network:
    """The network in a ``.safetensors`` or ``.npz`` file."""
    return native.read_safetensors(path) if path.suffix.lower() == ".safetensors" else native.read_npz(path)
