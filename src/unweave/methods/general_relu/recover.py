"""One hidden layer of relus with biases from Hermite tensors (Awasthi, Tang and Vijayaraghavan 2021).

``f(x) = sum_i a_i relu(w_i.x + b_i)``, x ~ N(0, I), from ``T_0 .. T_{2l+2}``: with exact tensors and independent powers
``w_i^l`` (order l = 1: at most d units; l = 2: about d^2/2) every parameter is determined but for signs, and these
too for independent rows (Theorems 3.1, 4.2). ``recover_from_moments`` composes the parts:

* ``as_stated``: Jennrich on T_{2l+1} and T_{2l+2}, ``recover_scalars``, ``fix_signs``;
* otherwise several sets of directions (Jennrich where m <= d, the subspace power method), each improved by
  Levenberg-Marquardt on the truncated Hermite risk; the least risk wins. Orders up to 4 suffice, for m > d too.

The result is a start for a fit to the rows, or an answer where there are tensors only; ``guarantees`` says how well the
assumptions hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import factorial

import numpy as np

from unweave.algebra.symmetric import frobenius
from unweave.core.engine import one_thread
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.methods.general_relu.directions import (
    Directions,
    least_khatri_rao,
    require_orders,
    span_directions,
    stated_directions,
)
from unweave.methods.general_relu.scalars import (
    LARGEST_BIAS,
    SignedUnits,
    fit_scalars,
    fix_signs,
    recover_scalars,
)
from unweave.moments.hermite import HermiteMoments
from unweave.moments.population import ReluUnits, population_tensor
from unweave.moments.risk import HermiteRisk
from unweave.solve.descend import Settings

RISK_ORDERS = (2, 3, 4, 5)
MOST_JACOBIAN_NUMBERS = 60_000_000
"""Larger Jacobians of the truncated risk are not formed; the directions are then left as found."""


@dataclass(frozen=True)
class Guarantees:
    """What the theorems ask for, measured on the result."""

    least_khatri_rao: float
    """``s_m`` of the powers ``w_i^l``: 0 means that the order is too low for so many units."""
    gap: float
    """The gap of singular values that the number of units rests on; infinite when none was left out."""
    least_weight: float
    """min |a_i|"""
    largest_bias: float
    """max |b_i|"""
    residuals: tuple[float, ...]
    """``|T_k(found) - T_k|_F / |T_k|_F`` for every order given."""


@dataclass(frozen=True)
class MomentRecovery:
    """Units read from tensors. Where ``signs_determined`` is False a unit may as well be ``(-w_i, -b_i)``."""

    units: ReluUnits
    signs_determined: np.ndarray
    num_sign_patterns: int
    """Sign patterns that fit T_0 and T_1: 1 when determined, more by Claim 4.8, 0 when none fits the error."""
    risk: float
    """Truncated Hermite risk over orders 2 and up, relative to that of no network."""
    exact: bool
    """Whether the tensors were given as exact."""
    consistent: bool
    """Whether what is left of orders 2 and up is no more than the expected errors (rounding, for exact tensors)."""
    guarantees: Guarantees
    directions: Directions = field(repr=False)

    @property
    def network(self) -> Network:
        return self.units.network()

    @property
    def signs_note(self) -> str:
        """One line about the signs."""
        if np.all(self.signs_determined):
            return "signs determined"
        if self.num_sign_patterns > 1 and self.exact:
            return "signs not determined by the function: the rows are dependent and several patterns fit"
        return "signs not determined at this accuracy of the moments"


def recover_from_moments(
    tensors: HermiteMoments | Sequence[np.ndarray],
    *,
    order: int = 1,
    num_units: int | None = None,
    noises: Sequence[float] | None = None,
    offset: float | None = 0.0,
    as_stated: bool = False,
    num_starts: int = 3,
    rng: np.random.Generator | None = None,
) -> MomentRecovery:
    """Directions, biases, output weights and signs from Hermite tensors.

    Parameters
    ----------
    tensors
        Packed ``T_0, T_1, ...`` (``population_tensors``, ``HermiteMoments.tensors()``), or the moments themselves,
        whose expected errors are then taken for ``noises``.
    order
        l: 1 for at most d units, 2 for more. As stated, T_{2l+2} must be given; otherwise T_4 is enough.
    num_units
        m; read off the singular values by default.
    noises
        Expected Frobenius error of each tensor; None for exact ones.
    offset
        A constant added to the network, None if unknown.
    num_starts
        Sets of directions tried at most when not as stated.
    """
    if isinstance(tensors, HermiteMoments):
        noises = (
            [float(tensors.expected_error(k)[0]) for k in range(tensors.order + 1)]
            if noises is None
            else noises
        )
        tensors = tensors.tensors()
    if any(t.ndim != 1 for t in tensors):
        raise InputError("give packed tensors of one output; recover each output of several by itself")
    require_orders(tensors, 4)
    rng = np.random.default_rng(0) if rng is None else rng
    task = _Task(tensors, noises, order, num_units)
    with one_thread():
        if as_stated:
            directions = task.stated(rng, order)
            units = recover_scalars(tensors, directions.vectors, split=order)
        else:
            directions, units = _search(task, num_starts, rng)
        signed = fix_signs(units, tensors, offset=offset, error=_sign_error(units, tensors, noises))
    return _judge(task, signed, directions)


@dataclass(frozen=True)
class _Task:
    """What is given, and the risks it is judged by."""

    tensors: Sequence[np.ndarray]
    noises: Sequence[float] | None
    split: int
    num_units: int | None

    @property
    def size(self) -> int:
        return len(self.tensors[1])

    @property
    def orders(self) -> tuple[int, ...]:
        return RISK_ORDERS[: len(self.tensors) - 2]

    def stated(self, rng: np.random.Generator, split: int = 1) -> Directions:
        """Directions by Jennrich's algorithm."""
        same = 1e-3 if self.noises is None else 0.3
        given = {"num_units": self.num_units, "noises": self.noises, "same": same}
        return stated_directions(self.tensors, self.size, rng, split=split, **given)

    def span(self, rng: np.random.Generator, num_units: int | None) -> Directions:
        """Directions by the subspace power method."""
        # orders 5 and 6 are noisier than they are worth, unless exact
        low = self.tensors if self.noises is None else self.tensors[:5]
        return span_directions(low, self.size, rng, num_units=num_units, noises=self.noises)

    def scalars(self, directions: np.ndarray) -> ReluUnits:
        if self.noises is None:
            # w_i w_i' are independent wherever the directions were found, so orders 2 and 3 determine the scalars
            return recover_scalars(self.tensors, directions)
        return fit_scalars(self.tensors, directions, noises=self.noises)

    def whole(self) -> float:
        """The truncated risk of no network at all."""
        return sum(float(frobenius(self.tensors[k], self.size, k)) ** 2 / factorial(k) for k in self.orders)

    def explained(self) -> float:
        """The truncated risk that the errors of the tensors account for."""
        if self.noises is not None:
            return 2 * sum(self.noises[k] ** 2 / factorial(k) for k in self.orders)
        return 1e-18 * self.whole()


