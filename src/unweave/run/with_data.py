"""The side of a run that asks where the user's rows are.

Methods see the model through a frame: the numbers among the inputs, each in units of its range, with categories and
constants as in the commonest combination (``models.framed``). What they find is lifted to all inputs: the other
combinations shift the first layer (``solve.shifts``), and the whole is compared with the model on the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unweave.certificates.certificate import NUM_POINTS, Certificate
from unweave.certificates.own_rows import check_own_rows
from unweave.core.deadline import Deadline
from unweave.core.errors import BudgetSpent
from unweave.core.network import Network
from unweave.core.streams import stream
from unweave.evidence.data import Data
from unweave.evidence.journal import Journal
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Finding
from unweave.models.framed import Framed, Scaled, unsquashed
from unweave.run.copies import Copy
from unweave.run.queries import Asking
from unweave.run.surrogate import distil
from unweave.solve.shifts import fit_shift

SPARE = 10
"""Answers for each unknown shift."""
FEWEST = 100


@dataclass
class AskingAmongRows(Asking):
    """A model behind a frame, the rows that made it, and a meter for questions in the model's own inputs."""

    frame: Framed | None = None
    whole: Meter | None = None

    @staticmethod
    def of(frame: Framed, meter: Meter, journal: Journal | None, seed: int, entropy: int) -> AskingAmongRows:
        """With a second meter that shares ledger, deadline and journal."""
        whole = Meter(frame.encoded, domain=_Drawn(frame.data), journal=journal, deadline=meter.deadline)
        whole.ledger = meter.ledger
        return AskingAmongRows(meter, seed, entropy, frame=frame, whole=whole)

    @property
    def data(self) -> Data:
        assert self.frame is not None
        return self.frame.data

    def certify(self, finding: Finding, precision: Precision) -> tuple[Network, Certificate, dict[str, Any]]:
        """The network in all inputs, with its certificate in the frame and on the user's rows."""
        assert self.frame is not None
        network, certificate, details = super().certify(finding, precision)
        details = {**details, **as_inputs(self.data)}
        if network.is_open:
            return self.frame.lift(network), certificate, details
        shifts, open_parts = None, ()
        if certificate.agrees and len(self.frame.patterns) > 1:
            shifts, open_parts = self._shifts(network, certificate.tolerance)
        lifted = self.frame.lift(network, shifts)
        x, y = self._rows()
        check = check_own_rows(self.outward(lifted), x, y, certificate.tolerance, self.data.encoded)
        told = (*certificate.undetermined, *open_parts)
        return lifted, replace(certificate, checks=(*certificate.checks, check), undetermined=told), details

    def _look(self) -> None:
        """The second meter looks through the same squashing as the first."""
        super()._look()
        assert self.whole is not None
        self.whole.look_like(self.meter)

    def distil(self, deadline: Deadline, students: Sequence[Network] = ()) -> Copy | None:
        """A student of answers among the rows, every combination of categories included."""
        assert self.whole is not None
        self.meter.deadline = self.whole.deadline = deadline
        try:
            copy = distil(self.whole, self._rng("surrogate"), deadline)
            x, y = self._rows()
        except BudgetSpent:
            return None
        if copy is None:
            return None
        network = self.outward(copy[0])
        spread = max(float(np.sqrt(np.mean(np.var(y, axis=0)))), 1e-300) if len(y) else 1.0
        off = float(np.sqrt(np.mean((network(x) - y) ** 2))) / spread if len(y) else None
        return Copy(network, copy[1], off, as_inputs(self.data))

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Some of the user's rows with the model's own answers, asked for this certificate."""
        assert self.whole is not None
        rng = stream(self.entropy, "own rows", self._certifying.num_certificates)
        count = int(min(NUM_POINTS, self.data.num_rows, self.meter.ledger.left))
        x = self.data.encoded[rng.permutation(self.data.num_rows)[:count]]
        self.whole.look_through(None)
        with self.whole.stage(CERTIFICATE):
            y = self.whole.ask(x)
        self.whole.look_like(self.meter)
        return self.whole.snap(x), y

    def _shifts(self, network: Network, tolerance: float) -> tuple[np.ndarray, tuple[str, ...]]:
        """First-layer weights of everything that does not move, from combinations that occur in the rows."""
        frame, whole = self.frame, self.whole
        assert frame is not None
        assert whole is not None
        rng = self._rng("categories", self._certifying.num_certificates)
        num_units = len(network.weights[0])
        count = max(FEWEST, -(-SPARE * num_units // network.output_size))
        steps, found, names = [], [], []
        for pattern in independent(frame.patterns, frame.counts, frame.base):
            u = self.meter.snap(self.meter.domain.sample(count, self.meter.input_size, rng))
            with whole.stage("categories"):
                y = whole.ask(frame.outside(u, pattern))
            shift, rms = fit_shift(network, u, y, rng, target=0.1 * tolerance)
            if rms > tolerance:
                names.append(f"what {self._say(pattern)} adds to the first layer: found to {rms:.0e} only")
            steps.append(pattern - frame.base)
            found.append(shift)
        seen = np.any(np.array(steps) != 0, axis=0)
        weights = np.zeros((num_units, len(frame.base)))
        weights[:, seen] = np.linalg.lstsq(np.array(steps)[:, seen], np.array(found), rcond=1e-9)[0].T
        return weights, tuple(names)

    def _say(self, pattern: np.ndarray) -> str:
        """How a combination differs from the commonest one."""
        assert self.frame is not None
        names = np.array(self.data.inputs)[~self.data.moving]
        changed = [
            f"{name}" if "=" in name else f"{name}={value:g}"
            for name, value, usual in zip(names, pattern, self.frame.base, strict=True)
            if value != usual and not ("=" in name and value == 0)
        ]
        return ", ".join(changed) or "another combination"


@dataclass
class AskingScaled(Asking):
    """A model in units of its own scaler or box; what is found is written in the model's own inputs and logits."""

    frame: Scaled | None = None

    def outward(self, network: Network) -> Network:
        """The network as the model answers; the logits of a classifier, whose probabilities were asked."""
        assert self.frame is not None
        answers = super().outward(network)
        squashed = self.frame.logits and answers.activations[-1] in ("sigmoid", "softmax")
        return unsquashed(answers) if squashed else answers

    def certify(self, finding: Finding, precision: Precision) -> tuple[Network, Certificate, dict[str, Any]]:
        """The network in the model's inputs, with its certificate."""
        assert self.frame is not None
        network, certificate, details = super().certify(finding, precision)
        return self.frame.lift(network), certificate, details

    def distil(self, deadline: Deadline, students: Sequence[Network] = ()) -> Copy | None:
        """The copy, in the model's inputs."""
        assert self.frame is not None
        copy = super().distil(deadline, students)
        return None if copy is None else replace(copy, network=self.frame.lift(copy.network))


