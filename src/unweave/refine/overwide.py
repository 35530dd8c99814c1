"""An over-wide random student, fitted by Levenberg-Marquardt and pruned to minimal width.

Recovers a smooth network exactly from values at ordinary points: start wider than the truth, fit everything, prune
by optimal brain surgeon, refit, polish. A student of widths M needs about two (one hidden layer) to three and a
half (more) residuals per parameter; below that a start rarely converges and restarts hardly help, above it the
first start converges in 25-60 steps. So when nothing is known the number of points grows geometrically and the
student is as wide as the points allow; the first size that fits is about four samples per parameter of the truth.

There is no theorem; the result is judged by what it reached: a residual at rounding (or noise) level with more
residuals than parameters, and a Jacobian of full rank at minimal width, which no reducible network has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from unweave.network import Network
from unweave.refine.forms import Form
from unweave.refine.layout import Layout
from unweave.refine.levenberg_marquardt import Minimum, Settings, fit_layout
from unweave.refine.polish import Polished, polish
from unweave.refine.prune import prune
from unweave.refine.standard import Standard
from unweave.refine.starts import draw_start

MorePoints = Callable[[int], tuple[np.ndarray, np.ndarray]]

EXACT = 1e-11
PROMISING = 3e-4


@dataclass(frozen=True)
class Shape:
    """How wide a student is for a number of residuals: residuals per parameter, and each layer over the one below."""

    ratio: float
    aspect: float = 0.5


@dataclass(frozen=True)
class Effort:
    """Every bound of the search, stated."""

    shapes: tuple[Shape, ...] = ()
    """One start per entry at each number of points; empty: by depth."""
    growth: float = 1.2
    max_points: int = 200_000
    max_steps: int = 150
    time_limit: float = 600.0

    def shapes_for(self, depth: int) -> tuple[Shape, ...]:
        if self.shapes:
            return self.shapes
        return (Shape(2.2), Shape(1.8)) if depth == 1 else (Shape(3.5, 0.35), Shape(2.8, 0.65))


@dataclass(frozen=True)
class Attempt:
    """One student: what was tried and how far it got."""

    activation: str
    widths: tuple[int, ...]
    num_points: int
    rms: float
    num_steps: int
    end: str


@dataclass(frozen=True)
class OverwideFit:
    """The outcome of a search. ``network`` is None when nothing fitted; ``minimal`` says no unit can be removed."""

    network: Network | None
    rms: float
    minimal: bool
    num_points: int
    attempts: tuple[Attempt, ...] = field(repr=False, default=())
    polished: Polished | None = field(repr=False, default=None)
    reason: str = ""


def fit_overwide(
    x: np.ndarray,
    y: np.ndarray,
    activation: str,
    *,
    hidden: tuple[int, ...] | None = None,
    depth: int = 1,
    more_points: MorePoints | None = None,
    noise: float = 0.0,
    rng: np.random.Generator,
    effort: Effort | None = None,
) -> OverwideFit:
    """Fit a network of one activation and depth to (x, y), buying points through ``more_points`` where allowed.

    Parameters
    ----------
    hidden
        Widths of the hidden layers when known (then ``depth`` is ignored).
    more_points
        ``more_points(n)`` returns n further points with their answers; None means (x, y) is all there is.
    noise
        Standard deviation of one answer in the units of y.
    """
    effort = Effort() if effort is None else effort
    depth = depth if hidden is None else len(hidden)
    pool = Pool(x, y, more_points)
    deadline = time.monotonic() + effort.time_limit
    attempts: list[Attempt] = []
    reason = ""
    for num_points in levels(pool, depth, effort, hidden):
        data = pool.take(num_points)
        for shape in effort.shapes_for(depth):
            if time.monotonic() > deadline:
                reason = f"stopped after {effort.time_limit:g} s; allow more time"
                break
            widths = choose_widths(*data, depth, shape, hidden)
            fit, attempt = try_student(*data, activation, widths, noise, rng, effort.max_steps, deadline)
            attempts.append(attempt)
            if fit is not None:
                return replace(fit, attempts=tuple(attempts))
        if reason:
            break
    if not reason:
        reason = f"no student fitted up to {len(pool.x)} points; allow more points"
    best = min((a.rms for a in attempts), default=float("inf"))
    return OverwideFit(None, best, False, len(pool.x), tuple(attempts), None, reason)


class Pool:
    """Points with their answers: those at hand first, then bought ones."""

    def __init__(self, x: np.ndarray, y: np.ndarray, more_points: MorePoints | None = None):
        self.x = np.asarray(x, dtype=np.float64)
        self.y = np.asarray(y, dtype=np.float64).reshape(len(self.x), -1)
        self._more = more_points

    @property
    def can_grow(self) -> bool:
        return self._more is not None

    def take(self, num_points: int) -> tuple[np.ndarray, np.ndarray]:
        """The first ``num_points`` rows, bought where missing and possible; fewer when there are no more."""
        missing = num_points - len(self.x)
        if missing > 0 and self._more is not None:
            x, y = self._more(missing)
            self.x = np.concatenate([self.x, x])
            self.y = np.concatenate([self.y, np.asarray(y).reshape(len(x), -1)])
        return self.x[:num_points], self.y[:num_points]


def levels(pool: Pool, depth: int, effort: Effort, hidden: tuple[int, ...] | None = None):
    """Numbers of points to try, growing geometrically until the pool or the effort ends."""
    inputs, outputs = pool.x.shape[1], pool.y.shape[1]
    shape = effort.shapes_for(depth)[0]
    narrow = (2,) * depth if hidden is None else over(hidden)
    num_points = shape.ratio * count_parameters((inputs, *narrow, outputs)) / outputs
    top = effort.max_points if pool.can_grow else len(pool.x)
    num_points = max(num_points, 2 * (narrow[-1] + 1), 8)
    while num_points < top:
        yield int(np.ceil(num_points))
        num_points *= effort.growth
    if not pool.can_grow:
        yield top


def over(hidden: tuple[int, ...]) -> tuple[int, ...]:
    """Student widths for known widths: three quarters more, at least two more."""
    return tuple(max(m + 2, int(np.ceil(1.75 * m))) for m in hidden)


def count_parameters(sizes: tuple[int, ...]) -> int:
    return sum((a + 1) * b for a, b in zip(sizes[:-1], sizes[1:], strict=True))


def choose_widths(
    x: np.ndarray, y: np.ndarray, depth: int, shape: Shape, hidden: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """The widest student with ``shape.ratio`` residuals per parameter, or the known widths made wider."""
    if hidden is not None:
        return over(hidden)
    num_points, outputs = y.shape
    affordable = num_points * outputs / shape.ratio
    widths = (2,) * depth
    for first in range(2, num_points):
        trial = tuple(max(2, round(first * shape.aspect**k)) for k in range(depth))
        if count_parameters((x.shape[1], *trial, outputs)) > affordable or 2 * (trial[-1] + 1) > num_points:
            break
        widths = trial
    return widths


def try_student(
    x: np.ndarray,
    y: np.ndarray,
    activation: str,
    widths: tuple[int, ...],
    noise: float,
    rng: np.random.Generator,
    max_steps: int,
    deadline: float,
) -> tuple[OverwideFit | None, Attempt]:
    """One random student of these widths: fit, prune, polish; None unless it ends exact (or at the noise)."""
    form = Form.of(activation)
    standard = Standard.of(x, y, common=noise > 0)
    u, v = standard.inputs(x), standard.outputs(y)
    floor = noise / float(np.min(standard.spread))
    layout = form.layout((u.shape[1], *widths, v.shape[1]))
    promising = max(PROMISING, 1.2 * floor)
    time_left = deadline - time.monotonic()
    settings = Settings(target=promising, max_steps=max_steps, time_limit=time_left)
    first = fit_layout(layout, draw_start(layout, u, v, rng), u, v, settings=settings)
    attempt = Attempt(activation, widths, len(x), first.rms, first.num_steps, first.end)
    if first.rms > promising:
        return None, attempt
    layout, fit = _narrow(form, layout, first, u, v, floor, max_steps, deadline)
    attempt = replace(attempt, rms=fit.rms, num_steps=attempt.num_steps + fit.num_steps, end=fit.end)
    if fit.rms > max(EXACT, 1.2 * floor):
        return None, attempt
    plain = form.network(layout, fit.parameters)
    if plain is None:
        return None, replace(attempt, end="signs")
    polished = polish(standard.undo(plain), x, y, noise=noise)
    if polished.rms > max(EXACT, 1.2 * floor):
        return None, replace(attempt, rms=polished.rms, end="signs")
    num_free = (
        form.free_per_unit * sum(polished.network.hidden) + standard.num_lost * polished.network.hidden[0]
    )
    minimal = polished.null_directions.shape[1] <= num_free
    return OverwideFit(polished.network, polished.rms, minimal, len(x), (), polished), attempt


def _narrow(
    form: Form,
    layout: Layout,
    start: Minimum,
    u: np.ndarray,
    v: np.ndarray,
    floor: float,
    max_steps: int,
    deadline: float,
) -> tuple[Layout, Minimum]:
    """Prune from a promising fit; where that is refused, converge at the present widths first, then prune."""
    target = max(1e-13, 0.5 * floor)
    accept = max(EXACT, 1.1 * floor)
    refit = Settings(
        target=target, max_steps=60, damping=1e-3, time_limit=max(deadline - time.monotonic(), 0.0)
    )
    layout, fit = prune(layout, start, u, v, accept=accept, settings=refit, deadline=deadline)
    if fit.rms > accept:
        full = replace(refit, max_steps=max_steps, stall_steps=40, patience=8)
        fit = fit_layout(layout, fit.parameters, u, v, settings=full)
        if fit.rms <= accept:
            layout, fit = prune(layout, fit, u, v, accept=accept, settings=refit, deadline=deadline)
    return layout, fit
