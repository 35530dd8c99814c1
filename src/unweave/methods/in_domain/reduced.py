"""Fewer directions than inputs: the in-domain search inside the subspace in which the answers vary.

A network whose first layer has m0 < d units depends on m0 directions of x only, and gradients at a few more points
than that span them (Algorithm 1 of Fornasier, Klock and Rauchensteiner 2019). On a slice ``x = middle + B z`` through
the domain the answers are those of the same network with first layer ``W B``, exactly and for any B; it is searched
for there, where students have m0 instead of d weights a unit. Lifted back, the first layer is known up to the error
of B, and a fit to points of the whole domain gives the last digits, at 1.3 answers a parameter. Used from 30 inputs
on when at most half of the directions count: then it saves time and questions. Answers in single precision show the
directions to 1e-4, which is enough: the network of a slice is exact for any B, and the last fit has three answers a
parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from unweave.core.deadline import Deadline
from unweave.core.domains import Ball, Domain
from unweave.core.network import Network
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Meter
from unweave.methods.base import Finding, Problem
from unweave.methods.hessian.probe import HessianProbe
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_network
from unweave.solve.polish import polish

LEAST_INPUTS = 30
SAMPLES_PER_PARAMETER, SAMPLES_ROUNDED = 1.3, 3.0
"""Answers in the last fit for each parameter; of single precision."""
LIFTED = 1e-9
"""Relative residual on the whole domain above which the answers depend on more directions than were seen."""


def recover_reduced(
    meter: Meter, problem: Problem, search: Callable[[Meter, Problem], Finding]
) -> Finding | None:
    """The network by ``search`` in the active directions; None when those are too many, or do not suffice."""
    size = meter.input_size
    widths = problem.hidden
    narrow = widths is None or 2 * widths[0] <= size
    if (
        size < LEAST_INPUTS
        or not (problem.precision.relative <= 1e-12 or problem.precision.kind == "float32")
        or not narrow
        or meter.ledger.left < 3 * size**2
    ):
        return None
    probe = HessianProbe(meter, problem, problem.activations)
    probe.measure_length()
    basis = probe.active_directions()
    if 2 * basis.shape[1] > size:
        return None
    middle = probe.middle()
    finding = search(Slice(meter, middle, basis), problem)
    if finding.network is None or not finding.network.hidden:
        return None
    return _lift(meter, problem, finding, finding.network, middle, basis)


def _lift(
    meter: Meter, problem: Problem, finding: Finding, network: Network, middle: np.ndarray, basis: np.ndarray
) -> Finding | None:
    """The network of a slice in all coordinates, fitted to points of the whole domain."""
    first = network.weights[0] @ basis.T
    lifted = Network(
        [first, *network.weights[1:]],
        [network.biases[0] - first @ middle, *network.biases[1:]],
        network.activations,
    )
    ratio = SAMPLES_PER_PARAMETER if problem.precision.kind == "float64" else SAMPLES_ROUNDED
    count = int(ratio * lifted.num_parameters / meter.output_size) + 20
    x = meter.snap(meter.domain.sample(count, meter.input_size, problem.rng("lifted points")))
    with meter.stage("points in the domain"):
        y = meter.ask(x)
    settings = Settings(target=1e-14, max_steps=30, damping=1e-6, stall_steps=0)
    fitted = fit_network(lifted, x, y, settings=settings)
    polished = polish(fitted.network, x, y, noise=problem.precision.noise)
    if polished.rms > max(LIFTED, 30 * problem.precision.relative):
        return None
    details = {
        **finding.details,
        "singular_values": polished.singular_values,
        "standard_errors": polished.standard_errors,
    }
    return replace(finding, network=polished.network, details=details)


class View(Meter):
    """Another meter seen with other inputs or outputs, charged to its ledger."""

    input_size: int
    output_size: int
    dtype: str
    ledger: Ledger
    deadline: Deadline

    def __init__(self, meter: Meter, domain: Domain, input_size: int, output_size: int):
        super().__init__(meter.oracle, domain=domain, remember=False)
        self.input_size, self.output_size, self.dtype = input_size, output_size, meter.dtype
        self.ledger, self.deadline = meter.ledger, meter.deadline
        self._whole = meter

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self._whole.stage(name):
            yield

    def blur(self, answers: np.ndarray) -> np.ndarray:
        return self._whole.blur(answers)


class Slice(View):
    """Questions ``middle + z B'`` to another meter."""

    def __init__(self, meter: Meter, middle: np.ndarray, basis: np.ndarray):
        self._slice = _SliceDomain(meter.domain, middle, basis)
        same = Ball(meter.domain.radius) if isinstance(meter.domain, Ball) else self._slice
        super().__init__(meter, same, basis.shape[1], meter.output_size)

    def snap(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x, dtype=np.float64)

    def ask(self, x: np.ndarray) -> np.ndarray:
        return self._whole.ask(self._slice.outside(x))


@dataclass(frozen=True)
class _SliceDomain:
    """The part of a domain on an affine subspace through its middle."""

    domain: Domain
    middle: np.ndarray
    basis: np.ndarray

    def outside(self, z: np.ndarray) -> np.ndarray:
        return self.middle + z @ self.basis.T

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        return self.domain.contains(self.outside(x), slack)

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        return (self.domain.nearest(self.outside(x), unit) - self.middle) @ self.basis

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        return self._inside(self.domain.sample(num_points, len(self.basis), rng))

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        return self._inside(self.domain.edge(num_points, len(self.basis), rng))

    def reach(self, input_size: int) -> float:
        return self.domain.reach(len(self.basis))

    def _inside(self, x: np.ndarray) -> np.ndarray:
        """Points projected to the subspace, drawn towards the middle where that leaves the domain."""
        z = (x - self.middle) @ self.basis
        for _ in range(60):
            out = ~self.contains(z)
            if not np.any(out):
                break
            z[out] *= 0.8
        return z
