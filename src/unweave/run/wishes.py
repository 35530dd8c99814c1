"""What the user wants of a run, checked, and how a network differs from what was said of it."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from unweave.core import activations as act
from unweave.core.deadline import Deadline
from unweave.core.errors import Outcome
from unweave.core.network import Network
from unweave.methods.base import Method


@dataclass(frozen=True)
class Wishes:
    """What the user said, checked."""

    activation: str
    hidden: tuple[int, ...] | None
    method: Method | None
    """None: choose."""
    seed: int
    engine: Executor | str | None
    deadline: Deadline
    surrogate: Deadline | None = None
    """Until when a copy may be made where nothing is identified; None: none is wanted."""
    surrogate_of_strangers: bool = False
    """Whether a copy is wanted even of what is known to be no network."""

    def differences(self, network: Network, outcome: Outcome) -> tuple[str, ...]:
        """Where the network is not as the user said it would be."""
        if outcome is Outcome.NOT_IDENTIFIED:
            return ()
        said: list[str] = []
        if self.hidden not in (None, network.hidden) and not network.is_open:
            said.append(f"the hidden widths found, {list(network.hidden)}, differ from those given")
        families = {_family(name) for name in network.hidden_activations}
        if self.activation != "auto" and families and _family(self.activation) not in families:
            said.append(f"the units found are {network.activations[0]}, not {self.activation} as given")
        return tuple(said)


def _family(activation: str) -> str:
    """The activation without its parameter; tanh and sigmoid describe the same functions."""
    family = act.get(activation).family
    return "tanh" if family == "sigmoid" else family
