"""A sum that is right in most of its domain and far off elsewhere, set right unit by unit.

Fits of everything stall there: what is wrong pulls at what is right. So everything else is held while a unit is grown
from answers that agree on it (``consensus``), one that is wrong beyond some plane is grown anew from where it is right,
and one that is right nowhere, or is there twice, is left out. What sets most answers right is kept. No question is
asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial import KDTree

from unweave.core import clock
from unweave.methods.relu.lifted.assemble import robust_solve
from unweave.methods.relu.lifted.consensus import Left, grow_base, grow_unit, misread_weight
from unweave.methods.relu.lifted.free import fit_freely
from unweave.methods.relu.lifted.held import fit_some
from unweave.methods.relu.lifted.ridge_sum import RidgeSum

MOST_WRONG, MOST_RIGHT = 6000, 4000
"""Answers that are looked at."""
SAMPLES = 3
"""How often others of them are looked at."""
STARTS, RESTARTS = 24, 3
"""Places at which units are begun in one turn, and where one is grown anew."""
NEXT = 300
"""Wrong answers of which those next to right ones are taken."""
WORTH, MUCH = 0.99, 0.8
"""Share of wrong answers that a change may leave, and one that makes looking further needless."""
SPOILED, DOUBTFUL = 0.5, 0.02
"""Share of wrong answers where a unit is on from which on it may be none, and may be wrong."""
WORST = 4
"""Units that are looked at in one turn for being wrong."""
FEW = 0.1
"""Share of wrong answers up to which everything is fitted as well."""
FEWER = 1000
"""Wrong answers up to which they are looked at once."""
RARE, MOST_RARE = 0.02, 8
"""Share of the answers at which a unit is on that may be right in a part of its region only, and how many are looked
at for that."""
EACH = 6
"""Residuals for each parameter that a fit of everything takes."""
FOR_EACH = 3
"""Answers that a grown unit must explain for each of its weights."""
MOST_TURNS, IDLE = 60, 3
"""Changes at most, and turns in a row that may bring none."""
SOUND = 0.1
"""Share of wrong answers where a unit is on up to which it is kept when all else is begun anew."""
NEARLY, ROUGH = 100.0, 1.5
"""Deviations in error bars of answers that are nearly right, and their median from which on planes are to blame."""
PATIENCE, HALVED = 8, 0.6
"""Changes in a row that must leave no more than this share of wrong answers."""
HOPELESS = 0.95
"""Share of answers that may be wrong then for more to be tried."""
TWINS = 1e-3
"""Share of answers at which two units that are one may not both be on or off."""


def repair(
    point: RidgeSum,
    x: np.ndarray,
    y: np.ndarray,
    bars: np.ndarray,
    rng: np.random.Generator,
    deadline: float,
    say: Callable[[str], None] = lambda text: None,
) -> RidgeSum:
    """A sum that leaves fewer answers wrong, or the same."""
    x = np.hstack([x, np.ones((len(x), 1))])
    best = Left(point, x, y, bars)
    state = best.of(on_rarely(point, best.z))
    for _ in range(SAMPLES):
        if not state.wrong.any() or clock.now() > deadline:
            break
        order = rng.permutation(len(x))
        wrong, right = order[state.wrong[order]], order[~state.wrong[order]]
        beside = right[np.argsort(_apart(x[right], x[wrong]))[: MOST_RIGHT // 4]]
        some = state.take(np.unique(np.concatenate([wrong[:MOST_WRONG], right[:MOST_RIGHT], beside])))
        size = len(x) * min(1.0, MOST_WRONG / len(wrong))
        trial = state.of(_repair(some, size, rng, deadline, say).point)
        if trial.wrong.sum() >= state.wrong.sum():
            break
        state = trial
    return state.point if state.wrong.sum() < best.wrong.sum() else point


def _repair(state: Left, size: float, rng: np.random.Generator, deadline: float, say) -> Left:
    """The same of some of about ``size`` answers; where many stay wrong, begun anew over what is sound."""
    state = _sharper(_without_twins(state), rng)
    best = state = _improve(state, size, rng, deadline, say)
    if best.wrong.sum() > FEW * size and clock.now() < deadline:
        state = _rebuilt(best, rng)
        say(f"  rebuilt over {len(state.point.gamma)} units: {state.wrong.sum()} wrong")
        if np.mean(state.wrong) < HOPELESS:
            state = _improve(state, size, rng, deadline, say)
            best = state if state.wrong.sum() < best.wrong.sum() else best
    return best


def _sharper(state: Left, rng: np.random.Generator) -> Left:
    """Everything fitted to the answers that are nearly right, where these are rougher than they should be."""
    misses = state.misses
    nearly = misses < NEARLY
    if nearly.mean() < 1 - HOPELESS or np.median(misses[nearly]) < ROUGH:
        return state
    rows = rng.permutation(np.flatnonzero(nearly))[: 2 * MOST_RIGHT]
    point = fit_freely(state.point, state.x[rows, :-1], state.y[rows], state.bars[rows], max_steps=4)
    fitted = state.of(point)
    return fitted if fitted.wrong.sum() < state.wrong.sum() else state


def _improve(state: Left, size: float, rng: np.random.Generator, deadline: float, say) -> Left:
    """Change after change, as long as they leave fewer of the answers, of about ``size``, wrong."""
    idle, counts = 0, list[int]()
    for turn in range(MOST_TURNS):
        before = int(state.wrong.sum())
        counts.append(before)
        if not before or clock.now() > deadline or idle == IDLE:
            break
        if turn >= PATIENCE and before > HALVED * counts[-1 - PATIENCE]:
            break
        best, what = _best_change(state, rng, fits=before < FEW * size)
        idle = max(idle, IDLE - 1) if before <= FEWER else idle  # more questions tell more than more tries
        after = int(best.wrong.sum())
        say(f"  repair {turn}: {len(state.point.gamma)} units, {before} -> {after} wrong, {what}")
        fewer = len(best.point.gamma) < len(state.point.gamma)
        if after <= (before if fewer else WORTH * before):
            state, idle = best, 0
        else:
            idle += 1
    return state


def _rebuilt(state: Left, rng: np.random.Generator) -> Left:
    """With units only that are right nearly wherever they are on, and all that is linear told anew."""
    on = state.z > 0
    shares = (on & state.wrong[:, None]).sum(axis=0) / np.maximum(on.sum(axis=0), 1)
    kept = state.point.take(np.flatnonzero(shares < SOUND))
    bare = state.of(replace(kept, above=np.zeros_like(kept.above)))
    best = state.of(kept)
    for start in rng.permutation(np.flatnonzero(~state.wrong))[:STARTS]:
        found = grow_base(bare, start, rng)
        trial = best if found is None else state.of(found)
        best = trial if trial.wrong.sum() < best.wrong.sum() else best
    return best


def on_rarely(point: RidgeSum, z: np.ndarray) -> RidgeSum:
    """The same sum with every unit on where it is on more rarely at answers with values ``z``."""
    turned = np.mean(z > 0, axis=0) > 0.5
    signs, above = np.where(turned, -1.0, 1.0)[:, None], point.above.copy()
    above[: len(point.rows)] += point.beta[turned].T @ point.output[turned]
    above[len(point.rows) :] += point.gamma[turned].T @ point.output[turned]
    return replace(point, gamma=signs * point.gamma, beta=signs * point.beta, above=above)


def _without_twins(state: Left) -> Left:
    """Units that switch together put together: all that is linear solved for without all but one of them."""
    on = state.z > 0
    sizes = np.linalg.norm(state.point.output, axis=1) * np.sqrt(
        np.mean(np.maximum(state.z, 0.0) ** 2, axis=0)
    )
    kept: list[int] = []
    for unit in np.argsort(sizes):
        apart = [min(np.mean(on[:, unit] != on[:, k]), np.mean(on[:, unit] == on[:, k])) for k in kept]
        if on[:, unit].any() and min(apart, default=1.0) > TWINS * float(np.mean(on[:, unit])):
            kept.append(int(unit))
    if len(kept) == on.shape[1]:
        return state
    fewer = state.of(_solved(state.point.take(np.sort(kept)), state))
    return fewer if fewer.wrong.sum() <= state.wrong.sum() else state


def _solved(point: RidgeSum, state: Left) -> RidgeSum:
    """With outputs and all that stands above the planes solved for on answers that were right."""
    right = ~state.wrong
    _, u, z = point.forward(state.x[right])
    design = np.hstack([np.abs(u), state.x[right], np.maximum(z, 0.0)])
    found = robust_solve(design, state.y[right], 1 / state.bars[right], num_passes=6)
    count = design.shape[1] - len(point.gamma)
    return replace(point, above=found[:count], output=found[count:])


def _best_change(state: Left, rng: np.random.Generator, *, fits: bool) -> tuple[Left, str]:
    """The change that leaves fewest answers wrong, and what it is."""
    before = int(state.wrong.sum())
    wrong = np.flatnonzero(state.wrong)
    on = state.z > 0
    shares = (on & state.wrong[:, None]).sum(axis=0) / np.maximum(on.sum(axis=0), 1)
    suspects = np.argsort(-shares)[:WORST]
    best, what, typical = state, "nothing", float(np.median(state.misses))

    def offer(point: RidgeSum, text: str) -> None:
        nonlocal best, what
        trial = state.of(point)
        fewer = len(point.gamma) < len(best.point.gamma)
        if trial.wrong.sum() < best.wrong.sum() + fewer:
            best, what = trial, text

    for unit in suspects[shares[suspects] > SPOILED]:
        offer(_without(state.point, unit), f"without unit {unit}")
        offer(_solved(_without(state.point, unit), state), f"without unit {unit}, solved")
    for unit in suspects[shares[suspects] > DOUBTFUL]:
        changed = misread_weight(state, int(unit))
        if changed is not None:
            offer(changed, f"a weight of unit {unit}")
    rare = np.flatnonzero((on.mean(axis=0) < RARE) & on.any(axis=0))[:MOST_RARE] if fits else np.zeros(0, int)
    if best.wrong.sum() > MUCH * before:
        for unit in np.union1d(suspects[shares[suspects] > DOUBTFUL], rare):
            for grown in _anew(state, int(unit), rng):
                offer(grown, f"unit {unit} anew")
    if best.wrong.sum() > MUCH * before:
        done, width = np.zeros(len(state.x), dtype=bool), state.x.shape[1]
        for start in _starts(state, wrong, rng):
            grown = None if done[start] else grow_unit(state, start)
            if grown is not None and len(grown.explained) >= FOR_EACH * (width + grown.known.sum()):
                done[grown.explained] = True
                text = f"a unit over {grown.known.sum()} planes, {len(grown.explained)} answers"
                offer(grown.joined(state.point), text)
                offer(grown.closed(state.point.rows).joined(state.point), f"{text}, closed")
            if not fits and best.wrong.sum() < MUCH * before:
                break
    if fits and best.wrong.sum() > MUCH * before:
        rows = np.union1d(wrong, rng.permutation(len(state.x))[:MOST_RIGHT])
        doubtful = suspects[shares[suspects] > DOUBTFUL]
        x, y, bars = state.x[rows, :-1], state.y[rows], state.bars[rows]
        offer(
            fit_some(state.point, doubtful, x, y, bars, typical=typical, max_steps=6),
            f"units {doubtful} fitted",
        )
        if best.wrong.sum() > MUCH * before and state.y[rows].size >= EACH * len(state.point.flat()):
            fitted = fit_freely(best.point, x, y, bars, max_steps=6)
            if state.of(fitted).wrong.sum() <= MUCH * before:  # what is missing pulls at all that is known
                offer(fitted, "everything fitted")
    return best, what


def _starts(state: Left, wrong: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Wrong answers to begin at, half of them next to right ones: there one unit alone is missing."""
    some = rng.permutation(wrong)[:NEXT]
    if state.wrong.all():
        return some[:STARTS]
    order = np.argsort(_apart(state.x[some], state.x[~state.wrong]))
    return np.concatenate([some[order[: STARTS // 2]], rng.permutation(some)[: STARTS // 2]])


def _apart(x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """How far each of the points (x, 1) is from the next of the others, in spreads of these."""
    scale = np.std(others[:, :-1], axis=0) + 1e-300
    return KDTree(others[:, :-1] / scale).query(x[:, :-1] / scale)[0]


def _anew(state: Left, unit: int, rng: np.random.Generator) -> list[RidgeSum]:
    """The sum with a unit grown anew from where it is right."""
    on = state.z[:, unit] > 0
    rows = np.flatnonzero(on | state.wrong)
    bare = state.of(_without(state.point, unit)).take(rows)
    starts = np.flatnonzero((on & ~state.wrong)[rows] & bare.wrong)
    grown = [grow_unit(bare, start) for start in rng.permutation(starts)[:RESTARTS]]
    point = bare.point
    return [h.joined(point) for g in grown if g is not None for h in (g, g.closed(point.rows))]


def _without(point: RidgeSum, unit: int) -> RidgeSum:
    return point.take(np.delete(np.arange(len(point.gamma)), unit))
