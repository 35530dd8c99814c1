"""The sides of a layer from units above it, whatever the number of inputs.

Without the sides of its units u_i the features of a layer are ``(h, |u|)``, h the layers below: a unit above is
``gamma . h + sum_i beta_i |u_i| + const``. Units followed over these features (``follow``) have
``gamma = sum_i rho_i beta_i r_i`` with one rho for all of them: its sign is the side of u_i, its size 1 for relu and
``(1 + leak) / (1 - leak)`` for leaky units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unweave.methods.relu.deep.candidates import Candidate
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.last import read_leak
from unweave.methods.relu.deep.trace import Trace
from unweave.probes.lines import Lines

FITS = 1e-6
"""What the rows of units above may leave, relative to their size."""
SPARE = 1.5
"""Equations for every side that has to be told."""
RANK = 1e-7
"""Singular values of these equations below this tell nothing."""


@dataclass(frozen=True)
class Lifted:
    """Known layers, with or without their sides, and one more whose sides are not known."""

    known: Known | Lifted
    rows: np.ndarray

    @property
    def input_size(self) -> int:
        return self.known.input_size

    @property
    def width(self) -> int:
        return self.known.width + len(self.rows)

    def features(self, x: np.ndarray) -> np.ndarray:
        h = self.known.features(x)
        return np.hstack([h, np.abs(h @ self.rows[:, :-1].T + self.rows[:, -1])])

    def jacobian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        h, jac = self.known.jacobian(x)
        u = h @ self.rows[:, :-1].T + self.rows[:, -1]
        own = (self.rows[:, :-1] @ jac) * np.sign(u)[:, :, None]
        return np.hstack([h, np.abs(u)]), np.concatenate([jac, own], axis=1)

    def gradients(self, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        zs, gs = self.known.gradients(x)
        h, jac = self.known.jacobian(x)
        u = h @ self.rows[:, :-1].T + self.rows[:, -1]
        return [*zs, u], [*gs, self.rows[:, :-1] @ jac]

    def breaks(self, lines: Lines, i: int) -> np.ndarray:
        """Parameters at which a known unit bends along line ``i``, its two ends included."""
        t = self.known.breaks(lines, i)
        h = self.known.features(lines.origins[i] + t[:, None] * lines.directions[i])
        u = h @ self.rows[:, :-1].T + self.rows[:, -1]
        at, unit = np.nonzero((u[:-1] > 0) != (u[1:] > 0))
        share = u[at, unit] / (u[at, unit] - u[at + 1, unit])
        return np.sort(np.append(t, t[at] + (t[at + 1] - t[at]) * share))


@dataclass(frozen=True)
class Told:
    """Sides of a layer, its leak, and rows of units above in its own features."""

    signs: np.ndarray
    leak: float
    above: list[Candidate]


def tell_sides(
    lifted: Lifted, traces: list[Trace], say: Callable[[str], None] = lambda text: None
) -> Told | None:
    """Sides from traces over the lifted features, those that contradict left out one after the other."""
    n = len(lifted.rows)
    kept = [(trace, *side_equations(lifted, trace)) for trace in traces if trace.crossed]
    kept = [one for one in kept if len(one[2]) > 1]
    while kept:
        if sum(len(y) for _, _, y in kept) < SPARE * n:
            return None
        a, y = np.vstack([one[1] for one in kept]), np.concatenate([one[2] for one in kept])
        rho, _, rank, _ = np.linalg.lstsq(a, y, rcond=1e-7)
        size = np.abs(rho)
        middle = float(np.median(size))
        misses = [np.linalg.norm(a @ rho - y) / np.sqrt(len(y)) for _, a, y in kept]
        worst = int(np.argmax(misses))
        say(
            f"  lifted: {len(kept)} traces, rank {rank} of {n}, worst {misses[worst]:.1e}, rho {middle:.6f}, "
            f"off {np.max(np.abs(size - middle)):.1e}"
        )
        if rank < n:  # fewer traces tell less
            return None
        leak = read_leak(rho)
        if leak is not None and misses[worst] < FITS:
            signs = np.sign(rho)
            return Told(signs, leak, rows_above(lifted, [one[0] for one in kept], signs, leak))
        if len(kept) < 3:
            return None
        kept.pop(worst)
    return None


def are_enough(lifted: Lifted, traces: list[Trace]) -> bool:
    """Whether traces say enough to tell all sides, if what they say is right."""
    said = [side_equations(lifted, trace)[0] for trace in traces if trace.crossed]
    if sum(len(a) for a in said) < SPARE * len(lifted.rows):
        return False
    return int(np.linalg.matrix_rank(np.vstack(said), tol=RANK)) == len(lifted.rows)


def side_equations(lifted: Lifted, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """What a trace says of rho: its row, as far as it is known, less what its bias and open weights may change."""
    first, n = lifted.known.width, len(lifted.rows)
    beta = trace.row[first:-1]
    open_units = ~trace.seen[first:-1]
    beta = np.where(open_units, 0.0, beta)
    # in the span of what was measured the row is sum_i rho_i beta_i (r_i, b_i) + (0, beta, bias)
    sums = np.zeros((n, len(trace.row)))
    sums[:, :first], sums[:, -1] = beta[:, None] * lifted.rows[:, :-1], beta * lifted.rows[:, -1]
    free = np.zeros((1 + 2 * int(open_units.sum()), len(trace.row)))
    free[0, -1] = 1.0
    for place, unit in enumerate(np.flatnonzero(open_units)):
        free[1 + 2 * place, :first], free[1 + 2 * place, -1] = lifted.rows[unit, :-1], lifted.rows[unit, -1]
        free[2 + 2 * place, first + unit] = 1.0
    target = trace.row.copy()
    target[first:-1] -= beta
    span = trace.span
    a, y, nuisance = span.T @ sums.T, span.T @ target, span.T @ free.T
    u, s, _ = np.linalg.svd(nuisance, full_matrices=True)
    rest = u[:, int(np.sum(s > 1e-9 * s[0])) :]
    scale = np.linalg.norm(trace.row)
    return rest.T @ a / scale, rest.T @ y / scale


def rows_above(lifted: Lifted, traces: list[Trace], signs: np.ndarray, leak: float) -> list[Candidate]:
    """The traces as units of the next layer, in the features of the oriented one."""
    first, n = lifted.known.width, len(lifted.rows)
    turn = np.zeros((lifted.width + 1, n + 1))
    turn[first:-1, :-1] = 0.5 * (1 - leak) * np.eye(n)
    turn[:first, :-1] = (0.5 * (1 + leak) * signs[:, None] * lifted.rows[:, :-1]).T
    turn[-1, :-1], turn[-1, -1] = 0.5 * (1 + leak) * signs * lifted.rows[:, -1], 1.0
    found = []
    for trace in traces:
        told = (trace.system / trace.errors[:, None]) @ turn
        _, s, vt = np.linalg.svd(told / np.linalg.norm(told, axis=1, keepdims=True))
        null = vt[int(np.sum(s > 1e-7 * s[0])) :]
        if len(null) != 1:  # besides the row itself there are others that it may be
            continue
        told = told / abs(trace.gauge @ turn @ null[0])
        found.append(
            Candidate(null[0], np.ones(n + 1, dtype=bool), np.zeros(0, dtype=int), shown=True, told=told)
        )
    return found
