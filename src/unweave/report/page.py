"""One HTML page that says what an identification found: no scripts, nothing loaded, everything escaped.

The page repeats the verdict, the queries by stage, the certificate, the residuals of what was tried, and the
parameters' layout with the size of the weights in each layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.version import __version__

if TYPE_CHECKING:
    from unweave.result import Identification

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #f4f4f4; padding: 1rem; white-space: pre-wrap; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem; text-align: left; }
.bar { background: #4a7; height: .8rem; display: inline-block; }
"""


def write_page(result: Identification, path: Path, reference: Any = None) -> None:
    """Write the page of ``result`` to ``path``."""
    path.write_text(render_page(result), encoding="utf-8")


def render_page(result: Identification) -> str:
    """The page of ``result`` as text."""
    title = f"{result.outcome}: {result.model_name}" if result.model_name else str(result.outcome)
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<pre>{escape(result.verdict())}</pre>",
        _section("Queries by stage", _query_rows(result)),
        _section("Certificate", _certificate_rows(result)),
        _section("Relative residual of what was tried", _residual_rows(result)),
        _section("Layers", _layer_rows(result)),
        _list("Not determined", result.undetermined),
        _list("Warnings", result.warnings),
        f"<p>unweave {escape(__version__)}, seed {escape(str(result.seed))}</p>",
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body>\n</html>\n"
    )


def _query_rows(result: Identification) -> list[Sequence[Any]]:
    total = max(result.ledger.total, 1)
    return [
        (stage, f"{count:,}", _Bar(count / total)) for stage, count in result.ledger.by_stage.items() if count
    ]


def _certificate_rows(result: Identification) -> list[Sequence[Any]]:
    if result.certificate is None:
        return []
    record = result.certificate.to_dict()
    return [
        (name.replace("_", " "), _number(value))
        for name, value in record.items()
        if isinstance(value, bool | int | float | str)
    ]


def _residual_rows(result: Identification) -> list[Sequence[Any]]:
    ranked = sorted(result.alternatives.items(), key=lambda item: item[1])
    return [(name, _number(value)) for name, value in ranked]


def _layer_rows(result: Identification) -> list[Sequence[Any]]:
    if result.network is None:
        return []
    rows: list[Sequence[Any]] = [("units", "inputs", "activation", "largest weight", "largest bias")]
    layers = zip(result.network.weights, result.network.biases, result.network.activations, strict=True)
    for w, b, name in layers:
        largest = (_number(float(np.max(np.abs(w)))), _number(float(np.max(np.abs(b)))))
        rows.append((str(w.shape[0]), str(w.shape[1]), name, *largest))
    return rows


class _Bar(float):
    """A share between 0 and 1, drawn as a bar."""


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _section(title: str, rows: Iterable[Sequence[Any]]) -> str:
    lines = ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows]
    return f"<h2>{escape(title)}</h2>\n<table>{''.join(lines)}</table>" if lines else ""


def _cell(value: Any) -> str:
    if isinstance(value, _Bar):
        return f'<td><span class="bar" style="width: {12 * float(value):.2f}rem"></span></td>'
    return f"<td>{escape(str(value))}</td>"


def _list(title: str, items: Sequence[str]) -> str:
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<h2>{escape(title)}</h2>\n<ul>{entries}</ul>" if entries else ""
