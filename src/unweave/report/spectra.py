"""What decided the widths: spectra with their gaps, residuals of everything tried, and how firm each unit is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.errors import InputError
from unweave.report.canvas import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    TEAL,
    add_axes,
    in_house_style,
    new_figure,
    positive,
    set_log_scale,
    set_whole_ticks,
    short,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.result import Identification

LEAST_GAP = 10.0
"""A fall between neighbours below this factor is not called a gap."""
MOST_SPECTRA = 6
_TITLES = {
    "gradient_spectrum": "Gradients: directions that matter",
    "hessian_spectrum": "Hessians: units of one layer",
    "common_spectrum": "Spans in common: units of the first layer",
    "second_spectrum": "Off the diagonal: units of the second layer",
    "singular_values": "Jacobian of the final fit: all parameters",
}


@dataclass(frozen=True)
class Spectrum:
    """Values in falling order with the rank that was read from them; None where no gap shows."""

    name: str
    values: np.ndarray
    rank: int | None

    @property
    def title(self) -> str:
        name = self.name.removesuffix("_spectrum").replace("_", " ").capitalize()
        return _TITLES.get(self.name, short(name, 40))

    @property
    def gap(self) -> float | None:
        """The factor by which the values fall behind the rank."""
        if self.rank is None:
            return None
        return float(self.values[self.rank - 1] / self.values[self.rank])


def spectra_of(found: Identification) -> list[Spectrum]:
    """Every spectrum a result has kept, in the order it was computed."""
    ranks = found.details.get("ranks", {})
    ranks = ranks if isinstance(ranks, dict) else {}
    spectra = []
    for name, value in found.details.items():
        if not (name.endswith("spectrum") or name == "singular_values"):
            continue
        values = np.sort(positive(np.asarray(value, dtype=np.float64).ravel(), 1e-300))[::-1]
        if len(values) > 1 and values[0] > 1e-300:
            values = np.maximum(values, 1e-18 * values[0])
            spectra.append(Spectrum(name, values, _rank(values, ranks.get(name))))
    return spectra[:MOST_SPECTRA]


def _rank(values: np.ndarray, chosen: Any) -> int | None:
    """The rank the method chose; else the place of the largest fall, where it is one."""
    if chosen is not None:
        return int(chosen) if 0 < int(chosen) < len(values) else None
    falls = values[:-1] / values[1:]
    return int(np.argmax(falls)) + 1 if falls.max() >= LEAST_GAP else None


@in_house_style
def spectrum(found: Identification) -> Figure:
    """The spectra that chose each rank, with the gap marked.

    Parameters
    ----------
    found
        A result of a method that reads ranks from spectra (hessian-span, in-domain, moments).
    """
    spectra = spectra_of(found)
    if not spectra:
        raise InputError(
            f"the method {found.method or 'none'} reads no rank from a spectrum; see plots.residuals or plots.units"
        )
    figure = new_figure(2.15 * len(spectra))
    for i, item in enumerate(spectra):
        _draw_spectrum(add_axes(figure, len(spectra), 1, i + 1, grid="y"), item)
    return figure


def _draw_spectrum(axes, item: Spectrum) -> None:
    count = len(item.values)
    numbers = np.arange(1, count + 1)
    kept = numbers <= (count if item.rank is None else item.rank)
    size = float(np.clip(220 / count, 2.0, 5.0))
    for chosen, tint in ((kept, BLUE), (~kept, MUTED)):
        axes.plot(numbers[chosen], item.values[chosen], "o", color=tint, markersize=size, markeredgewidth=0)
    set_log_scale(axes, "y", item.values)
    title = item.title
    if item.rank is not None and item.gap is not None:
        axes.axvline(item.rank + 0.5, color=ORANGE, linewidth=1.2, linestyle=(0, (3, 2)))
        title += f" — {item.rank}, gap {item.gap:.1e}"
    axes.set_title(title, loc="left", fontsize=9.5, pad=4)
    axes.set_xlim(0.4, count + 0.6)
    set_whole_ticks(axes)


@dataclass(frozen=True)
class Attempt:
    """One network that was tried: its name in words, how much data it had, the residual it reached."""

    name: str
    num_points: int
    residual: float


def attempts_of(found: Identification) -> list[Attempt]:
    """What was tried, the last attempt of each architecture; the alternatives where no attempts were kept.

    Students that met few points exactly, before there were more, say nothing and are left out.
    """
    best: dict[str, Attempt] = {}
    rows = list(found.details.get("attempts", []))
    kind = found.activation or "units"
    rows += [(kind, (width,), *rest) for width, *rest in found.details.get("rungs", [])]
    most = max((row[2] for row in rows), default=0)
    for activation, widths, num_points, residual, *_ in rows:
        name = f"{'-'.join(map(str, widths))} {activation}"
        if num_points < most and residual < 1e-9:
            continue
        if name not in best or num_points >= best[name].num_points:
            best[name] = Attempt(name, int(num_points), float(residual))
    if not best:
        best = {name: Attempt(name, 0, float(value)) for name, value in found.alternatives.items()}
    usable = [attempt for attempt in best.values() if np.isfinite(attempt.residual)]
    return sorted(usable, key=lambda attempt: attempt.residual)


@in_house_style
def residuals(found: Identification, most: int = 12) -> Figure:
    """Relative residual of what was tried, the best first: the right network falls to rounding, others do not.

    Parameters
    ----------
    found
        A result that has kept what it tried.
    most
        Number of candidates to show.
    """
    shown = attempts_of(found)[:most]
    if not shown:
        raise InputError("this result keeps no residuals: nothing was fitted")
    values = positive([attempt.residual for attempt in shown])
    figure = new_figure(0.75 + 0.23 * len(shown))
    axes = add_axes(figure, grid="x")
    places = np.arange(len(shown))
    exact = values <= 1e-9 if found.certificate is None else values <= max(1e-9, found.certificate.tolerance)
    for chosen, tint in ((exact, TEAL), (~exact, MUTED)):
        axes.plot(values[chosen], places[chosen], "o", color=tint, markersize=5, markeredgewidth=0)
    set_log_scale(axes, "x", np.append(values, 1.0))
    axes.set_yticks(places, [short(attempt.name) for attempt in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("relative residual")
    return figure


@in_house_style
def units(found: Identification) -> Figure:
    """How well the answers determine each unit: the standard error of its parameters against their size.

    Parameters
    ----------
    found
        A result whose certificate has computed them.
    """
    fresh = {} if found.certificate is None else found.certificate.fresh
    if found.network is None or not len(fresh.get("deviations", ())):
        raise InputError(
            "this result keeps no standard errors of units: the certificate has not computed them"
        )
    deviations = positive(fresh["deviations"])
    deviations = np.minimum(deviations, 1e3)
    figure = new_figure(2.15)
    axes = add_axes(figure, grid="y")
    start = 0
    for layer, w in enumerate(found.network.weights):
        numbers = np.arange(start, start + len(w)) + 1
        axes.plot(
            numbers,
            np.sort(deviations[start : start + len(w)])[::-1],
            "o",
            color=(BLUE, ORANGE, TEAL)[layer % 3],
            markersize=float(np.clip(220 / len(deviations), 2.0, 5.0)),
            markeredgewidth=0,
        )
        if layer:
            axes.axvline(start + 0.5, color=MUTED, linewidth=0.8)
        start += len(w)
    set_log_scale(axes, "y", np.append(deviations, 1e-2))
    axes.axhline(1e-2, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    axes.text(0.5, 5e-3, " determined below this line", va="top", fontsize=9)
    axes.set_xlim(0.4, start + 0.6)
    axes.set_xlabel("unit, layer by layer")
    axes.set_ylabel("standard error")
    set_whole_ticks(axes)
    return figure
