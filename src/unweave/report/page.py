"""One self-contained HTML page of a result: figures as inline SVG, nothing loaded, no script, everything escaped.

The page is rendered by Jinja2 with escaping on; only our own SVG and style sheet go in as they are. A content
security policy forbids scripts and connections should anything slip through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.citations import bibtex
from unweave.core.errors import InputError, MissingExtra, Outcome
from unweave.core.memory import spell_bytes
from unweave.report import account, agreement, drawing, heat, kinks, spectra, words
from unweave.report.canvas import to_svg
from unweave.report.repeat import command, python_call
from unweave.version import __version__

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

    from unweave.comparison import Comparison
    from unweave.result import Identification

MOST_REMARKS = 12
"""Warnings of one kind that are written out."""
_NUMBER = re.compile(r"[\d.,]*\de[+-]\d+")
"""Numbers that a line must not break at their minus sign."""
_TONES = {Outcome.IDENTIFIED: "identified", Outcome.PARTLY: "partly", Outcome.NOT_IDENTIFIED: "not"}
_CAPTIONS = {
    "outputs": "Left: each fresh answer of the model against the network's output. Right: the share of these points "
    "whose relative error is below each size; the dashed line is what the accuracy of the answers allows.",
    "network": "Lines are weights: orange positive, blue negative, wider for larger; faint ones are left out.",
    "kinks": "The network along a random line. Dots are the places where a unit switches, in the tint of its layer.",
    "weights": "Rows are units, columns their inputs, the column apart their biases; weights and biases each in units "
    "of the layer's largest.",
    "weights_beside": "Each layer in normal form: the reference, the network as it was returned, the same with its "
    "units in the reference's order and sign, and what is left between the two (the fainter the smaller, "
    "nothing at 1e-16).",
    "spectrum": "The dashed line marks the gap a number of units was read from: what lies right of it is rounding and "
    "noise.",
    "spectrum_without_gap": "No value vanishes beside the others: nothing was left to drop.",
    "residuals": "Relative residual of what was tried, the best first. Dots in colour fit to the accuracy of the "
    "answers; a student may be wider than the network, surplus units are removed afterwards.",
    "units": "How firmly the answers determine each unit, layer by layer: the standard error of its parameters "
    "relative to the largest of them.",
    "ledger": "What each stage used, in the order the stages began.",
    "timings": "Wall time by stage.",
}


@dataclass(frozen=True)
class Picture:
    """A figure in the page."""

    name: str
    svg: Any
    caption: str


def open_template(*packages: str) -> tuple[Template, Markup]:
    """``page.html`` of the first package, and the styles of all that have one; what is included may be in any."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError as error:
        raise MissingExtra("jinja2", "report") from error
    loader = ChoiceLoader([PackageLoader(package, "") for package in packages])
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader)
    environment.filters["whole"] = lambda text: Markup(
        _NUMBER.sub(r'<span class="n">\g<0></span>', str(escape(text)))
    )
    styles = [resources.files(package).joinpath("page.css") for package in reversed(packages)]
    style = "".join(file.read_text("utf-8") for file in styles if file.is_file())
    return environment.get_template("page.html"), Markup(style)


def write_page(found: Identification, path: Path, reference: Any = None) -> None:
    """Write the page of ``found`` to ``path``."""
    path.write_text(render_page(found, reference), encoding="utf-8")


def render_page(found: Identification, reference: Any = None) -> str:
    """The page of ``found`` as text; ``reference`` is a network to draw beside what was found."""
    template, style = open_template("unweave.report")
    from markupsafe import Markup

    comparison = _compare(found, reference)
    name = found.model_name or "a model"
    return template.render(
        title=f"{found.outcome}: {name}",
        style=style,
        tone=_TONES[found.outcome],
        outcome=str(found.outcome).capitalize(),
        headline=words.headline(found),
        explanation=words.explanation(found),
        model=found.model_name,
        facts=_facts(found),
        verified=words.verified(found),
        not_verified=words.not_verified(found),
        verified_all=found.certificate is not None and found.certificate.agrees,
        remarks=words.remarks(found),
        most_remarks=MOST_REMARKS,
        layers=_layers(found),
        comparison=None if comparison is None else _beside(comparison),
        figures=_figures(found, reference if comparison is not None else None, Markup),
        method=_method(found),
        command=command(found),
        python_call=python_call(found),
        bibtex=bibtex(found),
        version=__version__,
        seed=found.seed,
    )


