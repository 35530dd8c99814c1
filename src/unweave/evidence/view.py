"""What every view of a model shares: its questions go through one meter, whose ledger, stages and memory they use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

import numpy as np

from unweave.core.domains import Domain
from unweave.core.oracle import Oracle
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Meter


class View(ABC):
    """What a ``Meter`` offers, for inputs and answers in other coordinates."""

    meter: Meter
    input_size: int
    domain: Domain

    @property
    def whole(self) -> Domain:
        """Where questions may be asked at all: for a view, its own domain."""
        return self.domain

    @property
    def oracle(self) -> Oracle:
        return self.meter.oracle

    @property
    def ledger(self) -> Ledger:
        return self.meter.ledger

    @property
    def output_size(self) -> int:
        return self.meter.output_size

    @property
    def dtype(self) -> str:
        return self.meter.dtype

    @property
    def is_squashed(self) -> bool:
        return self.meter.is_squashed

    def stage(self, name: str) -> AbstractContextManager[None]:
        return self.meter.stage(name)

    def allow(self, who: str, num_queries: int) -> AbstractContextManager[None]:
        return self.meter.allow(who, num_queries)

    def check_time(self) -> None:
        self.meter.check_time()

    @abstractmethod
    def snap(self, x: np.ndarray) -> np.ndarray:
        """The inputs as the model will see them."""

    @abstractmethod
    def ask(self, x: np.ndarray) -> np.ndarray:
        """The answers to these inputs."""

    @abstractmethod
    def blur(self, answers: np.ndarray) -> np.ndarray:
        """How much such answers may be off by rounding."""

    @abstractmethod
    def transcript(self, *stages: str) -> tuple[np.ndarray, np.ndarray]:
        """Questions and answers that belong to this view, all of them or those of the named stages."""
