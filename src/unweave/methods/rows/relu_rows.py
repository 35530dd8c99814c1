"""The rows of a search for kinks, and what a student fitted to them becomes in their units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core.network import Network
from unweave.evidence.rows import Samples
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.one_layer.polish import refit_ridges
from unweave.methods.relu.one_layer.ridges import RidgeSum
from unweave.methods.rows.relu_noise import Opinion
from unweave.methods.rows.relu_search import EXACT, Effort, KinkFit, KinkSearch
from unweave.probes.planes import Planes
from unweave.solve.descend import Minimum, Settings
from unweave.solve.fit import fit_layout
from unweave.solve.layout import Layout
from unweave.students.narrow import narrow_down
from unweave.students.prune import prune
from unweave.students.standard import Standard

ROUNDING = 4 * 2.0**-52
MOST_ENTRIES = 20_000_000
"""Entries of the largest Jacobian held in memory."""


@dataclass(frozen=True)
class KinkRows:
    """Rows in random order, in whitened and in standard coordinates."""

    x: np.ndarray
    y: np.ndarray
    standard: Standard
    u: np.ndarray
    v: np.ndarray
    bend: float
    affine: Network
    known_noise: float

    @staticmethod
    def of(samples: Samples, problem: Problem) -> KinkRows:
        order = problem.rng("order of rows").permutation(len(samples.x))
        x, y = samples.x[order], samples.y[order]
        standard = Standard.of(x, y, common=True)
        u, v = standard.inputs(x), standard.outputs(y)
        design = np.hstack([u, np.ones((len(u), 1))])
        coefficients = np.linalg.lstsq(design, v, rcond=None)[0]
        spare = max(len(u) - design.shape[1], 1)
        bend = float(np.sqrt(np.sum((v - design @ coefficients) ** 2) / spare / v.shape[1]))
        affine = standard.undo(Network([coefficients[:-1].T], [coefficients[-1]], ["identity"]))
        precision = problem.precision
        noise = 0.0 if precision.kind == "float64" else precision.noise / float(np.min(standard.spread))
        return KinkRows(x, y, standard, u, v, bend, affine, noise)

    @property
    def spread(self) -> float:
        return float(np.sqrt(np.mean(self.standard.spread**2)))

    def shuffled(self, rng: np.random.Generator) -> KinkRows:
        order = rng.permutation(len(self.x))
        return replace(self, x=self.x[order], y=self.y[order], u=self.u[order], v=self.v[order])

    def search(self, rng: np.random.Generator, effort: Effort) -> KinkSearch:
        return KinkSearch(self.u, self.v, self.bend, rng, self.known_noise, effort)

    def narrow(self, found: KinkFit, search: KinkSearch) -> tuple[Layout, Minimum]:
        """The least width that explains the rows; noisy rows are taken in larger numbers."""
        deadline = search.deadline + search.effort.time_limit
        if found.noise == 0:
            count = found.num_rows
            return narrow_down(
                found.layout, found.fit, self.u[:count], self.v[:count], bend=self.bend, floor=0.0,
                max_steps=search.effort.max_steps, deadline=deadline,
            )  # fmt: skip
        count = max(found.num_rows, num_rows_for(self, found.layout, 1.5 * search.effort.rows_per_parameter))
        u, v = self.u[:count], self.v[:count]
        settings = Settings(
            target=0.3 * found.noise, max_steps=60, damping=1e-3, geodesic=False, stationary_gain=1e-3,
            patience=3, stall_steps=0, deadline=deadline,
        )  # fmt: skip
        start = fit_layout(found.layout, found.fit.parameters, u, v, settings=settings)
        return prune(
            found.layout, start, u, v, accept=1.03 * found.noise, settings=settings, noisy=True,
            affordable=1.5 * found.noise,
        )  # fmt: skip

    def flat(self) -> Finding:
        """The affine function with noise around it: all that these rows show."""
        noise = self.bend * self.spread
        return Finding(
            self.affine,
            reason=f"an affine function with noise of standard deviation {noise:.3g} explains the rows; units that "
            "bend less than that need more rows",
            undetermined=("hidden units: none shows above the noise",),
            noise=noise,
        )

    def standardised(self, kinks: np.ndarray) -> np.ndarray:
        """Kinks given in whitened inputs, as unit normals and offsets in standard coordinates."""
        back = np.linalg.pinv(self.standard.whiten)
        normals = kinks[:, :-1] @ back.T
        offsets = kinks[:, -1] + kinks[:, :-1] @ self.standard.mean
        lengths = np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
        return np.hstack([normals, offsets[:, None]]) / lengths

    def opinion(self, found: KinkFit, search: KinkSearch) -> Opinion:
        """A student of noisy rows narrowed down and refitted."""
        layout, fit = self.narrow(found, search)
        count = num_rows_for(self, layout, 4 * search.effort.rows_per_parameter)
        ridges, misfit = self.refit(self.ridges(layout, fit.parameters), count, found.noise)
        ridges, misfit = self.drop_surplus(ridges, misfit, count, found.noise)
        return Opinion(ridges, misfit, count)

    def drop_surplus(
        self, ridges: RidgeSum, misfit: float, num_rows: int, noise: float
    ) -> tuple[RidgeSum, float]:
        """Remove the least determined unit while the rest explains the rows as well.

        Exact rows: to rounding. Noisy ones: while the Bayesian criterion prefers fewer units (misfits have the
        freedom taken off already).
        """
        num_removed, num_residuals = self.x.shape[1] + self.y.shape[1], num_rows * self.y.shape[1]
        factor = np.exp(0.5 * num_removed * (np.log(num_residuals) - 1) / num_residuals)
        for _ in range(len(ridges.planes) - 1):
            worst = int(np.argmax(ridges.planes.errors))
            if noise == 0 and ridges.planes.errors[worst] < 1e-6:
                break
            kept = ridges.planes.take(np.arange(len(ridges.planes)) != worst)
            trial, after = self.refit(replace(ridges, planes=kept), num_rows, noise)
            if after > (misfit * factor if noise else EXACT * self.spread):
                break
            ridges, misfit = trial, after
        return ridges, misfit

    def ridges(self, layout: Layout, parameters: np.ndarray) -> RidgeSum:
        """The student as an affine function and bends, in whitened coordinates."""
        rows, top = layout.block(parameters, 0), layout.block(parameters, 1)
        width, s = len(rows), self.standard
        normals = rows[:, :-1] @ s.whiten.T
        offsets = rows[:, -1] - normals @ s.mean
        lengths = np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
        gradient = s.spread[:, None] * (top[:, width:-1] @ s.whiten.T)
        constant = s.centre + s.spread * top[:, -1] - gradient @ s.mean
        normals, offsets = normals / lengths[:, None], offsets / lengths
        jumps = lengths[:, None] * (s.spread[:, None] * top[:, :width]).T
        planes = Planes(normals, offsets, jumps, np.zeros(width), -offsets[:, None] * normals)
        return RidgeSum(planes, gradient, constant)

    def refit(self, ridges: RidgeSum, num_rows: int, noise: float = 0.0) -> tuple[RidgeSum, float]:
        """Least squares for all bends at once on the first rows; also the residual level in the units of y."""
        size = (len(ridges.planes) + 1) * (self.x.shape[1] + 1)
        count = min(len(self.x), max(num_rows, 3 * size))
        x, y = self.x[:count], self.y[:count]
        level = max(noise * self.spread, ROUNDING * float(np.sqrt(np.mean(y**2))))
        ridges, misfit = refit_ridges(ridges, x, y, np.full(count, level), 8 if noise else 20)
        return ridges, misfit * level


def num_rows_for(rows: KinkRows, layout: Layout, ratio: float) -> int:
    """Rows that a student of noisy answers is fitted to: so many a parameter, as far as memory goes."""
    size = layout.num_parameters
    return int(min(len(rows.x), ratio * size, max(MOST_ENTRIES // size, 4 * size)))
