"""The rounds of the search: draw, explain, fit, check, and again where answers or kinks disagree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unweave.core import clock
from unweave.core.domains import Domain
from unweave.evidence.precision import Precision
from unweave.methods.relu.lifted.fitting import CORNERS
from unweave.methods.relu.lifted.mend import NEARLY
from unweave.methods.relu.lifted.search import GAINING, Search
from unweave.probes.inquiry import Inquiry

FEW, ROUGHLY_FEW = 0.2, 0.4
"""Share of the second layer's kinks that may be unexplained where a network is put together, exact answers or rough."""
MENDABLE, MENDINGS = 0.1, 10
"""Share of answers that may be wrong where the sum is fitted on as it is, and how often it is."""
IDLE = 2
"""Fits in a row that leave no fewer wrong answers, after which only more lines help."""
MOST_LINES = 60
"""Lines drawn at a time through the few answers that are wrong."""
EDGES = 80
"""Most edges of a box along which kinks are looked for."""
NOWHERE = 10.0
"""Relative standard error of a unit from which on it is likely none."""
GOAL = 40.0
"""Standard errors of rough answers' parameters are brought down to this many relative errors of one answer."""


def search_two_layers(
    inquiry: Inquiry,
    rng: np.random.Generator,
    *,
    max_rounds: int = 12,
    max_seconds: float = 150.0,
    suspects: np.ndarray | None = None,
    precision: Precision | None = None,
    earlier: Search | None = None,
    near: Domain | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Search:
    """Two hidden layers, as far as the rounds and the time go; ``wrong`` is 0 when every answer is explained.

    ``earlier``: a search that ended so and is wrong near the ``suspects``; it goes on. ``near``: see ``Explained``.
    """
    if earlier is not None and suspects is not None:
        earlier.go_on(clock.now() + max_seconds, suspects)
        if not _settle(earlier, say):
            earlier.draw_towards(8, MOST_LINES)
            _search(earlier, max_rounds, say)
        return earlier
    search = Search(inquiry, rng, clock.now() + max_seconds, say, near=near, precision=precision)
    if suspects is not None:
        search.suspects = suspects
    num_lines = 12 if search.is_bounded else 8
    search.draw(num_lines)
    if not all(scan.endless for scan in search.sightings.scans):  # the answers do not bend all along
        _search(search, max_rounds, say)
    return search


def _search(search: Search, max_rounds: int, say: Callable[[str], None]) -> None:
    """Round after round, until nothing contradicts."""
    inquiry, edges = search.inquiry, False
    for turn in range(max_rounds):
        search.find_planes()
        seen = search.sightings
        say(f"round {turn}: {len(seen.scans)} lines, {len(seen)} kinks, {len(search.planes)} planes")
        if not search.is_shallow:
            search.explain()
        unknown = len(search.unknown_kinks())
        say(f"  {search.num_units} units, {unknown} kinks unexplained, {inquiry.meter.ledger.total} queries")
        if search.is_deeper(unknown):
            break
        most = ROUGHLY_FEW if inquiry.coarse else FEW
        few = search.is_shallow or unknown <= most * len(search.open_kinks()) + 2
        if few:
            search.fit()
            if _settle(search, say):
                return
        if clock.now() > search.deadline:
            break
        if few:
            search.draw_towards(8, MOST_LINES if inquiry.coarse and search.wrong < CORNERS else 24)
            if not edges:
                search.draw_edges(EDGES)
                edges = True
        if not few or search.wrong > 0.2:
            search.draw(8 if few else 16)


def _settle(search: Search, say) -> bool:
    """Whether fresh points agree with the network and its parameters are known; fits again where they do not."""
    goal = GOAL * search.inquiry.relative if search.inquiry.coarse else 1e-7
    lean, fuller, idle = False, None, 0
    for _ in range(MENDINGS if search.is_composed else 4):
        if search.network is None or search.wrong > 0.2:
            return False
        if search.wrong == 0 and search.is_composed and not search.inquiry.coarse:
            search.ask_beyond()
            if search.wrong > 0:
                return False
        fresh = search.ask_fresh(int(np.clip(search.network.num_parameters, 1500, 4000)))
        say(f"  wrong {search.wrong:.4f}, fresh {fresh:.4f}")
        if fresh == 0 and search.wrong == 0:
            if search.is_composed:
                if search.inquiry.coarse and not lean:
                    search.ask_unsure()
                    if search.wrong > 0:
                        continue
                    fuller = search.point
                    search.drop_needless()
                    search.tighten()
                    lean = True
                    continue
                if not search.inquiry.coarse:
                    search.join_parts()
                    search.polish()
                search.ask_telling()
            if search.is_composed and search.wrong == 0:
                return True
            first = search.inform(goal, max_rounds=1)
            if first is not None and first.worst > NOWHERE:  # no question would tell such a unit
                search.drop_flagged(first, least=NOWHERE)
            search.information = search.inform(goal)
            if search.information is not None and search.drop_flagged(search.information):
                search.information = search.inform(goal)
            if search.wrong == 0:
                return True
        if search.is_composed and (not search.inquiry.coarse or max(search.wrong, fresh) > MENDABLE):
            return False  # only more lines help
        if search.is_composed:
            before = search.wrong
            if search.is_far_off():
                return False
            search.mend()
            if search.wrong > 0 and fuller is not None:  # a unit was left out that answers asked since need
                search.point, fuller, lean = fuller, None, False
                search.mend()
            idle = idle + 1 if search.wrong > GAINING * before else 0
            if search.wrong > max(GAINING * before, NEARLY) or (search.wrong > 0 and idle >= IDLE):
                return False
            continue
        if search.inquiry.coarse:
            search.add_left_over()
        search.sharpen()
    return False
