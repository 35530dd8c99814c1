"""Gauss-Newton on all parameters of a network, each answer weighted by its accuracy, from hundreds to 1e5 parameters.

From a start correct to a few digits it reaches the accuracy of the answers, piecewise linear units included: between
their kinks they are as smooth as any. Steps are least squares by products with the Jacobian (CGLS, which loses no
digits to normal equations), preconditioned by a Cholesky factor: of the whole normal matrix while that is affordable,
beyond by one factor a unit, and where these are too large by one a layer. The factor is kept while it serves. Scales
between layers of homogeneous units are free: their rows are held at their lengths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.linalg

from unweave.algebra.conjugate_gradients import shortest_least_squares
from unweave.core.deadline import held
from unweave.core.errors import TimeSpent
from unweave.core.network import Network
from unweave.solve.descend import Settings, descend
from unweave.solve.fit import Fit
from unweave.solve.inexact import Passes
from unweave.solve.information import gauge_rows
from unweave.solve.layout import Layout
from unweave.solve.step import Solve, Step

MOST_COUPLED = 6000
"""Parameters up to which the whole normal matrix is factorised ..."""
MOST_ENTRIES, SHARE = 4_000_000, 0.125
"""... from the rows of the Jacobian, so many entries at a time, or this share of the matrix; ..."""
MOST_BLOCKS = 50_000_000
"""... and entries of all units' own blocks up to which each has its factor."""
FEW_PRODUCTS, MOST_PRODUCTS = 30, 200
"""Products with the Jacobian a step takes, with a factor of all of the normal matrix and with one of its blocks."""
ENOUGH = 1e-8
"""A step is exact when its gradient has fallen to this fraction, ..."""
ROUGH = 1000
"""Parameters from which the factor is first made in single precision: the same step for a third of the time, unless
the problem is so ill-conditioned that many products do not reach it."""
FLOORS, ROUGH_FLOORS = (1e-12, 1e-10), (1e-6, 1e-5, 1e-4)
"""Least damping of a factor, the first that leaves it positive definite. Steps themselves may be damped less."""
NEGLIGIBLE = 1e-12
"""... or when it could lower the sum of squares, in which an answer's error counts 1, by no more than this."""


def polish_weighted(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    sigma: np.ndarray | float,
    *,
    max_steps: int = 8,
    damping: float = 1e-18,
    patience: int = 2,
    geodesic: bool = False,
    most_coupled: int = MOST_COUPLED,
    target: float = 0.0,
    deadline: float = float("inf"),
) -> Fit:
    """Bring ``network`` to the optimum of ``sum ((network(x) - y) / sigma)^2``, or to a root mean square of ``target``;
    ``Fit.rms`` is in units of sigma.

    ``sigma``: the error of each answer, one number, (n,) or (n, outputs). ``damping``: next to none for starts inside
    the basin; 1e-6 to 1e-3 for rough ones. Steps that gain less than a tenth end it after ``patience`` of them. Up to
    ``most_coupled`` parameters the whole normal matrix is factorised: dear, but where units stand in for one another as
    well as hundreds in one layer do, its factor serves with a tenth of the products.
    """
    layout = Layout.of(network)
    settings = Settings(
        target=target,
        max_steps=max_steps,
        damping=damping,
        least_damping=1e-20,
        geodesic=geodesic,
        stall_steps=0,
        patience=patience,
        stationary_gain=0.1,
        deadline=deadline,
    )
    found = descend(WeightedProblem(layout, x, y, sigma, most_coupled), network.flat(), 1.0, settings)
    return Fit(layout.network(found.parameters), found.rms, found.num_steps, found.end, found.history)


