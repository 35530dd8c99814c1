"""Relu networks of any depth in a box of few inputs, as a finding: generation after generation, then the last layer.

Where everything that shows is explained, the network is the same function in the box; units that never change side
there are affine and come back as always active ones (``deep.compose``). Else the layers that are known come back open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np

from unweave.certificates.rare_patterns import find_rare_patterns
from unweave.core import clock
from unweave.core.errors import BudgetSpent, TimeSpent
from unweave.methods.base import Finding, Problem
from unweave.methods.relu.deep.compose import compose, rows_of
from unweave.methods.relu.deep.domain_findings import open_above, whole
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.lifted.draw import box_faces
from unweave.methods.relu.peel.climb import Climb
from unweave.methods.relu.peel.last import Closing
from unweave.methods.relu.peel.mend import fit_every, num_beyond
from unweave.methods.relu.peel.trails import Region
from unweave.probes.inquiry import Inquiry
from unweave.probes.lines import draw_lines, line_through

LINES = 40
"""Random lines through the box, and as many between its faces."""
FRESH, ROUNDS = 400, 12
"""Fresh points asked at a time, and how often those that contradict are taken in."""
DOUBTFUL = 200
"""Points at which the answers so far leave open what the network does."""
RARE, MOST_RARE = 20, 1000
"""Points a unit, and in all, at which some unit stands as it hardly ever does, ..."""
MORE, MOST_MORE = 4, 3000
"""... and points of the faces for every weight, and in all, that are asked in the end."""
MOST_LAYERS = 8
MOST_WRONG = 0.01
"""Share of the answers that a network which is returned whole may contradict."""
MOST_LEFT = 0.03
"""Share of the kinks that may be left over where a layer is tried as the last one."""
MOST_LATE = 4
"""How often a generation is found once more because of units that turn up late."""
ATTEMPTS = 2
"""Pools that are drawn, at most."""
EDGES, FEW = 40, 4
"""Edges of the box along which lines are drawn, all of them up to this number of inputs, ..."""
INSIDE = 0.004
"""... so far inside, relative to the box."""
ODD = 12
"""Lines through places where something is missing."""


def recover_by_peeling(
    inquiry: Inquiry,
    problem: Problem,
    low: np.ndarray,
    high: np.ndarray,
    max_seconds: float,
    say: Callable[[str], None] = lambda text: None,
) -> Finding:
    """The network where every answer agrees with it; else the layers that are known, open above."""
    end, first = clock.now() + problem.within(max_seconds), None
    for left in range(ATTEMPTS, 0, -1):
        now = clock.now()
        rng = problem.rng("relu peeling", *range(ATTEMPTS - left))
        climb = Climb(Region(inquiry, low, high, rng), Pool(inquiry, rng), now + (end - now) / left, say)
        finding, spent = _attempt(climb, problem)
        whole = finding.network is not None and not finding.network.is_open
        if whole and not finding.reason:
            return finding
        if first is None or whole:
            first = finding
        if whole or spent:
            break
    assert first is not None
    return first


def _attempt(climb: Climb, problem: Problem) -> tuple[Finding, bool]:
    """What one pool shows, and whether nothing more can be asked."""
    inquiry = climb.pool.inquiry
    try:
        with inquiry.meter.stage("layers"), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return _peel(climb, problem), False
    except TimeSpent as spent:
        if not climb.generations:
            return Finding(None, reason=str(spent)), False
        return describe_open(climb, str(spent)), False
    except BudgetSpent as spent:
        if not climb.generations:
            raise
        return describe_open(climb, str(spent)), True


def _peel(climb: Climb, problem: Problem) -> Finding:
    """Generation after generation until one closes."""
    draw_pool(climb)
    late, known = 0, None
    while len(climb.generations) < MOST_LAYERS:
        found, before = climb.find_generation(known), known
        known = None
        if late < MOST_LATE and climb.take_late(found):
            late += 1
            continue
        if before is not None and len(found) > len(before):
            # what turns up where few answers contradict shows in a corner: most often it counts alike in all of it
            climb.candidates = found
            finding = close(climb, problem)[0] if climb.left_over() <= MOST_LEFT else None
            if finding is not None:
                return finding
            found = climb.candidates
        sure, loose = climb.settle_generation(found)
        whole = climb.generations and climb.candidates and len(sure) + len(loose) == len(climb.candidates)
        if whole and climb.left_over() <= MOST_LEFT:
            finding, odd = close(climb, problem)
            if finding is not None:
                return finding
            late += 1
            if late > MOST_LATE:
                break
            nearly = 0 < len(odd) <= MOST_WRONG * len(climb.pool.inquiry.meter.transcript()[0])
            if sure and loose and not nearly:  # these may stand below the others
                climb.add_generation(loose)
                continue
            if not len(odd) or not draw_towards(climb, odd):
                break
            known = climb.candidates
            continue
        if not sure:
            break
        climb.add_generation(sure)
    if not climb.generations:
        return Finding(None, reason="no hyperplane shows in the whole domain")
    return describe_open(climb, f"{len(climb.unexplained())} of {len(climb.pool.x)} kinks are not explained")


def draw_pool(climb: Climb) -> None:
    """Lines through the box and between its faces."""
    pool, rng = climb.pool, climb.region.rng
    domain, d = pool.inquiry.meter.domain, pool.input_size
    pool.add_lines(draw_lines(domain, LINES, d, rng))
    starts, ends = domain.edge(LINES, d, rng), domain.edge(LINES, d, rng)
    apart = np.linalg.norm(starts - ends, axis=1) > 0.1 * climb.region.scale
    middle = (starts + ends)[apart] / 2
    pool.add_lines(line_through(domain, middle, ends[apart]))
    starts, ends = edge_ways(climb.region)
    pool.add_lines(line_through(domain, (starts + ends) / 2, ends))


def edge_ways(region: Region) -> tuple[np.ndarray, np.ndarray]:
    """Ways along edges of the box, a little inside: a zero set that cuts off a corner meets those that end there."""
    low, high, rng = region.low, region.high, region.rng
    d, inside = len(low), INSIDE * (region.high - region.low)
    starts = np.where(rng.random((EDGES, d)) < 0.5, low + inside, high - inside)
    if d <= FEW:
        bits = np.array(list(product((0.0, 1.0), repeat=d - 1)))
        bits = np.concatenate([np.insert(bits, axis, 0.0, axis=1) for axis in range(d)])
        starts = low + inside + bits * (high - low - 2 * inside)
        axes = np.repeat(np.arange(d), 2 ** (d - 1))
    else:
        axes = rng.integers(d, size=EDGES)
    ends, rows = starts.copy(), np.arange(len(starts))
    starts[rows, axes], ends[rows, axes] = (low + inside)[axes], (high - inside)[axes]
    return starts, ends


def corners(region: Region) -> np.ndarray:
    """Of the box, all or some of them."""
    d = len(region.low)
    bits = region.rng.random((EDGES, d)) < 0.5
    if d <= FEW:
        bits = np.array(list(product((False, True), repeat=d)))
    return np.where(bits, region.high, region.low)


def draw_towards(climb: Climb, odd: np.ndarray) -> bool:
    """Lines through places where something is missing; whether they meet anything that is not explained."""
    pool, rng = climb.pool, climb.region.rng
    domain, d = pool.inquiry.meter.domain, pool.input_size
    starts = odd[rng.permutation(len(odd))[:ODD]]
    goals = domain.sample(len(starts), d, rng)
    new = pool.add_lines(line_through(domain, (starts + goals) / 2, starts))
    return len(np.intersect1d(new, climb.unexplained())) > 0


def close(climb: Climb, problem: Problem) -> tuple[Finding | None, np.ndarray]:
    """The whole network with the candidates as its last layer; None where answers contradict it, and where they do."""
    closing = Closing(climb, climb.candidates)
    inquiry, d = climb.pool.inquiry, climb.pool.input_size
    domain, rng = inquiry.meter.domain, problem.rng("relu fresh")
    inquiry.meter.ask(corners(climb.region))
    if problem.suspects is not None:
        inquiry.meter.ask(problem.suspects)
    for _ in range(ROUNDS):
        if not closing.fit():
            break
        faces = box_faces(climb.region.low, climb.region.high, FRESH // 2, rng)
        fresh = np.concatenate([domain.sample(FRESH, d, rng), domain.edge(FRESH // 2, d, rng), faces])
        doubtful = closing.doubtful(DOUBTFUL)
        fresh = np.concatenate([fresh, doubtful])
        wrong = len(closing.misses(fresh, inquiry.meter.ask(fresh)))
        climb.say(f"  {wrong} of {len(fresh)} fresh answers contradict, {len(doubtful)} were doubtful")
        if wrong:
            continue
        found = describe(climb, problem, *closing.result())
        assert found.network is not None
        num_rare = min(RARE * sum(found.network.hidden), MOST_RARE)
        rare = find_rare_patterns(found.network, num_rare, domain, None, rng)
        num = int(np.clip(MORE * found.network.num_parameters, 2 * FRESH, MOST_MORE))
        faces = box_faces(climb.region.low, climb.region.high, num, rng)
        rare = np.concatenate([rare, domain.sample(num // 2, d, rng), faces])
        if not num_beyond(inquiry, found.network, rare):
            return found, closing.odd
        fitted = fit_every(inquiry, found.network, climb.deadline)
        if not len(closing.misses(rare, inquiry.meter.ask(rare))) or not num_beyond(inquiry, fitted, rare):
            return replace(found, network=fitted), closing.odd
    if closing.last is not None and len(closing.odd):
        share = len(closing.odd) / len(inquiry.meter.transcript()[0])
        if share <= MOST_WRONG:
            found = describe(climb, problem, *closing.result())
            reason = f"{share:.2%} of the answers contradict the network: a unit is missing"
            climb.nearly = replace(found, reason=reason)
    return None, closing.odd


def describe(climb: Climb, problem: Problem, features: Lifted, top: np.ndarray) -> Finding:
    """The whole network."""
    base: Known | Lifted = features
    while isinstance(base, Lifted):
        base = base.known
    composed = compose(base, rows_of(features), top, climb.pool.inquiry.meter.domain, problem.rng("compose"))
    return whole(composed, fit_every(climb.pool.inquiry, composed.network, climb.deadline), base.depth)


def describe_open(climb: Climb, reason: str) -> Finding:
    """The network that explains nearly all, or the layers with sides, or the first hyperplanes, open above."""
    if climb.nearly is not None:
        return climb.nearly
    return open_above(climb.features, reason)
