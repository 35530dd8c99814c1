"""A union of halfspaces ``{w_i.x > t_i}`` fitted to 0/1 labels: the number, the normals and the offsets.

Labels of a network with high thresholds ("some unit is active"), of an OR of step units, or of the outside of an
intersection of halfspaces. The smooth model is a noisy OR: the label is 0 with probability
``prod_i sigmoid(-beta (w_i.x - t_i))``. Its likelihood is maximised while beta rises; as the fit sharpens, only rows
near the current boundary are looked at, so that every step costs the same and sees ever more rows.

The number of halfspaces need not be known: a fit with too many is thinned out (two halfspaces that became one,
halfspaces without active rows of their own), rows that no halfspace explains start new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from unweave.methods.high_threshold.starts import (
    cluster_rows,
    find_starts,
    follow_rows,
    label_moments,
    num_directions,
)

NUM_ROWS = 20_000
"""Rows of one fit; more when the units are many."""
BATCH = 65_536
FAR = 1.5
"""Rows less far along a direction are not taken for a halfspace's own."""


@dataclass(frozen=True)
class Union:
    """Halfspaces ``normals[i].x > offsets[i]`` with normals of length one."""

    normals: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.normals)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """``normals.x - offsets`` (n, k): positive inside a halfspace."""
        return x @ self.normals.T - self.offsets

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Which rows lie in some halfspace."""
        return np.any(self.scores(x) > 0, axis=1)

    def without(self, index: int) -> Union:
        return Union(np.delete(self.normals, index, axis=0), np.delete(self.offsets, index))

    def joined(self, other: Union) -> Union:
        return Union(
            np.concatenate([self.normals, other.normals]), np.concatenate([self.offsets, other.offsets])
        )


def find_union(
    x: np.ndarray,
    labels: np.ndarray,
    rng: np.random.Generator,
    *,
    num_units: int | None = None,
    flip_rate: float = 0.0,
    start: np.ndarray | None = None,
    max_rounds: int = 6,
    max_units: int | None = None,
) -> Union:
    """Halfspaces whose union explains the labels (booleans), to about a hundredth.

    ``start`` are rough directions (k, d); from the rows' moments when not given.
    ``num_units`` is found when not given; never more than ``max_units`` (4 d + 8 by default). ``flip_rate`` is the
    share of labels that may be wrong: that many unexplained rows start no halfspace.
    """
    d = x.shape[1]
    most = (4 * d + 8 if max_units is None else max_units) if num_units is None else num_units
    if start is None:
        union = _first_guess(x, labels, rng, num_units)
    else:
        union = Union(start, purity_offsets(*_fewer_pairs(x, labels, 50_000, rng), start))
    rows = _some_rows(x, labels, union, rng)
    union = fit_union(*rows, union, (2.0, 4.0), flip_rate=flip_rate)
    union = sharpen(x, labels, union, (8.0,), flip_rate=flip_rate, num_rows=2 * len(rows[0]))
    wrong = num_wrong(x, labels, union, 3 / 8.0)
    if wrong > max(num_allowed(len(x), d, flip_rate), 0.01 * labels.sum()):
        # More halfspaces than directions, or poor starts: a fit with too many, thinned out.
        crowd = cluster_rows(_fewer(x[labels], NUM_ROWS, rng), min(2 * d + 2, 2 * most), rng)
        many = Union(crowd, purity_offsets(*_fewer_pairs(x, labels, 50_000, rng), crowd))
        many = fit_union(*rows, many, (2.0, 4.0, 8.0), flip_rate=flip_rate)
        many = thin(*rows, many, flip_rate=flip_rate, max_units=most)
        union = many if num_wrong(x, labels, many, 3 / 8.0) < wrong else union
    allowed = num_allowed(len(x), d, flip_rate)
    for _ in range(max_rounds):
        union = sharpen(x, labels, union, (12.0, 24.0), flip_rate=flip_rate)
        kept = thin(x, labels, union, flip_rate=flip_rate)
        missing = uncovered(x, labels, kept, 4 / 24.0)
        settled = len(kept) == len(union)
        union = kept
        fresh = new_halfspaces(missing, max(min(most - len(kept), 4), 0), allowed)
        if len(missing) <= allowed or not len(fresh):
            if settled:
                break
            continue
        union = kept.joined(fresh)
        rows = _some_rows(x, labels, union, rng)
        union = fit_union(*rows, union, (4.0, 8.0), flip_rate=flip_rate)
    return thin(x, labels, union, flip_rate=flip_rate)


def fit_union(
    x: np.ndarray,
    labels: np.ndarray,
    start: Union,
    sharpness: Sequence[float],
    *,
    flip_rate: float = 0.0,
    max_steps: int = 50,
) -> Union:
    """The likeliest union under the noisy OR, from ``start``, at each sharpness beta in turn."""
    k, d = start.normals.shape
    parameters = np.column_stack([start.normals, start.offsets])
    for beta in sharpness:
        found = minimize(
            _negative_log_likelihood,
            parameters.ravel(),
            args=(x, labels, k, beta, flip_rate),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_steps, "maxcor": 20},
        )
        parameters = found.x.reshape(k, d + 1)
        parameters[:, :d] /= np.linalg.norm(parameters[:, :d], axis=1, keepdims=True)
    return Union(parameters[:, :d], parameters[:, d])


def sharpen(
    x: np.ndarray,
    labels: np.ndarray,
    union: Union,
    sharpness: Sequence[float] = (16.0, 48.0),
    *,
    flip_rate: float = 0.0,
    num_rows: int | None = None,
) -> Union:
    """The fit on rows within ``6 / beta`` of the current boundary, for a rising beta."""
    wanted = _num_rows(union) if num_rows is None else num_rows
    for beta in sharpness:
        near = nearest_rows(x, union, 6 / beta, wanted)
        if len(near):
            union = fit_union(x[near], labels[near], union, (beta,), flip_rate=flip_rate)
    return union


def nearest_rows(x: np.ndarray, union: Union, width: float, num_rows: int) -> np.ndarray:
    """Indices of the first ``num_rows`` rows whose largest score is within ``width`` of zero."""
    found, count = [], 0
    for start, scores in score_batches(x, union):
        near = start + np.flatnonzero(np.abs(np.max(scores, axis=1)) < width)
        found.append(near)
        count += len(near)
        if count >= num_rows:
            break
    return np.concatenate(found)[:num_rows]


def score_batches(x: np.ndarray, union: Union) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, scores of a batch of rows), over all rows."""
    for start in range(0, len(x), BATCH):
        yield start, union.scores(x[start : start + BATCH])


