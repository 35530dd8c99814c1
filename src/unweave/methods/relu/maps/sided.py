"""The last hidden layer and the outputs over layers whose sides are all told, from one map: a whole network.

The answers are linear in the last layer's rows once the sides of its units are known: signs, all of which are tried.
What is open in the rows of the layer below counts as features of its own; the weights on these are products of a weight
above and of an open one, which a singular value decomposition tells apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from unweave.core import clock
from unweave.core.deadline import held
from unweave.core.network import Network
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.sharpen import name_activations
from unweave.methods.relu.deep.tracks import keep_signs
from unweave.methods.relu.maps.arrange import Arrangement
from unweave.methods.relu.maps.closing import MOST_CHAINS, outputs_of
from unweave.methods.relu.maps.count import count_sides
from unweave.methods.relu.maps.kept import keep
from unweave.methods.relu.maps.sheet import Sheet
from unweave.methods.relu.maps.told import MOST
from unweave.solve.gauss_newton import polish_weighted

FITS = 1e-5
"""What the answers may leave, relative to their spread, before all weights are fitted."""
RANK = 1e-11
"""Singular values below this share of the largest are zero."""
NOTHING = 1e-10
"""A feature smaller than this, relative to the largest, shows nowhere."""
MOST_WAYS = 24
"""Choices of sides that are looked at more closely."""
TURNS = 30
"""Gauss-Newton steps for what is open of the layer below."""
IN_A_CELL, MORE = 6, 6000
"""Points of every cell, and by area of all, at which sides are held; ..."""
PROGRAMS, HELD, ZERO, ROOM = 8, 400, 1e-9, 0.1
"""... linear programs for these, and points that the next one takes in; values that count as zero, and those at which
open rows are held, relative to the typical one."""
NEARLY, LEFT, SETTLED = 1e-3, 1e-8, 1e-7
"""What a whole network may leave before all its weights are fitted to the pieces, when none need be, and after it."""
WORSE = 3.0
"""By how much less well chains may fit that are taken for one unit's."""
SHARP = 1e-9
"""Error up to which a piece counts, of its gradient relative to the typical one, and an edge, relative to the plane."""
SAME = 1e-5
"""Outputs of one unit differ by no more."""


@dataclass
class Pieces:
    """Three points of every cell, which tell its piece, and corners of the chains of the last layer."""

    x: np.ndarray
    y: np.ndarray
    sides: np.ndarray
    """(points, chains)"""
    outputs: np.ndarray
    """(chains, k) of length one: how the answers turn across each chain."""
    corners: list[np.ndarray]
    """Of each chain."""
    more: np.ndarray
    """Points at random in every cell, at which only sides count, ..."""
    more_sides: np.ndarray
    """... and these."""


@dataclass
class Layer:
    """The features below the last layer, with a one: of rows ``ways``, on where the unit is that they belong to."""

    below: Known
    rows: np.ndarray
    leak: float
    ways: np.ndarray
    units: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        h = np.hstack([self.below.features(x), np.ones((len(x), 1))])
        gates = np.where(h @ self.rows.T > 0, 1.0, self.leak)[:, self.units]
        return np.hstack([gates * (h @ self.ways.T), h[:, -1:]])


def close_sided(found: Arrangement) -> Network | None:
    """The network that all pieces of the map agree with; None where none does."""
    known, sheet = found.features, found.sheets[0]
    if not isinstance(known, Known) or not known.depth or found.bases is None:
        return None
    left = _last_chains(sheet)
    if not 0 < len(left) <= MOST_CHAINS:
        return None
    pieces = _pieces(sheet, left, found.rng)
    rows = np.hstack([known.weights[-1], known.biases[-1][:, None]])
    below, leak = known.first(known.depth - 1), known.leaks[-1]
    units = np.repeat(np.arange(len(rows)), [basis.shape[1] for basis in found.bases])
    layer = Layer(below, rows, leak, np.vstack([basis.T for basis in found.bases]), units)
    groups = _group(pieces, layer, _broken(sheet, left), found.deadline)
    found.say(f"  last layer over told sides: {len(left)} chains, {len(groups or [])} units")
    if groups is None or len(groups) > MOST:
        return None
    layers = [layer]
    if len(units) > len(rows):  # open rows are told first where they are without the sides
        free, missed = _open_rows(pieces, layer, groups)
        each = np.arange(len(rows))
        layers = [*([Layer(below, rows, leak, free, each)] if missed <= FITS else []), layer]
    for loose, layer in product((False, True), layers):
        for signs, above in _tell(pieces, layer, groups, loose):
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
    last, constant = _solve(pieces, layer, groups, signs)
    directions = np.array([pieces.outputs[group[0]] for group in groups])
    turn = _positive(pieces, layer, groups, signs, last)
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


