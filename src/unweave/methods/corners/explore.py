"""The span of the rows: places, mostly near corners of the box, at which answers move in directions not seen before.

A unit whose plane passes far from the middle of a box is saturated at almost every point of it, but not at corners
that its row points to. Rows of one network are related, so corners in directions of combinations of gradients seen
show further units, if only by their tails, and their gradients lead to further corners. Whether anything unknown moves
at a place takes two questions, along a random direction orthogonal to all that is known; only where something does is
a whole Jacobian asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from unweave.methods.corners.view import MARGIN, STRANGE, Cube

QUIET = 300
"""Places in succession that show nothing new, after which nothing more is expected."""
QUIET_ROUNDED = 5000
"""Places at which answers are compared with those of the network known where rounding hides the tails of units."""
MOST_PLACES = 3000
LOUD = 30.0
"""A derivative counts from this multiple of what rounding makes of it."""
GENERATIONS, CHILDREN = 6, 12
"""Of places that climb ..."""
MOST_GENERATIONS, CLIMBS = 40, 2.0
"""... and as many more as raise what is measured to so many times over as many generations."""
HUNTED = 6
"""Places that are followed to where the model differs most from the network known."""
GROWN = 300.0
"""Multiple of the noise by which a place shows a unit after it was climbed from."""
LEAK = 1e-7
"""What is left of a gradient outside the span of others that should hold it, by errors of their differences."""
SPANNED = 1e-3
"""Relative singular value of hints from which on a direction is one of theirs."""
SHARE_INSIDE = 0.2
"""Places drawn from the whole box; the others lie on the way to a corner."""


@dataclass
class Span:
    """Orthonormal directions (k, d) of the cube in which answers were seen to move, and hints: rows or gradients."""

    basis: np.ndarray
    hints: np.ndarray
    steepest: float = 0.0
    """The longest gradient seen, which may leak into others by errors of differences."""
    places: tuple[np.ndarray, ...] = ()
    """Where answers move most in each direction, as far as was seen."""


def explore(
    cube: Cube,
    rng: np.random.Generator,
    span: Span,
    suspects: np.ndarray,
    *,
    most: int,
    inside: float = SHARE_INSIDE,
    quiet_after: int = QUIET,
) -> Span:
    """``span`` with every direction that shows; it ends early with more than ``most`` of them.

    ``suspects`` are places at which something is known to move; ``inside`` is the share of ordinary ones among others.
    """
    quiet = 0
    for attempt in range(MOST_PLACES):
        if quiet >= quiet_after or len(span.basis) > most:
            break
        place = (
            suspects[attempt] if attempt < len(suspects) else draw_place(cube.size, span.hints, rng, inside)
        )
        floor = max(LOUD * cube.rounding(cube.size), LEAK * span.steepest)
        known_to = attempt < len(suspects)
        if not known_to and not _moves_otherwise(cube, place, span.basis, floor, rng):
            quiet += 1
            continue
        quiet = 0
        jacobian = cube.slopes(place[None], np.eye(cube.size))[0]
        lengths = np.linalg.norm(jacobian, axis=1, keepdims=True)
        steepest = max(span.steepest, float(np.max(lengths)))
        floor = max(floor, LEAK * steepest)
        rest = jacobian - (jacobian @ span.basis.T) @ span.basis
        _, sizes, directions = np.linalg.svd(rest, full_matrices=False)
        new = directions[sizes > floor]
        basis = np.linalg.qr(np.vstack([span.basis, new]).T)[0].T
        seen = (jacobian / np.maximum(lengths, 1e-300))[lengths[:, 0] > floor]
        hints = np.vstack([span.hints, seen, new])
        climbed = [
            _climb(partial(_move, cube, direction), place, np.vstack([hints, direction]), rng)
            for direction in (new if inside < 1 else [])
        ]
        span = Span(basis, hints, steepest, (*span.places, *climbed))
    return span


def draw_place(
    size: int, hints: np.ndarray, rng: np.random.Generator, inside: float = SHARE_INSIDE
) -> np.ndarray:
    """A place in the box, or on the way to the corner that a hint points to, a combination, or any of their span."""
    if not len(hints) or rng.uniform() < inside:
        return rng.uniform(MARGIN - 1, 1 - MARGIN, size)
    count = int(rng.choice([0, 1, 2, 4, len(hints)]))
    if count:
        chosen = hints[rng.choice(len(hints), min(count, len(hints)), replace=False)]
    else:
        _, sizes, frame = np.linalg.svd(hints, full_matrices=False)
        chosen = frame[sizes > SPANNED * sizes[0]]
    towards = np.sign(rng.standard_normal(len(chosen)) @ chosen)
    return (1 - MARGIN) * (1 - rng.uniform() ** 2) * towards


def hunt(cube: Cube, rng: np.random.Generator, hints: np.ndarray) -> tuple[np.ndarray, bool]:
    """Places at which a unit that is not known shows, far enough for derivatives; and whether the network has errors.

    What errors of the network known leave over does not grow on the way to a corner as the tail of a unit does: beside
    single precision they show.
    """
    count = QUIET_ROUNDED if cube.rounded else QUIET
    drawn = np.array([draw_place(cube.size, hints, rng) for _ in range(count)])
    places = np.concatenate([cube.suspects(), drawn])
    found = cube.strangeness(places)
    order = np.argsort(-found)[:HUNTED]
    strange = places[order[found[order] > STRANGE]]

    def differ(u: np.ndarray) -> np.ndarray:
        return np.linalg.norm(cube.ask(u), axis=1)

    climbed = np.array([_climb(differ, place, hints, rng) for place in strange]).reshape(-1, cube.size)
    if not cube.rounded or not len(climbed):
        return climbed, False
    return climbed[differ(climbed) > GROWN * cube.noise], True


def _climb(
    measure: Callable[[np.ndarray], np.ndarray],
    place: np.ndarray,
    hints: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """From a place where ``measure`` shows something, if only a tail, to one where it shows more.

    The logarithm of a tail is a linear function of the place, so steps towards corners that raise it add up.
    """
    reached = [-np.inf]
    for generation in range(MOST_GENERATIONS):
        if generation > GENERATIONS and not reached[-1] > CLIMBS * reached[-1 - GENERATIONS]:
            break
        steps = rng.uniform(size=(CHILDREN, 1)) ** 2
        corners = np.array([draw_place(len(place), hints, rng, inside=0.0) for _ in range(CHILDREN)])
        places = np.vstack([place, place + steps * (corners - place)])
        sizes = measure(places)
        reached.append(max(reached[-1], float(np.max(sizes))))
        if reached[-1] > reached[-2]:
            place = places[np.argmax(sizes)]
    return place


def _move(cube: Cube, direction: np.ndarray, places: np.ndarray) -> np.ndarray:
    """How much the answers move along a direction at each place."""
    return np.linalg.norm(cube.slopes(places, direction[None])[:, :, 0], axis=1)


def _moves_otherwise(
    cube: Cube, place: np.ndarray, basis: np.ndarray, floor: float, rng: np.random.Generator
) -> bool:
    """Whether the derivative along a random direction orthogonal to ``basis`` is more than ``floor``."""
    move = rng.standard_normal(cube.size)
    move -= (move @ basis.T) @ basis
    move *= MARGIN / np.max(np.abs(move))
    answers = cube.ask(np.stack([place + move, place - move]))
    change = float(np.max(np.abs(answers[0] - answers[1])))
    return change > max(LOUD * cube.noise, 2 * floor * float(np.linalg.norm(move)))
