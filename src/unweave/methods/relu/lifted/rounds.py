"""The rounds of the search: draw, explain, fit, check, and again where answers or kinks disagree."""

from __future__ import annotations

import time

import numpy as np

from unweave.methods.relu.lifted.search import Search
from unweave.probes.inquiry import Inquiry

GOAL = 40.0
"""Standard errors of rough answers' parameters are brought down to this many relative errors of one answer."""


def search_two_layers(
    inquiry: Inquiry,
    rng: np.random.Generator,
    *,
    max_rounds: int = 8,
    max_seconds: float = 150.0,
    say=lambda text: None,
) -> Search:
    """Two hidden layers, as far as the rounds and the time go; ``wrong`` is 0 when every answer is explained."""
    search = Search(inquiry, rng, time.monotonic() + max_seconds, say)
    bounded = not np.isinf(inquiry.meter.domain.reach(inquiry.input_size))
    search.draw(12 if bounded else 8)
    for turn in range(max_rounds):
        search.find_planes()
        seen = search.sightings
        say(f"round {turn}: {len(seen.scans)} lines, {len(seen)} kinks, {len(search.planes)} planes")
        if not search.is_shallow:
            search.find_units()
            if search.units and turn:
                search.walk()
        unknown = int(np.sum(~search.known_kinks()))
        say(f"  {len(search.units)} units, {unknown} kinks unexplained, {inquiry.meter.ledger.total} queries")
        few = search.is_shallow or unknown <= 0.2 * len(search.open_kinks()) + 2
        if few:
            search.fit()
            for _ in range(4):
                if search.network is None or search.wrong > 0:
                    break
                wrong = search.ask_fresh(int(np.clip(search.network.num_parameters / 2, 300, 3000)))
                say(f"  fresh wrong {wrong:.4f}")
                if wrong == 0:
                    search.information = search.inform(GOAL * inquiry.relative if inquiry.coarse else 1e-7)
                    if search.information is not None and search.drop_flagged(search.information):
                        search.information = search.inform(
                            GOAL * inquiry.relative if inquiry.coarse else 1e-7
                        )
                    if search.wrong == 0:
                        return search
                search.sharpen()
        if time.monotonic() > search.deadline:
            break
        if few:
            search.draw_towards(8)
        search.draw(8 if few else 16)
    return search
