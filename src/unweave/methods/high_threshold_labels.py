"""Halfspaces from 0/1 labels alone: number, normals and offsets, with or without wrong labels.

starts from moments -> noisy-OR fit with a rising sharpness -> a max-margin program a halfspace when no label is wrong,
else the windowed logistic fit at the sharpest level the rows support. The share of wrong labels is estimated where it
cannot be mistaken for a missing halfspace: among rows deep inside a halfspace that is already found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unweave.methods.high_threshold_margin import fit_margins
from unweave.methods.high_threshold_starts import find_starts, label_moments
from unweave.methods.high_threshold_union import (
    BATCH,
    Union,
    find_union,
    fit_union,
    purity_offsets,
    score_batches,
    sharpen,
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

    @property
    def resolutions(self) -> np.ndarray:
        """``d / (N n(t))`` for each halfspace: about the error of its normal when no label is wrong."""
        d = self.union.normals.shape[1]
        density = np.exp(-(self.union.offsets**2) / 2) / np.sqrt(2 * np.pi)
        return d / (self.num_rows * np.maximum(density, 1e-300))


def fit_labels(
    x: np.ndarray,
    labels: np.ndarray,
    rng: np.random.Generator,
    *,
    num_units: int | None = None,
    flip_rate: float | None = None,
    equal_offsets: bool = False,
    start: np.ndarray | None = None,
) -> LabelFit:
    """Halfspaces whose union carries the labels (booleans) of rows x ~ N(0, I).

    ``flip_rate`` None estimates the share of wrong labels; 0 says there are none. ``equal_offsets`` says that all
    halfspaces are equally far from the origin.
    """
    rate = estimate_flip_rate(x, labels, rng, num_units) if flip_rate is None else flip_rate
    union = find_union(x, labels, rng, num_units=num_units, flip_rate=rate, start=start)
    union = sharpen(x, labels, union, (16.0, 48.0), flip_rate=rate)
    margins = fit_margins(x, labels, union)
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
    if equal_offsets:
        union = Union(union.normals, np.full(len(union), float(np.median(union.offsets))))
    order = np.argsort(-margins.num_own, kind="stable")
    union = Union(union.normals[order], union.offsets[order])
    return LabelFit(union, rate, margins.margins[order], margins.num_own[order], len(x))


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
    pure = shares <= np.quantile(shares, 0.5) + 1e-12
    rate = float(silent[trusted][pure].sum() / inside[trusted][pure].sum())
    return rate if rate * inside[trusted][pure].sum() >= 3 else 0.0


def _disagreement(x: np.ndarray, labels: np.ndarray, union: Union) -> float:
    """The share of labels that contradict the union away from its boundary."""
    wrong = total = 0
    for start, scores in score_batches(x, union):
        top = np.max(scores, axis=1)
        clear = np.abs(top) > 0.2
        wrong += int(np.sum(clear & ((top > 0) != labels[start : start + len(scores)])))
        total += int(clear.sum())
    return wrong / max(total, 1)


def _finest(num_rows: int, union: Union) -> float:
    """The sharpness at which about 20 d rows a halfspace are still within the window."""
    d = union.normals.shape[1]
    density = np.exp(-(np.median(union.offsets) ** 2) / 2) / np.sqrt(2 * np.pi)
    return float(12 * num_rows * density / (20 * d))
