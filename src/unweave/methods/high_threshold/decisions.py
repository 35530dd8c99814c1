"""Halfspaces: identify a model that gives only two answers, when one of them is given on an intersection of halfspaces.

Intersections and unions of halfspaces, ORs of step units, thresholded networks that are convex on one side. The faces
are found by bisection (``queries``), each to rounding, in ``80 d`` to ``110 d`` questions. The network
is a layer of step units, one a face, under a unit that is on when any (or none) of them is.
"""

from __future__ import annotations

import numpy as np

from unweave.core.network import Network
from unweave.evidence.kinds import Evidence
from unweave.evidence.meter import Meter
from unweave.methods.base import Finding, Problem, Serves, Traits
from unweave.methods.high_threshold.queries import Faces, find_faces
from unweave.methods.high_threshold.union import Union

REACH = 1e3
NUM_SCOUTS = 64
"""Random points asked to find an inner point of the other answer's region."""


class Decisions:
    """Faces of the region where one of the two answers is given."""

    serves: Serves

    name = "halfspaces"
    serves = Serves(Evidence.QUERIES, ("step",))

    def suits(self, traits: Traits) -> str | None:
        decides = traits.two_valued and traits.candidates(self.serves)
        return "only two different answers were seen" if decides else None

    def recover(self, meter: Meter, problem: Problem) -> Finding:
        if meter.output_size != 1:
            return Finding(None, f"{meter.output_size} outputs: halfspaces needs one; give a single decision")
        rng = problem.rng("halfspaces")
        reasons, best = [], None
        for centre, value, other in _centres(meter, rng):
            reach = min(REACH, 0.999 * _room(meter, centre))
            with meter.stage("faces"):
                faces = find_faces(lambda x, value=value: _gives(meter, x, value), centre, rng, reach=reach)
            if len(faces.normals) and not _curved(faces):
                best = (faces, value, other)
                break
            reasons.append(_why_not(faces, value))
        if best is None:
            where = "; ".join(dict.fromkeys(reasons)) or "all answers seen are the same"
            return Finding(
                None, f"{where}; halfspaces serves decisions with flat boundaries", conclusive=True
            )
        faces, value, other = best
        union = faces.union()
        details = {"normals": union.normals, "offsets": union.offsets, "face_errors": faces.errors}
        return Finding(decision_network(union, value, other), warnings=tuple(faces.notes), details=details)


def decision_network(union: Union, inside: float, outside: float) -> Network:
    """The network that answers ``outside`` in the union of the halfspaces and ``inside`` elsewhere."""
    rows, count = union.normals, len(union)
    on = float(outside > inside)
    sign = 1.0 if on else -1.0
    weights = [rows, sign * np.ones((1, count))]
    biases = [-union.offsets, np.array([-0.5 * sign])]
    low, high = min(inside, outside), max(inside, outside)
    if (low, high) == (0.0, 1.0):
        return Network(weights, biases, ["step", "step"])
    weights.append(np.array([[high - low]]))
    biases.append(np.array([low]))
    return Network(weights, biases, ["step", "step", "identity"])


def _centres(meter: Meter, rng):
    """(inner point, its answer, the other answer) for the answer at the middle, then for the other one."""
    d = meter.input_size
    with meter.stage("scouts"):
        x = meter.domain.sample(NUM_SCOUTS, d, rng)
        middle = np.zeros((1, d))
        middle = middle if meter.domain.contains(middle)[0] else x.mean(axis=0, keepdims=True)
        if meter.domain.contains(middle)[0]:
            x = np.vstack([middle, x])
        answers = meter.ask(x)[:, 0]
    seen_x, seen = meter.transcript()
    others = np.unique(seen[seen[:, 0] != answers[0], 0])
    if len(others) != 1:
        return
    yield x[0], float(answers[0]), float(others[0])
    small = np.linalg.norm(seen_x, axis=1) < 1e3
    there = seen_x[small & (seen[:, 0] == others[0])]
    if not len(there):
        return
    centre = there.mean(axis=0)
    with meter.stage("scouts"):
        if meter.domain.contains(centre[None])[0] and meter.ask(centre[None])[0, 0] == others[0]:
            yield centre, float(others[0]), float(answers[0])


def _gives(meter: Meter, x: np.ndarray, value: float) -> np.ndarray:
    """Where the model answers ``value``; beyond the domain nothing can be asked, and no boundary is met."""
    inside = meter.domain.contains(x)
    same = np.ones(len(x), dtype=bool)
    if inside.any():
        same[inside] = meter.ask(x[inside])[:, 0] == value
    return same


def _room(meter: Meter, centre: np.ndarray) -> float:
    return max(meter.domain.reach(meter.input_size) - float(np.linalg.norm(centre)), 1e-3)


def _curved(faces: Faces) -> bool:
    return faces.num_curved > max(2, len(faces.normals))


def _why_not(faces: Faces, value: float) -> str:
    if not len(faces.normals) and not faces.num_curved:
        return f"no boundary was met around a point with the answer {value:g}"
    return (
        f"the boundary around a point with the answer {value:g} is not flat in {faces.num_curved} of "
        f"{faces.num_curved + len(faces.normals)} places"
    )
