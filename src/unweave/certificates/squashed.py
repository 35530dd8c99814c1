"""A network found in front of a squashing against the model's own answers, all over the domain the user gave.

The network is found where the answers do not saturate. Elsewhere an answer still says on which side of its range it
lies, and how far from the end: a wrong unit that matters only out there shows.
"""

from __future__ import annotations

import numpy as np

from unweave.certificates.base import Check
from unweave.certificates.certificate import EXACT
from unweave.core.domains import Domain
from unweave.core.errors import NotANumber
from unweave.core.network import Network
from unweave.core.outputs import Squashing
from unweave.evidence.meter import CERTIFICATE, Meter
from unweave.evidence.precision import Precision
from unweave.solve.weighted import relative_errors

BEHIND = "answers behind the squashing"
"""Name of the check."""
NUM_POINTS = 64
NUM_AT_A_BOUND, HALVINGS = 4, 60
"""Points where an output comes to a bound of a clamp, each from a segment that is halved so often."""
LOOSEST = 0.1
LARGEST, LARGEST_SINGLE = 1e100, 1e35
"""Where the network answers with more the model is not asked: it may have no number to say."""


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
) -> Check:
    """Whether ``network`` with ``view`` behind it answers as the model does in ``domain``.

    ``precision`` is that of the model's own answers. A point counts against the network if both what it answers and
    what it says in front of the squashing are off, or if the answers are none that the squashing gives.
    """
    count = int(min(NUM_POINTS, meter.ledger.left))
    if not count:
        return Check(BEHIND, None)
    x = domain.sample(count, meter.input_size, rng)
    largest = LARGEST_SINGLE if precision.kind == "float32" else LARGEST
    with np.errstate(all="ignore"):
        x = x[np.all(np.abs(view.restore(network(x))) < largest, axis=1)]
        if view.is_clamp:
            border = _at_the_bounds(network, view, x)
            border = border[domain.contains(border)]
            border = border[: int(np.clip(meter.ledger.left - len(x), 0, len(border)))]
            x = np.concatenate([x, border])
    inner, meter.domain = meter.domain, domain
    try:
        with meter.stage(CERTIFICATE):
            answers, inverted = meter.raw(x), meter.ask(x)
        x = meter.snap(x)
    except NotANumber as error:
        return Check(BEHIND, False, {}, str(error), f"behind the {view.name}: {error}", local=True)
    finally:
        meter.domain = inner
    count = len(x)
    tolerance = min(max(EXACT, 12 * precision.relative), LOOSEST)
    inside = network(x)
    apart = np.abs(view.restore(inside) - answers)
    off, spread = np.max(apart, axis=1), max(float(np.std(answers)), 1e-300)
    wrong = off / spread > tolerance
    if inverted.shape == answers.shape:  # an output that agrees may be too small for what stands before it
        inverted = np.where(apart / spread <= tolerance, inside, inverted)
    wrong &= relative_errors(network, x, inverted) > tolerance
    wrong |= view.contradicted(answers, precision.noise, precision.unit)
    num_wrong, worst = int(np.sum(wrong)), float(np.max(off, initial=0.0))
    return Check(
        BEHIND,
        num_wrong == 0,
        {"num_points": float(count), "num_wrong": float(num_wrong), "max_error": worst},
        f"behind the {view.name} {count} answers of the whole domain are off by at most {worst:.1e}",
        f"{num_wrong} of {count} answers of the whole domain, behind the {view.name}, are not the network's"
        if num_wrong
        else "",
        local=True,
    )
