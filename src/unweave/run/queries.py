"""The side of a run that asks a model: what is measured before any method.

resolve -> meter -> precision -> growth -> what stands behind the last layer -> traits; then, for each network found, a
certificate (``run.certify``). A squashing of the outputs is inverted in front of every method and put behind the
network that is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unweave.certificates.certificate import Certificate
from unweave.core import activations as act
from unweave.core.deadline import Deadline
from unweave.core.domains import LARGEST, Domain
from unweave.core.errors import BudgetSpent
from unweave.core.network import Network
from unweave.core.outputs import Squashing
from unweave.core.streams import stream
from unweave.evidence.kinds import Evidence
from unweave.evidence.ledger import Ledger
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision, measure_floor, measure_precision
from unweave.methods.base import (
    CLAMPED,
    ELU_LIKE,
    PIECEWISE_LINEAR,
    RELU_LIKE,
    SATURATING,
    Finding,
    Method,
    Traits,
)
from unweave.methods.relu.afar import is_afar
from unweave.models.resolve import num_probes
from unweave.probes.growth import Growth, observe_growth
from unweave.probes.jumps import JUMPING, shows_jump
from unweave.probes.piecewise_linear import is_piecewise_linear
from unweave.probes.squashed import (
    MARGINS,
    choose_domain,
    look_around,
    may_be_squashed,
    precision_behind,
    recognise,
    shows_only_largest,
)
from unweave.probes.strangers import see_labels, see_stranger
from unweave.run.certify import Behind, Certifying
from unweave.run.copies import Copy
from unweave.run.memory import only_ridge_fits
from unweave.run.surrogate import distil

USUAL = (*SATURATING, *RELU_LIKE, *ELU_LIKE, *PIECEWISE_LINEAR, *CLAMPED, "hardswish", "celu", "selu")
"""Activations whose far fields are straight along rays; others are only tried where they are named."""
SECOND_LOOK = 24
"""Segments that are asked whether they bend where no kinked network was found."""
NUM_SCOUTS = 100
"""Further points asked where all answers so far are the same, before they are called constant."""
CONSTANT = "all answers seen are the same: a constant has no units to find"
ONLY_LARGEST = "only the {} largest of {} outputs are answered, the others as zero: ask for all outputs"
FLAT = "the answers are the same all over the domain: no unit is active in it; widen the domain"


@dataclass
class Asking:
    """A model behind a meter, and what was measured of it."""

    meter: Meter
    seed: int
    entropy: int
    """Where the questions of certificates begin; the model cannot know it."""
    precision: Precision | None = None
    kind: Evidence = Evidence.QUERIES
    _growth: Growth = Growth.UNSEEN
    _views: list[Squashing | None] = field(default_factory=lambda: [None])
    """What may stand behind the last layer, likeliest first; the first is what the meter looks through."""
    _margin: float = MARGINS[0]
    """How far from saturation the questions stay."""
    _whole: Domain | None = None
    """The domain as it was given, where the questions keep to a part of it."""
    _kinked: bool = False
    """Whether the answers were found to be piecewise linear."""
    _smooth: bool | None = None
    """Whether they are not after all, at a second look; None: there was none."""
    _raw: Precision | None = None
    """The precision of the model's own answers."""

    def __post_init__(self) -> None:
        self._certifying = Certifying(self.meter, self.seed, self.entropy)

    @property
    def evidence(self) -> Meter:
        return self.meter

    @property
    def input_size(self) -> int:
        return self.meter.input_size

    @property
    def ledger(self) -> Ledger:
        return self.meter.ledger

    def begin(self, activation: str) -> str:
        """Measure precision and growth; the reason why no method need be tried, or nothing."""
        meter = self.meter
        meter.charge_probes(num_probes(meter.oracle))
        with np.errstate(
            over="ignore", under="ignore", invalid="ignore"
        ):  # answers of any size, looked at below
            self.precision = measure_precision(meter, self._rng("precision"))
        unusual = self._unusual_size()
        if unusual:
            return unusual
        meter.check_replayed(self.precision.noise, self.precision.scale)
        if only_ridge_fits(
            self.input_size
        ):  # the rest would be asked for methods that do not fit into memory
            return ""
        largest = shows_only_largest(meter.transcript("precision")[1][:8])
        if largest:
            return ONLY_LARGEST.format(largest, meter.output_size)
        self._growth = observe_growth(meter, self.precision, self._rng("growth"))
        if self._is_flat():
            return FLAT
        labels = see_labels(meter, self._rng("labels"))
        if labels:
            return labels
        constant = self._growth is Growth.CONSTANT and not self._two_valued()
        reason = CONSTANT if constant else ""
        if not reason and not self._two_valued():
            rng, usual = self._rng("strangers"), activation == "auto" or act.get(activation).family in USUAL
            reason = see_stranger(meter, self.precision, self._growth, rng, usual=usual)
        if not reason and not self._two_valued():
            self._raw, self._whole = self.precision, meter.whole
            if may_be_squashed(meter, self.precision):
                look_around(meter, self.precision)
                floor = measure_floor(meter, self.precision, self._rng("floor"))
                self._raw = replace(self.precision, floor=floor)
            self._views = recognise(meter, self._raw, self._growth, self._rng)
            self._look()
        return reason

    def explain(self) -> str:
        """Whether answers that were taken for piecewise linear jump, which no activation tried does."""
        assert self.precision is not None
        exact = self.precision.kind in ("float64", "float32")
        jumps = self._kinked and exact and shows_jump(self.meter, self.precision, self._rng("jumps"))
        return JUMPING if jumps else ""

    def change_view(self) -> bool:
        """Read the answers in the next likeliest way, if there is another."""
        if self._doubt_kinks():
            return True
        if self._margin == MARGINS[0] and self._look_elsewhere():
            return True
        if len(self._views) < 2:
            return False
        self._views, self._margin = self._views[1:], MARGINS[0]
        self._look()
        return True

    def _doubt_kinks(self) -> bool:
        """Whether rounded answers in which no kinked network was found bend smoothly at a second look."""
        rough = self.precision is not None and self.precision.kind == "float32"
        if not self._kinked or not rough or self._smooth is not None:
            return False
        assert self.precision is not None
        rng = self._rng("kind", 2)
        self._smooth = not is_piecewise_linear(self.meter, self.precision, rng, num_segments=SECOND_LOOK)
        return self._smooth

    def _look_elsewhere(self) -> bool:
        """Another part of the domain behind the same squashing, if there is one worth a look.

        Units may lie beyond the first ball; in a box float32 answers may be too rough where they nearly saturate.
        """
        whole, meter = self._whole, self.meter
        if self._views[0] is None or whole is None or self._raw is None or meter.refuted:
            return False
        endless, before = np.isinf(whole.reach(self.input_size)), meter.domain
        if before is whole if endless else self._raw.kind != "float32":
            return False
        self._margin = MARGINS[1]
        self._look()
        rng, size = self._rng("elsewhere"), self.input_size
        edges = [domain.edge(NUM_SCOUTS, size, rng) for domain in (before, meter.domain)]
        same = np.all(meter.domain.contains(edges[0])) and np.all(before.contains(edges[1]))
        return meter.domain is not whole and not same

    def _look(self) -> None:
        """Look through what is taken to stand behind the last layer, where its answers can be inverted."""
        meter, view = self.meter, self._views[0]
        assert self._raw is not None
        assert self._whole is not None
        meter.look_through(None)
        meter.domain, self.precision = self._whole, self._raw
        if view is not None:
            with meter.stage("outputs"):
                meter.domain = choose_domain(meter, view, self._raw, self._margin) or self._whole
                self.precision = precision_behind(meter, view, self._raw, self._rng("precision"))
        self._growth = observe_growth(meter, self.precision, self._rng("growth"))

    def outward(self, network: Network) -> Network:
        """The network as the model answers, with the squashing that was inverted behind it."""
        view = self._views[0]
        if view is None or network.is_open:
            return network
        weight, bias = view.outward(network.weights[-1], network.biases[-1])
        weights, biases = [*network.weights[:-1], weight], [*network.biases[:-1], bias]
        return Network(weights, biases, (*network.activations[:-1], view.name))

    def traits(self, activation: str, hidden: tuple[int, ...] | None) -> Traits:
        """Look at what the choice of a method depends on, asking no more than it needs."""
        assert self.precision is not None
        exact, two_valued = self.precision.kind == "float64", self._two_valued()
        kinked: bool | None = None
        if activation == "auto" and not two_valued and not only_ridge_fits(self.input_size):
            kinked = self._growth in (Growth.LINEAR, Growth.UNSEEN) and self._is_straight(6 if exact else 12)
            kinked = kinked and not self._smooth
            if self._growth is Growth.SATURATING and exact and self._is_straight(3):
                kinked = None  # units that are clamped, or saturated ones that are flat near by
            if not kinked and self._growth is Growth.LINEAR and is_afar(self.meter, self.precision):
                kinked = None  # kinks are too many or bends too slight to tell near by; from afar they show
        self._kinked = bool(kinked)
        # exact answers of units that show as far as a squashing lets them are those of a domain without end
        domain = self.meter.whole if kinked and exact else self.meter.domain
        return Traits(
            Evidence.QUERIES,
            self.meter.input_size,
            self.meter.output_size,
            activation,
            hidden,
            self._growth,
            domain.reach(self.meter.input_size),
            exact,
            kinked,
            two_valued,
            single=self.precision.kind == "float32",
        )

    def _is_straight(self, num_segments: int) -> bool:
        assert self.precision is not None
        return is_piecewise_linear(self.meter, self.precision, self._rng("kind"), num_segments=num_segments)

    def warnings(self, method: Method) -> tuple[str, ...]:
        """How the answers were read, where they were not taken as they are."""
        view = self._views[0]
        if view is None:
            return ()
        told = f"the outputs are {view.name} of a last layer: it was inverted, and errors are those in front of it"
        if self.meter.domain is not self._whole:
            told += f"; questions keep to {self.meter.domain}, where the answers do not saturate"
        return (told,)

    def allow(self, method: Method) -> AbstractContextManager[None]:
        """A bound on the questions of one attempt, from the sizes of the model."""
        sizes = self.meter.input_size + self.meter.output_size
        return self.meter.allow(method.name, method.serves.most_queries(sizes))

    def nearby(self, x: np.ndarray) -> np.ndarray:
        """Points a relative 1e-4 beside ``x``, inside the domain."""
        aside = self._rng("suspects").standard_normal(x.shape) / np.sqrt(x.shape[1])
        return self.meter.domain.nearest(x + 1e-4 * np.linalg.norm(x, axis=1, keepdims=True) * aside)

    def distil(self, deadline: Deadline, students: Sequence[Network] = ()) -> Copy | None:
        """A student of answers from the domain, judged on fresh ones."""
        self.meter.deadline = deadline
        try:
            copy = distil(self.meter, self._rng("surrogate"), deadline, students)
        except BudgetSpent:
            return None
        return None if copy is None else Copy(self.outward(copy[0]), copy[1])

    def certify(self, finding: Finding, precision: Precision) -> tuple[Network, Certificate, dict[str, Any]]:
        """The network, refitted where it lies close but not close enough, and its certificate."""
        behind = None
        if self._views[0] is not None:
            assert self._raw is not None
            assert self._whole is not None
            behind = Behind(self._views[0], self._whole, self._raw)
        network, certificate = self._certifying.certify(finding, precision, behind)
        return network, certificate, {}

    def _unusual_size(self) -> str:
        """Why answers are too large or too small to be squared, if they are."""
        size = float(np.max(np.abs(self.meter.transcript()[1]), initial=0.0))
        if size == 0 or 1 / LARGEST <= size <= LARGEST:
            return ""
        return f"the answers are of size {size:.0e}, beyond what can be squared: let the model answer in another unit"

    def _two_valued(self) -> bool:
        """Whether exactly two different answers were seen so far: a decision, not a number."""
        return self.meter.output_size == 1 and len(np.unique(self.meter.transcript()[1])) == 2

    def _is_flat(self) -> bool:
        """Whether a domain that ends shows one and the same answer at every point asked, and at a hundred more."""
        answers = self.meter.transcript()[1]
        if self._growth is not Growth.UNSEEN or np.any(answers != answers[:1]):
            return False
        rng, size = self._rng("flat"), self.meter.input_size
        half = NUM_SCOUTS // 2
        domain = self.meter.domain
        with self.meter.stage("growth"):
            more = self.meter.ask(
                np.concatenate([domain.sample(half, size, rng), domain.edge(half, size, rng)])
            )
        return bool(np.all(more == answers[:1]))

    def _rng(self, *purpose: str | int) -> np.random.Generator:
        return stream(self.seed, "run", *purpose)
