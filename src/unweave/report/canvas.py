"""What every figure shares: palette, axes, number formats, and the way into the page as inline SVG.

Blue and orange stand for the two signs, teal for agreement: tints that readers with colour-blind eyes tell apart.
Heat maps fade to transparent at zero, so that they sit on a light and on a dark page. The page replaces the
palette's tints by CSS variables; a figure kept from Python has them as written here.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from unweave.core.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")

WIDTH = 4.8
"""Inches; narrow, so that the text stays legible when a phone shrinks the figure."""
INK, MUTED, GRID = "#21272f", "#66707c", "#dde2e8"
PAPER = "#fefefe"
BLUE, ORANGE, TEAL = "#1f6fb2", "#cc5f14", "#0b8068"
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    BLUE: "blue",
    ORANGE: "orange",
    TEAL: "teal",
    PAPER: "card",
}
"""The CSS variable each tint becomes in the page."""
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "unweave",
    "path.simplify": True,
}
_LEVELS = 32
"""Shades a sign; few shades keep the images small."""


def in_house_style(draw: Callable[P, R]) -> Callable[P, R]:
    """``draw`` under our settings, whatever the caller's own are; text is text, never mathematics."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            from matplotlib import rc_context
        except ImportError as error:
            raise MissingExtra("matplotlib", "report") from error
        with rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure that makes room for its labels, independent of pyplot's state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def add_axes(figure: Figure, *place: Any, grid: str | None = None, **options: Any) -> Axes:
    """Axes in the house style: two spines, a quiet grid along ``grid`` ("x", "y" or "both")."""
    axes = figure.add_subplot(*place, **options)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3, width=0.8)
    axes.set_axisbelow(True)
    if grid is not None:
        axes.grid(axis=grid, color=GRID, linewidth=0.7)  # pyright: ignore[reportArgumentType]
    return axes


def set_log_scale(axes: Axes, which: str, values: np.ndarray) -> None:
    """A logarithmic axis with at most six plain labels such as 1e-12."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = np.floor(np.log10(np.min(values)) - 0.2), np.ceil(np.log10(np.max(values)) + 0.2)
    step = max(1, int(np.ceil((high - low) / 5)))
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(10.0**low, 10.0**high)
    axis.set_major_locator(FixedLocator([10.0**k for k in np.arange(low, high + 1, step)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))


def set_whole_ticks(axes: Axes) -> None:
    """Few whole numbers along x."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))


def short(text: str, most: int = 24) -> str:
    """A label that leaves room for what it labels, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def power(value: float) -> str:
    """A power of ten as a short label: 0.01, 1, 1e-12."""
    exponent = round(np.log10(value))
    return f"{10.0**exponent:g}" if -3 < exponent < 4 else f"1e{exponent}"


def positive(values: Sequence[float] | np.ndarray, floor: float = 1e-17) -> np.ndarray:
    """Magnitudes fit for a logarithmic axis: finite, none below ``floor``."""
    magnitudes = np.abs(np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0, posinf=1e300))
    return np.maximum(magnitudes, floor)


def signed_shades() -> ListedColormap:
    """Blue below zero, nothing at zero, orange above."""
    from matplotlib.colors import ListedColormap

    strength = np.linspace(0, 1, _LEVELS) ** 0.8
    below = [(0.12, 0.44, 0.74, a) for a in strength[::-1]]
    above = [(0.87, 0.42, 0.05, a) for a in strength]
    return ListedColormap([*below, *above], name="unweave_signed")


def shades() -> ListedColormap:
    """Nothing at zero, teal above."""
    from matplotlib.colors import ListedColormap

    return ListedColormap([(0.04, 0.55, 0.45, a) for a in np.linspace(0, 1, _LEVELS)], name="unweave")


@in_house_style
def to_svg(figure: Figure, name: str) -> str:
    """The figure as an ``<svg>`` element for a page: ids of its own, tints as CSS variables, nothing to load.

    ``name`` is put before every id, so that figures on one page do not disturb each other.
    """
    buffer = io.StringIO()
    no_dates = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=no_dates)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    for tint, variable in VARIABLES.items():
        text = text.replace(tint, f"var(--{variable})")
    return re.sub(r"\s*\n\s*", "\n", text).strip()
