"""One hidden layer from the span of its Hessians: what is left once the directions of the units are known.

``Hess f(x) = sum_i c_i s_i^2 phi''(s_i t_i + b_i) a_i a_i'`` with ``t_i = a_i . x``: the coefficients of a
Hessian in the found ``a_i a_i'`` are values of one function of one variable a unit, so slope s_i and shift
b_i come from m separate fits in two unknowns, the outgoing weights from linear least squares on the
answers, and Levenberg-Marquardt on all parameters does the rest. Units such as softplus and GELU are fitted
in their signless form; their signs follow last (``students.forms``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from unweave.algebra.matrix_span import half_vectorise, outer_squares
from unweave.core.activations import Activation
from unweave.core.network import Network
from unweave.solve.descend import Settings
from unweave.solve.devices import use_accelerator
from unweave.solve.fit import fit_layout, spread_of
from unweave.solve.gauss_newton import polish_weighted
from unweave.solve.layout import Layout
from unweave.solve.polish import polish
from unweave.students.forms import Form

LARGE = 1500
"""Parameters from which on all of them are fitted by products with the Jacobian, and no standard errors are stated."""
COUPLED = 25_000
"""Parameters up to which steps begin with a factor of the whole normal matrix, in single precision: 5 GB."""
LAST = 3e-15
"""Residual of exact answers, relative to their spread, where a fit ends."""


@dataclass(frozen=True)
class ShallowFit:
    """A network of one hidden layer with its relative residual, and units whose sign is not determined."""

    network: Network | None
    rms: float
    activation: str
    undetermined: tuple[str, ...] = ()


def curvature_coefficients(hessians: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Coefficients (n, outputs, m) of Hessians (n, outputs, k, k) in the squares of ``vectors`` (m, k)."""
    squares = half_vectorise(outer_squares(vectors))
    flat = half_vectorise(hessians)
    return np.linalg.lstsq(squares.T, flat.reshape(-1, flat.shape[-1]).T, rcond=None)[0].T.reshape(
        *flat.shape[:2], len(vectors)
    )


def fit_units(t: np.ndarray, curvatures: np.ndarray, phi: Activation) -> tuple[np.ndarray, np.ndarray, float]:
    """Slopes, shifts and the joint relative residual of ``c s^2 phi''(s t + b)``.

    ``t`` (n, m) holds the arguments of each unit, ``curvatures`` (n, outputs, m) their second derivatives.
    """
    slopes, shifts, left, total = [], [], 0.0, 0.0
    for i in range(t.shape[1]):
        slope, shift, cost = _fit_unit(t[:, i], curvatures[:, :, i], phi)
        slopes.append(slope)
        shifts.append(shift)
        left, total = left + cost, total + float(np.sum(curvatures[:, :, i] ** 2))
    return np.array(slopes), np.array(shifts), float(np.sqrt(left / max(total, 1e-300)))


def _fit_unit(t: np.ndarray, values: np.ndarray, phi: Activation) -> tuple[float, float, float]:
    """Slope and shift of one unit: a grid with the weights eliminated, then a local fit of the best points."""

    def unexplained(z: np.ndarray) -> np.ndarray:
        shape = phi.second(z, np)
        size = float(shape @ shape)
        return (values - np.outer(shape, shape @ values) / size).ravel() if size > 0 else values.ravel()

    spread = max(float(np.std(t)), 1e-300)
    sizes = phi.scale / spread * 2.0 ** np.arange(-3, 4, 0.5)
    grid, shifts = (a.ravel() for a in np.meshgrid(sizes, phi.scale * np.linspace(-3, 3, 25), indexing="ij"))
    shapes = phi.second(grid[:, None] * t + shifts[:, None], np)
    norms = np.linalg.norm(shapes, axis=1)
    explained = np.linalg.norm(shapes @ values, axis=1) / np.where(norms > 0, norms, np.inf)
    best = (float(grid[0]), float(shifts[0]), np.inf)
    for i in np.argsort(-explained)[:60:6]:
        found = least_squares(
            lambda p: unexplained(np.exp(p[0]) * t + p[1]), [np.log(grid[i]), shifts[i]], max_nfev=60
        )
        if 2 * found.cost < best[2]:
            best = (float(np.exp(found.x[0])), float(found.x[1]), float(2 * found.cost))
        if best[2] <= 1e-10 * float(np.sum(values**2)):
            break
    return best


def fit_shallow(
    x: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray,
    biases: np.ndarray,
    activation: str,
    *,
    noise: float,
    deadline: float = float("inf"),
) -> ShallowFit:
    """All parameters from rows (m, d) and biases near the truth, on answers y (n, outputs) at x."""
    form = Form.of(activation)
    scale = 0.5 if form.activation.name == "sigmoid" else 1.0
    rows, biases = scale * rows, scale * biases
    layout = form.layout((x.shape[1], len(rows), y.shape[1]))
    features = form.unit(x @ rows.T + biases)
    design = np.hstack(
        [features, x, np.ones((len(x), 1))] if form.skips else [features, np.ones((len(x), 1))]
    )
    top = np.linalg.lstsq(design, y, rcond=1e-10)[0].T
    start = np.concatenate([np.hstack([rows, biases[:, None]]).ravel(), top.ravel()])
    if layout.num_parameters > LARGE and not form.skips:
        return _fit_large(layout, start, x, y, form.activation.name, noise, deadline)
    settings = Settings(target=1e-14, max_steps=80, damping=1e-3, stall_steps=30, deadline=deadline)
    found = fit_layout(layout, start, x, y, settings=settings)
    floor = noise / max(float(np.std(y)), 1e-300)
    if found.rms > max(1e-6, 3 * floor):
        return ShallowFit(None, found.rms, activation)
    plain = form.network(layout, found.parameters, rtol=max(1e-6, 100 * floor))
    if plain is None:
        return ShallowFit(None, found.rms, activation)
    polished = polish(plain.network, x, y, noise=noise)
    return ShallowFit(polished.network, polished.rms, activation, plain.undetermined)


def _fit_large(
    layout: Layout,
    start: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    activation: str,
    noise: float,
    deadline: float,
) -> ShallowFit:
    """The same for many parameters, from a start that is right to a per cent or so: exact steps on an accelerator,
    steps by products with the Jacobian without.
    """
    spread = spread_of(y)
    if use_accelerator(y.size, layout.num_parameters):
        settings = Settings(target=LAST, max_steps=40, damping=1e-6, stall_steps=0, deadline=deadline)
        fit = fit_layout(layout, start, x, y, settings=settings)
        network, rms = layout.network(fit.parameters), fit.rms
    else:
        sigma = max(noise, LAST * spread)
        found = polish_weighted(
            layout.network(start),
            x,
            y,
            sigma,
            max_steps=25,
            damping=1e-9,
            patience=3,
            most_coupled=COUPLED,
            target=1.0,
            deadline=deadline,
        )
        network, rms = found.network, found.rms * sigma / spread
    if rms > max(1e-6, 3 * noise / spread):
        return ShallowFit(None, rms, activation)
    return ShallowFit(network.as_sigmoid() if activation == "sigmoid" else network, rms, activation)
