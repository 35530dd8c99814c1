"""The recovered network beside the model on the certificate's fresh points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unweave.core.errors import InputError
from unweave.report import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.result import Identification

MOST_DOTS = 300
FAR = 30.0
"""Answers this many times their median would hide the others on a linear axis."""


@canvas.in_house_style
def outputs(found: Identification) -> Figure:
    """Answers of the model against outputs of the network, and how large the errors are.

    Parameters
    ----------
    found
        A result whose certificate has kept what it compared.
    """
    fresh = {} if found.certificate is None else found.certificate.fresh
    if found.certificate is None or "answers" not in fresh or not len(fresh["answers"]):
        raise InputError("this result keeps no fresh answers: no network was checked on any")
    figure = canvas.new_figure(2.5)
    left, right = (canvas.add_axes(figure, 1, 2, i + 1) for i in range(2))
    answers, recovered = _thin(fresh["answers"]), _thin(fresh["outputs"])
    low, high = float(min(answers.min(), recovered.min())), float(max(answers.max(), recovered.max()))
    room = 0.05 * (high - low) or 1.0
    typical = float(np.median(np.abs(answers)))
    left.plot([low - room, high + room], [low - room, high + room], color=canvas.MUTED, linewidth=0.8)
    left.plot(answers, recovered, "o", markersize=3.6, markeredgewidth=0, color=canvas.BLUE, alpha=0.6)
    left.set_xlim(low - room, high + room)
    left.set_ylim(low - room, high + room)
    if max(-low, high) > FAR * typical > 0:
        _stretch_middle(left, typical, low, high)
    else:
        left.locator_params(nbins=4)
    left.set_xlabel("model's answer")
    left.set_ylabel("network's output")
    _draw_errors(right, canvas.positive(fresh["errors"]), found.certificate.tolerance)
    return figure


def _thin(values: np.ndarray) -> np.ndarray:
    """At most ``MOST_DOTS`` numbers, evenly picked."""
    flat = np.asarray(values).ravel()
    return flat[:: -(-len(flat) // MOST_DOTS)]


def _stretch_middle(axes, typical: float, low: float, high: float) -> None:
    """Linear up to the typical answer, logarithmic beyond, with three labels."""
    ends = sorted({float(f"{end:.0e}") for end in (low, high) if abs(end) > typical} | {0.0})
    labels = [f"{end:.0e}".replace("e+0", "e") if end else "0" for end in ends]
    axes.set_xscale("asinh", linear_width=typical)
    axes.set_yscale("asinh", linear_width=typical)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ends, labels)
        axis.set_ticks([], minor=True)


def _draw_errors(axes, errors: np.ndarray, tolerance: float) -> None:
    """The share of points with an error below each size, with what the answers' accuracy allows."""
    ranked = np.sort(errors)
    share = np.arange(1, len(ranked) + 1) / len(ranked)
    inside = ranked <= tolerance
    axes.step(
        ranked, 100 * share, where="post", color=canvas.TEAL if inside.all() else canvas.ORANGE, linewidth=1.8
    )
    canvas.set_log_scale(axes, "x", np.array([ranked[0], max(ranked[-1], tolerance)]))
    axes.axvline(tolerance, color=canvas.INK, linewidth=1, linestyle=(0, (3, 2)))
    axes.text(tolerance, 4, "allowed ", ha="right", va="bottom", fontsize=9)
    axes.set_ylim(0, 103)
    axes.set_xlabel("relative error")
    axes.set_ylabel("% of points")
    for label in axes.get_xticklabels():
        label.set_rotation(35)
