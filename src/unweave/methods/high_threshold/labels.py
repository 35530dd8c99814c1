"""Halfspaces from 0/1 labels alone: number, normals and offsets, with or without wrong labels.

starts from moments -> noisy-OR fit with a rising sharpness -> a max-margin program a halfspace when no label is wrong,
and from it the centre of all halfspaces that separate the rows; else the windowed logistic fit at the sharpest level
the rows support. The share of wrong labels is estimated where it cannot be mistaken for a missing halfspace: among rows
deep inside a halfspace that is already found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.high_threshold.margin import CLEAR, Margins, fit_margins
from unweave.methods.high_threshold.starts import find_starts, label_moments
from unweave.methods.high_threshold.union import (
    BATCH,
    Union,
    find_union,
    fit_union,
    new_halfspaces,
    num_allowed,
    purity_offsets,
    score_batches,
    sharpen,
    thin,
    uncovered,
)

DEEP = 0.35
"""Rows this far inside a halfspace are active whatever the error of the fit."""


@dataclass(frozen=True)
class LabelFit:
    """A union of halfspaces fitted to labels, and how well the labels determine it."""

    union: Union
    flip_rate: float
    margins: np.ndarray
    """Half the width of the empty strip around each boundary; negative or minus infinity where labels contradict."""
    num_own: np.ndarray
    """Active rows that belong to each halfspace alone."""
    num_rows: int
    resolutions: np.ndarray
    """About the error of each normal when no label is wrong (``face_resolutions``)."""
    uneven: str = ""
    """Says so where labels that contradict the union are not spread evenly, as wrong labels would be."""


def fit_labels(
    x: np.ndarray,
    labels: np.ndarray,
    rng: np.random.Generator,
    *,
    num_units: int | None = None,
    flip_rate: float | None = None,
    equal_offsets: bool = False,
    start: np.ndarray | None = None,
    centred: bool = True,
) -> LabelFit:
    """Halfspaces whose union carries the labels (booleans) of rows x ~ N(0, I).

    ``flip_rate`` None estimates the share of wrong labels; 0 says there are none. ``equal_offsets`` says that all
    halfspaces are equally far from the origin. ``centred`` False ends at the widest margins, for units that are
    refined by other means.
    """
    rate = estimate_flip_rate(x, labels, rng, num_units) if flip_rate is None else flip_rate
    union = find_union(x, labels, rng, num_units=num_units, flip_rate=rate, start=start)
    union = sharpen(x, labels, union, (16.0, 48.0), flip_rate=rate)
    if num_units is None or len(union) < num_units:
        union = add_small_faces(x, labels, union, rate)
    margins = fit_margins(x, labels, union)
    if centred and rate == 0 and np.all(margins.margins > 0):
        margins = centre_halfspaces(x, labels, margins.union, rng)
    if rate > 0 or not np.all(margins.margins > 0):
        rate = _disagreement(x, labels, union) if flip_rate is None else rate
        fine = _finest(len(x), union)
        union = sharpen(x, labels, union, [b for b in (100.0, 200.0, 400.0) if b <= fine], flip_rate=rate)
        if rate == 0:
            # Only some halfspaces are contradicted by labels; the others keep their programs.
            good = margins.margins > 0
            union = Union(
                np.where(good[:, None], margins.union.normals, union.normals),
                np.where(good, margins.union.offsets, union.offsets),
            )
    else:
        union = margins.union
    uneven = ""
    if rate > 0 and flip_rate is None:
        rate, uneven = even_rate(x, labels, union)
    if equal_offsets:
        union = Union(union.normals, np.full(len(union), float(np.median(union.offsets))))
    order = np.argsort(-margins.num_own, kind="stable")
    union = Union(union.normals[order], union.offsets[order])
    return LabelFit(
        union,
        rate,
        margins.margins[order],
        margins.num_own[order],
        len(x),
        face_resolutions(x, union),
        uneven,
    )


def centre_halfspaces(x: np.ndarray, labels: np.ndarray, union: Union, rng: np.random.Generator) -> Margins:
    """Centres of the halfspaces that separate each one's rows, from max-margin halfspaces.

    How well each is known says which rows near two of them belong to one alone: a face that others nearly cover gains
    many. Where that turns out contradictory, the wider distance of the start is kept.
    """
    clear = np.clip(6 * face_resolutions(x, union), CLEAR / 10, CLEAR)
    found = fit_margins(x, labels, union, clear=clear, rng=rng)
    return found if np.all(found.margins > 0) else fit_margins(x, labels, union, rng=rng)


def face_resolutions(x: np.ndarray, union: Union, *, width: float = 0.1) -> np.ndarray:
    """``d / (rows per unit of depth at the face)``, over how far the face spreads in its narrowest direction.

    For a face no other cuts this is ``d / (N n(t))``.
    """
    k, d = union.normals.shape
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d))
    for start, scores in score_batches(x, union):
        rows = x[start : start + len(scores)]
        reached = scores >= 0
        num_reached = reached.sum(axis=1)
        for i in range(k):
            near = (np.abs(scores[:, i]) < width) & (num_reached == reached[:, i])
            mine = rows[near]
            counts[i] += len(mine)
            sums[i] += mine.sum(axis=0)
            squares[i] += mine.T @ mine
    found = np.full(k, np.inf)
    for i in range(k):
        if counts[i] > d + 1:
            mean = sums[i] / counts[i]
            covariance = squares[i] / counts[i] - np.outer(mean, mean)
            # Along the normal the rows fill the strip only; the narrowest other direction counts.
            values = np.linalg.eigvalsh(covariance + np.outer(union.normals[i], union.normals[i]))
            spread = float(np.sqrt(np.clip(values[0], 1e-6, 1.0)))
            found[i] = d / (counts[i] / (2 * width)) / spread
    return found


def add_small_faces(
    x: np.ndarray, labels: np.ndarray, union: Union, flip_rate: float, *, max_rounds: int = 3
) -> Union:
    """The union with halfspaces that cut off so little that only a sharp boundary shows their rows."""
    allowed = num_allowed(len(x), x.shape[1], flip_rate)
    for _ in range(max_rounds):
        missing = uncovered(x, labels, union, 4 / 48.0)
        fresh = new_halfspaces(missing, 2, allowed) if len(missing) > allowed else None
        if fresh is None or not len(fresh):
            break
        more = sharpen(x, labels, union.joined(fresh), (8.0, 16.0, 48.0), flip_rate=flip_rate)
        more = thin(x, labels, more, flip_rate=flip_rate)
        if len(uncovered(x, labels, more, 4 / 48.0)) >= len(missing):
            break
        union = more
    return union


def estimate_flip_rate(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, num_units: int | None = None
) -> float:
    """The share of silent rows deep inside halfspaces of a first fit, 0 when there are hardly any."""
    d = x.shape[1]
    some = x[: 4 * BATCH], labels[: 4 * BATCH]
    moments = label_moments([some], d)
    count = min(d, num_units or d)
    normals = find_starts(moments, count, rng)
    start = Union(normals, purity_offsets(some[0][:50_000], some[1][:50_000], normals))
    rows = max(20_000, 30 * normals.size)
    union = fit_union(some[0][:rows], some[1][:rows], start, (2.0, 4.0, 8.0), flip_rate=0.01)
    inside, silent = np.zeros(len(union)), np.zeros(len(union))
    for first, scores in score_batches(some[0], union):
        deep = scores > DEEP
        inside += deep.sum(axis=0)
        silent += (deep & ~some[1][first : first + len(scores), None]).sum(axis=0)
    trusted = inside >= 30
    if not trusted.any():
        return 0.0
    shares = silent[trusted] / inside[trusted]
    usual = float(np.median(shares))
    if usual == 0:
        return 0.0
    # A start that is no unit has silent rows of its own: those far above the usual are left out.
    pure = shares <= 2 * usual + 3 * np.sqrt(usual / inside[trusted])
    rate = float(silent[trusted][pure].sum() / inside[trusted][pure].sum())
    return rate if rate * inside[trusted][pure].sum() >= 3 else 0.0


def contradictions(x: np.ndarray, labels: np.ndarray, union: Union) -> tuple[float, int, float, int]:
    """Shares of silent rows clearly inside and of active rows clearly outside, each with the number of rows there."""
    counts = np.zeros(4)
    for start, scores in score_batches(x, union):
        top = np.max(scores, axis=1)
        active = labels[start : start + len(scores)]
        inside, outside = top > 0.2, top < -0.2
        counts += [np.sum(inside & ~active), inside.sum(), np.sum(outside & active), outside.sum()]
    within, without = counts[:2], counts[2:]
    return within[0] / max(within[1], 1), int(within[1]), without[0] / max(without[1], 1), int(without[1])


def even_rate(x: np.ndarray, labels: np.ndarray, union: Union) -> tuple[float, str]:
    """The share of wrong labels; where contradictions are not spread evenly, the smaller of two shares and a remark.

    Flipped labels do not ask where they are. A missing halfspace leaves active rows outside, an upper part that is not
    monotone silent rows inside: what exceeds the even share stays a contradiction.
    """
    inside, num_inside, outside, num_outside = contradictions(x, labels, union)
    together = (inside * num_inside + outside * num_outside) / max(num_inside + num_outside, 1)
    deviation = np.sqrt(together * (1 / max(num_inside, 1) + 1 / max(num_outside, 1)))
    if abs(inside - outside) <= 4 * deviation:
        return together, ""
    where = f"{inside:.1%} inside the halfspaces, {outside:.1%} outside"
    why = "a halfspace is missing" if outside > inside else "the labels are not monotone in the units"
    return min(inside, outside), f"contradicting labels are not spread evenly ({where}): {why}"


def _disagreement(x: np.ndarray, labels: np.ndarray, union: Union) -> float:
    inside, num_inside, outside, num_outside = contradictions(x, labels, union)
    return (inside * num_inside + outside * num_outside) / max(num_inside + num_outside, 1)


def _finest(num_rows: int, union: Union) -> float:
    """The sharpness at which about 20 d rows a halfspace are still within the window."""
    d = union.normals.shape[1]
    density = np.exp(-(np.median(union.offsets) ** 2) / 2) / np.sqrt(2 * np.pi)
    return float(12 * num_rows * density / (20 * d))
