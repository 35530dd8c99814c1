"""The last hidden layer and the outputs over layers whose sides are all told, from one map: a whole network.

What is open in the rows of the layer below the last counts as features of its own; the weights on these are products of
a weight above and of an open one, which a singular value decomposition tells apart.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from unweave.core import clock
from unweave.core.network import Network
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.sharpen import name_activations
from unweave.methods.relu.deep.tracks import keep_signs
from unweave.methods.relu.maps.arrange import Arrangement
from unweave.methods.relu.maps.closing import MOST_CHAINS
from unweave.methods.relu.maps.last_sides import (
    FITS,
    HELD,
    NOTHING,
    PROGRAMS,
    RANK,
    SETTLED,
    ZERO,
    column_scale,
    design_rows,
    group_chains,
    positive_sides,
    solve_last,
    tell_last,
    triangle,
    with_sides,
)
from unweave.methods.relu.maps.pieces import Layer, Pieces, broken_chains, gather_pieces, last_chains
from unweave.methods.relu.maps.told import MOST
from unweave.solve.gauss_newton import polish_weighted

NEARLY, LEFT = 1e-3, 1e-8
"""What a whole network may leave before all its weights are fitted to the pieces, and when none need be."""
TURNS = 30
"""Gauss-Newton steps for what is open of the layer below."""


def close_sided(found: Arrangement) -> Network | None:
    """The network that all pieces of the map agree with; None where none does."""
    known = found.features
    if not isinstance(known, Known) or not known.depth or found.bases is None or not found.sheets:
        return None
    sheet = found.sheets[0]
    left = last_chains(sheet)
    if not 0 < len(left) <= MOST_CHAINS:
        return None
    pieces = gather_pieces(sheet, left, found.rng)
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]])
    below, leak = known.first(known.depth - 1), known.leaks[-1]
    units = np.repeat(np.arange(len(rows)), [basis.shape[1] for basis in found.bases])
    layer = Layer(below, rows, leak, np.vstack([basis.T for basis in found.bases]), units)
    groups = group_chains(pieces, layer, broken_chains(sheet, left), found.deadline)
    found.say(f"  last layer over told sides: {len(left)} chains, {len(groups or [])} units")
    if groups is None or len(groups) > MOST:
        return None
    layers = [layer]
    if len(units) > len(rows):  # open rows are told first where they are without the sides
        free, missed = _open_rows(pieces, layer, groups)
        each = np.arange(len(rows))
        layers = [*([Layer(below, rows, leak, free, each)] if missed <= FITS else []), layer]
    for loose, layer in product((False, True), layers):
        for signs, above in tell_last(pieces, layer, groups, loose):
            bent, missed = _open_rows(pieces, layer, groups, signs, above)
            if missed > FITS or clock.now() > found.deadline:
                continue
            bent = _keep_off(pieces, layers[-1], bent)
            plain = Layer(below, bent, leak, bent, np.arange(len(bent)))
            network = _polish(pieces, _assemble(known, pieces, plain, groups, signs))
            if network is not None:
                found.say(f"  the whole network: {network.hidden}")
                return network
    return None


def _polish(pieces: Pieces, network: Network) -> Network | None:
    """The network with all weights fitted to the pieces; None where that does not make it right."""
    size = float(np.std(pieces.y)) + 1e-300
    left = np.max(np.abs(network(pieces.x) - pieces.y)) / size
    if LEFT < left <= NEARLY:
        network = polish_weighted(network, pieces.x, pieces.y, float(LEFT * size), max_steps=12).network
        left = np.max(np.abs(network(pieces.x) - pieces.y)) / size
    return network if left <= SETTLED else None


def _assemble(
    known: Known, pieces: Pieces, layer: Layer, groups: list[list[int]], signs: np.ndarray
) -> Network:
    """The whole network, of rows below that are told."""
    last, constant = solve_last(pieces, layer, groups, signs)
    directions = np.array([pieces.outputs[group[0]] for group in groups])
    turn = positive_sides(pieces, layer, groups, signs, last)
    passed = last[len(groups) :]
    last, directions = last[: len(groups)] * turn[:, None], directions * turn[:, None]
    if len(passed):  # units that are always on pass on what is linear
        values = layer(np.concatenate([pieces.x, pieces.more])) @ passed.T
        height = 1.0 + 0.5 * np.ptp(values, axis=0) - values.min(axis=0)
        passed[:, -1] += height
        last, directions = np.vstack([last, passed]), np.vstack([directions, np.eye(len(passed))])
        constant = constant - height
    names = name_activations(known)
    return Network(
        [*known.weights[:-1], layer.rows[:, :-1], last[:, :-1], directions.T],
        [*known.biases[:-1], layer.rows[:, -1], last[:, -1], constant],
        [*names, names[-1], "identity"],
    )


def _open_rows(
    pieces: Pieces,
    layer: Layer,
    groups: list[list[int]],
    signs: np.ndarray | None = None,
    above: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """The rows below, open directions as the answers have them, and what is left: Gauss-Newton for shares of the ways.

    The weights above are linear for any shares. Two starts: what is nearest to ``above``, and the rows as they are.
    Without ``signs`` the sides of the last layer are open.
    """
    a, y = design_rows(pieces, layer, groups)
    r = triangle(np.column_stack([a, y]))
    a, y = r[:, :-1], r[:, -1]
    loose = signs is None or len(signs) > len(groups)
    constant, affine, own = with_sides(pieces, groups, len(layer.ways) + 1, layer.leak, loose)
    if signs is None:
        parts = [a @ part for part in (*own[: len(groups)], *affine[len(groups) :])]
    else:
        parts = [a @ (part + sign * mine) for part, mine, sign in zip(affine, own, signs, strict=True)]
    constant, units = a @ constant, layer.units
    plain = np.array([layer.ways[f] @ layer.rows[j] for f, j in enumerate(units)])
    nearest = plain.copy()
    for j in range(len(layer.rows) if above is not None else 0):
        mine = np.flatnonzero(units == j)
        _, s, vt = np.linalg.svd(np.asarray(above)[:, mine])
        if s[0] > 0:
            nearest[mine] = vt[0] * (np.sign(vt[0] @ plain[mine]) or 1.0) * np.linalg.norm(plain[mine])
    best, rows = np.inf, plain
    for start in (nearest, plain) if above is not None else (plain,):
        t, left = _turn(parts, constant, units, start, y)
        if left < best:
            best, rows = left, t
        if best <= FITS:
            break
    found = np.array([rows[units == j] @ layer.ways[units == j] for j in range(len(layer.rows))])
    return found, best


def _keep_off(pieces: Pieces, layer: Layer, rows: np.ndarray) -> np.ndarray:
    """The rows, in directions that show nowhere, so that units stay off where they are seen to be."""
    x = np.concatenate([pieces.x, pieces.more])
    h = np.hstack([layer.below.features(x), np.ones((len(x), 1))])
    out = rows.copy()
    for j, row in enumerate(rows):
        ways, on = layer.ways[layer.units == j], h @ layer.rows[j] > 0
        _, s, vt = np.linalg.svd(triangle(h[on] @ ways.T))
        free = vt[int(np.sum(s > NOTHING * s[0])) :] @ ways if len(s) else ways
        if len(free):
            turned = np.linalg.norm(h @ free.T, axis=1)
            open_at = np.flatnonzero(turned > ZERO * turned.max())
            some = open_at[np.linspace(0, len(open_at) - 1, min(HELD, len(open_at))).astype(int)]
            for _ in range(PROGRAMS):
                out[j] = keep_signs(row, free.T, h[some], np.where(on[some], 1.0, -1.0), np.ones(len(some)))
                wrong = open_at[(h[open_at] @ out[j] > 0) != on[open_at]]
                if not len(wrong):
                    break
                some = np.union1d(some, wrong[:: 1 + len(wrong) // HELD])
    return out


def _turn(
    parts: list[np.ndarray], constant: np.ndarray, units: np.ndarray, t: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, float]:
    """Shares of the ways, and what they leave."""
    m = int(units.max()) + 1

    def fit(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        gather = np.zeros((len(t) + 1, m + 1))
        gather[np.arange(len(t)), units], gather[-1, -1] = t, 1.0
        design = np.hstack([*[part @ gather for part in parts], constant])
        u, s, vt = np.linalg.svd(design / column_scale(design), full_matrices=False)
        kept = s > RANK * s[0]
        u = u[:, kept]
        solution = vt[kept].T @ ((u.T @ y) / s[kept]) / column_scale(design)
        return u, solution[: len(parts) * (m + 1)].reshape(len(parts), m + 1), y - u @ (u.T @ y)

    u, above, rest = fit(t)
    for _ in range(TURNS):
        if np.linalg.norm(rest) <= FITS:
            break
        moves = sum(part[:, :-1] * weights[units] for part, weights in zip(parts, above, strict=True))
        step = np.linalg.lstsq(moves - u @ (u.T @ moves), rest, rcond=1e-9)[0]
        for share in (1.0, 0.3, 0.1, 0.03):
            new = fit(t + share * step)
            if np.linalg.norm(new[2]) < np.linalg.norm(rest):
                t, (u, above, rest) = t + share * step, new
                break
        else:
            break
    return t, float(np.linalg.norm(rest))
