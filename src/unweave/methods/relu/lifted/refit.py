"""All weights of a piecewise-linear network at once, by weighted least squares on answers with error bars.

Levenberg-Marquardt on rows divided by their error bars; rows far off count less (Huber), since a wrong side of one
unit spoils them. Up to ``DENSE`` free parameters the normal equations are factorised; beyond, each step is taken by
conjugate gradients with products of the Jacobian only, so that no size is left unpolished. Some parameters may be held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from unweave.core import activations as act
from unweave.core import clock
from unweave.core.network import Network

DENSE, WORK = 3000, 1e11
"""Most free parameters, and rows times their square, for which the normal equations are formed."""
CLOSE = 10.0
"""Median deviation in error bars below which steps are not damped at first."""
HOPELESS = 6
"""After so many steps a fit that has not come closer is given up."""
CHUNK = 3_000_000
"""Numbers of a Jacobian held at a time."""


@dataclass(frozen=True)
class Refit:
    """A fitted network and how far it is from the answers, in error bars."""

    network: Network
    rms: float
    median: float
    num_steps: int


class Stack:
    """A (leaky) relu network as one vector of parameters: rows with their bias, layer after layer."""

    shapes: list[tuple[int, ...]]
    starts: np.ndarray

    names: tuple[str, ...]
    leak: float

    def __init__(self, network: Network):
        self.shapes = [w.shape for w in network.weights]
        self.names = network.activations
        self.leak = slope_of(network)
        self.starts = np.cumsum([0] + [a * (b + 1) for a, b in self.shapes])

    @property
    def size(self) -> int:
        return int(self.starts[-1])

    def blocks(self, p: np.ndarray) -> list[np.ndarray]:
        return [
            p[self.starts[i] : self.starts[i + 1]].reshape(a, b + 1) for i, (a, b) in enumerate(self.shapes)
        ]

    def flat(self, network: Network) -> np.ndarray:
        return np.concatenate(
            [np.hstack([w, b[:, None]]).ravel() for w, b in zip(network.weights, network.biases, strict=True)]
        )

    def network(self, p: np.ndarray) -> Network:
        blocks = self.blocks(p)
        return Network([b[:, :-1].copy() for b in blocks], [b[:, -1].copy() for b in blocks], self.names)

    def forward(self, p: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Outputs, the inputs of every layer with a column of ones, and the slopes of its units."""
        inputs, slopes = [_extend(x)], []
        blocks = self.blocks(p)
        for block in blocks[:-1]:
            z = inputs[-1] @ block.T
            slope = np.where(z > 0, 1.0, self.leak)
            slopes.append(slope)
            inputs.append(_extend(z * slope))
        return inputs[-1] @ blocks[-1].T, inputs, slopes

    def backs(self, p: np.ndarray, slopes: list[np.ndarray], num_outputs: int) -> list[np.ndarray]:
        """Derivatives of the outputs by what each layer adds up, (n, outputs, units) a layer."""
        n = len(slopes[0]) if slopes else 1
        back = np.broadcast_to(np.eye(num_outputs), (n, num_outputs, num_outputs))
        found = [back]
        for block, slope in zip(self.blocks(p)[:0:-1], slopes[::-1], strict=True):
            back = (back @ block[:, :-1]) * slope[:, None, :]
            found.append(back)
        return found[::-1]

    def jacobian(self, p: np.ndarray, x: np.ndarray) -> np.ndarray:
        y, inputs, slopes = self.forward(p, x)
        n, k = y.shape
        parts = [
            (back[:, :, :, None] * h[:, None, None, :]).reshape(n * k, -1)
            for back, h in zip(self.backs(p, slopes, k), inputs, strict=True)
        ]
        return np.hstack(parts)


def refit(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    *,
    free: np.ndarray | None = None,
    max_steps: int = 20,
    deadline: float = float("inf"),
    robust: bool = True,
) -> Refit:
    """The network fitted to answers ``y`` (n, k) at ``x`` with standard errors ``bars`` (n,)."""
    stack = Stack(network)
    p = stack.flat(network)
    which = np.arange(stack.size) if free is None else np.flatnonzero(free)
    limit = np.inf
    residual = (stack.forward(p, x)[0] - y) / bars[:, None]
    if robust:
        limit = max(6.0, 4 * float(np.median(np.abs(residual))))
    first = float(np.median(np.abs(residual)))
    # near the end what few answers show is still open: only an undamped step moves it
    cost, damping, steps = _cost(residual, limit), 1e-6 if first > CLOSE else 1e-11, 0
    for steps in range(1, max_steps + 1):
        weights = np.minimum(1.0, limit / np.maximum(np.abs(residual), 1e-300))
        solve = _expand(stack, p, x, bars, residual, weights, which)
        accepted = False
        for _ in range(8):
            change = solve(damping)
            if change is not None:
                trial = p.copy()
                trial[which] -= change
                fresh = (stack.forward(trial, x)[0] - y) / bars[:, None]
                value = _cost(fresh, limit)
                if value < cost:
                    accepted = True
                    break
            damping = max(10 * damping, 1e-9)
        if not accepted:
            break
        gain = (cost - value) / max(cost, 1e-300)
        typical = float(np.median(np.abs(residual)))
        p, residual, cost, damping = trial, fresh, value, max(damping / 10, 1e-14)
        if robust:
            lower = max(6.0, 4 * float(np.median(np.abs(residual))))
            limit = min(limit, lower)
            cost = _cost(residual, limit)
        hopeless = steps >= HOPELESS and np.median(np.abs(residual)) > max(0.3 * first, 100.0)
        settled = gain < 1e-3 and float(np.median(np.abs(residual))) > 0.9 * typical
        if (settled and steps > 2) or hopeless or clock.now() > deadline:
            break
    sizes = np.abs(residual)
    return Refit(stack.network(p), float(np.sqrt(np.mean(sizes**2))), float(np.median(sizes)), steps)


