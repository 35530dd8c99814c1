"""Networks of any depth inside a bounded domain, as a finding: what shows there, and what only carries the rest.

Units are found on maps of planes (``arrange``), with their sides where those above tell them, and put together to a
plain network (``compose``) that is the same function in the domain. Units that never change side there are affine and
come back as always active ones. Where not everything is found, the layers below come back as an open network.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.core import clock
from unweave.core.errors import BudgetSpent, TimeSpent
from unweave.core.network import Network
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.deep.compose import compose, rows_of
from unweave.methods.relu.deep.domain_findings import open_above, whole
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.narrow import write_narrow
from unweave.methods.relu.maps.arrange import Arrangement, find_box
from unweave.methods.relu.maps.closing import close
from unweave.methods.relu.maps.sided import close_sided
from unweave.methods.relu.peel.mend import fit_every, num_beyond
from unweave.methods.relu.peel.recover import recover_by_peeling
from unweave.probes.inquiry import Inquiry

MAPS = 3
"""Maps that are drawn of two inputs, at most."""
LOOKS, AGAIN = 3, 20
"""How often a map is looked at again where answers contradict a network, and at how many of them."""
FRESH = 300
"""Fresh points on which the network is tried."""
WITHIN = 1e-7
"""Miss of an answer, relative to their spread, within which it agrees."""


def recover_in_box(
    inquiry: Inquiry, problem: Problem, max_seconds: float, two_layers: Callable[[], Finding]
) -> Finding:
    """The network where every answer agrees with it; else the layers that are known, open above.

    Thin cells are lost on one map and met on another: of two inputs, of which a map shows everything, another is drawn
    where nothing closes. Where the first cells of a large map show no third layer ``two_layers`` goes first, which does
    without the map; else last.
    """
    end = clock.now() + problem.within(max_seconds)
    if inquiry.input_size > 2:
        low, high = find_box(inquiry, problem.rng("relu box"))
        found = recover_by_peeling(inquiry, problem, low, high, max_seconds)
        return _write_narrow(inquiry, problem, found, end)
    first: Finding | None = None
    tried = False
    for left in range(MAPS, 0, -1):
        now = clock.now()
        deadline = now + (end - now) / left
        rng = problem.rng("relu maps", *range(MAPS - left))
        found = Arrangement(inquiry, deadline, rng, suspects=problem.suspects)
        if left == MAPS and not _looks_deep(inquiry, found):
            other, tried = two_layers(), True
            if other.network is not None:
                return other
        finding, spent = _draw_and_fit(inquiry, problem, found)
        first = finding if first is None else first
        if finding.network is not None and not finding.network.is_open:
            return _write_narrow(inquiry, problem, finding, end)
        if spent or clock.now() > end:
            return first
    assert first is not None
    if tried:
        return first
    try:
        other = two_layers()
    except BudgetSpent:  # what is known stays so
        return first
    return first if other.network is None else other


def _write_narrow(inquiry: Inquiry, problem: Problem, finding: Finding, deadline: float) -> Finding:
    """The same function in the domain with fewer units, where that is found and no more answers contradict it."""
    network = finding.network
    if network is None or network.is_open or finding.reason:
        return finding
    x, _ = inquiry.meter.transcript()
    found = write_narrow(network, inquiry.meter.domain, x, problem.rng("relu narrow"), deadline)
    if found is None:
        return finding
    narrow = fit_every(inquiry, found.network, deadline)
    if num_beyond(inquiry, narrow, x) > num_beyond(inquiry, network, x):
        return finding
    return Finding(narrow, warnings=found.warnings(), in_domain=True)


def _looks_deep(inquiry: Inquiry, found: Arrangement) -> bool:
    with inquiry.meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return found.looks_deep()


def _draw_and_fit(inquiry: Inquiry, problem: Problem, found: Arrangement) -> tuple[Finding, bool]:
    """What a map shows; and whether nothing more can be asked."""
    try:
        with inquiry.meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found.draw()
            if any(sheet.chart.closed for sheet in found.sheets):
                found.grow(max_layers=1)
                inquiry.meter.ask(
                    inquiry.meter.domain.sample(1, inquiry.input_size, found.rng)
                )  # says what is spent
            for found.generous in (False, True):
                finding = _close(inquiry, problem, found)
                if finding is not None:
                    return finding, False
    except TimeSpent as spent:
        if not found.traces:
            return Finding(None, reason=str(spent)), False
        return open_above(found.features, str(spent)), False
    except BudgetSpent as spent:  # what is known stays so
        if not found.traces:
            raise
        return open_above(found.features, str(spent)), True
    if not found.traces:
        return Finding(None, reason="no hyperplane shows in the whole domain"), False
    return open_above(found.features, f"{found.num_unknown} edges of their maps are not explained"), False


def _describe(inquiry: Inquiry, problem: Problem, found: Arrangement, top: np.ndarray) -> Finding:
    """The whole network, sharpened on the answers, if they agree; else open."""
    base = found.features
    while isinstance(base, Lifted):
        base = base.known
    composed = compose(base, rows_of(found.features), top, inquiry.meter.domain, problem.rng("compose"))
    wrong = _share_wrong(inquiry, problem, composed.network)
    if wrong > 0:
        return open_above(found.features, f"{wrong:.2%} of the answers contradict the best network")
    return whole(composed, fit_every(inquiry, composed.network, found.deadline), base.depth)


def _close(inquiry: Inquiry, problem: Problem, found: Arrangement) -> Finding | None:
    """The network over the units of a map, with their sides or else without; None where none fits."""
    try:
        network = _fit_sided(inquiry, problem, found)
        if network is not None:
            return Finding(network, in_domain=True)
    except np.linalg.LinAlgError:  # what is fitted is no such layer
        found.say("  a fit with sides broke off")
    try:
        if found.carry:
            found.carry = False
            found.restart()
            found.grow()
        found.forget_sides()
        top = close(found)
    except np.linalg.LinAlgError:
        return None
    return None if top is None else _describe(inquiry, problem, found, top)


def _fit_sided(inquiry: Inquiry, problem: Problem, found: Arrangement) -> Network | None:
    """The network whose sides are all told, if every answer agrees with it; small cells are looked for where not."""
    found.carry = True
    for _ in range(LOOKS):
        found.restart()
        found.grow()
        network = close_sided(found)
        if network is None:
            return None
        network = fit_every(inquiry, network, found.deadline)
        wrong = _wrong(inquiry, problem, network)
        if not len(wrong):
            return network
        if not found.look_again(wrong[:AGAIN]):
            return None
    return None


def _share_wrong(inquiry: Inquiry, problem: Problem, network: Network) -> float:
    """Share of all answers, some fresh ones among them, that a network contradicts."""
    return len(_wrong(inquiry, problem, network)) / len(inquiry.meter.transcript()[0])


def _wrong(inquiry: Inquiry, problem: Problem, network: Network) -> np.ndarray:
    """Points, some fresh ones among them, whose answers a network contradicts."""
    domain, d, rng = inquiry.meter.domain, inquiry.input_size, problem.rng("relu fresh")
    fresh = [domain.sample(FRESH, d, rng), domain.edge(FRESH // 4, d, rng)]
    inquiry.meter.ask(np.concatenate([*fresh, *([] if problem.suspects is None else [problem.suspects])]))
    x, y = inquiry.meter.transcript()
    return x[np.max(np.abs(network(x) - y), axis=1) > WITHIN * (np.std(y) + 1e-300)]