def independent(patterns: np.ndarray, counts: np.ndarray, base: np.ndarray) -> list[np.ndarray]:
    """Combinations whose differences from ``base`` span those of all: those that differ least, then the commonest."""
    chosen: list[np.ndarray] = []
    spanned = np.zeros((0, len(base)))
    changes = np.sum(patterns != base, axis=1)
    for i in np.lexsort((-counts, changes)):
        step = patterns[i] - base
        rest = step - spanned.T @ (spanned @ step)
        if np.linalg.norm(rest) > 1e-9 * max(np.linalg.norm(step), 1e-300):
            chosen.append(patterns[i])
            spanned = np.concatenate([spanned, rest[None] / np.linalg.norm(rest)])
    return chosen


def as_inputs(data: Data) -> dict[str, Any]:
    """What a result keeps of the columns: their names, and the levels of those that are coded."""
    levels = [list(column.levels) if column.coded else None for column in data.columns]
    return {"inputs": {"names": [column.name for column in data.columns], "levels": levels}}


@dataclass(frozen=True)
class _Drawn:
    """Encoded rows with their numbers moved within the data: where a copy is made and judged."""

    data: Data

    def contains(self, x: np.ndarray, slack: float = 1e-12) -> np.ndarray:
        return np.ones(len(x), dtype=bool)

    def nearest(self, x: np.ndarray, unit: float = 0.0) -> np.ndarray:
        return x

    def sample(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        return self.data.drawn(num_points, rng)

    def edge(self, num_points: int, input_size: int, rng: np.random.Generator) -> np.ndarray:
        return self.data.drawn(num_points, rng)

    def reach(self, input_size: int) -> float:
        return 1.0
