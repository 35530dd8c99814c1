"""Where questions may be asked: a ball, a box, a Gaussian cloud, or everywhere.

A domain answers four things: which points it contains (enforced at the oracle), the nearest point inside (questions
are rounded inwards, never out), how to draw fresh points from it (certificates), and how far out it reaches (which
method applies).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from unweave.core.arguments import number, numbers
from unweave.core.errors import InputError

LARGEST = 1e100
"""Largest length of a domain; one over it is the smallest."""
SAID = 8
"""Inputs up to which a sentence gives the bounds of each."""
ROUNDING = 2.0**-50
"""A few roundings of a coordinate, relative to its size."""


@runtime_checkable
class Domain(Protocol):
    """A set of admissible inputs with a natural distribution on it."""

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        """Which rows of ``x`` (n, d) lie inside, as n booleans; ``slack`` is relative to the domain's size.

        With a slack the rounding of the coordinates is forgiven too; with none the answer is strict.
        """
        ...

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        """The points inside nearest to the rows of ``x``, in the strict sense.

        They stay inside when their coordinates are rounded by a relative ``unit``.
        """
        ...

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        """Random points of the domain."""
        ...

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        """Random points on the boundary of the domain, or far out where there is none."""
        ...

    def reach(self, input_size: int) -> float:
        """The largest radius of a ball around the origin inside the domain; ``inf`` if unbounded."""
        ...


@dataclass(frozen=True)
class Ball:
    """All x with ``|x - centre| <= radius``. Points are drawn with a radius density proportional to r.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> unweave.Ball(2.0).contains(np.array([[1.0, 1.0], [2.0, 1.0]]))
    array([ True, False])
    """

    radius: float
    centre: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        number("radius", self.radius, above=0)
        if self.centre is not None and not np.all(np.isfinite(numbers("centre", self.centre))):
            raise InputError("Ball(centre): give finite numbers")
        _check_size(f"Ball(radius={self.radius})", self.radius, self._largest)

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        offset = x - self._middle(x.shape[1])
        room = slack * self.radius + (ROUNDING * self._largest if slack else 0.0)
        return np.linalg.norm(offset, axis=1) <= self.radius + room

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        middle = self._middle(x.shape[1])
        largest = max(self.radius - (ROUNDING + 2 * unit) * self._largest, 0.0)
        offset = x - middle
        lengths = np.linalg.norm(offset, axis=1)
        shrink = np.where(lengths > largest, largest / np.maximum(lengths, 1e-300), 1.0)
        return middle + shrink[:, None] * offset

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        radii = self.radius * np.sqrt(rng.uniform(size=(num_points, 1)))
        return self._shift(radii * _unit_rows(num_points, input_size, rng))

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        return self._shift(self.radius * _unit_rows(num_points, input_size, rng))

    def reach(self, input_size: int) -> float:
        distance = 0.0 if self.centre is None else float(np.linalg.norm(self.centre))
        return max(self.radius - distance, 0.0)

    @property
    def _largest(self) -> float:
        """The largest length of a point inside."""
        return self.radius + (0.0 if self.centre is None else float(np.linalg.norm(self.centre)))

    def _shift(self, x: np.ndarray) -> np.ndarray:
        return self.nearest(x + self._middle(x.shape[1]))

    def _middle(self, input_size: int) -> np.ndarray | float:
        if self.centre is not None and np.shape(self.centre) != (input_size,):
            raise InputError(
                f"Ball(centre): give {input_size} numbers, not an array of shape {np.shape(self.centre)}"
            )
        return 0.0 if self.centre is None else np.asarray(self.centre, dtype=np.float64)


@dataclass(frozen=True, repr=False)
class Box:
    """All x with ``low <= x <= high``, coordinate by coordinate (numbers or arrays). Points are uniform.

    Examples
    --------
    >>> import numpy as np, unweave
    >>> unweave.Box([0, -1], [1, 1]).contains(np.array([[0.5, -0.5], [-0.5, 0.5]]))
    array([ True, False])
    """

    low: float | np.ndarray
    high: float | np.ndarray

    def __post_init__(self) -> None:
        low, high = numbers("low", self.low), numbers("high", self.high)
        try:
            low, high = np.broadcast_arrays(low, high)
        except ValueError as error:
            raise InputError(f"Box(low, high): {low.shape} and {high.shape} do not fit") from error
        if not (
            low.size
            and low.ndim < 2
            and np.all(np.isfinite(low))
            and np.all(np.isfinite(high))
            and np.all(low < high)
        ):
            raise InputError("Box(low, high): every low must be finite and below its high")
        largest = float(np.max(np.maximum(np.abs(low), np.abs(high))))
        _check_size("Box(low, high)", float(np.min(high - low)), largest)

    def __repr__(self) -> str:
        """As it is written in Python, however many inputs there are."""
        return f"Box(low={_spell(self.low)}, high={_spell(self.high)})"

    def __str__(self) -> str:
        sides = max(np.size(self.low), np.size(self.high))
        return repr(self) if sides <= SAID else f"Box of {sides} inputs, each with bounds of its own"

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        low, high = self._bounds(x.shape[1])
        room = slack * (high - low)
        if slack:
            room = room + ROUNDING * np.maximum(np.abs(low), np.abs(high))
        return np.all((x >= low - room) & (x <= high + room), axis=1)

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        low, high = self._bounds(x.shape[1])
        return np.clip(x, low + 2 * unit * np.abs(low), high - 2 * unit * np.abs(high))

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        low, high = self._bounds(input_size)
        return rng.uniform(low, high, size=(num_points, input_size))

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        x = self.sample(num_points, input_size, rng)
        low, high = self._bounds(input_size)
        column = rng.integers(input_size, size=num_points)
        side = np.where(rng.uniform(size=num_points) < 0.5, low[column], high[column])
        x[np.arange(num_points), column] = side
        return x

    def reach(self, input_size: int) -> float:
        return max(float(min(np.min(np.asarray(self.high)), np.min(-np.asarray(self.low)))), 0.0)

    def _bounds(self, input_size: int) -> tuple[np.ndarray, np.ndarray]:
        try:
            return np.broadcast_to(self.low, input_size), np.broadcast_to(self.high, input_size)
        except ValueError as error:
            raise InputError(
                f"Box(low, high): give one number or {input_size} numbers for low and for high, "
                f"not {np.size(self.low)} and {np.size(self.high)}"
            ) from error


@dataclass(frozen=True)
class Normal:
    """Everything, seen through a Gaussian: points are drawn from N(mean, scale^2), none is refused.

    Methods that stay inside the data take the Gaussian's own spread as their range.
    """

    scale: float | np.ndarray = 1.0
    mean: float | np.ndarray = 0.0

    def __post_init__(self) -> None:
        scale, mean = numbers("scale", self.scale), numbers("mean", self.mean)
        fits = scale.size and mean.size and scale.ndim < 2 and mean.ndim < 2
        if not fits or not (np.all(np.isfinite(scale)) and np.all(scale > 0) and np.all(np.isfinite(mean))):
            raise InputError(
                "Normal(scale, mean): give positive scales and finite means, one or one an input"
            )

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        return np.ones(len(x), dtype=bool)

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        return x

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        return self.mean + self.scale * rng.standard_normal((num_points, input_size))

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        directions = _unit_rows(num_points, input_size, rng)
        return self.mean + 2 * np.sqrt(input_size) * self.scale * directions

    def reach(self, input_size: int) -> float:
        return float(2 * np.sqrt(input_size) * np.min(self.scale))


@dataclass(frozen=True)
class Everywhere:
    """No limits: any finite input may be asked."""

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        return np.ones(len(x), dtype=bool)

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        return x

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        """Half standard normal, half spread over radii from 1 to 1e4."""
        half = num_points // 2
        near = rng.standard_normal((half, input_size))
        radii = 10 ** rng.uniform(0, 4, size=(num_points - half, 1))
        return np.concatenate([near, radii * _unit_rows(num_points - half, input_size, rng)])

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        return 1e5 * _unit_rows(num_points, input_size, rng)

    def reach(self, input_size: int) -> float:
        return float("inf")


def _check_size(name: str, smallest: float, largest: float) -> None:
    """Refuse lengths whose squares leave the range of numbers."""
    if smallest < 1 / LARGEST or largest > LARGEST:
        raise InputError(
            f"{name}: give lengths between {1 / LARGEST:g} and {LARGEST:g}, in a larger or smaller unit"
        )


def _spell(side: float | np.ndarray) -> str:
    return repr(np.asarray(side).tolist()) if np.ndim(side) else repr(side)


def _unit_rows(num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal((num_points, input_size))
    return x / np.linalg.norm(x, axis=1, keepdims=True)
