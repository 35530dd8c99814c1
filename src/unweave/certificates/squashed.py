"""A network found in front of a squashing against the model's own answers, all over the domain the user gave.

The network is found where the answers do not saturate. Elsewhere an answer still says on which side of its range it
lies, and how far from the end: a wrong unit that matters only out there shows.
"""

from __future__ import annotations

import numpy as np

from unweave.certificates.base import Check
from unweave.certificates.beyond import count_beyond, points_beyond
from unweave.certificates.certificate import EXACT
from unweave.certificates.certificate import NUM_POINTS as ALL_OVER
from unweave.core.domains import Domain
from unweave.core.errors import NotANumber
from unweave.core.network import Network
from unweave.core.outputs import ROWWISE, Squashing
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.evidence.precision import Precision
from unweave.solve.weighted import gradient_norms

BEHIND = "answers behind the squashing"
"""Name of the check."""
NUM_POINTS, NUM_ORDINARY = 64, 64
NUM_AT_A_BOUND, HALVINGS = 4, 60
"""Points where an output comes to a bound of a clamp, each from a segment that is halved so often."""
LOOSEST = 0.1
LARGEST, LARGEST_SINGLE = 1e100, 1e35
"""Where the network answers with more the model is not asked: it may have no number to say."""
LEAST, LEAST_SINGLE = 1e-290, 1e-36
"""Where answers are smaller they are no longer exact."""


def _at_the_bounds(network: Network, view: Squashing, x: np.ndarray) -> np.ndarray:
    """Points between those of ``x`` where an output just comes to a bound of the clamp: there it must bend at once."""
    found, z = [x[:0]], network(x)
    for output in range(z.shape[1]):
        for bound in view.range:
            beyond = z[:, output] > bound
            low, high = x[~beyond][:NUM_AT_A_BOUND], x[beyond][:NUM_AT_A_BOUND]
            low, high = low[: len(high)], high[: len(low)]
            for _ in range(HALVINGS if len(low) else 0):
                middle = (low + high) / 2
                above = (network(middle)[:, output] > bound)[:, None]
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            found.append(low)
    return np.concatenate(found)


def check_squashed(
    network: Network,
    view: Squashing,
    meter: Meter,
    domain: Domain,
    precision: Precision,
    rng: np.random.Generator,
    *,
    deviation: float = 0.0,
) -> Check:
    """Whether ``network`` with ``view`` behind it answers as the model does in ``domain``.

    ``precision`` is that of the model's own answers, ``deviation`` the largest standard error of a unit. A point counts
    against the network if both what it answers and what it says in front of the squashing are off, or if the answers
    are none that the squashing gives.
    """
    part = meter.domain
    is_part = part is not domain
    wanted = ALL_OVER if is_part else NUM_POINTS
    if meter.ledger.left < wanted and (is_part or not meter.ledger.left):
        return Check(BEHIND, None, needed=is_part)
    x = domain.sample(int(min(wanted, meter.ledger.left)), meter.input_size, rng)
    with np.errstate(all="ignore"):
        x = _answered(network, view, x, precision)
        border = _at_the_bounds(network, view, x) if view.is_clamp else x[:0]
        x = _joined(x, border, domain, meter)
        num_near = len(x)
        if is_part:
            beyond = points_beyond(network, view, part, domain, count_beyond(network), rng)
            x = _joined(x, _answered(network, view, beyond, precision), domain, meter)
    inner, meter.domain = meter.domain, domain
    try:
        with meter.stage(CERTIFICATE):
            answers, inverted = meter.raw(x), meter.ask(x)
        x = meter.snap(x)
    except NotANumber as error:
        return Check(BEHIND, False, {}, str(error), f"behind the {view.name}: {error}", local=True)
    finally:
        meter.domain = inner
    tolerance = min(max(EXACT, 12 * precision.relative), LOOSEST)
    off = np.abs(view.restore(network(x)) - answers)
    agree = off <= tolerance * _sizes(answers, view, precision)
    gaps = _gaps(network(x), inverted, answers, view)
    if gaps.shape == agree.shape:  # an output that agrees may be too small for what stands before it
        gaps[agree] = 0.0
    ordinary = part.sample(NUM_ORDINARY, meter.input_size, rng)
    wrong = np.any(~agree, axis=1)
    wrong &= _relative(gaps, network, x, ordinary) > np.clip(12 * deviation, tolerance, LOOSEST)
    wrong |= view.contradicted(answers, precision.noise, precision.unit)
    num_wrong, worst = int(np.sum(wrong)), float(np.max(off, initial=0.0))
    count = len(x)
    return Check(
        BEHIND,
        num_wrong == 0,
        {"num_points": float(count), "num_wrong": float(num_wrong), "max_error": worst},
        f"behind the {view.name} {count} answers of the whole domain, {count - num_near} of them where they "
        f"tell most of rare units, are off by at most {worst:.1e}"
        if is_part
        else f"behind the {view.name} {count} answers of the whole domain are off by at most {worst:.1e}",
        _contradiction(num_wrong, count, view, part if is_part else None),
        local=True,
        needed=is_part,
    )