class WeightedProblem:
    """Least squares of a layout at (x, y) with errors ``sigma``, and the factor that serves its steps."""

    y: np.ndarray
    weights: np.ndarray

    layout: Layout
    x: np.ndarray
    num_residuals: int
    rough: bool
    coupled: bool

    def __init__(
        self,
        layout: Layout,
        x: np.ndarray,
        y: np.ndarray,
        sigma: np.ndarray | float,
        most_coupled: int = MOST_COUPLED,
    ):
        self.coupled = layout.num_parameters <= most_coupled
        self.layout, self.x, self.y = layout, x, np.asarray(y, dtype=np.float64).reshape(len(x), -1)
        weights = 1 / np.asarray(sigma, dtype=np.float64)
        self.weights = np.broadcast_to(weights[:, None] if weights.ndim == 1 else weights, self.y.shape)
        self.num_residuals = int(self.y.size)
        self.factor: Factor | None = None
        self.rough = layout.num_parameters >= ROUGH
        """Whether a factor in single precision is tried."""

    def expand(self, theta: np.ndarray, coarse: bool) -> WeightedStep:
        return WeightedStep(self, theta, Passes(self.layout, theta, self.x, np.float64))

    def residual(self, theta: np.ndarray) -> np.ndarray:
        return ((self.layout.forward(theta, self.x) - self.y) * self.weights).ravel()


class WeightedStep(Step):
    """The problem at one point."""

    def __init__(self, problem: WeightedProblem, theta: np.ndarray, passes: Passes):
        super().__init__(problem.residual, theta, ((passes.outputs - problem.y) * problem.weights).ravel())
        self._problem, self._passes, self._weights = problem, passes, problem.weights.ravel()
        self._gauge = gauge_rows(problem.layout, theta)

    def product(self, v: np.ndarray) -> np.ndarray:
        return self._weights * self._passes.forwards(v)

    def damped(self, damping: float) -> Solve | None:
        problem = self._problem
        try:
            factor = problem.factor or self._make_factor()
        except TimeSpent:  # the descent ends here, with what it has
            return None
        problem.factor = factor
        if not factor.prepare(damping):
            return None
        held, num_answers, taken = np.sqrt(damping) * factor.sizes, len(self._weights), 0
        num_held = num_answers + len(held)

        def multiply(u: np.ndarray) -> np.ndarray:
            nonlocal taken
            taken += 1
            v = factor.apply(u)
            return np.concatenate([self.product(v), held * v, self._gauge @ (factor.sizes * v)])

        def adjoint(b: np.ndarray) -> np.ndarray:
            back = self._passes.backwards(self._weights * b[:num_answers])
            back += held * b[num_answers:num_held] + factor.sizes * (b[num_held:] @ self._gauge)
            return factor.adjoint(back)

        def solve(b: np.ndarray) -> np.ndarray:
            extended = np.concatenate([b, np.zeros(len(held) + len(self._gauge.indptr) - 1)])
            found = shortest_least_squares(
                multiply, adjoint, extended, enough=ENOUGH, least=NEGLIGIBLE, most=factor.most
            )
            if taken >= factor.most:  # it no longer serves
                problem.factor, problem.rough = None, False
            return factor.apply(found)

        return solve

    def _make_factor(self) -> Factor:
        return (Coupled if self._problem.coupled else Blocks)(self._problem, self._theta, self._passes)


class Factor(ABC):
    """A change of variables ``v = P u`` after which the damped normal matrix is near the identity."""

    sizes: np.ndarray
    """Root of the diagonal of the normal matrix: what parameters are damped by."""
    most: int
    """Products with the Jacobian that a step may take."""
    floors: tuple[float, ...] = FLOORS
    _built = 0.0

    def prepare(self, damping: float) -> bool:
        """Whether the factor could be made for this damping; one for a little more or less serves as well."""
        if damping / 4 <= self._built <= max(1e3 * damping, self.floors[-1]):
            return True
        for floor in self.floors:
            try:
                self.build(max(damping, floor))
            except np.linalg.LinAlgError:
                continue
            self._built = max(damping, floor)
            return True
        return False

    @abstractmethod
    def build(self, damping: float) -> None: ...

    @abstractmethod
    def apply(self, u: np.ndarray) -> np.ndarray:
        """``P u``."""

    @abstractmethod
    def adjoint(self, v: np.ndarray) -> np.ndarray:
        """``P' v``."""