def _cost(residual: np.ndarray, limit: float) -> float:
    size = np.abs(residual)
    if np.isinf(limit):
        return float(np.sum(size**2))
    return float(np.sum(np.where(size < limit, size**2, 2 * limit * size - limit**2)))


def _expand(stack: Stack, p, x, bars, residual, weights, which):
    """A function from the damping to what a step subtracts from the free parameters."""
    if len(which) <= DENSE and residual.size * len(which) ** 2 <= 1.5 * WORK:
        matrix, gradient = normal_matrix(stack, p, x, bars, which, weights, residual)
        scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
        scale = np.where(scale > 0, scale, 1.0)
        matrix = matrix / scale[:, None] / scale

        def solve(damping: float):
            damped = matrix + (damping + 1e-14) * np.eye(len(which))
            try:
                factor = scipy.linalg.cho_factor(damped, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:
                return None
            return scipy.linalg.cho_solve(factor, gradient / scale, check_finite=False) / scale

        return solve
    return lambda damping: _inexact(stack, p, x, bars, residual, weights, which, damping)


def normal_matrix(
    stack: Stack,
    p: np.ndarray,
    x: np.ndarray,
    bars: np.ndarray,
    which: np.ndarray,
    weights: np.ndarray | None = None,
    residual: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """``J'WJ`` and ``J'Wr`` of the rows divided by their error bars, in the free parameters."""
    k = stack.shapes[-1][0]
    matrix, gradient = np.zeros((len(which), len(which))), np.zeros(len(which))
    step = max(16, CHUNK // (k * stack.size))
    whole = len(which) == stack.size
    (square,) = scipy.linalg.get_blas_funcs(("syrk",), (matrix,))
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        j = stack.jacobian(p, x[part])
        j = j if whole else j[:, which]
        w = np.repeat(1 / bars[part], k)
        root = w if weights is None else w * np.sqrt(weights[part].ravel())
        if residual is not None:
            own = 1.0 if weights is None else weights[part].ravel()
            gradient += j.T @ (w * own * residual[part].ravel())
        j *= root[:, None]
        matrix += square(1.0, j, trans=1)
    return np.triu(matrix) + np.triu(matrix, 1).T, gradient


def _inexact(stack: Stack, p, x, bars, residual, weights, which, damping: float, num_steps: int = 120):
    """Damped least squares by conjugate gradients on the normal equations, columns scaled to length one."""
    _, inputs, slopes = stack.forward(p, x)
    k = stack.shapes[-1][0]
    backs = stack.backs(p, slopes, k)
    root = np.sqrt(weights) / bars[:, None]

    def forward(v: np.ndarray) -> np.ndarray:
        whole = np.zeros(stack.size)
        whole[which] = v
        total = np.zeros(residual.shape)
        for back, h, block in zip(backs, inputs, stack.blocks(whole), strict=True):
            total += np.einsum("nku,nu->nk", back, h @ block.T)
        return total * root

    def backward(r: np.ndarray) -> np.ndarray:
        r = r * root
        parts = [
            (np.einsum("nku,nk->nu", back, r).T @ h).ravel() for back, h in zip(backs, inputs, strict=True)
        ]
        return np.concatenate(parts)[which]

    squares = [
        (np.einsum("nku,nk->nu", back**2, root**2).T @ h**2).ravel()
        for back, h in zip(backs, inputs, strict=True)
    ]
    scale = np.sqrt(np.concatenate(squares)[which])
    scale = np.where(scale > 0, scale, 1.0)
    target = np.sqrt(weights) * residual
    solution = np.zeros(len(which))
    left = backward(target) / scale
    direction, size = left.copy(), float(left @ left)
    first = size
    for _ in range(num_steps):
        image = forward(direction / scale)
        curvature = float(np.sum(image**2) + damping * direction @ direction)
        if curvature <= 0:
            break
        length = size / curvature
        solution += length * direction
        target = target - length * image
        left = backward(target) / scale - damping * solution
        previous, size = size, float(left @ left)
        if size < 1e-20 * first:
            break
        direction = left + size / previous * direction
    return solution / scale


def slope_of(network: Network) -> float:
    """The slope of the leak of a network's hidden units; 0 for relu."""
    name = network.activations[0]
    if name.startswith("relu"):
        return 0.0
    return float(-act.get(name)(np.array([-1.0]))[0])


def _extend(x: np.ndarray) -> np.ndarray:
    return np.hstack([x, np.ones((len(x), 1))])
