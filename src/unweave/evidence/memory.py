"""What has been asked and what was answered, each question once, in order, with the stage that asked it.

A question is known by the bytes of its row. Answers are kept as the model gave them; what reads them again decides
which stages count (``Meter.transcript``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Memory:
    """Questions (n, inputs) with answers (n, outputs); it only grows."""

    stages: list[str]
    """The stage of each question."""

    def __init__(self, input_size: int):
        self.stages = []
        self._input_size = input_size
        self._places: dict[bytes, int] = {}
        self._x: list[np.ndarray] = []
        self._y: list[np.ndarray] = []
        self._stacked: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self._x)

    def __contains__(self, key: bytes) -> bool:
        return key in self._places

    def place(self, key: bytes) -> int:
        """Where the question stands that ``key`` is of."""
        return self._places[key]

    def keep(self, stage: str, row: np.ndarray, answer: np.ndarray) -> int:
        """Add a new question; where it stands."""
        self._places[row.tobytes()] = len(self._x)
        self._x.append(row)
        self._y.append(answer)
        self.stages.append(stage)
        return len(self._x) - 1

    def recall(self, keys: Sequence[bytes]) -> np.ndarray:
        """The answers to known questions."""
        return np.array([self._y[self._places[key]] for key in keys])

    def at(self, places: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Some questions with their answers."""
        x, y = self._stack()
        return x[list(places)], y[list(places)]

    def _stack(self) -> tuple[np.ndarray, np.ndarray]:
        """All as arrays; what has come since the last call is added to them."""
        done = 0 if self._stacked is None else len(self._stacked[0])
        if self._stacked is None or done < len(self._x):
            x, y = np.array(self._x[done:]), np.array(self._y[done:])
            x = x.reshape(len(x), self._input_size)
            if self._stacked is not None:
                x, y = np.concatenate([self._stacked[0], x]), np.concatenate([self._stacked[1], y])
            if not len(x):
                return x, y
            self._stacked = x, y
        return self._stacked
