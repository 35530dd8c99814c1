"""Several starts of one layout side by side on an accelerator: the steps of ``accelerated`` under ``vmap``.

A small fit leaves most of an accelerator idle: its time is that of launching and waiting. Here every start of a batch
takes its step at once, each with its own damping and its own end (``descend.Course``). They are handed out
in the order in which they end, and rest when nobody asks for the next one: the first that is good enough stops the
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

import numpy as np

from unweave.core.errors import DeviceError
from unweave.solve.accelerated import COMPILER, AcceleratedProblem, formulas
from unweave.solve.descend import Course, Minimum, Settings
from unweave.solve.devices import on_accelerator, refuse, use_accelerator
from unweave.solve.fit import fit_layout, spread_of
from unweave.solve.layout import Layout

MOST = 6e9
"""Multiplications in one set of normal equations up to which starts share a launch: beyond, one fills the device."""


def fit_each(
    layout: Layout, starts: Sequence[np.ndarray], x: np.ndarray, y: np.ndarray, settings: Settings
) -> Iterator[Minimum]:
    """The fit from every start: together where an accelerator has room for them, else one after the other."""
    if len(starts) > 1 and runs_together(np.size(y), layout.num_parameters):
        fits = fit_together(layout, starts, x, y, settings)
        try:
            first = next(fits)
        except DeviceError:
            refuse(np.size(y), layout.num_parameters)
        else:
            yield first
            yield from fits
            return
    for start in starts:
        yield fit_layout(layout, start, x, y, settings=settings)


def runs_together(num_residuals: int, num_parameters: int) -> bool:
    """Whether starts of this size are better taken several at a time."""
    small = num_residuals * num_parameters**2 <= MOST
    return small and use_accelerator(num_residuals, num_parameters)


def fit_together(
    layout: Layout, starts: Sequence[np.ndarray], x: np.ndarray, y: np.ndarray, settings: Settings
) -> Iterator[Minimum]:
    """As ``fit_layout`` from every start, in the order in which they end."""
    target = np.asarray(y, dtype=np.float64).reshape(len(x), -1)
    problem, scale = AcceleratedProblem(layout, x, target), spread_of(target)
    losses = [np.sum((layout.forward(start, x) - target) ** 2) for start in starts]
    courses = [Course(float(loss), target.size, scale, settings) for loss in losses]
    thetas, running = np.stack([problem.inside(start) for start in starts]), list(range(len(starts)))
    bend = settings.longest_bend if settings.geodesic else 0.0
    while running:
        for k in [k for k in running if not courses[k].goes_on()]:
            running.remove(k)
            yield courses[k].minimum(problem.outside(thetas[k]))
        if running:
            states = np.array([(c.loss, c.damping, c.difference) for c in courses])
            with on_accelerator():
                thetas, reached = _step()(problem.padded, *problem.data, thetas, states, bend)
            for k, (loss, predicted) in enumerate(np.asarray(reached)):
                if k in running:
                    courses[k].take(float(loss), float(predicted))


@lru_cache(maxsize=1)
def _step():
    """One damped and bent step of every start, compiled: where each is then, its trial's loss and predicted gain."""
    import jax
    import jax.numpy as jnp

    expand, propose = formulas()

    def step_one(layout, x, y, mask, theta, state, bend):
        here, damping, difference = state
        expansion = expand(layout, theta, x, y, mask)
        trial, loss, predicted = propose(layout, x, y, mask, theta, *expansion, damping, difference, bend)
        return jnp.where(loss < here, trial, theta), jnp.stack([loss, predicted])

    @partial(jax.jit, static_argnums=0, compiler_options=COMPILER)
    def step(layout, x, y, mask, thetas, states, bend):
        every = jax.vmap(partial(step_one, layout), in_axes=(None, None, None, 0, 0, None))
        return every(x, y, mask, thetas, states, bend)

    return step
