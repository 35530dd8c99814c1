"""Traces that are parts of one unit: its zero set need not be connected in the domain.

Two facets of one unit differ by the planes between them: a test while these are fewer than the inputs. Where they are
more, weights of planes that both parts have crossed tell: that numbers agree to their error bars is no accident.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.lifted.sightings import DEVIATIONS
from unweave.methods.relu.lifted.traces import Traces

CHANCE = 1e-6
"""Chance of an accident up to which agreement is none."""
MISREAD = 1e-3
"""The same that two parts of a unit, known to be such, differ by a multiple of one plane."""


def unite(t: Traces, one: int, two: int) -> bool:
    """Whether two traces are parts of one unit whose zero set is not connected; ``one`` learns what ``two`` knows.

    Their facets differ by the planes between them: with fewer of these than inputs that is a test. Parts that
    more planes separate are told by weights that both have crossed; they share these, and stay two.
    """
    if np.linalg.norm(t.output[one] - t.output[two]) > DEVIATIONS * (t.turn[one] + t.turn[two]) + 1e-9:
        return False
    size = t.gamma.shape[1]
    apart = np.flatnonzero(~t.known[one] & ~t.known[two] & (t.sides[one] != t.sides[two]))
    blur = np.sqrt(sum(np.trace(t.covariance[j][:size, :size]) for j in (one, two)))
    slack = DEVIATIONS * blur + 1e-12 * np.linalg.norm(t.gamma[one])
    chance = min(1.0, slack / np.linalg.norm(t.gamma[two, :-1])) ** max(size - len(apart), 0) * len(t)
    chance *= min(1.0, DEVIATIONS * (t.turn[one] + t.turn[two])) ** (t.output.shape[1] - 1)
    alike = are_alike(t, one, two)
    if chance > CHANCE and not alike:
        return False
    matrix = (-2 * t.sides[one, apart, None] * t.ridges[apart]).T
    for sign in (alike,) if alike else (1.0, -1.0):
        left = sign * _seen_from(t, two, one, sign) - _seen_from(t, one, two, sign)
        found = np.linalg.lstsq(matrix, left, rcond=None)[0] if len(apart) else np.zeros(0)
        fits = len(apart) < size and np.linalg.norm(matrix @ found - left) <= slack
        if not (fits and (alike or _agree(t, one, two, sign))):
            continue
        share_weights(t, one, two, sign)
        error = blur * np.linalg.norm(np.linalg.pinv(matrix), 2) if len(apart) else 0.0
        for plane, beta in zip(apart, found, strict=True):
            t.cross(one, int(plane), float(beta), float(error))
        return True
    if alike:
        share_weights(t, one, two, alike)
        return not len(apart) and _mend(t, one, two, alike, slack)
    return False


def _mend(t: Traces, one: int, two: int, sign: float, slack: float) -> bool:
    """Whether two parts that share all weights differ by a wrong one alone; ``one`` gets the right one.

    Each part rests on its own side of the plane whose weight was misread, so that their affine parts differ by a
    multiple of it.
    """
    left = sign * t.gamma[two] - t.gamma[one]
    planes = np.flatnonzero(t.known[one] & (t.sides[one] != t.sides[two]))
    if len(left) < 3 or not len(planes):
        return False
    ridges = t.ridges[planes]
    share = ridges @ left / np.einsum("nd,nd->n", ridges, ridges)
    rest = np.linalg.norm(left - share[:, None] * ridges, axis=1)
    best = int(np.argmin(rest))
    chance = len(planes) * (rest[best] / max(np.linalg.norm(left), 1e-300)) ** (len(left) - 1)
    if rest[best] > slack or chance > MISREAD:
        return False
    plane = planes[best]
    change = share[best] / 2
    t.beta[one, plane] -= change * t.sides[one, plane]
    t.gamma[one] += change * ridges[best]
    return True


def _seen_from(t: Traces, one: int, two: int, sign: float) -> np.ndarray:
    """The affine part of a trace once it knows the weights that another one has crossed."""
    more = t.known[two] & ~t.known[one]
    return t.gamma[one] - sign * (t.beta[two, more] * t.sides[one, more]) @ t.ridges[more]


def _agree(t: Traces, one: int, two: int, sign: float) -> bool:
    """Whether no weight that both have crossed contradicts that they are one unit."""
    shared = t.known[one] & t.known[two]
    return bool(np.all(np.abs(t.beta[one] - sign * t.beta[two])[shared] <= _allowed(t, one, two, shared)))


def _allowed(t: Traces, one: int, two: int, planes: np.ndarray) -> np.ndarray:
    places = t.gamma.shape[1] + np.flatnonzero(planes)
    variances = [np.diagonal(t.covariance[j])[places] for j in (one, two)]
    return DEVIATIONS * np.sqrt(variances[0] + variances[1]) + 1e-12 * np.abs(t.beta[one, planes])


def are_alike(t: Traces, one: int, two: int) -> float:
    """1 or -1 where weights of planes that both crossed agree, with that sign, and not by accident; else 0."""
    shared = t.known[one] & t.known[two]
    if not shared.any():
        return 0.0
    typical = max(float(np.median(np.abs(t.beta[one, shared]))), 1e-300)
    luck = np.minimum(1.0, 4 * _allowed(t, one, two, shared) / typical)
    if float(np.prod(luck)) * len(t) > CHANCE:
        return 0.0
    return next((sign for sign in (1.0, -1.0) if _agree(t, one, two, sign)), 0.0)


def share_weights(t: Traces, one: int, two: int, sign: float) -> None:
    """Each of two parts of a unit learns the weights that the other has crossed."""
    size = t.gamma.shape[1]
    for to, of in ((one, two), (two, one)):
        for plane in np.flatnonzero(t.known[of] & ~t.known[to]):
            error = np.sqrt(t.covariance[of][size + plane, size + plane])
            t.cross(to, int(plane), sign * t.beta[of, plane], float(error))