def _pieces(sheet: Sheet, left: np.ndarray, rng: np.random.Generator) -> Pieces:
    sides, usable = count_sides(sheet.chains, len(sheet.chart.cells), left)
    every, extent = sheet.chart.cells, sheet.chart.plane.extent
    steep = float(np.median([np.linalg.norm(cell.gradient) for cell in every]))
    cells = [n for n in np.flatnonzero(usable) if every[n].whole and every[n].error <= SHARP * steep]
    points, values, more, counts = [], [], [], []
    whole = float(_area(sheet.chart.plane.frame))
    for n in cells:
        cell = sheet.chart.cells[n]
        middle = cell.corners.mean(axis=0)
        some = cell.corners[np.linspace(0, len(cell.corners), 3, endpoint=False).astype(int)]
        inside = middle + 0.9 * (some - middle)
        points.append(sheet.chart.plane.lift(inside))
        values.append(cell.at(inside))
        counts.append(IN_A_CELL + int(MORE * _area(cell.corners) / whole))
        shares = rng.dirichlet(np.full(len(cell.corners), 0.7), size=counts[-1])
        more.append(sheet.chart.plane.lift(shares @ cell.corners))
    outputs, corners = outputs_of(sheet, left, SHARP * extent)
    told = sides[cells]
    return Pieces(
        np.concatenate(points),
        np.concatenate(values),
        np.repeat(told, 3, axis=0),
        outputs,
        corners,
        np.concatenate(more),
        np.repeat(told, counts, axis=0),
    )


def _area(corners: np.ndarray) -> float:
    """Of a polygon."""
    x, y = (corners - corners[0]).T
    return abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))) / 2


def _side(pieces: Pieces, groups: list[list[int]]) -> np.ndarray:
    return _side_of(pieces.sides, groups)


def _side_of(sides: np.ndarray, groups: list[list[int]]) -> np.ndarray:
    """Of the chains of every unit together."""
    return np.stack([np.prod(sides[:, group], axis=1) for group in groups], axis=1)


