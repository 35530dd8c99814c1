"""Slopes, shifts and outgoing weights of units whose directions are known: three numbers a unit and output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.solve.descend import Settings, minimise
from unweave.solve.fit import spread_of
from unweave.students.forms import Form

CLOSE = 0.05
"""Relative residual at which no further start is tried."""


@dataclass(frozen=True)
class Scalars:
    """Slope and shift of every unit, with the relative residual of the best outgoing weights."""

    slopes: np.ndarray
    shifts: np.ndarray
    rms: float


def fit_scalars(x: np.ndarray, y: np.ndarray, rows: np.ndarray, activation: str, deadline: float) -> Scalars:
    """Slopes, shifts and outgoing weights of units along known unit ``rows``, by least squares on (x, y).

    Units are those of the form in which the activation is fitted (``students.forms``), so signs play no part.
    """
    form = Form.of(activation)
    t = x @ rows.T
    (n, m), num_outputs = t.shape, y.shape[1]
    ones = np.ones((n, 1))
    linear = np.hstack([x, ones]) if form.skips else ones

    def parts(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return t * p[:m] + p[m : 2 * m], p[2 * m :].reshape(m + linear.shape[1], num_outputs)

    def residual(p: np.ndarray) -> np.ndarray:
        z, top = parts(p)
        return (form.unit(z) @ top[:m] + linear @ top[m:] - y).ravel()

    def linearise(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z, top = parts(p)
        values, firsts = form.unit(z), form.unit.first(z, np)
        bends = firsts[:, None, :] * top[:m].T[None]  # (n, outputs, m)
        features = np.hstack([values, linear])
        tops = np.einsum("nf,oq->nofq", features, np.eye(num_outputs)).reshape(n, num_outputs, -1)
        jacobian = np.concatenate([bends * t[:, None, :], bends, tops], axis=2)
        found = features @ top - y
        return found.ravel(), jacobian.reshape(n * num_outputs, -1)

    best: Scalars | None = None
    settings = Settings(target=1e-12, max_steps=60, stall_steps=25, deadline=deadline)
    for size in (1.0, 2.5, 0.4):
        slopes = size * form.unit.scale / np.std(t, axis=0)
        top = np.linalg.lstsq(np.hstack([form.unit(t * slopes), linear]), y, rcond=1e-10)[0]
        start = np.concatenate([slopes, np.zeros(m), top.ravel()])
        found = minimise(residual, linearise, start, scale=spread_of(y), settings=settings)
        if best is None or found.rms < best.rms:
            best = Scalars(found.parameters[:m], found.parameters[m : 2 * m], found.rms)
        if best.rms < CLOSE:
            break
    assert best is not None
    return best
