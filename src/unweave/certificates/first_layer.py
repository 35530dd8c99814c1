"""Checks of a first layer whose upper part is not known: answers cannot be compared, but where units switch can.

*From queries* (relu units): kinks on fresh lines lie where the planes of the layer predict them.

*From rows* (``FirstLayerOnRows``, named by the method with what it found beside the layer): a held-out row leaves the
resting value exactly when some recovered unit is active, up to the distance that the rows resolve; and where a relu
unit is active alone, ``w.x`` is the function of y that the fit says. Whatever resolution is stated, the layer must
tell active rows from resting ones far better than a constant would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unweave.certificates.base import Check, FreshQueries, FreshRows
from unweave.certificates.certificate import Certificate
from unweave.core.network import Network
from unweave.evidence.meter import CERTIFICATE
from unweave.probes.inquiry import open_inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines

NUM_PLANE_LINES = 4
PLANE_ERROR = 1e-6
"""How far a kink may lie from where a plane of the first layer predicts it, relative to the line."""
NUM_NEEDED = 10
"""Held-out rows with an active unit that a claim needs."""
MOST_WRONG = 0.75
"""Share of the rarer label up to which rows may be on the wrong side; a constant reaches one."""
PLANES, SIDES = "hyperplanes on fresh lines", "active rows"


def check_planes(network: Network, fresh: FreshQueries) -> tuple[np.ndarray, np.ndarray, Check]:
    """An open network's planes against kinks on fresh lines: relative errors of kinks, which planes were confirmed.

    A unit far below the outputs may be cut off on part of a line, so a plane counts as confirmed by half of the
    lines it crosses.
    """
    meter, rng = fresh.meter, fresh.rng
    with meter.stage(CERTIFICATE):
        inquiry = open_inquiry(meter, fresh.precision, rng)
        lines = draw_lines(meter.domain, NUM_PLANE_LINES, meter.input_size, rng)
        kinks = find_kinks(inquiry, lines)
    lengths = np.linalg.norm(network.weights[0], axis=1)
    rates = (network.weights[0] @ lines.directions.T) / lengths[:, None]
    heights = (network.weights[0] @ lines.origins.T + network.biases[0][:, None]) / lengths[:, None]
    places = -heights / np.where(rates == 0, np.inf, rates)
    within = (places > lines.low) & (places < lines.high)
    errors = np.full(places.shape, np.inf)
    for line, found in enumerate(kinks):
        seen = np.concatenate([found.positions, found.unresolved])
        if len(seen):
            apart = np.min(np.abs(seen[None] - places[:, line, None]), axis=1)
            errors[:, line] = apart / (np.abs(places[:, line]) + lines.scale[line])
    shown = within & (errors <= PLANE_ERROR)
    confirmed = (2 * shown.sum(axis=1) >= within.sum(axis=1)) & within.any(axis=1)
    good, all_planes = int(confirmed.sum()), len(confirmed)
    check = Check(
        PLANES,
        2 * good > all_planes,
        {"num_confirmed": float(good), "num_unconfirmed": float(all_planes - good)},
        f"{good} of {all_planes} first-layer hyperplanes show",
        f"{all_planes - good} of {all_planes} hyperplanes of the first layer do not show on fresh lines",
    )
    return errors[shown], confirmed, check


class Follower(Protocol):
    """What is known of a unit where it is active alone: ``w.x`` as a function of one output."""

    @property
    def direction(self) -> np.ndarray: ...

    @property
    def column(self) -> int: ...

    def predict(self, y: np.ndarray) -> np.ndarray:
        """``w.x`` from y; NaN where that is not known."""
        ...


@dataclass(frozen=True)
class FirstLayerOnRows:
    """What a method states of an open network so that its first layer can be checked on held-out rows."""

    resting: np.ndarray
    """The answer where no unit is active, an output each."""
    spread: np.ndarray
    """The range of the answers, an output each."""
    tolerance: float
    """How far from its boundary a unit may be wrong about a row."""
    standard_errors: np.ndarray
    flip_rate: float = 0.0
    """Share of rows whose label may be wrong."""
    followers: Sequence[Follower | None] = ()

    def make(self, network: Network, fresh: FreshRows) -> Check:
        """Whether the rows that leave the resting value are those where a unit is active."""
        labels = self._labels(fresh.y)
        wrong = float(np.mean(self._misses(network, fresh.x, labels) > 0)) if len(labels) else 0.0
        rarer = float(min(np.mean(labels), 1 - np.mean(labels))) if len(labels) else 0.0
        enough = int(np.sum(labels)) >= NUM_NEEDED
        passed = wrong <= MOST_WRONG * rarer if enough else None
        return Check(
            SIDES,
            passed,
            {"num_active": float(np.sum(labels)), "wrong_share": wrong},
            f"{wrong:.2%} of the held-out rows are on the wrong side of the recovered units",
            ""
            if passed
            else f"{wrong:.1%} of the held-out rows are on the wrong side of the units; give more rows",
            needed=True,
        )

    def certify(self, network: Network, fresh: FreshRows) -> Certificate:
        """The certificate of the layer: where units switch, and for relu units how y follows ``w.x``."""
        x, y = fresh.x, fresh.y
        labels = self._labels(y)
        errors = self._misses(network, x, labels)
        if self.flip_rate > 0:
            expected = self.flip_rate * len(x)
            allowed = int(np.ceil(expected + 4 * np.sqrt(expected) + 3))
            errors[np.argsort(-errors)[:allowed]] = 0.0
        scores = _scores(network, x)
        for i, follower in enumerate(self.followers):
            if follower is not None:
                alone = labels & (scores[:, i] > 0) & (np.delete(scores, i, axis=1) < 0).all(axis=1)
                left = np.abs(x[alone] @ follower.direction - follower.predict(y[alone, follower.column]))
                errors[alone] = np.maximum(errors[alone], np.nan_to_num(left))
        return Certificate.of_errors(
            errors,
            len(x),
            num_points=len(x),
            tolerance=float(self.tolerance),
            max_standard_error=float(np.max(self.standard_errors, initial=0.0)),
            checks=(self.make(network, fresh),),
            num_needed=NUM_NEEDED,
        )

    def _labels(self, y: np.ndarray) -> np.ndarray:
        return np.any(np.abs(y - self.resting) > 1e-9 * self.spread, axis=1)

    @staticmethod
    def _misses(network: Network, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """How far each row is on the wrong side of the layer, 0 where it is on the right one."""
        top = np.max(_scores(network, x), axis=1)
        return np.where((top > 0) != labels, np.abs(top), 0.0)


def _scores(network: Network, x: np.ndarray) -> np.ndarray:
    """What the units are applied to, (n, units)."""
    return x @ network.weights[0].T + network.biases[0]
