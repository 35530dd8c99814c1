"""The certificate: what was checked on fresh queries, with which bound, and how well each parameter is determined.

*Function.* The recovered network is compared with the model at points never used in fitting: some drawn from the
domain, some on its edge, some where the network's own units are most active. An error is measured against the
larger of the outputs' spread and ``|x| |grad f(x)|``, the effect of a relative change of the input: far out, near
a hyperplane, even the model's own rounding moves the answer by that much times 1e-16.

*What follows.* If all n points drawn from the domain agree, then with 95 % confidence the fraction of the domain
where the error is larger than the largest seen is at most ``1 - 0.05^(1/n)``.

*Parameters.* The Jacobian of the network on the answers it was found from gives a standard error for each parameter
at the measured noise level. Units whose parameters it does not determine are named.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from unweave.certificates.kinks import PLANE_ERROR, first_layer_checks, piecewise_linear_checks
from unweave.certificates.steps import boundary_checks
from unweave.core.errors import BudgetSpent
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.evidence.precision import Precision
from unweave.solve.weighted import relative_errors, weighted_system

NUM_POINTS = 200
CONFIDENCE = 0.95
LOOSEST = 0.1
"""However rough the answers are, a larger relative error on fresh ones is no agreement."""
EXACT = 1e-9
"""Largest relative error that counts as the same function when the answers are exact."""


@dataclass(frozen=True)
class Certificate:
    """Figures only; the pipeline words the outcome."""

    max_relative_error: float
    rms_relative_error: float
    num_points: int
    tolerance: float
    """Errors up to this size are explained by the accuracy of the answers."""
    fraction_outside: float
    """With 95 % confidence at most this fraction of the domain has an error above the largest seen."""
    condition: float | None = None
    """Condition number of the scaled Jacobian (an upper estimate); None when it was not computed."""
    max_standard_error: float | None = None
    """Largest standard error of a unit's parameters relative to its largest parameter."""
    undetermined: tuple[str, ...] = ()
    checks: dict[str, float] = field(default_factory=dict)
    """Further figures of the method's own checks."""
    fresh: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)
    """What was compared: ``answers`` of the model, ``outputs`` of the network, both (n, outputs), ``errors`` (n,).

    ``deviations`` are the standard errors of the units, layer by layer, where they were computed."""
    num_needed: int = NUM_POINTS
    """As many points as a claim needs."""

    @property
    def agrees(self) -> bool:
        """Whether every fresh answer was reproduced to the accuracy of the answers, and every further check passed."""
        errors = [value for name, value in self.checks.items() if name.startswith("max_error")]
        explained = self.checks.get("num_unexplained_kinks", 0) == 0
        return explained and max([self.max_relative_error, *errors]) <= self.tolerance

    @property
    def complete(self) -> bool:
        """Whether there were as many fresh queries as a claim needs."""
        return self.num_points >= self.num_needed

    def to_dict(self) -> dict[str, Any]:
        """The figures, without the arrays of ``fresh``."""
        record = asdict(self)
        del record["fresh"]
        return {**record, "undetermined": list(self.undetermined)}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Certificate:
        return cls(**{**record, "undetermined": tuple(record.get("undetermined", ()))})