def purity_offsets(x: np.ndarray, labels: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """For each direction the first offset from which on more than half of the rows beyond it are active."""
    edges = np.linspace(0.25, 4.5, 86)
    offsets = np.full(len(normals), 3.0)
    for i, normal in enumerate(normals):
        projections = x @ normal
        active = np.histogram(projections[labels], edges)[0]
        total = np.histogram(projections, edges)[0]
        pure = np.flatnonzero((active > 0.5 * total) & (total > 3))
        if len(pure):
            offsets[i] = edges[pure[0]]
    return offsets


def thin(
    x: np.ndarray, labels: np.ndarray, union: Union, *, flip_rate: float = 0.0, max_units: int | None = None
) -> Union:
    """The union without halfspaces that repeat another or have no active rows of their own, at most ``max_units``."""
    least = num_allowed(len(x), x.shape[1], 0.0)
    hits = np.concatenate([scores > 0 for _, scores in score_batches(x, union)])
    kept = list(range(len(union)))
    while len(kept) > 1:
        chosen = hits[:, kept]
        alone = chosen & (chosen.sum(axis=1) == 1)[:, None]
        gains = (alone & labels[:, None]).sum(axis=0) - (alone & ~labels[:, None]).sum(axis=0)
        worst = int(np.argmin(gains))
        twin = _twin(union, kept)
        few_enough = max_units is None or len(kept) <= max_units
        if gains[worst] > least and twin is None and few_enough:
            break
        kept.pop(worst if twin is None else twin)
    return Union(union.normals[kept], union.offsets[kept])


def uncovered(x: np.ndarray, labels: np.ndarray, union: Union, width: float) -> np.ndarray:
    """Active rows further than ``width`` from every halfspace."""
    parts = []
    for start, scores in score_batches(x, union):
        missed = labels[start : start + len(scores)] & (np.max(scores, axis=1) < -width)
        parts.append(x[start : start + len(scores)][missed])
    return np.concatenate(parts)


def new_halfspaces(rows: np.ndarray, count: int, least: float) -> Union:
    """Up to ``count`` halfspaces around the densest directions of unexplained rows, each of more than ``least``.

    With many inputs rows of one halfspace are nearly orthogonal; where none is dense, T_3 of the rows gives directions.
    """
    every, num_rows, rows = rows, max(len(rows), 1), rows[:2000]
    normals, offsets = [], []
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    left = np.ones(len(rows), dtype=bool)
    for _ in range(count):
        cosines = directions[left] @ directions[left].T
        if not len(cosines):
            break
        near = cosines > 0.6
        best = int(np.argmax(near.sum(axis=1)))
        if near[best].sum() <= max(min(least, 20), 0.3 * least * len(rows) / num_rows):
            break
        members = np.flatnonzero(left)[near[best]]
        normal = rows[members].mean(axis=0)
        normal /= np.linalg.norm(normal)
        normals.append(normal)
        offsets.append(float(np.quantile(rows[members] @ normal, 0.1)))
        left[members] = False
    if count and not normals and num_rows > least:
        for normal in follow_rows(label_moments([(every, np.ones(len(every)))], every.shape[1]), rows)[
            :count
        ]:
            beyond = every @ normal
            if np.sum(beyond > FAR) > least:
                normals.append(normal)
                offsets.append(float(np.quantile(beyond[beyond > FAR], 0.25)))
    return Union(np.array(normals).reshape(-1, rows.shape[1]), np.array(offsets))


def _negative_log_likelihood(parameters, x, labels, k, beta, flip_rate):
    """Mean of -log P(label) and its gradient in the rows (a_i, t_i), normals being a_i/|a_i|."""
    d = x.shape[1]
    table = parameters.reshape(k, d + 1)
    lengths = np.linalg.norm(table[:, :d], axis=1)
    normals = table[:, :d] / lengths[:, None]
    scores = beta * (x @ normals.T - table[:, d])
    small = np.exp(-np.abs(scores))
    depth = np.maximum((np.log1p(small) + np.maximum(scores, 0.0)).sum(axis=1), 1e-12)
    outside = np.exp(-depth)
    keep, flip = 1 - 2 * flip_rate, flip_rate
    chance = np.where(labels, flip + keep * -np.expm1(-depth), flip + keep * outside)
    value = -np.log(np.maximum(chance, 1e-300)).mean()
    slope = np.where(labels, -1.0, 1.0) * keep * outside / np.maximum(chance, 1e-300)
    sigmoid = np.where(scores > 0, 1.0, small) / (1 + small)
    pull = sigmoid * (slope * beta / len(x))[:, None]
    turn = pull.T @ x
    turn = (turn - np.sum(turn * normals, axis=1)[:, None] * normals) / lengths[:, None]
    return value, np.column_stack([turn, -pull.sum(axis=0)]).ravel()


def _first_guess(x, labels, rng, num_units) -> Union:
    d = x.shape[1]
    batches = ((x[i : i + BATCH], labels[i : i + BATCH]) for i in range(0, len(x), BATCH))
    moments = label_moments(batches, d)
    count = max(num_directions(moments)[0], 1) if num_units is None else min(num_units, d)
    ends = follow_rows(moments, _fewer(x[labels], NUM_ROWS, rng)) if num_units is None else np.zeros((0, d))
    normals = ends if len(ends) > count else find_starts(moments, count, rng)
    if num_units is not None and num_units > d:
        normals = cluster_rows(_fewer(x[labels], NUM_ROWS, rng), num_units, rng)
    return Union(normals, purity_offsets(*_fewer_pairs(x, labels, 50_000, rng), normals))


def num_wrong(x: np.ndarray, labels: np.ndarray, union: Union, width: float) -> int:
    """Active rows further than ``width`` outside all halfspaces and silent ones further than that inside one."""
    wrong = 0
    for start, scores in score_batches(x, union):
        top = np.max(scores, axis=1)
        active = labels[start : start + len(scores)]
        wrong += int(np.sum((active & (top < -width)) | (~active & (top > width))))
    return wrong


def _twin(union: Union, kept: list[int]) -> int | None:
    """The place in ``kept`` of a halfspace whose normal is within a quarter of another's, the later of the two."""
    cosines = union.normals[kept] @ union.normals[kept].T - 2 * np.eye(len(kept))
    i, j = np.unravel_index(int(np.argmax(cosines)), cosines.shape)
    return int(max(i, j)) if cosines[i, j] > 0.97 else None


def num_allowed(num_rows: int, input_size: int, flip_rate: float) -> float:
    """So many unexplained rows start no halfspace."""
    return 2 * input_size + 1e-4 * num_rows + 1.5 * flip_rate * num_rows


def _num_rows(union: Union) -> int:
    return max(NUM_ROWS, 40 * union.normals.size)


def _some_rows(x, labels, union: Union, rng) -> tuple[np.ndarray, np.ndarray]:
    return _fewer_pairs(x, labels, _num_rows(union), rng)


def _fewer_pairs(x, labels, count: int, rng) -> tuple[np.ndarray, np.ndarray]:
    if len(x) <= count:
        return x, labels
    chosen = rng.choice(len(x), count, replace=False, shuffle=False)
    return x[chosen], labels[chosen]


def _fewer(x: np.ndarray, count: int, rng) -> np.ndarray:
    return x if len(x) <= count else x[rng.choice(len(x), count, replace=False)]