class Coupled(Factor):
    """Of the whole normal matrix, summed over chunks of rows, with columns scaled to one."""

    most = FEW_PRODUCTS

    def __init__(self, problem: WeightedProblem, theta: np.ndarray, passes: Passes):
        layout, size = problem.layout, problem.layout.num_parameters
        self._dtype = np.float32 if problem.rough else np.float64
        self.floors: tuple[float, ...] = ROUGH_FLOORS if problem.rough else FLOORS
        reaches = passes.reaches(weights=problem.weights)
        squares = [(reach**2).T @ inputs**2 for reach, inputs in zip(reaches, passes.inputs, strict=True)]
        self.sizes: np.ndarray = np.sqrt(np.concatenate([s.ravel() for s in squares]))
        self._scales = np.where(self.sizes > 0, self.sizes, 1.0)
        self._gram = np.zeros((size, size), dtype=self._dtype)
        entries = max(MOST_ENTRIES, int(SHARE * size**2))
        for part in np.array_split(np.arange(len(problem.x)), problem.y.size * size // entries + 1):
            held().check()  # the sum of a large one takes many seconds
            jacobian = layout.linearise(theta, problem.x[part])[1] * problem.weights[part].reshape(-1, 1)
            jacobian = (jacobian / self._scales).astype(self._dtype, copy=False)
            self._gram += jacobian.T @ jacobian
        gauge = gauge_rows(layout, theta) * (self.sizes > 0)
        self._gram += (gauge.T @ gauge).toarray().astype(self._dtype)

    def build(self, damping: float) -> None:
        damped = self._gram.copy(order="F")
        damped[np.diag_indices_from(damped)] += self._dtype(damping)
        self._factor = scipy.linalg.cholesky(damped, overwrite_a=True, check_finite=False)

    def apply(self, u: np.ndarray) -> np.ndarray:
        return self._solve(u, trans=0) / self._scales

    def adjoint(self, v: np.ndarray) -> np.ndarray:
        return self._solve(v / self._scales, trans=1)

    def _solve(self, right: np.ndarray, trans: int) -> np.ndarray:
        size = max(float(np.max(np.abs(right), initial=0.0)), 1e-300)  # single precision has a short range
        right = (right / size).astype(self._dtype)
        found = scipy.linalg.solve_triangular(self._factor, right, trans=trans, check_finite=False)
        return size * found.astype(np.float64)


class Blocks(Factor):
    """Of each unit's own block; where these are too large, of what they have in common in a layer."""

    most = MOST_PRODUCTS

    def __init__(self, problem: WeightedProblem, theta: np.ndarray, passes: Passes):
        self._layout = layout = problem.layout
        rows, share = passes.enough_rows()
        shared = (
            sum((k + 1) ** 2 * m for k, m in zip(layout.fan_ins, layout.sizes[1:], strict=True)) > MOST_BLOCKS
        )
        self._blocks, self._scales, sizes = [], [], []
        for whole, reach in zip(passes.inputs, passes.reaches(rows, problem.weights), strict=True):
            inputs, squares = whole[rows], share * reach**2
            scales = np.ones(reach.shape[1])
            if shared:
                mean = max(float(np.mean(squares)), 1e-300)
                scales = np.sqrt(np.mean(squares, axis=0) / mean + FLOORS[0])
                squares = np.mean(squares, axis=1, keepdims=True)
            blocks = np.stack([(inputs * s[:, None]).T @ inputs for s in squares.T])
            self._blocks.append(blocks)
            self._scales.append(scales[:, None])
            sizes.append((scales[:, None] * np.sqrt(np.einsum("uii->ui", blocks))).ravel())
        self.sizes: np.ndarray = np.concatenate(sizes)

    def build(self, damping: float) -> None:
        self._roots = []
        for blocks in self._blocks:
            diagonal = np.einsum("uii->ui", blocks)
            added = damping * diagonal + FLOORS[-1] * max(float(np.mean(diagonal)), 1e-300)
            damped = blocks + added[:, :, None] * np.eye(blocks.shape[1])
            self._roots.append(np.linalg.inv(np.linalg.cholesky(damped)))

    def apply(self, u: np.ndarray) -> np.ndarray:
        return self._each(u, transposed=True)

    def adjoint(self, v: np.ndarray) -> np.ndarray:
        return self._each(v, transposed=False)

    def _each(self, v: np.ndarray, transposed: bool) -> np.ndarray:
        pieces = []
        for layer, (roots, scales) in enumerate(zip(self._roots, self._scales, strict=True)):
            block = self._layout.block(v, layer) / scales
            root = roots.transpose(0, 2, 1) if transposed else roots
            pieces.append(block @ root[0].T if len(root) == 1 else (root @ block[:, :, None])[:, :, 0])
        return np.concatenate([p.ravel() for p in pieces])