def _contradiction(num_wrong: int, count: int, view: Squashing, part: Domain | None) -> str:
    """What is said of answers that are not the network's; ``part``: where it was found, if not in the whole domain."""
    if not num_wrong:
        return ""
    told = (
        f"{num_wrong} of {count} answers of the whole domain, behind the {view.name}, are not the network's"
    )
    return (
        told if part is None else f"{told}: it holds in {part}, and units that are on beyond it are missing"
    )


def _answered(network: Network, view: Squashing, x: np.ndarray, precision: Precision) -> np.ndarray:
    """The points at which the model has a number to say."""
    largest = LARGEST_SINGLE if precision.kind == "float32" else LARGEST
    return x[np.all(np.abs(view.restore(network(x))) < largest, axis=1)]


def _joined(x: np.ndarray, more: np.ndarray, domain: Domain, meter: Meter) -> np.ndarray:
    """The points with as many others as lie in the domain and the budget leaves."""
    more = more[domain.contains(more)]
    return np.concatenate([x, more[: int(np.clip(meter.ledger.left - len(x), 0, len(more)))]])


def _sizes(answers: np.ndarray, view: Squashing, precision: Precision) -> np.ndarray | float:
    """What errors of answers are compared with: their spread, or each its own size where it has no end."""
    if np.all(np.isfinite(view.range)):
        return max(float(np.std(answers)), 1e-300)
    least = {"float64": LEAST, "float32": LEAST_SINGLE}.get(precision.kind, precision.scale)
    return np.maximum(np.abs(answers), least)


def _gaps(inside: np.ndarray, inverted: np.ndarray, answers: np.ndarray, view: Squashing) -> np.ndarray:
    """Differences in front of the squashing; of a softmax beside the likeliest class: some have no log."""
    gaps = inside - inverted
    if view.name not in ROWWISE or gaps.shape != answers.shape:
        return gaps
    return gaps - np.take_along_axis(gaps, np.argmax(answers, axis=1)[:, None], axis=1)


def _relative(gaps: np.ndarray, network: Network, x: np.ndarray, ordinary: np.ndarray) -> np.ndarray:
    """The largest of the gaps (n,), relative to the spread at ordinary points and to the growth of the outputs."""
    spread = np.maximum(np.std(network(ordinary), axis=0), 1e-300)
    slopes = np.sqrt(np.mean(gradient_norms(network, ordinary) ** 2, axis=0))
    leverage = np.linalg.norm(x, axis=1)[:, None] * np.maximum(gradient_norms(network, x), slopes)
    return np.max(np.abs(gaps) / np.maximum(spread, leverage), axis=1)
