"""Units of any layer in a bounded domain, without their sides, from maps of planes through it.

A map (``planar``) shows every zero set that bends the answers in its plane; chains of its edges (``chains``) are parts
of units, and bend at units below only. Without sides the features of a relu network are ``(x, |u|)``, u the units of
all layers found so far: a unit above is a row in these features that vanishes all along its chain, and so is the
network itself. Chains that bend at known units only make the next generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from unweave.core import clock
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.lift import Lifted, tell_sides
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.tracks import Track, complete, is_dark, keep_signs
from unweave.methods.relu.deep.unite import unite_traces
from unweave.methods.relu.maps.count import count_sides, sample_cells
from unweave.methods.relu.maps.planar import Map
from unweave.methods.relu.maps.sheet import Sheet, begin_map, bends_twice, draw_sheet
from unweave.methods.relu.maps.told import follow_chain, see_signs, tell
from unweave.probes.inquiry import SAFETY, Inquiry
from unweave.probes.lines import draw_lines

PLACE = 1e-7
"""A point closer than this to a zero set, relative to the domain, lies on it."""
SHOWS, SURELY = 0.5, 0.95
"""Share of what a unit's zero set runs through that has to be edges; on a map that is not whole."""
NARROWER = 40
"""How often a box is narrowed until it lies within the domain."""
PLANES = 2
"""Planes that are looked at where there are more than two inputs."""
MOSTLY = 0.5
"""Share of a chain that lies on a unit's zero set from which on all of it does."""
UNSEEN = 0.02
"""Share of a unit's cells that may lie on another side than counting says: part of its zero set is hidden there."""
LINES, OFFLINE = 24, 400
"""Lines along which signs are kept where nothing tells them, and points."""


