"""One hidden layer on top of a first layer no wider than the input, from second differences in its arguments.

Where the first layer's rows are independent, every vector u of its arguments can be asked for, up to a shift: x = W^+
(u - theta), theta known to a few tenths from the places of the crossings. Under a top ``T(h) = c . phi(V h + b)`` the
answers ``g(u) = T(phi(u))`` have the mixed second differences ``phi'_i phi'_k (V' D V)_ik``. Units are split into those
that stay, I, and those that move, R: at points that differ in R alone the factors phi'_i of I are the same, so

1. differences of first order on I, for several places of R, span the columns of ``V_I'``: their number is the width;
2. the span completes the diagonal of second differences, which the bends of the first layer's own units pollute. What
   they add, ``-2 h_i g_i``, is where each unit stands: theta exactly;
3. two Hessians (or one, of several outputs) have the columns as generalised eigenvectors, the rest of V follows from
   the mixed differences with R.

Nothing is searched for. Serves tops of fewer units than I; the caller fits what is left, starting from the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.algebra.pencil import eigen_pencil
from unweave.methods.far_field.first_layer import FirstLayer, place_units
from unweave.methods.far_field.sight import Sight
from unweave.methods.far_field.top import Top
from unweave.methods.far_field.weak_directions import read_weak_directions
from unweave.methods.far_field.wide import fit_along
from unweave.students.overwide import Pool

STAYING = 0.8
"""Share of the units that stay."""
SURPLUS, AT_A_TIME = 12, 6
"""Differences of first order beyond the number that are independent, and how many are asked for at a time."""
GAP = 20.0
"""Least fall of the singular values behind the last unit; a unit of little effect may have one before it."""
BEHIND = 1e-3
"""Of the largest, what is behind the last unit is less; few differences have a fall behind their common part."""
APART, MOST_PLACES, PAIRS = 1e-4, 4, 30
"""Least sine between the curvatures of two units over all Hessians, places of Hessians at most while it is less, and
pairs of combinations of more than two that are tried."""
SPREAD = 0.6
"""Of the arguments at the point of the Hessians."""
NEAR = 0.02
"""Singular values of the rows, relative to the largest, of directions in which that point lies away from the origin: it
would lie far out in others, and rounding of x drown the differences."""
MOVED = 1.5
"""How far the arguments of R are moved."""
OFF = 0.4
"""A unit's value is not further than this from where it was placed."""
STEP, FINE_STEP = 4e-4, 1e-5
"""Of second differences, which one-sided ones place half a step further, and of first ones, taken there. Rounding of x
is amplified by the condition of the rows: finer ones drown in it."""


@dataclass(frozen=True)
class _Place:
    """First and second differences at one point, (outputs, ...); the diagonal still has the bends of the units."""

    first: np.ndarray
    second: np.ndarray


def fit_by_curvature(sight: Sight, layer: FirstLayer, pool: Pool, deadline: float) -> Top:
    """The upper network, or the reason why there is none."""
    wider = len(layer.rows) > sight.meter.input_size
    rows = None if wider or sight.coarse or sight.activation.name != "tanh" else read_rows(sight, layer)
    if rows is None:
        return Top(None, np.inf, len(pool.x), "the second layer does not show in second differences")
    return fit_along(pool, rows, sight.activation, accept=sight.accept, rng=sight.rng, deadline=deadline)


def read_rows(sight: Sight, layer: FirstLayer) -> np.ndarray | None:
    """Directions of the second layer's rows, (units, first-layer units), in the hidden vector; None where the answers
    have no such form.
    """
    rows, biases = place_units(sight, layer)
    rows = read_weak_directions(sight, rows, np.array([reading.base for reading in layer.readings]))
    num_units, rng = len(rows), sight.rng
    order = rng.permutation(num_units)
    staying, moving = np.split(order, [int(np.ceil(STAYING * num_units))])
    origin = np.linalg.pinv(rows, rcond=NEAR) @ (SPREAD * rng.standard_normal(num_units) - biases)
    start = rows @ origin + biases
    asker = _Asker(sight, np.linalg.pinv(rows), origin, start)

    # what leaves I alone; short ways in x, since an error of the rows grows with them
    free = np.linalg.svd(rows[staying])[2][len(staying) :]
    ways = rows[moving] @ free.T
    ways *= MOVED / np.sqrt(np.mean(np.sum(ways**2, axis=1)))

    def elsewhere() -> np.ndarray:
        u = start.copy()
        u[moving] += ways @ rng.standard_normal(len(free))
        return u

    span, firsts = None, np.zeros((0, len(staying)))
    while len(firsts) < len(staying) + SURPLUS and (span is None or len(firsts) < span.shape[1] + SURPLUS):
        more = [asker.first(elsewhere(), staying) for _ in range(asker.num_places(AT_A_TIME))]
        firsts = np.concatenate([firsts, *more])
        span = _span(firsts)
    if span is None:
        return None
    here = asker.place(start, staying, moving)
    places = [here]
    if asker.num_outputs == 1:
        places.append(asker.place(elsewhere(), staying, moving[:0]))
    count, columns = len(staying), None
    while columns is None:
        hessians = np.concatenate([_complete(p.second[:, :count, :count], span) for p in places])
        columns, apart = _diagonalise(span, hessians, rng)
        if apart < APART and len(places) < MOST_PLACES:
            places.append(asker.place(elsewhere(), staying, moving[:0]))
            columns = None
    return _assemble(columns, here, hessians[: asker.num_outputs], start, np.concatenate([staying, moving]))


