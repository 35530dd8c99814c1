"""Two hidden layers of relu units, exactly, from queries: first-layer planes, then the second layer unit by unit.

First-layer planes are those that explain kinks on several lines. Every other kink belongs to a second-layer unit,
whose pre-activation is a sum of ridges over these planes: its weights are read off the kink's gradient or measured
where its zero set crosses a plane. The output layer is then linear in what is known, and the orientation of the
second layer follows from signs as in one hidden layer. Assumes exact answers; widths need not be known; a weight
whose plane the unit's zero set never crosses on the active side cannot be observed and is named. Of a deeper network
the first hidden layer is returned, open above (``open``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unweave.core import clock
from unweave.core.errors import BudgetSpent
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import PIECEWISE_LINEAR, Finding, Problem, Serves, Traits
from unweave.methods.relu.outputs import is_deeper
from unweave.methods.relu.two_layers.audit import audit
from unweave.methods.relu.two_layers.beyond import measure_beyond
from unweave.methods.relu.two_layers.contradictions import NUM_LINES, look_for_more
from unweave.methods.relu.two_layers.crossings import measure_crossings
from unweave.methods.relu.two_layers.first_layer import (
    FirstLayer,
    find_first_layer,
    sharpen_first_layer,
    unexplained,
)
from unweave.methods.relu.two_layers.left_over import find_left_over
from unweave.methods.relu.two_layers.open import describe_planes
from unweave.methods.relu.two_layers.open_weights import complete_from_answers
from unweave.methods.relu.two_layers.oriented import OrientedLayer
from unweave.methods.relu.two_layers.preactivation import PreActivation, read_active_weights
from unweave.methods.relu.two_layers.second_layer import (
    SecondLayer,
    add_units,
    complete_units,
    independent,
    mostly_complete,
    trace_units,
)
from unweave.methods.relu.two_layers.stack import Stack, fit_stack, orient_first_layer
from unweave.methods.relu.two_layers.steady import find_steady
from unweave.probes.inquiry import Inquiry, open_inquiry

UNTRACED = "no second-layer unit could be traced on first-layer hyperplanes: the network may be deeper"
LARGE = 2500
"""Weights of both hidden layers beyond which a stack is refined once only; with windows their reader does that."""
PILOTS, MOST_FAILED, MOST_SOUND = 8, 1, 0.6
"""Kinks that are traced first where the network may be deeper, how many of them may not show elsewhere in one of two
layers, and which share shows most of its weights."""
MOSTLY = 0.85
"""Share of its weights that a unit of the second layer shows at least; zero sets of deeper units show half of them."""
CHEAP = 4
"""Times as many rounds where no round refines the stack, ..."""
SETTLINGS = 3
MOST_REFINED = 3
"""... and how often it is refined in all."""
HOPELESS = 0.9
"""Where this share of fresh points contradicts the stack twice in a row and no unit is new, a first-layer plane is
missing."""


@dataclass(frozen=True)
class ReluLayers:
    """``method="relu-layers"``."""

    name: str = "relu-layers"
    serves: ClassVar[Serves] = Serves(Evidence.QUERIES, PIECEWISE_LINEAR, suspects=True)
    max_rounds: int = 6
    max_seconds: float = 180.0
    window: float = 0.0
    """Half width around kinks in which the answers are not straight (see ``Inquiry``)."""
    num_fresh: int = 0
    """Fresh points on which a stack is tried; 0: by the number of its units."""

    def suits(self, traits: Traits) -> str | None:
        return traits.why_kinked() if traits.candidates(self.serves) else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        """Find both hidden layers and the output layer."""
        deadline = clock.now() + self.max_seconds
        finding = Finding(None, reason=UNTRACED)
        for num_lines in (6, 16):  # a plane behind units that are mostly inactive shows on few lines
            first = None
            try:
                rng = problem.rng(
                    "relu lines"
                )  # the questions of one hidden layer, already answered, come first
                with meter.stage("lines"):
                    inquiry = open_inquiry(meter, problem.precision, rng, window=self.window)
                first = find_first_layer(inquiry, rng, num_lines=num_lines)
                if not len(first.planes) or not len(first.deeper):
                    continue
                with meter.stage("first layer"):
                    first = sharpen_first_layer(inquiry, first, rng)
                finding = self._attempt(inquiry, first, rng, deadline, problem.suspects)
            except BudgetSpent as spent:  # a first layer that is known stays so
                if first is not None:
                    return describe_planes(inquiry, first, str(spent), rng)
                if finding.network is None:
                    raise
                return replace(finding, reason=f"{finding.reason}; {spent}")
            if finding.network is not None:
                return finding
            finding = describe_planes(inquiry, first, finding.reason, rng)
            if clock.now() > deadline:
                break
        return finding

    def try_two(self, inquiry: Inquiry, problem: Problem, rng: np.random.Generator) -> TwoLayers:
        """The whole network where it has two hidden layers, for few questions more than the first layer elsewhere."""
        first = None
        try:
            first = find_first_layer(inquiry, rng)
            if not len(first.planes) or not len(first.deeper):
                return TwoLayers()
            with inquiry.meter.stage("first layer"):
                first = sharpen_first_layer(inquiry, first, rng)
            if self._has_more_layers(first):
                return TwoLayers(first=first, deeper=True)
            pilots = self._trace_pilots(inquiry, first, rng)
            if pilots is None:
                return TwoLayers(first=first, deeper=True)
            deadline = clock.now() + problem.within(self.max_seconds)
            finding = self._attempt(inquiry, first, rng, deadline, problem.suspects, pilots)
        except BudgetSpent as spent:
            if first is None:
                raise
            return TwoLayers(describe_planes(inquiry, first, str(spent), rng), first)
        network = finding.network
        whole = network is not None and not finding.reason
        if network is not None and whole and network.weights[0].size + network.weights[1].size <= LARGE:
            whole = not finding.undetermined  # what is open of a small one is worth another search
        return TwoLayers(finding if whole else None, first)

    @staticmethod
    def _has_more_layers(first: FirstLayer) -> bool:
        """Whether the kinks beyond the first layer are of more layers than one; several outputs tell."""
        left = [unexplained(first.planes, first.lines, first.kinks, i).jumps for i in range(len(first.lines))]
        line = np.repeat(np.arange(len(left)), [len(jumps) for jumps in left])
        return is_deeper(np.concatenate(left), line)

    def _trace_pilots(
        self, inquiry: Inquiry, first: FirstLayer, rng: np.random.Generator
    ) -> SecondLayer | None:
        """Units behind a few kinks; None where most weights stay open or they do not show elsewhere: it is deeper."""
        planes, kinks = first.planes, first.deeper
        few = kinks.take(np.argsort(kinks.errors)[:PILOTS])
        with inquiry.meter.stage("second layer"):
            if independent(planes):
                units, orientation = read_active_weights(planes, few, [], np.zeros(len(planes)))
                measure_crossings(inquiry, planes, units, rng)
            else:
                units = trace_units(inquiry, planes, few, [], rng)
                orientation = orient_first_layer(planes, units)
        found, predicted, _ = audit(units, planes, first.lines, first.kinks)
        shown = 4 * found >= 3 * predicted
        sound = [unit.known.mean() >= MOSTLY and shown[i] for i, unit in enumerate(units)]
        # a zero set may cross few planes where there are many, but then it is where it is predicted to be
        if np.sum(~shown) > MOST_FAILED or sum(sound) < MOST_SOUND * len(units) or not any(sound):
            return None
        return SecondLayer([unit for unit, good in zip(units, sound, strict=True) if good], orientation)

    def _attempt(
        self,
        inquiry: Inquiry,
        first: FirstLayer,
        rng: np.random.Generator,
        deadline: float,
        suspects: np.ndarray | None,
        second: SecondLayer | None = None,
    ) -> Finding:
        if second is None:
            second = SecondLayer([], np.zeros(len(first.planes)))
        second = add_units(inquiry, first, first.deeper, second, rng)
        if not second.units or not mostly_complete(second.units):
            return Finding(None, reason=UNTRACED)
        count = len(first.planes) * (inquiry.input_size + len(second.units))
        # least squares in every parameter is dear: once, when nothing is missing any more, if it can be avoided
        late = count > LARGE or inquiry.window > 0
        stack = fit_stack(inquiry, first.planes, second.units, second.orientation, refine=not late)
        wrong, num_hopeless, most, num_refined = 1.0, 0, 0, 0
        sharpens = late and not inquiry.window
        for number in range(self.max_rounds * (CHEAP if sharpens else 1)):
            if clock.now() > deadline or not mostly_complete(second.units) or num_hopeless == 2:
                break
            num_open, second = second.num_open, second.traced()
            second = complete_units(inquiry, first.planes, second, rng)
            complete_from_answers(inquiry, first.planes, second.units, second.orientation)
            used = second
            if num_open:
                used, stack = self._settle(inquiry, first, second, rng, refine=not late)
            # a unit that is rarely on is met by many lines only; of one with windows little shows on each of them
            num_lines = NUM_LINES * (1 + number if inquiry.window else 1)
            wrong, kinks = look_for_more(
                inquiry, first, used, stack, rng, suspects, num_lines, self.num_fresh
            )
            left_over = self._find_left_over(inquiry, first, second, stack, wrong, rng)
            # points that contradict it, and nothing from which they begin to: what is known is not known well enough
            while (
                sharpens
                and wrong < HOPELESS
                and not left_over
                and not len(kinks)
                and num_refined < MOST_REFINED
            ):
                num_refined, stack = num_refined + 1, stack.refined(inquiry, rng)
                wrong, kinks = look_for_more(
                    inquiry, first, used, stack, rng, suspects, num_fresh=self.num_fresh
                )
                if not wrong:
                    break
                left_over = self._find_left_over(inquiry, first, second, stack, wrong, rng)
            if not wrong and not left_over:
                return stack.finding(0.0)
            if left_over:
                second = SecondLayer([*used.units, *left_over], second.orientation)
                stack = fit_stack(inquiry, first.planes, second.units, second.orientation, refine=not late)
                continue
            if sharpens and num_refined == MOST_REFINED:
                break
            stalled = wrong > HOPELESS and len(used.units) <= most and not inquiry.window
            num_hopeless, most = num_hopeless + 1 if stalled else 0, max(most, len(used.units))
            second = add_units(inquiry, first, kinks, second, rng)
            stack = fit_stack(inquiry, first.planes, second.units, second.orientation, refine=not late)
        return stack.finding(wrong)

    def _settle(
        self, inquiry: Inquiry, first: FirstLayer, second: SecondLayer, rng: np.random.Generator, refine: bool
    ) -> tuple[SecondLayer, Stack]:
        """A stack, and its units: without those whose open weights spoil more than the lack of the unit would."""
        complete = second.complete()
        stack = fit_stack(inquiry, first.planes, complete.units, second.orientation, refine=refine)
        if not second.num_open or refine or not second.orientation.all():
            return complete, stack
        whole = fit_stack(inquiry, first.planes, second.units, second.orientation, refine=False)
        if whole.misfit > stack.misfit:
            return complete, stack
        layer = OrientedLayer(first.planes, second.orientation)
        for _ in range(SETTLINGS):  # what the fit shows, then what questions do
            if not measure_beyond(inquiry, layer, second.units, whole, rng):
                break
            whole = fit_stack(inquiry, first.planes, second.units, second.orientation, refine=False)
        return second, whole

    def _find_left_over(
        self,
        inquiry: Inquiry,
        first: FirstLayer,
        second: SecondLayer,
        stack: Stack,
        wrong: float,
        rng: np.random.Generator,
    ) -> list[PreActivation]:
        """Units that show in what the stack leaves over: linear in the first layer's features, or at a few points."""
        if not second.orientation.all():
            return []
        layer = OrientedLayer(first.planes, second.orientation)
        steady = find_steady(inquiry, layer, stack, rng)
        return steady or (find_left_over(inquiry, layer, stack, rng) if wrong else [])


@dataclass(frozen=True)
class TwoLayers:
    """What a search for two hidden layers has found."""

    finding: Finding | None = None
    """A whole network, or what a spent budget has left; None: it is none of two hidden layers."""
    first: FirstLayer | None = None
    deeper: bool = False
    """Whether units seen above the first layer are no second-layer units."""