def find_box(inquiry: Inquiry, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the domain itself where it is a box, or of one within a ball."""
    d, domain = inquiry.input_size, inquiry.meter.domain
    points = np.concatenate([domain.sample(200, d, rng), domain.edge(600, d, rng)])
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    corners = np.array(list(product((-1.0, 1.0), repeat=d)))
    for k in range(NARROWER):
        if np.all(domain.contains(np.where(corners < 0, low, high), 0.0)):
            break
        reach = 0.97**k / np.sqrt(d) * half
        low, high = middle - reach, middle + reach
    return low, high


@dataclass
class Arrangement:
    """The units found so far over some planes."""

    inquiry: Inquiry
    deadline: float
    rng: np.random.Generator
    say: Callable[[str], None] = lambda text: None
    suspects: np.ndarray | None = None
    """Points (n, d) near which a network found before was wrong: something small is there."""
    sheets: list[Sheet] = field(default_factory=list)
    begun: Map | None = None
    """The next map, as far as it is drawn."""
    features: Known | Lifted = field(init=False)
    traces: list[list[Trace]] = field(default_factory=list)
    bases: list[np.ndarray] | None = None
    """Where the sides of all layers are told: for every unit of the last of them the rows (p, ways) it may have."""
    zero_sets: list[list[np.ndarray]] = field(default_factory=list)
    """On every map the chains of each unit of the last generation."""
    unsided: Lifted | None = None
    """What the features were before these sides were told."""
    carry: bool = False
    """Whether a first layer whose sides are not told gets any, with units that pass on all of the input."""
    generous: bool = False
    """Whether chains that nothing is seen to bend at are taken for units of the next layer, and of the last one too."""

    def __post_init__(self) -> None:
        self.features = Known(self.inquiry.input_size)
        self.low, self.high = find_box(self.inquiry, self.rng)
        self.scale = float(np.max(self.high - self.low))

    def draw(self) -> None:
        """Maps of as many planes as it takes: all there is of two inputs, else some random ones."""
        for _ in range(1 if self.inquiry.input_size == 2 else PLANES):
            self.add_plane()

    def looks_deep(self) -> bool:
        """Whether a part of the map shows units of a third layer, or is all of it."""
        self.begun = self._begin_map()
        return self.begun is not None and bends_twice(self.begun) is not False

    def _begin_map(self) -> Map | None:
        d = self.inquiry.input_size
        if d == 2:
            origin, basis, places = (self.low + self.high) / 2, np.eye(2), self.suspects
        else:
            middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
            origin = middle + 0.5 * half * self.rng.uniform(-1, 1, size=d)
            basis, places = np.linalg.qr((self.rng.standard_normal((2, d)) * half).T)[0].T, None
        return begin_map(self.inquiry, origin, basis, self.low, self.high, self.deadline, self.rng, places)

    def add_plane(self) -> bool:
        """One more plane with its map."""
        chart, self.begun = self.begun or self._begin_map(), None
        sheet = None if chart is None else draw_sheet(chart)
        if sheet is None:
            return False
        self.sheets.append(sheet)
        self.say(
            f"plane: {len(sheet.chart.cells)} cells, {len(sheet.edges)} edges, {len(sheet.chart.lost)} lost, "
            f"{self.inquiry.meter.ledger.total} queries"
        )
        return True

    def look_again(self, wrong: np.ndarray) -> bool:
        """Cells at points (n, 2) that lie in none that is known; whether there are."""
        chart = self.sheets[0].chart
        if chart.closed or not chart.cover((wrong - chart.plane.origin) @ chart.plane.basis.T):
            return False
        sheet = draw_sheet(chart)
        assert sheet is not None
        self.sheets[0] = sheet
        return True

    def restart(self) -> None:
        """Forget the units, not the maps."""
        self.features, self.traces = Known(self.inquiry.input_size), []
        self.bases = self.unsided = None
        for sheet in self.sheets:
            sheet.known[:] = False

    def grow(self, max_layers: int = 8) -> None:
        """Generation after generation, each once more over the one below where it tells the sides of that."""
        while len(self.traces) < max_layers and clock.now() < self.deadline:
            found = self._find_units()
            if self._orient(found):
                found = self._find_units()
            if not found:
                break
            others = (
                unite_traces(self._candidates(sure=True, below=False))
                if self.generous and self.traces
                else []
            )
            self._add(found, others)
            self.say(
                f"generation {len(self.traces)}: {len(found)} units, open {[t.null.shape[1] for t in found]}"
            )
            if all(sheet.known.all() for sheet in self.sheets):
                break

    def _orient(self, found: list[Trace]) -> bool:
        """The last generation with its sides, if the layers below have theirs and units above tell them."""
        self.bases = None
        if not isinstance(self.features, Lifted) or not isinstance(self.features.known, Known):
            return False
        below, rows, last = self.features.known, self.features.rows, self.traces[-1]
        bases = [
            np.linalg.qr(np.column_stack([row, trace.null]))[0] for row, trace in zip(rows, last, strict=True)
        ]
        told = tell_sides(self.features, found) if found else None
        if told is not None:
            signs, leak, passed = told.signs, told.leak, np.zeros((0, rows.shape[1]))
        else:
            chains = []
            for sheet, zero_sets in zip(self.sheets, self.zero_sets, strict=True):
                h = np.hstack([below.features(sheet.middles), np.ones((len(sheet.middles), 1))])
                clear = np.array([~is_dark(trace, h) for trace in last]).T
                signs = see_signs(sheet, h @ rows.T, clear, zero_sets)
                roots = sheet.chains.roots
                chains += [
                    follow_chain(sheet, np.flatnonzero(roots == root), below, signs, self.scale)
                    for root in self._next(sheet)
                ]
            other = tell(chains, bases)
            if other is None and (below.depth or not self.carry):
                return False
            # all that is linear in the inputs can be passed on: then every choice of sides is right
            every = np.ones(len(rows)), np.eye(*rows[:2].shape)
            (signs, passed), leak = every if other is None else other, 0.0
        self.say(
            f"sides of generation {len(self.traces)} told, leak {leak:.3g}, {len(passed)} rows passed on"
        )
        if len(passed):
            values = np.concatenate([below.features(sheet.ends) for sheet in self.sheets]) @ passed[:, :-1].T
            passed[:, -1] = 1.0 + 0.5 * np.ptp(values, axis=0) - values.min(axis=0)
        self.unsided = self.features
        self.features = below.extended(np.vstack([signs[:, None] * rows, passed]), leak)
        self.bases = [*bases, *(row[:, None] for row in passed)]
        return True

    def forget_sides(self) -> None:
        """The last generation without its sides again, where nothing stands above it yet."""
        if isinstance(self.features, Known) and self.unsided is not None:
            self.features, self.bases = self.unsided, None

    @staticmethod
    def _next(sheet: Sheet) -> list[int]:
        """Chains that are not known and bend, at known units only."""
        roots, bends = sheet.chains.roots, sheet.chains.bends
        barred = {int(roots[edge]) for edge, _, at in bends if at >= 0 and not sheet.known[at]}
        return sorted({int(roots[edge]) for edge, _, _ in bends if not sheet.known[edge]} - barred)

    def _find_units(self) -> list[Trace]:
        """Units over the features from chains, whole ones first; none where all that is left can be the last layer."""
        if self.traces and not any(
            at >= 0 and not sheet.known[at] for sheet in self.sheets for _, _, at in sheet.chains.bends
        ):
            return []
        found = [trace for trace in unite_traces(self._candidates(sure=True)) if self._shows(trace)]
        closed = any(sheet.chart.closed for sheet in self.sheets)
        least = SURELY if closed else SHOWS
        left = [trace for trace in self._candidates(sure=False) if self._shows(trace, least)]
        return unite_traces([*found, *left])

    def _extended(self, x: np.ndarray) -> np.ndarray:
        return np.hstack([self.features.features(x), np.ones((len(x), 1))])

    @property
    def num_unknown(self) -> int:
        return sum(int((~sheet.known).sum()) for sheet in self.sheets)

    def _candidates(self, *, sure: bool, below: bool = True) -> list[Trace]:
        """Chains that bend at known units only; ``sure``: and whose ends are all at the edge of the domain.

        From the second generation on those at which others bend (``below``), or all others: they may stand higher.
        """
        out = []
        for sheet in self.sheets:
            roots = sheet.chains.roots
            barred = {
                int(roots[edge]) for edge, _, at in sheet.chains.bends if at >= 0 and not sheet.known[at]
            }
            loose = {int(roots[edge]) for edge, _ in sheet.chains.loose}
            bent = {int(roots[edge]) for edge, _, _ in sheet.chains.bends}
            lower = {int(roots[at]) for _, _, at in sheet.chains.bends if at >= 0}
            for root in np.unique(roots[~sheet.known]):
                mine = np.flatnonzero(roots == root)
                if root in barred or (int(root) in loose) == sure or sheet.known[mine].any():
                    continue
                if (self.traces or not below) and not (int(root) in bent and (int(root) in lower) == below):
                    continue
                trace = self._begin(sheet, mine)
                if trace is not None:
                    out.append(trace)
        return out

    def _begin(self, sheet: Sheet, mine: np.ndarray) -> Trace | None:
        """What the edges of a chain say of its unit's row."""
        order = mine[np.argsort(sheet.edges.error[mine] - 1e-3 * sheet.edges.lengths[mine])]
        for edge in order[:3]:
            normal, error = self._normal(sheet, int(edge))
            if np.isfinite(error):
                break
        else:
            return None
        x = sheet.middles[edge]
        h, jac = self.features.jacobian(x[None])
        place = sheet.edges.error[edge] + 1e-14 * self.scale
        errors = np.append(np.full(len(normal), error + 1e-13), place)
        trace = Trace.begin(int(edge), x, h[0], jac[0], normal, errors)
        points = np.concatenate([sheet.ends[sheet.edges.ends[e]] for e in mine])
        error = sheet.edges.error[mine] + 1e-14 * self.scale
        h, length = self._extended(points), sheet.edges.lengths[mine]
        # along a short edge what changes is small beside what does not: the change counts by itself
        along, middle = (h[1::2] - h[::2]) / length[:, None], (h[1::2] + h[::2]) / 2
        for row in np.argsort(error):
            if error[row] < PLACE * self.scale:
                trace.learn(middle[row], 0.0, float(error[row]))
            if error[row] < PLACE * length[row]:
                trace.learn(along[row], 0.0, float(2 * error[row] / length[row]))
        trace.solve()
        trace.places = points[:12]
        return trace

    def _normal(self, sheet: Sheet, edge: int) -> tuple[np.ndarray, float]:
        """Unit normal in space of an edge, and its error."""
        cells = [sheet.chart.cells[sheet.edges.pieces[name]] for name in sheet.edges.sides[edge]]
        basis, d = sheet.chart.plane.basis, self.inquiry.input_size
        jump = (cells[0].gradient - cells[1].gradient) @ basis
        noise = cells[0].error + cells[1].error
        if d > 2:
            for sign, name in ((1, sheet.edges.sides[edge][0]), (-1, sheet.edges.sides[edge][1])):
                off, error = self._across(sheet, int(name))
                jump, noise = jump + sign * off, noise + error
        _, s, vt = np.linalg.svd(jump)
        if len(s) > 1 and s[1] > SAFETY * noise * np.sqrt(d):
            return vt[0], np.inf
        return vt[0], float(noise / max(s[0], 1e-300))

    def _across(self, sheet: Sheet, name: int) -> tuple[np.ndarray, float]:
        """The gradient (k, d) of a piece out of the plane, by differences at a cell's centre."""
        if name in sheet.normals:
            return sheet.normals[name]
        cell, plane = sheet.chart.cells[sheet.edges.pieces[name]], sheet.chart.plane
        d = self.inquiry.input_size
        others = np.linalg.svd(plane.basis)[2][2:]
        x = plane.lift(cell.centre[None])[0]
        room = min([a @ cell.centre + b for a, b in cell.lines.values()], default=plane.extent)
        room = min(room, float(np.min(np.minimum(x - self.low, self.high - x))))
        result = np.zeros((len(cell.value), d)), np.inf
        for step in (0.1 * room, 1e-3 * room, 1e-5 * room):
            if not step > 0:
                break
            points = np.concatenate([x + step * others, x - step * others])
            answers, bars = self.inquiry.ask(points)
            up, down = answers[: d - 2] - cell.value, answers[d - 2 :] - cell.value
            if np.max(np.abs(up + down)) <= SAFETY * 2 * float(bars.max()) + 1e-12 * np.max(np.abs(up)):
                result = ((up - down) / (2 * step)).T @ others, float(2 * bars.max() / step)
                break
        sheet.normals[name] = result
        return result

    def _shows(self, trace: Trace, least: float = SHOWS) -> bool:
        """Whether the zero set, as far as it is known, runs along edges rather than through cells."""
        hits = cuts = 0
        for sheet in self.sheets:
            hits += int(self._on(trace, sheet).sum())
            for cell in sheet.chart.cells:
                if not cell.whole:
                    continue
                x = sheet.chart.plane.lift(cell.corners)
                h, jac = self.features.jacobian(x)
                extended = np.hstack([h, np.ones((len(x), 1))])
                size = np.maximum(np.linalg.norm(np.einsum("p,npd->nd", trace.row[:-1], jac), axis=1), 1e-300)
                far = extended @ trace.row / size
                far = far[~is_dark(trace, extended)]
                cuts += int(len(far) > 0 and far.min() < -1e-5 * self.scale and far.max() > 1e-5 * self.scale)
        return hits >= least * (hits + cuts)

    def _on(self, trace: Trace, sheet: Sheet) -> np.ndarray:
        """Which edges lie on what is known of the zero set."""
        return self._near(trace, sheet.middles) & np.all(
            [self._near(trace, sheet.ends[sheet.edges.ends[:, i]]) for i in (0, 1)], axis=0
        )

    def _near(self, trace: Trace, x: np.ndarray) -> np.ndarray:
        h, jac = self.features.jacobian(x)
        extended = np.hstack([h, np.ones((len(x), 1))])
        size = np.linalg.norm(np.einsum("p,npd->nd", trace.row[:-1], jac), axis=1)
        value = np.abs(extended @ trace.row)
        return (value <= 10 * PLACE * self.scale * size + 5 * trace.spread(extended)) & ~is_dark(
            trace, extended
        )

    def _keep_sides(self, trace: Trace) -> np.ndarray | None:
        """The row, where nothing tells it, so that its sign is that seen in every cell; None where it is not seen."""
        if not trace.null.shape[1]:
            return trace.row
        points, signs = [], []
        for sheet in self.sheets:
            roots = sheet.chains.roots
            mine = np.unique(roots[self._on(trace, sheet)])
            if not len(mine) or {int(roots[edge]) for edge, _ in sheet.chains.loose} & set(mine.tolist()):
                return None
            sides, usable = count_sides(sheet.chains, len(sheet.chart.cells), mine)
            y, _, owner = sample_cells(sheet.chart, usable)
            h, side = self._extended(sheet.chart.plane.lift(y)), np.prod(sides[owner], axis=1)
            dark, z = is_dark(trace, h), h @ trace.row
            clear = ~dark & (np.abs(z) > PLACE * np.max(np.abs(z)))
            agree = np.sign(z[clear]) * side[clear]
            if abs(np.mean(agree)) < 1 - 2 * UNSEEN:
                return None
            points.append(h[dark])
            signs.append(np.sign(np.sum(agree)) * side[dark])
        points, signs = np.concatenate(points), np.concatenate(signs)
        return (
            keep_signs(trace.row, trace.null, points, signs, np.ones(len(points)), room=0.0)
            if len(points)
            else trace.row
        )

    def _add(self, found: list[Trace], others: list[Trace]) -> None:
        """One more generation; edges on its zero sets are known, but for ``others``, and loose ones linked."""
        d, domain = self.inquiry.input_size, self.inquiry.meter.domain
        lines = draw_lines(domain, LINES, d, self.rng)
        tracks = [Track.along(self.features, lines, i) for i in range(LINES)]
        offline = domain.sample(OFFLINE, d, self.rng)
        rows = []
        for trace in [*found, *others]:
            row = self._keep_sides(trace)
            rows.append(complete(trace, self.features, tracks, offline) if row is None else row)
        rows = np.array(rows)
        rows /= np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
        self.zero_sets = [
            [np.unique(sheet.chains.roots[self._on(trace, sheet)]) for trace in [*found, *others]]
            for sheet in self.sheets
        ]
        for sheet in self.sheets:
            for trace in found:
                on, roots = self._on(trace, sheet), sheet.chains.roots
                # a chain belongs to one unit: where most of it lies on a zero set, all of it does
                share = np.bincount(roots, on) / np.maximum(np.bincount(roots), 1)
                sheet.known |= on | (share[roots] > MOSTLY)
        self.features = Lifted(self.features, rows)
        self.traces.append([*found, *others])
        for sheet in self.sheets:
            zs, gs = self.features.gradients(sheet.ends)
            passing = np.zeros(len(sheet.ends), dtype=bool)
            for z, g in zip(zs, gs, strict=True):
                apart = np.abs(z) / np.maximum(np.linalg.norm(g, axis=2), 1e-300)
                passing |= np.any(apart < 100 * PLACE * self.scale, axis=1)
            sheet.chains.relink(sheet.known, passing)
