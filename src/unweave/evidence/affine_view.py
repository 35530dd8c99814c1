"""A model seen through an affine map of its inputs: ``h -> f(origin + h basis)`` behind the same meter.

Where the planes of a first layer are independent their heights are coordinates: all values of them can be asked for,
and what stands above the layer is a model of its own. The ledger and the memory stay those of the meter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from unweave.core.domains import Domain
from unweave.core.oracle import Oracle
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Meter


class AffineView:
    """What a ``Meter`` offers, its inputs the coordinates ``h = (x - origin) inverse`` of a subspace.

    ``inverse`` (inputs, coordinates) times ``basis`` (coordinates, inputs) is a projection. ``domain`` is one of the
    coordinates; whoever makes the view sees to it that its points lie in the meter's.
    """

    input_size: int
    output_size: int
    dtype: str
    is_squashed: bool

    def __init__(
        self, meter: Meter, origin: np.ndarray, basis: np.ndarray, inverse: np.ndarray, domain: Domain
    ):
        self.meter, self.origin, self.basis, self.inverse, self.domain = meter, origin, basis, inverse, domain
        self.whole = domain
        self.oracle: Oracle = meter.oracle
        self.ledger: Ledger = meter.ledger
        self.input_size, self.output_size = len(basis), meter.output_size
        self.dtype, self.is_squashed = meter.dtype, meter.is_squashed
        self._stage = "queries"
        self._asked: dict[bytes, tuple[str, np.ndarray, np.ndarray]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        outer, self._stage = self._stage, name
        try:
            with self.meter.stage(name):
                yield
        finally:
            self._stage = outer

    @contextmanager
    def allow(self, who: str, num_queries: int) -> Iterator[None]:
        with self.meter.allow(who, num_queries):
            yield

    def check_time(self) -> None:
        self.meter.check_time()

    def outward(self, h: np.ndarray) -> np.ndarray:
        """The points that stand for these coordinates, as the model will see them."""
        return self.meter.snap(self.origin + np.asarray(h) @ self.basis)

    def snap(self, h: np.ndarray) -> np.ndarray:
        """The coordinates of the points that are asked for ``h``: rounding of the inputs moves them."""
        return (self.outward(h) - self.origin) @ self.inverse

    def ask(self, h: np.ndarray) -> np.ndarray:
        x = self.outward(h)
        answers = self.meter.ask(x)
        for row, answer in zip(x, answers, strict=True):
            self._asked.setdefault(row.tobytes(), (self._stage, row, answer))
        return answers

    def blur(self, answers: np.ndarray) -> np.ndarray:
        return self.meter.blur(answers)

    def transcript(self, *stages: str) -> tuple[np.ndarray, np.ndarray]:
        """What was asked through this view, all of it or in the named stages."""
        chosen = [entry for entry in self._asked.values() if not stages or entry[0] in stages]
        if not chosen:
            return np.zeros((0, self.input_size)), np.zeros((0, self.output_size))
        x, answers = (np.array([entry[place] for entry in chosen]) for place in (1, 2))
        return (x - self.origin) @ self.inverse, answers