def _design(pieces: Pieces, layer: Layer, groups: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Least squares for an affine part (p, k) and one row for every group, which vanishes on its chains."""
    h, k = layer(pieces.x), pieces.y.shape[1]
    n, p = h.shape
    side, size = _side(pieces, groups), np.std(pieces.y) + 1e-300
    blocks = [np.einsum("np,ij->nipj", h, np.eye(k)).reshape(n * k, p * k)]
    zeros = []
    for place, group in enumerate(groups):
        blocks.append(
            np.einsum("np,i->nip", side[:, [place]] * h, pieces.outputs[group[0]]).reshape(n * k, p)
        )
        there = layer(np.concatenate([pieces.corners[chain] for chain in group]))
        row = np.zeros((len(there), (k + len(groups)) * p))
        row[:, (k + place) * p : (k + place + 1) * p] = there
        zeros.append(row)
    a = np.vstack([np.hstack(blocks), *zeros])
    return a, np.append(pieces.y.ravel() / size, np.zeros(len(a) - n * k))


def _left(a: np.ndarray, y: np.ndarray) -> float:
    """What least squares leave."""
    u, s, _ = np.linalg.svd(a / _scale(a), full_matrices=False)
    u = u[:, s > RANK * s[0]]
    return float(np.max(np.abs(y - u @ (u.T @ y))))


def _last_chains(sheet: Sheet) -> np.ndarray:
    """Chains that are left, without edges that touch nothing: two pieces that were taken for neighbours."""
    roots = sheet.chains.roots
    ends = np.bincount([roots[edge] for edge, _ in sheet.chains.loose], minlength=len(roots))
    return np.array(
        [root for root in np.unique(roots[~sheet.known]) if ends[root] < 2 or np.sum(roots == root) > 1]
    )


def _broken(sheet: Sheet, left: np.ndarray) -> list[list[int]]:
    """Chains, those together that break off next to each other: nothing hides zero sets of the last layer."""
    groups, roots = [[chain] for chain in range(len(left))], sheet.chains.roots
    ends = [
        (i, at)
        for i, root in enumerate(left)
        for edge, at in sorted(sheet.chains.loose)
        if roots[edge] == root
    ]
    places = sheet.ends[[at for _, at in ends]] if ends else np.zeros((0, 2))
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    pairs = sorted((apart[a, b], a, b) for a, b in combinations(range(len(ends)), 2))
    free = set(range(len(ends)))
    for _, a, b in pairs:
        if not {a, b} <= free:
            continue
        free -= {a, b}
        one, two = (next(group for group in groups if ends[end][0] in group) for end in (a, b))
        if one is not two:
            groups.remove(two)
            one += two
    return groups


def _group(pieces: Pieces, layer: Layer, groups: list[list[int]], deadline: float) -> list[list[int]] | None:
    """Chains that one unit explains together; None where the answers are not of such a layer."""
    left = _left(*_design(pieces, layer, groups))
    if left > FITS:
        return None
    fits = max(SETTLED, WORSE * left)
    tried: set[tuple[int, ...]] = set()
    while clock.now() < deadline:
        for one, two in combinations(range(len(groups)), 2):
            both = sorted(groups[one] + groups[two])
            if (
                tuple(both) in tried
                or np.linalg.norm(pieces.outputs[groups[one][0]] - pieces.outputs[groups[two][0]]) > SAME
            ):
                continue
            tried.add(tuple(both))
            merged = [*(g for i, g in enumerate(groups) if i not in (one, two)), both]
            if _left(*_design(pieces, layer, merged)) <= fits:
                groups = merged
                break
        else:
            break
    return groups


def _sided(
    pieces: Pieces, groups: list[list[int]], p: int, leak: float, loose: bool
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """What the constant, and every row, is in the unknowns of ``_design``: its affine part, and its own."""
    k = pieces.y.shape[1]
    constant = np.zeros(((k + len(groups)) * p, k))
    constant[(p - 1) * k : p * k] = np.eye(k)
    affine, own = [], []
    for place, group in enumerate(groups):
        part, mine = np.zeros((len(constant), p)), np.zeros((len(constant), p))
        part[: p * k] = (1 + leak) / 2 * np.kron(np.eye(p), pieces.outputs[group[0]][:, None])
        mine[(k + place) * p : (k + place + 1) * p] = (1 - leak) / 2 * np.eye(p)
        affine.append(part)
        own.append(mine)
    for output in range(k if loose else 0):
        part = np.zeros((len(constant), p))
        part[: p * k] = np.kron(np.eye(p), np.eye(k)[:, [output]])
        affine.append(part)
        own.append(np.zeros_like(part))
    return constant, affine, own


def _tell(
    pieces: Pieces, layer: Layer, groups: list[list[int]], loose: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sides of the units that fit, and their rows in the features, the best first.

    ``loose``: where a unit that never switches passes on what is linear, any sides do; its row is one more.
    """
    a, y = _design(pieces, layer, groups)
    p = len(layer.ways) + 1
    r = _triangle(np.column_stack([a, y]))
    a, y = r[:, :-1], r[:, -1]
    constant, affine, own = _sided(pieces, groups, p, layer.leak, loose)
    first, affine, own = a @ constant, [a @ part for part in affine], [a @ part for part in own]
    found: list[tuple[float, np.ndarray, np.ndarray]] = []
    n, count = len(affine), len(groups)
    tried = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
    for signs in np.hstack([tried, np.ones((len(tried), n - count))]):
        design = np.hstack(
            [*[part + sign * mine for part, mine, sign in zip(affine, own, signs, strict=True)], first]
        )
        solution = _least(design, y)
        left = float(np.linalg.norm(y - design @ solution))
        if left <= FITS * np.sqrt(len(pieces.x)):
            found.append((left, signs, solution[: n * p].reshape(n, p)))
        full = loose and len(found) >= MOST_WAYS  # any sides fit, but for what they leave open
        if full or held().passed:
            break
    found.sort(key=lambda one: one[0] if not loose else 0.0)
    return [(signs, above) for _, signs, above in found[:MOST_WAYS]]


def _solve(
    pieces: Pieces, layer: Layer, groups: list[list[int]], signs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the last layer with these sides, and the constant of the outputs.

    What is open in them is chosen such that every row has one sign on either side of its chains.
    """
    a, y = _design(pieces, layer, groups)
    n, p, count = len(signs), len(layer.ways) + 1, len(groups)
    constant, affine, own = _sided(pieces, groups, p, layer.leak, n > count)
    turn = np.hstack(
        [*[part + sign * mine for part, mine, sign in zip(affine, own, signs, strict=True)], constant]
    )
    a = a @ turn
    scale = _scale(a)
    u, s, vt = np.linalg.svd(a / scale, full_matrices=False)
    kept = s > RANK * s[0]
    solution = vt[kept].T @ ((u[:, kept].T @ y) / s[kept]) / scale
    null = vt[~kept].T / np.where(np.isfinite(scale), scale, np.median(scale))[:, None]
    rows, ways = solution[: n * p].reshape(n, p), null[: n * p].reshape(n, p, -1)
    toward = signs[:count] * _positive(pieces, layer, groups, signs, rows)

    def signed(x: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values of all rows, positive on the side that is counted, and how open directions change them."""
        h, sides = layer(x), _side_of(sides, groups) * toward
        turns = np.concatenate([sides[:, [unit]] * (h @ ways[unit]) for unit in range(count)])
        return (sides * (h @ rows[:count].T)).T.ravel(), turns

    every = [
        np.concatenate(pair)
        for pair in zip(signed(pieces.x, pieces.sides), signed(pieces.more, pieces.more_sides), strict=True)
    ]
    size, open_by = float(np.median(np.abs(every[0]))) + 1e-300, np.linalg.norm(every[1], axis=1)
    shown = open_by > ZERO * open_by.max(initial=0.0)
    values, turns, open_by = every[0][shown], every[1][shown], open_by[shown]
    taken, step = np.linspace(0, len(values) - 1, min(HELD, len(values))).astype(int), np.zeros(null.shape[1])
    for _ in range(PROGRAMS if len(values) else 0):
        wrong = np.flatnonzero(values + turns @ step < -ZERO * size)
        if not len(wrong):
            break
        taken = np.union1d(taken, wrong[:: 1 + len(wrong) // HELD])
        room = ROOM * size * open_by / float(np.median(open_by))
        step = keep((values - room)[taken], turns[taken], size)
    solution = solution + null @ step
    solution = solution * (np.std(pieces.y) + 1e-300)
    return solution[: n * p].reshape(n, p), solution[n * p :]


def _positive(
    pieces: Pieces, layer: Layer, groups: list[list[int]], signs: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The sign of every row where its unit is on."""
    count = len(groups)
    on = _side(pieces, groups) * signs[:count] > 0
    return np.where(np.sum((layer(pieces.x) @ rows[:count].T) * on, axis=0) < 0, -1.0, 1.0)


def _least(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    scale = _scale(a)
    return np.linalg.lstsq(a / scale, y, rcond=RANK)[0] / scale


def _triangle(a: np.ndarray) -> np.ndarray:
    """As good for least squares, in fewer rows."""
    return np.asarray(np.linalg.qr(a, mode="r"))


def _scale(a: np.ndarray) -> np.ndarray:
    """Lengths of columns; without bound for those that are nothing but rounding."""
    size = np.linalg.norm(a, axis=0)
    return np.where(size > NOTHING * size.max(), size, np.inf)


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
    a, y = _design(pieces, layer, groups)
    r = _triangle(np.column_stack([a, y]))
    a, y = r[:, :-1], r[:, -1]
    loose = signs is None or len(signs) > len(groups)
    constant, affine, own = _sided(pieces, groups, len(layer.ways) + 1, layer.leak, loose)
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
        _, s, vt = np.linalg.svd(_triangle(h[on] @ ways.T))
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
        u, s, vt = np.linalg.svd(design / _scale(design), full_matrices=False)
        kept = s > RANK * s[0]
        u = u[:, kept]
        solution = vt[kept].T @ ((u.T @ y) / s[kept]) / _scale(design)
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
