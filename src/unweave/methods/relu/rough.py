"""The ridges of one hidden layer from rough answers (float32): several lines, consistency, then least squares.

Rounding blurs close kinks, so a plane counts when it explains kinks on most lines; a least-squares fit on many
points then averages the rounding away, drops what it shows to be no unit, and says by its misfit whether all units
were there. Otherwise more lines are drawn.
"""

from __future__ import annotations

import numpy as np

from unweave.methods.relu.consistency import confirmed_planes
from unweave.methods.relu.polish import can_polish, polish_ridges
from unweave.methods.relu.ridges import RidgeSum, fit_affine_part
from unweave.methods.relu.search import sharpen
from unweave.probes.cells import Pieces, join_pieces
from unweave.probes.inquiry import Inquiry
from unweave.probes.kinks import Kinks, find_kinks
from unweave.probes.lines import Lines, draw_lines, join_lines
from unweave.probes.planes import join_planes, measure_planes, no_planes


def find_ridges_roughly(
    inquiry: Inquiry, rng: np.random.Generator, *, num_lines: int = 5, max_tries: int = 4
) -> tuple[RidgeSum, Pieces, bool]:
    """The best ridge sum after at most ``max_tries`` batches of lines, its pieces, and whether it fits."""
    meter, d, k = inquiry.meter, inquiry.input_size, inquiry.output_size
    planes, pieces, kinks = no_planes(d, k), None, list[Kinks]()
    lines: Lines | None = None
    best, best_misfit = RidgeSum(planes, np.zeros((k, d)), np.zeros(k)), np.inf
    for _ in range(max_tries):
        with meter.stage("lines"):
            fresh = draw_lines(meter.domain, num_lines, d, rng)
            fresh_kinks = find_kinks(inquiry, fresh)
            more, more_pieces = measure_planes(inquiry, fresh, fresh_kinks, rng)
        lines = fresh if lines is None else join_lines(lines, fresh)
        kinks += fresh_kinks
        planes = join_planes([planes, more])
        pieces = more_pieces if pieces is None else join_pieces(pieces, more_pieces)
        if not pieces.valid.any():
            continue
        model = fit_affine_part(confirmed_planes(planes, lines, kinks, 2 * len(lines) // 5), pieces)
        with meter.stage("remeasured units"):
            model, pieces = sharpen(inquiry, model, pieces, rng, share=1.0, num_candidates=400)
        if not can_polish(model):
            return model, pieces, True
        with meter.stage("polish"):
            model, misfit = polish_ridges(inquiry, model, rng)
        if misfit < best_misfit:
            best, best_misfit = model, misfit
        if misfit < 3:
            break
    assert pieces is not None
    return best, pieces, best_misfit < 3