def _figures(found: Identification, reference: Any, markup: Any) -> dict[str, Picture | None]:
    """Every figure the result has the data for; None for the others."""
    draw = {
        "outputs": lambda: agreement.outputs(found),
        "network": lambda: drawing.network(found),
        "weights": lambda: heat.weights(found, reference),
        "kinks": lambda: kinks.kinks(found),
        "spectrum": lambda: spectra.spectrum(found),
        "residuals": lambda: spectra.residuals(found),
        "units": lambda: spectra.units(found),
        "ledger": lambda: account.ledger(found),
        "timings": lambda: account.timings(found),
    }
    pictures: dict[str, Picture | None] = {}
    for name, figure in draw.items():
        caption = _caption(name, found, reference)
        try:
            svg = to_svg(figure(), name)
        except InputError:
            pictures[name] = None
            continue
        label = caption.split(".")[0].replace('"', "'")
        pictures[name] = Picture(
            name, markup(svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)), caption
        )
    return pictures


def _caption(name: str, found: Identification, reference: Any) -> str:
    if name == "weights" and reference is not None:
        return _CAPTIONS["weights_beside"]
    if name == "spectrum" and all(item.rank is None for item in spectra.spectra_of(found)):
        return _CAPTIONS["spectrum_without_gap"]
    return _CAPTIONS[name]


def _facts(found: Identification) -> list[tuple[str, str]]:
    facts = []
    if found.network is not None:
        facts += [
            ("architecture", found.network.describe()),
            ("parameters", f"{found.network.num_parameters:,}"),
        ]
    total, budget = found.ledger.total, found.ledger.budget
    if total:
        each = f" ({total / found.num_parameters:.1f} a parameter)" if found.num_parameters else ""
        facts.append(
            (found.ledger.unit, f"{total:,}{each}" if budget is None else f"{total:,} of {budget:,}{each}")
        )
    c = found.certificate
    if c is not None and c.num_points:
        where = "rows" if found.ledger.unit == "rows" else "points"
        facts.append(("largest fresh error", f"{c.max_relative_error:.1e} on {c.num_points:,} {where}"))
    if found.precision is not None:
        facts.append(("the answers are", found.precision.kind))
    if found.method:
        facts.append(("method", found.method))
    facts.append(("time", f"{found.seconds:.1f} s"))
    if found.peak_memory:
        facts.append(("memory", f"{spell_bytes(found.peak_memory)} at most"))
    return facts


def _layers(found: Identification) -> list[dict[str, Any]]:
    if found.network is None:
        return []
    net = found.network
    rows = []
    for i, (w, b, name) in enumerate(zip(net.weights, net.biases, net.activations, strict=True)):
        rows.append(
            {
                "name": str(i + 1) if i < len(net.hidden) else "output",
                "activation": name,
                "units": f"{w.shape[0]:,}",
                "inputs": f"{w.shape[1]:,}",
                "weight": f"{np.max(np.abs(w), initial=0.0):.3g}",
                "bias": f"{np.max(np.abs(b), initial=0.0):.3g}",
            }
        )
    return rows


def _compare(found: Identification, reference: Any) -> Comparison | None:
    if found.network is None or reference is None:
        return None
    from unweave.comparison import compare

    return compare(reference, found.network)


def _beside(comparison: Comparison) -> dict[str, Any]:
    worst = comparison.max_relative_error
    text = (
        f"After alignment the worst relative error of a parameter is {worst:.1e}."
        if np.isfinite(worst)
        else f"The architectures differ: the reference is {comparison.reference.describe()}, what was found is "
        f"{comparison.aligned.describe()}."
    )
    rows = [
        (
            str(i + 1),
            str(layer.num_matched),
            str(layer.num_unmatched),
            f"{layer.max_relative_error:.1e}",
            f"{layer.rms_relative_error:.1e}",
        )
        for i, layer in enumerate(comparison.per_layer)
    ]
    return {"text": text, "rows": rows}


def _method(found: Identification) -> str:
    if not found.method:
        return "No method was tried."
    why = f", chosen because {found.method_reason}" if found.method_reason not in ("", "asked for") else ""
    asked = ", as asked for" if found.method_reason == "asked for" else ""
    return f"The method was {found.method}{why}{asked}."
