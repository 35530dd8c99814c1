"""Planes and units behind the kinks of lines, as far as the answers show them.

Kinks on lines give the planes of the first layer and the places where units of the second begin; these are followed
through the domain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.core.domains import Box, Domain
from unweave.methods.relu.lifted.changing import find_changing
from unweave.methods.relu.lifted.draw import edge_lines, fair_lines
from unweave.methods.relu.lifted.follow import Follower
from unweave.methods.relu.lifted.planes import (
    Planes,
    add_planes,
    drop_facets,
    explained,
    find_planes,
    outvoted,
    sharpen_by_kinks,
)
from unweave.methods.relu.lifted.sharpen import sharpen_planes
from unweave.methods.relu.lifted.sightings import Sightings
from unweave.probes.inquiry import Inquiry

MOST_FACETS = 400
"""Unexplained kinks that are looked at in one go."""
FEW_LINES, MOST_DRAWS, QUIET = 8, 6, 4
"""Rough answers: lines drawn at a time, how often, and how many without a new plane in a row end the look at them."""

FEW_INPUTS, DEEPER, FEW_KINKS = 4, 0.1, 8
"""Share of all kinks, and how many at least, that two layers leave unexplained only if there is a third."""


@dataclass
class Explained:
    """Lines, their kinks, and the planes and units that explain them."""

    inquiry: Inquiry
    rng: np.random.Generator
    deadline: float
    say: Callable[[str], None] = print
    planes: Planes = field(init=False)
    follower: Follower | None = None
    suspects: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Points (n, d) at which an earlier network was wrong."""
    near: Domain | None = None
    """A part of a domain without end: answers farther out may be asked, but behind a squashing tell little."""
    num_used: int = 0
    """Kinks, the first ones, that the planes were fitted to."""

    def __post_init__(self) -> None:
        self.sightings: Sightings = Sightings(self.inquiry, self.rng)
        self.planes = Planes.none(self.inquiry.input_size)
        self.suspects = self.suspects.reshape(-1, self.inquiry.input_size)

    @property
    def domain(self) -> Domain:
        """Where lines and points are drawn."""
        return self.inquiry.meter.domain if self.near is None else self.near

    @property
    def is_bounded(self) -> bool:
        return not np.isinf(self.inquiry.meter.domain.reach(self.inquiry.input_size))

    @property
    def num_units(self) -> int:
        return 0 if self.follower is None else len(self.follower.traces)

    def draw(self, num_lines: int) -> None:
        s = self.sightings
        gradients = s.facet[s.measured][:, :-1]
        with self.inquiry.meter.stage("lines"):
            s.add_lines(fair_lines(self.domain, num_lines, self.inquiry.input_size, self.rng, gradients))

    def draw_edges(self, num_lines: int) -> None:
        """Lines along edges of a box, where units show that are active in its corners only."""
        if isinstance(self.domain, Box):
            with self.inquiry.meter.stage("lines"):
                self.sightings.add_lines(edge_lines(self.domain, *self.box, num_lines, self.rng), fair=False)

    def find_planes(self) -> None:
        if not self.inquiry.coarse:
            with self.inquiry.meter.stage("first layer"):
                self._grow(find_planes(self.sightings, self.planes))
            return
        # a missing plane is dear where bends drown: lines are drawn until they show none that is new
        for _ in range(MOST_DRAWS):
            self._sharpen_planes()
            before = len(self.planes)
            with self.inquiry.meter.stage("first layer"):
                lines = len(self.sightings.scans)
                self._grow(find_planes(self.sightings, self.planes, max_lines=lines, quiet=QUIET))
            if len(self.planes) <= before or self.is_shallow:
                break
            self.draw(FEW_LINES)

    def _sharpen_planes(self) -> None:
        """All planes by the kinks seen since the last time, without those that these speak against."""
        self.planes = sharpen_by_kinks(self.sightings, self.planes, self.num_used)
        self.num_used = len(self.sightings)
        wrong = outvoted(self.sightings, self.planes)
        self.planes = self.planes.take(~wrong)
        if self.follower is not None:
            if wrong.any():
                self.follower.restart(self.planes)
            else:
                self.follower.replace_planes(self.planes)

    def take_in(self, kinks: np.ndarray) -> None:
        """The planes with those of the numbered kinks' facets that hold."""
        s, planes = self.sightings, self.planes
        self._grow(drop_facets(s, add_planes(s, planes, kinks), len(planes)))

    def _grow(self, planes: Planes) -> np.ndarray:
        """More planes than before, brought to the accuracy of the answers; which of the new ones hold."""
        before = len(self.planes)
        fresh = np.arange(before, len(planes))
        if not len(fresh):
            return fresh
        low, high = self.box
        holds = np.ones(len(planes), dtype=bool)
        for _ in range(2 if self.inquiry.coarse else 1):
            planes, holds = sharpen_planes(self.inquiry, planes, fresh, low, high, self.rng)
        holds[:before] = True
        self.planes = planes.take(holds)
        if self.follower is not None and len(self.planes) > before:
            if self.inquiry.coarse:  # rough answers do not always show a bend that was not reckoned with
                self.follower.restart(self.planes)
            else:
                self.follower.extend(self.planes)
        return np.flatnonzero(holds[before:])

    def _promote(self) -> bool:
        """Whether traces that nothing bends are planes of the first layer; these are added."""
        assert self.follower is not None
        numbers, planes = self.follower.straight()
        traces = self.follower.traces
        holding = self._grow(self.planes.join(planes))
        if not self.inquiry.coarse or self.follower.traces is traces:
            self.follower.drop(numbers[holding])
        return len(holding) > 0

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """A box in which zero sets are followed: the domain's own, or around most of the kinks."""
        d = self.inquiry.input_size
        if self.is_bounded:
            points = np.concatenate(
                [self.domain.sample(200, d, self.rng), self.domain.edge(400, d, self.rng)]
            )
            return points.min(axis=0), points.max(axis=0)
        reach = float(np.quantile(np.abs(self.sightings.x), 0.9)) if len(self.sightings) else 1.0
        return np.full(d, -reach), np.full(d, reach)

    def open_kinks(self) -> np.ndarray:
        """Kinks that no plane explains."""
        return np.flatnonzero(~explained(self.sightings, self.planes))

    def unknown_kinks(self) -> np.ndarray:
        """Kinks that neither planes nor units explain."""
        kinks = self.open_kinks()
        if self.follower is None or not len(self.follower.traces):
            return kinks
        self.follower.own(kinks)
        return kinks[~(self.follower.owned.any(axis=1) | self.follower.taken)]

    @property
    def is_shallow(self) -> bool:
        """Whether planes of one layer explain every kink, but for a few that were misread."""
        return len(self.planes) > 0 and len(self.open_kinks()) <= 0.02 * len(self.sightings) + 1

    def is_deeper(self, unknown: int) -> bool:
        """Whether zero sets turn aside, or so many kinks stay unexplained that two layers cannot be all.

        The latter is told where inputs are few.
        """
        if self.follower is not None and self.follower.met.tell_of_deeper_units:
            return True
        told = self.is_bounded and not self.inquiry.coarse and self.inquiry.input_size <= FEW_INPUTS
        return told and not self.is_shallow and unknown > max(DEEPER * len(self.sightings), FEW_KINKS)

    def explain(self, max_rounds: int = 4) -> None:
        """Planes and units behind the kinks that are not explained yet."""
        s = self.sightings
        for _ in range(max_rounds):
            unknown = self.unknown_kinks()
            fresh = unknown[~s.tried[unknown]][:MOST_FACETS]
            with self.inquiry.meter.stage("second layer"):
                s.measure(fresh)
                self.take_in(fresh)
                self._grow(self.planes.join(find_changing(s, self.planes)))
                if not len(self.planes):
                    return
                if self.follower is None:
                    self.follower = Follower(s, self.planes, *self.box, self.rng, self.say)
                self.follower.follow(self.open_kinks())
                if self.follower.met.tell_of_deeper_units:
                    break
                if self.inquiry.coarse:  # what is known better goes farther
                    self.follower.sharpen(self.open_kinks())
                    self.follower.failures.clear()
                    self.follower.follow(self.open_kinks())
                if not self._promote():
                    break