def certify(
    network: Network,
    meter: Meter,
    precision: Precision,
    rng: np.random.Generator,
    *,
    num_points: int = NUM_POINTS,
) -> Certificate:
    """Check ``network`` on fresh queries, charged to the stage ``certificate``."""
    if network.is_open:
        return _certify_first_layer(network, meter, precision, rng)
    used = meter.transcript()
    num_points = int(min(num_points, meter.ledger.left))
    x, from_domain = _fresh_points(network, meter, num_points, rng)
    with meter.stage(CERTIFICATE):
        y = meter.ask(x)
    x = meter.snap(x)
    errors = relative_errors(network, x, y)
    steps = "step" in network.hidden_activations
    system = None if steps else weighted_system(network, *used, precision.noise, unit=precision.unit)
    deviations = None if system is None else system.unit_errors(network)
    kinked = network.hidden and all(
        name.startswith(("relu", "leaky_relu")) for name in network.activations[:-1]
    )
    checks = piecewise_linear_checks(network, meter, rng, precision) if kinked else {}
    if steps:
        checks = boundary_checks(network, meter, rng)
    return Certificate(
        max_relative_error=float(np.max(errors, initial=0.0)),
        rms_relative_error=float(np.sqrt(np.mean(errors**2))) if len(errors) else 0.0,
        num_points=len(x),
        # Decisions look like answers rounded to 0 and 1, but agree or do not.
        tolerance=EXACT if steps else min(max(EXACT, 12 * precision.relative), LOOSEST),
        fraction_outside=1 - (1 - CONFIDENCE) ** (1 / max(from_domain, 1)),
        condition=None if system is None else system.condition,
        max_standard_error=None if deviations is None else float(np.max(deviations, initial=0.0)),
        undetermined=() if deviations is None else name_units(network, deviations),
        checks=checks,
        fresh={
            "answers": y,
            "outputs": network(x),
            "errors": errors,
            **({} if deviations is None else {"deviations": deviations}),
        },
    )


def _certify_first_layer(
    network: Network, meter: Meter, precision: Precision, rng: np.random.Generator
) -> Certificate:
    """Without the rest of the network answers cannot be compared; the places of kinks on fresh lines can."""
    try:
        errors, confirmed = first_layer_checks(network, meter, rng, precision)
    except BudgetSpent:
        return Certificate(0.0, 0.0, 0, PLANE_ERROR, 1.0)
    return Certificate(
        max_relative_error=float(np.max(errors, initial=0.0)),
        rms_relative_error=float(np.sqrt(np.mean(errors**2))) if len(errors) else 0.0,
        num_points=len(errors),
        tolerance=PLANE_ERROR,
        fraction_outside=1.0,
        undetermined=tuple(
            f"layer 1, unit {i}: its hyperplane does not show on fresh lines"
            for i in np.flatnonzero(~confirmed)
        ),
        checks={
            "num_planes_confirmed": float(confirmed.sum()),
            "num_planes_unconfirmed": float(np.sum(~confirmed)),
        },
        num_needed=len(network.biases[0]),
    )


def name_units(network: Network, deviations: np.ndarray, limit: float = 1e-2) -> tuple[str, ...]:
    names, start = [], 0
    for layer, w in enumerate(network.weights):
        for unit, deviation in enumerate(deviations[start : start + len(w)]):
            if not deviation < limit:
                size = "not at all" if not np.isfinite(deviation) else f"only to {deviation:.0%}"
                place = "output" if layer == network.num_layers - 1 else f"layer {layer + 1}, unit"
                names.append(f"{place} {unit}: determined {size}")
        start += len(w)
    return tuple(names)


def _fresh_points(network: Network, meter: Meter, num_points: int, rng) -> tuple[np.ndarray, int]:
    """Half drawn from the domain, a quarter on its edge, a quarter where the units are active, all inside it.

    Points that were asked before are left out and made good by more from the domain.
    """
    quarter = num_points // 4
    edge = meter.domain.edge(quarter, meter.input_size, rng)
    active = active_points(network, quarter, rng)
    others = np.concatenate([edge, active[meter.domain.contains(active)]])
    others = others[meter.is_new(others)]
    rest = num_points - len(others)
    inner = meter.domain.sample(2 * rest, meter.input_size, rng)
    inner = inner[meter.is_new(inner)][:rest]
    return np.concatenate([inner, others]), len(inner)


def active_points(network: Network, num_points: int, rng: np.random.Generator) -> np.ndarray:
    """Points whose first-layer arguments are of order one: normal, whitened by the network's own rows."""
    rows = network.weights[0]
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    keep = values > 1e-8 * values[0] if values[0] > 0 else np.zeros(len(values), dtype=bool)
    centre = -np.linalg.pinv(rows) @ network.biases[0] if keep.any() else np.zeros(rows.shape[1])
    spread = vectors[keep] / values[keep, None] * np.sqrt(len(rows) / max(int(keep.sum()), 1))
    return centre + 1.5 * rng.standard_normal((num_points, len(spread))) @ spread
