"""Further checks for piecewise-linear networks, where a few hundred points are too weak a certificate.

A missing unit may bend the function only in a rare corner. So: fresh points at several scales, as many as a quarter
of the parameters (up to 50 a unit, and 3000); and kinks on fresh lines that the recovered network does not explain, of
which there must be none. What these do not meet is searched for (``disagreement``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.certificates.answers import MOST_BARS
from unweave.certificates.base import Check, FreshQueries
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.probes.inquiry import Inquiry, open_inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines

NUM_LINES = 2
SCALES, LINES = "points near and far", "kinks on fresh lines"
"""Names of the checks."""


@dataclass(frozen=True)
class _Believed:
    """The recovered network with the accuracy that counts as agreement, relative to the growth of the outputs."""

    network: Network
    slope: float
    tolerance: float

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return self.network(x)

    def error(self, x: np.ndarray) -> np.ndarray:
        return self.tolerance * self.slope * (1 + np.linalg.norm(x, axis=1))


def check_kinks(network: Network, fresh: FreshQueries, tolerance: float = 1e-9) -> list[Check]:
    """Points near and far, kinks on fresh lines; skipped as far as the budget forbids."""
    meter, rng = fresh.meter, fresh.rng
    checks: list[Check] = []
    with meter.stage(CERTIFICATE):
        if meter.ledger.left < 40 + 24 * NUM_LINES:
            return [Check(name, None) for name in (SCALES, LINES)]
        inquiry = open_inquiry(meter, fresh.precision, rng)
        rough = max(1e-9, 30 * inquiry.relative)
        x = _at_several_scales(network, meter, rng)
        x = x[: int(max(0, min(len(x), meter.ledger.left - 24 * NUM_LINES)))]
        if len(x):
            checks.append(_check_points(SCALES, network, x, inquiry, tolerance))
        lines = draw_lines(meter.domain, NUM_LINES, meter.input_size, rng)
        kinks = find_kinks(inquiry.against(_Believed(network, inquiry.slope, rough)), lines, num_nodes=6)
    missed = sum(len(k.positions) + len(k.unresolved) for k in kinks)
    seen = "every kink is" if not missed else f"{missed} kinks are not"
    lines_check = Check(
        LINES,
        missed == 0,
        {"num_lines": float(NUM_LINES), "num_unexplained": float(missed)},
        f"along {NUM_LINES} fresh lines {seen} explained by the network",
        f"{missed} kinks on fresh lines are not explained by the network: a unit is missing"
        if missed
        else "",
        local=True,
    )
    return [*checks, lines_check]


def _check_points(name: str, network: Network, x: np.ndarray, inquiry: Inquiry, tolerance: float) -> Check:
    """Fresh points against the network, errors relative to the growth of the outputs."""
    answers = inquiry.meter.ask(x)
    x = inquiry.meter.snap(x)
    size = inquiry.slope * (1 + np.linalg.norm(x, axis=1)) + np.max(np.abs(answers), axis=1)
    size = np.maximum(size, MOST_BARS * inquiry.meter.blur(answers) / tolerance)
    error = float(np.max(np.max(np.abs(network(x) - answers), axis=1) / np.maximum(size, 1e-300)))
    return Check(
        name,
        error <= tolerance,
        {"num_points": float(len(x)), "max_error": error},
        f"{len(x):,} further {name}: largest error {error:.1e}",
        "" if error <= tolerance else f"{name} differ by up to {error:.1e} (allowed {tolerance:.1e})",
    )


def _at_several_scales(network: Network, meter: Meter, rng: np.random.Generator) -> np.ndarray:
    """Fresh points, most of them from the domain; in an unbounded one at radii from a tenth to a hundred."""
    count = int(np.clip(min(network.num_parameters / 4 - 200, 50 * sum(network.hidden)), 0, 3000))
    d = meter.input_size
    x = meter.domain.sample(count, d, rng)
    if np.isinf(meter.domain.reach(d)):
        third = count // 3
        x[:third] = 10 ** rng.uniform(-1, 2, size=(third, 1)) * rng.standard_normal((third, d))
    return x
