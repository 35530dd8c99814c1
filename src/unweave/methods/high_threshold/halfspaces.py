"""Halfspaces: an intersection of halfspaces far from the origin, from labels alone or from questions.

``{x : normals[i].x <= offsets[i] for every i}``. From labels of Gaussian rows (Goel and Panigrahy 2019, sec. 2.3: the
outside is an OR of step units) the number, the normals and the offsets come back to about ``d / (N n(t))``; from
questions to rounding. Figures of the check on rows or points that no fit has seen travel with the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.core.engine import one_thread
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.core.streams import stream
from unweave.methods.high_threshold.decisions import decision_network
from unweave.methods.high_threshold.labels import LabelFit, fit_labels
from unweave.methods.high_threshold.queries import find_faces
from unweave.methods.high_threshold.union import Union

MOST_HELD_OUT = 10_000


@dataclass(frozen=True)
class Halfspaces:
    """The intersection of ``normals[i].x <= offsets[i]``, normals of length one pointing outwards."""

    normals: np.ndarray
    offsets: np.ndarray
    resolutions: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)
    """About the error of each normal."""
    wrong_share: float = 0.0
    """Share of held-out rows (or fresh points) on the wrong side."""
    num_checked: int = 0
    num_queries: int = 0
    flip_rate: float = 0.0
    """Estimated share of wrong labels."""
    notes: tuple[str, ...] = ()
    even: bool = True
    """Whether labels that contradict the halfspaces are spread as wrong labels would be."""

    def __len__(self) -> int:
        return len(self.normals)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Membership: which rows of x (n, d) lie in the intersection."""
        return self.depths(x) >= 0

    def depths(self, x: np.ndarray) -> np.ndarray:
        """Distance to the nearest bounding plane: positive inside, negative outside."""
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.normals.shape[1]:
            raise InputError(f"expected points of shape (n, {self.normals.shape[1]}), got {x.shape}")
        return np.min(self.offsets - x @ self.normals.T, axis=1)

    @property
    def network(self) -> Network:
        """The membership function as a network of step units: 1 inside, 0 outside."""
        return decision_network(Union(self.normals, self.offsets), inside=1.0, outside=0.0)

    @property
    def agrees(self) -> bool:
        """Whether the check on unseen rows found no more contradictions than wrong labels explain."""
        chance = 4 * np.sqrt(max(self.flip_rate, 1 / max(self.num_checked, 1)) / max(self.num_checked, 1))
        near = min(float(np.sum(self.resolutions)), 0.01) if len(self.resolutions) else 0.0
        return self.even and self.num_checked > 0 and self.wrong_share <= self.flip_rate + chance + near

    def verdict(self) -> str:
        """One line: how many, how accurate, how it was checked."""
        word = "identified" if self.agrees else "not identified"
        accuracy = (
            f"normals to about {np.max(self.resolutions):.1e}"
            if len(self.resolutions)
            else "no accuracy known"
        )
        cost = f", {self.num_queries:,} questions" if self.num_queries else ""
        flips = f", {self.flip_rate:.2%} of the labels wrong" if self.flip_rate else ""
        notes = "".join(f"; {note}" for note in self.notes)
        return (
            f"{word}: {len(self)} halfspaces in {self.normals.shape[1]} dimensions, {accuracy}{flips}{cost}; "
            f"{self.wrong_share:.2%} of {self.num_checked:,} unseen points on the wrong side{notes}"
        )

    @classmethod
    def learn(
        cls,
        x: np.ndarray,
        labels: np.ndarray,
        *,
        num_halfspaces: int | None = None,
        equal_offsets: bool = False,
        flip_rate: float | None = None,
        seed: int = 0,
    ) -> Halfspaces:
        """From rows x (n, d) drawn from N(0, I) and labels: 1 (or true) inside, 0 or -1 outside.

        ``num_halfspaces`` is found when not given; ``flip_rate``, the share of wrong labels, is estimated.
        """
        x, inside = _checked(x, labels)
        rng = stream(seed, "halfspaces from rows")
        num_held = min(len(x) // 10, MOST_HELD_OUT)
        order = rng.permutation(len(x))
        held, kept = order[:num_held], order[num_held:]
        with one_thread():
            fit = fit_labels(
                x[kept],
                ~inside[kept],
                rng,
                num_units=num_halfspaces,
                flip_rate=flip_rate,
                equal_offsets=equal_offsets,
            )
        return cls(
            fit.union.normals,
            fit.union.offsets,
            fit.resolutions,
            float(np.mean(fit.union(x[held]) == inside[held])),
            num_held,
            0,
            fit.flip_rate,
            (*describe_units(fit), *([fit.uneven] if fit.uneven else [])),
            not fit.uneven,
        )

    @classmethod
    def identify(
        cls,
        member: Callable[[np.ndarray], Any],
        input_size: int,
        *,
        centre: np.ndarray | None = None,
        reach: float = 1e3,
        max_halfspaces: int | None = None,
        num_checks: int = 200,
        seed: int = 0,
    ) -> Halfspaces:
        """From questions: ``member(x)`` says which rows of x (n, d) lie in the intersection, which holds ``centre``.

        Points of the check are drawn from N(0, I) around the centre, scaled to the size of what was found.
        """
        rng = stream(seed, "halfspaces from queries")
        centre = np.zeros(input_size) if centre is None else np.asarray(centre, dtype=np.float64)
        counted = _Counted(member)
        if centre.shape != (input_size,) or not counted(centre[None])[0]:
            raise InputError("the centre is not inside; give centre= with a point of the intersection")
        faces = find_faces(counted, centre, rng, reach=reach, max_faces=max_halfspaces)
        union, notes = faces.union(), list(faces.notes)
        if faces.num_curved:
            notes.append(f"in {faces.num_curved} places the boundary fits no plane")
        scale = float(np.median(faces.offsets)) if len(faces.offsets) else 1.0
        points = centre + 0.7 * scale * rng.standard_normal((num_checks, input_size))
        wrong = counted(points) == union(points)
        return cls(
            union.normals,
            union.offsets,
            faces.errors + 1e-15,
            float(np.mean(wrong)),
            num_checks,
            counted.count,
            0.0,
            tuple(notes),
        )


def describe_units(fit: LabelFit) -> tuple[str, ...]:
    """What the labels leave open, halfspace by halfspace."""
    d = fit.union.normals.shape[1]
    notes = []
    for i, (margin, own) in enumerate(zip(fit.margins, fit.num_own, strict=True)):
        if own < d + 2:
            notes.append(
                f"halfspace {i}: only {own} rows are its own, too few for {d} inputs; give more rows"
            )
        elif fit.flip_rate == 0 and not margin > 0:
            notes.append(f"halfspace {i}: no plane separates its rows; wrong labels or two close halfspaces")
    return tuple(notes)


class _Counted:
    def __init__(self, member: Callable[[np.ndarray], Any]):
        self.member, self.count = member, 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.count += len(x)
        answers = np.asarray(self.member(x)).reshape(-1)
        if len(answers) != len(x):
            raise InputError(f"the membership function gave {len(answers)} answers to {len(x)} points")
        return answers > 0


def _checked(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, labels = np.asarray(x, dtype=np.float64), np.asarray(labels).reshape(-1)
    if x.ndim != 2 or len(labels) != len(x):
        raise InputError(f"x {x.shape} and {len(labels)} labels do not fit; give one label a row")
    if not np.all(np.isfinite(x)):
        raise InputError("x holds NaN or infinite values; leave those rows out")
    inside = labels > 0
    if len(np.unique(labels)) > 2:
        raise InputError("labels take more than two values; give 1 inside and 0 (or -1) outside")
    if inside.all() or not inside.any():
        raise InputError("all labels are the same: there is no boundary in the rows; give more rows")
    if len(x) < 50 * x.shape[1]:
        raise InputError(
            f"{len(x)} rows for {x.shape[1]} inputs are too few; give at least {50 * x.shape[1]}"
        )
    return x, inside
