"""Questions with an error bar: answers minus what a model already explains, and how far to trust them.

The rounding error of a network's answer grows with the numbers it adds up, about
``relative * (|f| + slope * |x|)``. Where both are small, in the middle of a box, biases and hidden units are not: in
float32 the error there stays about what it was measured to be elsewhere, which is added. Every comparison of a
piecewise-linear probe is made against this bar.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision


class Model(Protocol):
    """What is believed of an oracle so far, with an error bar of its own."""

    def __call__(self, x: np.ndarray) -> np.ndarray: ...

    def error(self, x: np.ndarray) -> np.ndarray:
        """The error to expect of the model at the rows of ``x``."""
        ...


BLIND = 1e30
"""Error bar of an answer that says nothing: finite, so that sums over many answers stay numbers."""
SAFETY = 12.0
"""How many error bars two numbers may differ by and still be called equal."""


@dataclass(frozen=True)
class Inquiry:
    """The oracle behind ``meter``, less ``model`` where one is given."""

    meter: Meter
    relative: float
    """Relative rounding error of one answer."""
    noise: float
    """Absolute error below which no answer goes, in the units of the outputs."""
    slope: float
    """Typical growth of the outputs with |x|."""
    model: Model | None = None
    window: float = 0.0
    """Half width around a kink in which the answers follow neither side: 0 for relu, not for its smooth kin far out."""

    @property
    def input_size(self) -> int:
        return self.meter.input_size

    @property
    def output_size(self) -> int:
        return self.meter.output_size

    @property
    def coarse(self) -> bool:
        """Whether answers are too rough for very short differences (float32, noise)."""
        return self.relative > 1e-11 or self.noise > 0

    def ask(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Answers (n, k) to the rows of ``x``, less the model's, and their error bars (n,)."""
        answers = self.meter.ask(x)
        bars = self.bars(x, answers)
        if self.model is not None:
            x = self.meter.snap(x)
            answers = answers - self.model(x)
            bars = bars + self.model.error(x)
        return answers, bars

    def bars(self, x: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """The error to expect of ``answers`` to the rows of ``x``."""
        size = np.max(np.abs(answers), axis=1) + self.slope * np.sqrt(np.einsum("nd,nd->n", x, x))
        return self.noise + self.relative * size + np.minimum(self.meter.blur(answers), BLIND)

    def against(self, model: Model | None) -> Inquiry:
        """The same oracle, less another model."""
        return replace(self, model=model)


def open_inquiry(
    meter: Meter, precision: Precision, rng: np.random.Generator, num_pairs: int = 4, *, window: float = 0.0
) -> Inquiry:
    """Measure the growth of the outputs on a few pairs of points and set the error bars."""
    x = meter.domain.sample(2 * num_pairs, meter.input_size, rng)
    answers = meter.ask(x)
    x = meter.snap(x)
    apart = np.linalg.norm(x[:num_pairs] - x[num_pairs:], axis=1)
    rise = np.max(np.abs(answers[:num_pairs] - answers[num_pairs:]), axis=1)
    slope = float(np.max(rise / np.maximum(apart, 1e-300)))
    floor = 2e-8 if meter.dtype == "float32" or precision.kind == "float32" else 5e-16
    exact = precision.kind in ("float64", "float32")
    endures = precision.kind != "float64" and not meter.is_squashed
    # the precision was measured near by; the first points of any domain are near ones
    size = np.max(np.abs(answers), axis=1) + slope * np.linalg.norm(x, axis=1)
    size = float(np.median(size[:num_pairs]))
    return Inquiry(
        meter,
        relative=max(1.5 * precision.noise / size if exact and size > 0 else 0.0, floor),
        noise=precision.noise if endures else 0.0,
        slope=slope,
        window=window,
    )
