"""Fit the parameters of a network or a layout to answers, by whichever steps are cheapest where this runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unweave.core.network import Network
from unweave.solve.accelerated import AcceleratedProblem
from unweave.solve.collapsed import CollapsedProblem
from unweave.solve.descend import End, Minimum, Settings, descend, minimise
from unweave.solve.devices import try_accelerator
from unweave.solve.inexact import InexactProblem, pays
from unweave.solve.layout import Layout

LEAST_INEXACT = 1e-4
"""Damping of inexact steps: below, it no longer bounds them."""
STALLED_INEXACT = 25
"""Inexact steps are given up after so many without much gain, at any residual: they are cheap, ..."""
CLOSE = 1e-2
"""... and below this relative residual exact ones go on."""

COLLAPSED_DAMPING, COLLAPSED_RMS = 3e-7, 1e-5
"""Damping and relative residual down to which collapsed normal equations are summed in single precision."""


@dataclass(frozen=True)
class Fit:
    """A fitted network. ``rms`` is relative to the spread of the targets."""

    network: Network
    rms: float
    num_steps: int
    end: End
    history: tuple[float, ...] = field(repr=False, default=())

    @property
    def converged(self) -> bool:
        return self.end is End.TARGET


def fit_network(network: Network, x: np.ndarray, y: np.ndarray, *, settings: Settings | None = None) -> Fit:
    """Fit every parameter of ``network`` to ``y`` (n, outputs) at ``x`` (n, inputs) from its own values."""
    layout = Layout.of(network)
    found = fit_layout(layout, network.flat(), x, y, settings=settings)
    return Fit(layout.network(found.parameters), found.rms, found.num_steps, found.end, found.history)


def fit_layout(
    layout: Layout, start: np.ndarray, x: np.ndarray, y: np.ndarray, *, settings: Settings | None = None
) -> Minimum:
    """Fit the parameters of a layout from ``start``; residuals are relative to the spread of ``y``."""
    target = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
    scale = spread_of(target)

    found = _fit_accelerated(layout, start, x, target, settings)
    if found is not None:
        return found
    s, early = Settings() if settings is None else settings, None
    if s.inexact and pays(layout):
        careful = replace(s, least_damping=LEAST_INEXACT, stall_above=0.0, stall_steps=STALLED_INEXACT)
        early = descend(InexactProblem(layout, x, target), np.array(start), scale, careful)
        if early.end in (End.TARGET, End.TIME) or early.rms > max(CLOSE, 2 * s.target):
            return early
        start = early.parameters

    def residual(theta: np.ndarray) -> np.ndarray:
        return (layout.forward(theta, x) - target).ravel()

    def linearise(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outputs, jacobian = layout.linearise(theta, x)
        return (outputs - target).ravel(), jacobian

    single = x.astype(np.float32)

    def coarse(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return residual(theta), layout.linearise(theta.astype(np.float32), single)[1]

    found = minimise(residual, linearise, start, scale=scale, settings=s, coarse=coarse)
    return found if early is None else found.after(early)


def fit_collapsed(
    layout: Layout, start: np.ndarray, x: np.ndarray, y: np.ndarray, *, settings: Settings
) -> Minimum:
    """The same by exact steps throughout, for plain layouts of one or two hidden layers (``collapsed``)."""
    found = _fit_accelerated(layout, start, x, y, settings)
    if found is not None:
        return found
    single = replace(settings, coarse_damping=COLLAPSED_DAMPING, coarse_rms=COLLAPSED_RMS)
    return descend(CollapsedProblem(layout, x, y), np.array(start), spread_of(y), single)


def _fit_accelerated(
    layout: Layout, start: np.ndarray, x: np.ndarray, y: np.ndarray, settings: Settings | None
) -> Minimum | None:
    def fit_there() -> Minimum:
        problem = AcceleratedProblem(layout, x, y)
        found = descend(problem, problem.inside(start), spread_of(y), settings)
        return replace(found, parameters=problem.outside(found.parameters))

    return try_accelerator(y.size, layout.num_parameters, fit_there)


def spread_of(y: np.ndarray) -> float:
    """The typical deviation of the outputs from their means; 1 for constant outputs."""
    spread = float(np.sqrt(np.mean((y - y.mean(axis=0)) ** 2)))
    return spread if spread > 0 else 1.0
