"""HighThreshold: the first layer of a deep network from samples, whatever stands above it.

``f(x) = P(u(w_1.x - t_1), ..., u(w_m.x - t_m))`` with x ~ N(0, I), high thresholds and an unknown P (Goel and Panigrahy
2019). Most rows have the resting value ``c_0 = P(0)``; where f differs from it, some unit is active. These labels are
an OR of halfspaces, which gives directions, thresholds and the number of units (``labels``). Step units
end there; relu units come back to rounding by inverse regression on rows where one unit is active alone; sigmoid units
have no resting value and are fitted with P projected out (``sigmoid``).

The network found is open: its first layer is known, the rest is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unweave.core.errors import InputError
from unweave.evidence.kinds import Evidence
from unweave.evidence.rows import Samples
from unweave.methods.base import Finding, Problem, Serves, Traits
from unweave.methods.high_threshold.inverse import InverseFit, fit_relu_units
from unweave.methods.high_threshold.labels import fit_labels
from unweave.methods.high_threshold.landscape import landscape_starts
from unweave.methods.high_threshold.sigmoid import recover_sigmoid_units
from unweave.methods.high_threshold.starts import active_rows, find_resting_value
from unweave.methods.high_threshold.union import Union
from unweave.methods.high_threshold.verdict import describe_first_layer

UNITS = ("relu", "step", "sigmoid")
STARTS = ("moments", "landscape", "simultaneous", "orthonormal")
LEAST_RESTING = 0.02
"""Below this share of rows with the resting value, units are active nearly everywhere."""


@dataclass(frozen=True)
class HighThreshold:
    """What ``learn(method=...)`` takes.

    Parameters
    ----------
    unit
        "relu", "step" or "sigmoid"; "auto" looks at the answers: two or few values mean steps, no resting value
        sigmoids.
    num_units
        Units of the first layer; found when not given (sigmoid units: as many as T_2 shows).
    flip_rate
        Share of rows whose label may be wrong (step units); estimated when not given, 0 says none.
    start
        Where rough directions come from: "moments" (T_2 whitening, T_3 power iteration), "landscape" (the paper's
        G(z), one by one), "simultaneous" (its joint objective), "orthonormal" (``max E f h_4(z.x)``).
    """

    unit: str = "auto"
    num_units: int | None = None
    flip_rate: float | None = None
    start: str = "moments"

    @property
    def name(self) -> str:
        return "high-threshold"

    @property
    def serves(self) -> Serves:
        return Serves(Evidence.ROWS, UNITS, gaussian=True)

    def suits(self, traits: Traits) -> str | None:
        """Decisions only: of other first layers the whole network may be found."""
        if traits.activation == "step":
            return "the activation is step"
        return "y takes two values only" if traits.two_valued and traits.candidates(self.serves) else None

    def recover(self, samples: Samples, problem: Problem) -> Finding:
        """The first layer from the rows, as an open network of the whitened inputs."""
        unit, num_units, rng = (
            self._unit(samples, problem),
            self._num_units(problem),
            problem.rng("high thresholds"),
        )
        if unit == "sigmoid":
            samples.report("sigmoid units")
            return recover_sigmoid_units(samples.x, samples.y[:, 0], rng, num_units=num_units)
        samples.report("resting value")
        resting = [find_resting_value(column) for column in samples.y.T]
        if min(rest.share for rest in resting) < LEAST_RESTING:
            share = min(rest.share for rest in resting)
            return Finding(
                None,
                f"no answer is taken by more than {share:.1%} of the rows: the thresholds are too low, or the units "
                "never rest; for smooth units give unit='sigmoid'",
            )
        columns = [active_rows(y, rest) for y, rest in zip(samples.y.T, resting, strict=True)]
        labels = np.any(columns, axis=0)
        if labels.sum() < 10 * samples.input_size:
            return Finding(None, f"units are active on {int(labels.sum())} rows only; give more rows")
        samples.report("directions")
        start = None
        if self.start != "moments":
            count = samples.input_size if num_units is None else min(num_units, samples.input_size)
            start = landscape_starts([(samples.x, labels)], samples.input_size, self.start, count, rng)
        rate = 0.0 if unit == "relu" else self.flip_rate
        fit = fit_labels(
            samples.x,
            labels,
            rng,
            num_units=num_units,
            flip_rate=rate,
            start=start,
            centred=unit != "relu",
        )
        inverse: list[InverseFit | None] = [None] * len(fit.union)
        if unit == "relu":
            samples.report("inverse regression")
            inverse = _fit_inverses(samples, columns, resting, fit.union)
        values = np.array([rest.value for rest in resting])
        return describe_first_layer(unit, samples, labels, values, fit, inverse, num_units)

    def _unit(self, samples: Samples, problem: Problem) -> str:
        unit = self.unit
        if unit == "auto" and len(problem.activations) == 1:
            unit = problem.activations[0]
        if unit == "auto":
            values, counts = np.unique(samples.y[:, 0], return_counts=True)
            few = len(values) <= max(2, 0.01 * len(samples.x))
            rests = counts.max() > LEAST_RESTING * len(samples.x)
            unit = "step" if few else "relu" if rests else "sigmoid"
        if unit not in UNITS:
            raise InputError(f"unit={unit!r}: high-threshold serves {', '.join(UNITS)}")
        if self.start not in STARTS:
            raise InputError(f"start={self.start!r}: give one of {', '.join(STARTS)}")
        return unit

    def _num_units(self, problem: Problem) -> int | None:
        return self.num_units if problem.hidden is None else problem.hidden[0]


def _fit_inverses(samples: Samples, columns, resting, union: Union) -> list[InverseFit | None]:
    """For each unit the inverse regression on the output that fits best."""
    best: list[InverseFit | None] = [None] * len(union)
    for j, (active, rest) in enumerate(zip(columns, resting, strict=True)):
        for i, fit in enumerate(fit_relu_units(samples.x, samples.y[:, j], active, rest.value, union)):
            known = best[i]
            if fit is not None and (known is None or fit.residual < known.residual):
                best[i] = replace(fit, column=j)
    return best