class _Asker:
    """Differences of the answers in the arguments of the first layer."""

    def __init__(self, sight: Sight, inverse: np.ndarray, origin: np.ndarray, start: np.ndarray):
        self._meter, self._inverse, self._origin, self._start = sight.meter, inverse, origin, start
        self.num_outputs = sight.meter.output_size

    def num_places(self, num_differences: int) -> int:
        return -(-num_differences // self.num_outputs)

    def ask(self, u: np.ndarray) -> np.ndarray:
        with self._meter.stage("curvature"):
            return self._meter.ask(self._origin + (u - self._start) @ self._inverse.T)

    def first(self, u: np.ndarray, units: np.ndarray) -> np.ndarray:
        """(outputs, units)."""
        middle = u.copy()
        middle[units] += (STEP - FINE_STEP) / 2
        answers = self.ask(np.concatenate([middle[None], middle + FINE_STEP * np.eye(len(u))[units]]))
        return (answers[1:] - answers[0]).T / FINE_STEP

    def place(self, u: np.ndarray, staying: np.ndarray, moving: np.ndarray) -> _Place:
        """Of the units that stay with each other and with those that move, these last."""
        order = np.concatenate([staying, moving])
        count, steps = len(order), STEP * np.eye(len(u))[order]
        left, right = np.triu_indices(count, 1)
        wanted = left < len(staying)
        left, right = left[wanted], right[wanted]
        answers = self.ask(np.concatenate([u[None], u + steps, u - steps]))
        centre, ahead, behind = answers[0], answers[1 : count + 1], answers[count + 1 :]
        both = self.ask(u + steps[left] + steps[right])
        second = np.zeros((self.num_outputs, count, count))
        mixed = (both - ahead[left] - ahead[right] + centre) / STEP**2
        second[:, left, right] = second[:, right, left] = mixed.T
        second[:, np.arange(count), np.arange(count)] = ((ahead - 2 * centre + behind) / STEP**2).T
        return _Place((ahead - behind).T / (2 * STEP), second)


def _span(firsts: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis (units, width) of what first differences span; None where they span everything."""
    left, values, _ = np.linalg.svd(firsts.T, full_matrices=False)
    falls = values[:-1] / np.maximum(values[1:], 1e-300)
    (steep,) = np.nonzero((falls > GAP) & (values[1:] < BEHIND * values[0]))
    return left[:, : steep[-1] + 1] if len(steep) else None


def _complete(seconds: np.ndarray, span: np.ndarray) -> np.ndarray:
    """The same matrices with the diagonal that keeps their columns in the span."""
    outside = np.eye(len(span)) - span @ span.T
    completed = seconds.copy()
    for matrix in completed:
        np.fill_diagonal(matrix, 0.0)
        np.fill_diagonal(matrix, -np.sum(outside * (outside @ matrix), axis=0) / np.sum(outside**2, axis=0))
    return completed


def _diagonalise(
    span: np.ndarray, hessians: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """The columns (units, width) that make all Hessians diagonal, from two combinations of them; and how far apart
    the curvatures of the two are that differ least. Of more than two Hessians the combinations are those, of a few,
    that keep them furthest apart.

    Two units that are hardly apart may come as a complex pair: its real and imaginary parts span the same plane.
    """
    inner = span.T @ hessians @ span
    best, apart = span, -1.0
    for _ in range(PAIRS if len(inner) > 2 else 1):
        pair = inner
        if len(inner) > 2:
            pair = np.einsum("rn,npq->rpq", rng.standard_normal((2, len(inner))), inner)
        try:
            values, vectors = eigen_pencil(*pair)
        except np.linalg.LinAlgError:
            continue
        columns = np.where(np.imag(values) < 0, np.imag(vectors), np.real(vectors))
        angles = np.sort(np.arctan(np.real(values)))
        least = float(np.min(np.diff(np.append(angles, angles[0] + np.pi)), initial=np.pi))
        if least > apart:
            best, apart = span @ columns, least
    return best, apart


def _assemble(
    columns: np.ndarray, here: _Place, hessians: np.ndarray, start: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """All weights of the rows, from those on the units that stay; what the units' own slopes put on them taken off."""
    count = len(columns)
    inverse = np.linalg.pinv(columns)
    # nearly diagonal, but for units that are hardly apart
    curvatures = inverse @ hessians @ inverse.T
    system = np.concatenate(list(columns @ curvatures))
    mixed = np.concatenate(list(here.second[:, :count, count:]))
    moved = np.linalg.lstsq(system, mixed, rcond=None)[0]
    weights = np.concatenate([columns, moved.T])
    own = np.einsum("ij,ojk,ik->oi", weights, curvatures, weights)
    diagonal = np.einsum("oii->oi", here.second)
    first = here.first
    h = -np.sum((diagonal - own) * first, axis=0) / (2 * np.maximum(np.sum(first**2, axis=0), 1e-300))
    expected = np.tanh(start[order])
    h = np.where(
        np.abs(h - expected) < OFF, h, expected
    )  # a unit without effect does not show where it stands
    rows = np.zeros((weights.shape[1], len(weights)))
    rows[:, order] = (weights / (1 - h**2)[:, None]).T
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
