"""A glance at the windows of a few kinks, before skeletons that take long are looked for.

Far out a network of relu-like units, of any depth, follows ``A + B t + C phi(s (t - shift))`` across every kink. Where
no candidate explains the windows of the strongest kinks on a few lines, the activation is none of them.
"""

from __future__ import annotations

import numpy as np

from unweave.evidence.meter import Meter
from unweave.methods.base import Problem
from unweave.methods.skeleton.assemble import window_candidates
from unweave.methods.skeleton.places import Place
from unweave.methods.skeleton.profiles import fit_profile
from unweave.methods.skeleton.windows import BENT, NUM_ACROSS_FULL, climb_down
from unweave.probes.inquiry import Inquiry
from unweave.probes.kinks import find_kinks
from unweave.probes.lines import draw_lines

NUM_LINES, NUM_WINDOWS = 2, 4
FEWEST = 2
"""Windows that must have been seen."""
UNKNOWN = 1e3
"""A misfit of so many accuracies in every window is no candidate's; the right one leaves about one."""
STRONG = 0.3
"""A kink with this share of the strongest one's jump is as good as that."""


def misfits_of_windows(
    meter: Meter, inquiry: Inquiry, problem: Problem, radius: float, rng: np.random.Generator
) -> dict[str, float]:
    """log10 of the median misfit of every candidate, in accuracies, where none explains any window; else nothing.

    ``inquiry`` sees the model from afar; windows are looked at where its lines pass at ``radius``.
    """
    names = window_candidates(problem.activations)
    with meter.stage("windows"):
        places = _strongest(inquiry, radius, rng)
        windows = []
        for place in places:
            far = np.max(np.abs(meter.ask(place.point[None])))
            accuracy = inquiry.relative * float(far + inquiry.slope * radius)
            windows.append(climb_down(meter, place, accuracy, NUM_ACROSS_FULL, BENT))
    seen = [window for window in windows if window is not None]
    if len(seen) < FEWEST:
        return {}
    fits = [[fit_profile(n, w.t, w.answers, w.half).misfit / w.accuracy for n in names] for w in seen]
    if np.min(fits) < UNKNOWN:
        return {}
    return dict(zip(names, np.log10(np.median(fits, axis=0)).tolist(), strict=True))


def _strongest(inquiry: Inquiry, radius: float, rng: np.random.Generator) -> list[Place]:
    """The strongest kinks of some lines with room around them, as seen along their line at ``radius``."""
    lines = draw_lines(inquiry.meter.domain, NUM_LINES, inquiry.input_size, rng)
    places, scores = [], []
    for number, found in enumerate(find_kinks(inquiry, lines)):
        if not len(found.positions):
            continue
        points = lines.points(np.full(len(found.positions), number), found.positions)
        every = np.sort(np.concatenate([found.positions, found.unresolved]))
        gaps = np.diff(np.concatenate([[-np.inf], every, [np.inf]]))
        room = np.minimum(gaps[:-1], gaps[1:])[np.searchsorted(every, found.positions)]
        lengths = np.linalg.norm(points, axis=1)
        room = np.minimum(room / lengths, 1.0)
        jumps = np.linalg.norm(found.jumps, axis=1)
        scores += (room * np.minimum(jumps / np.max(jumps), STRONG)).tolist()
        for point, length, free in zip(points, lengths, room, strict=True):
            places.append(Place(radius * point / length, lines.directions[number], 1.0, radius * free))
    best = np.argsort(-np.array(scores), kind="stable")[:NUM_WINDOWS]
    return [places[i] for i in best]