def _search(task: _Task, num_starts: int, rng: np.random.Generator) -> tuple[Directions, ReluUnits]:
    """The directions and units that explain the tensors; of several the fewest, then the least truncated risk."""
    risk, exact = HermiteRisk(task.tensors, task.size, task.orders), task.noises is None
    allowed = task.explained()
    best: tuple[tuple[bool, int, float], Directions, ReluUnits] | None = None
    for directions in _candidates(task, num_starts, rng):
        units = _bounded(task.scalars(directions.vectors))
        num_numbers = sum(len(task.tensors[k]) for k in risk.orders) * len(units) * (task.size + 2)
        if 0 < num_numbers <= MOST_JACOBIAN_NUMBERS:
            target = 1e-15 if exact else 1e-6
            settings = Settings(target=target, max_steps=60, stall_steps=0, patience=3, stationary_gain=1e-3)
            units = _bounded(risk.minimise(units, settings)[0])
        value = risk.value(units)
        away = len(units) if task.num_units is None else task.num_units - len(units)
        merit = value > allowed, away, value
        if best is None or merit < best[0]:
            best = merit, directions, units
        if exact and value <= 1e-6 * allowed:
            break
    assert best is not None
    return best[1], best[2]


def _candidates(task: _Task, num_starts: int, rng: np.random.Generator) -> Iterator[Directions]:
    """Directions by several ways, at most ``num_starts`` of them; a count that was read off is also raised."""
    first = task.span(rng, task.num_units)
    count = len(first) if task.num_units is None else task.num_units
    yield first
    for attempt in range(1, num_starts):
        if attempt == 1 and count <= task.size:
            yield task.stated(rng)
        elif attempt == 1 and task.split > 1 and len(task.tensors) > 2 * task.split + 2:
            # beyond d(d-1)/2 units the span holds other rank-one matrices; orders 5 and 6 still tell
            yield task.stated(rng, task.split)
        else:
            count += task.num_units is None
            yield task.span(rng, count)


def _bounded(units: ReluUnits) -> ReluUnits:
    return ReluUnits(
        units.directions, np.clip(units.biases, -LARGEST_BIAS, LARGEST_BIAS), units.weights, units.offset
    )


def _sign_error(units: ReluUnits, tensors: Sequence[np.ndarray], noises: Sequence[float] | None) -> float:
    """What to expect of one entry of T_1: its own error, or rounding of the units."""
    largest = float(np.max(np.abs(units.weights), initial=1e-300))
    if noises is None:
        return 1e-10 * largest
    return max(2 * float(noises[1]) / np.sqrt(len(tensors[1])), 1e-10 * largest)


def _judge(task: _Task, signed: SignedUnits, directions: Directions) -> MomentRecovery:
    units = signed.units
    size = units.input_size
    residuals, risk = [], 0.0
    for k, tensor in enumerate(task.tensors):
        away = float(frobenius(population_tensor(units, k) - tensor, size, k))
        residuals.append(away / max(float(frobenius(tensor, size, k)), 1e-300))
        risk += away**2 / factorial(k) if k in RISK_ORDERS else 0.0
    guarantees = Guarantees(
        least_khatri_rao=least_khatri_rao(units.directions, task.split),
        gap=directions.gap,
        least_weight=float(np.min(np.abs(units.weights), initial=np.inf)),
        largest_bias=float(np.max(np.abs(units.biases), initial=0.0)),
        residuals=tuple(residuals),
    )
    return MomentRecovery(
        units,
        signed.determined,
        signed.num_patterns,
        risk / max(task.whole(), 1e-300),
        task.noises is None,
        risk <= task.explained(),
        guarantees,
        directions,
    )
