"""A result in words: the five lines of the verdict, and what a notebook shows."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.core.memory import spell_bytes
from unweave.core.network import unseen_symmetries

if TYPE_CHECKING:
    from unweave.result.identification import Identification


def verdict(found: Identification) -> str:
    """Five lines: what was found, how it was verified, what it cost, how, and what is not known."""
    lines = (
        _what_was_found(found),
        _what_was_verified(found),
        _what_it_cost(found),
        _how(found),
        _what_is_not_known(found),
    )
    return "\n".join(" ".join(line.split()) for line in lines)


def as_html(found: Identification) -> str:
    """The verdict, the layers and the ledger, for notebooks."""
    lines = "".join(f"<li>{escape(line)}</li>" for line in found.verdict().splitlines())
    layers = (
        ""
        if found.network is None
        else _html_table(
            ("layer", "weights", "activation", "largest weight"),
            [
                (i + 1, f"{w.shape[0]} x {w.shape[1]}", name, f"{np.max(np.abs(w), initial=0.0):.3g}")
                for i, (w, name) in enumerate(
                    zip(found.network.weights, found.network.activations, strict=True)
                )
            ],
        )
    )
    spent = _html_table(
        ("stage", found.ledger.unit), [*found.ledger.by_stage.items(), ("all", found.ledger.total)]
    )
    return f"<div><strong>{escape(str(found.outcome))}</strong><ul>{lines}</ul>{layers}{spent}</div>"


def _what_was_found(found: Identification) -> str:
    model = f" ({found.model_name})" if found.model_name else ""
    if found.network is None and found.surrogate is not None:
        copy = f"a surrogate {found.surrogate.describe()} is off by {found.surrogate_error:.1e} (rms)"
        if found.surrogate_error_on_rows is not None:
            copy += f", on your rows by {found.surrogate_error_on_rows:.1e}"
        return f"{found.outcome}{model}: {copy}"
    if found.network is None:
        return f"{found.outcome}{model}: no network was found"
    size = f"{found.network.describe()}, {found.network.num_parameters:,} parameters"
    return f"{found.outcome}{model}: {size}"


def _what_was_verified(found: Identification) -> str:
    if found.certificate is None:
        return f"not verified: there is nothing to check against {_fresh(found)}"
    c = found.certificate
    if not c.num_points:
        if found.ledger.shortage:
            return f"not verified: {found.ledger.shortage} were left for a check"
        return f"not verified: nothing could be compared on {_fresh(found)}"
    word = "verified" if found.identified else "checked"
    answers = "" if found.precision is None else f"; answers are {found.precision.kind}"
    if found.precision is not None and found.ledger.unit == "rows" and found.precision.kind == "noisy":
        answers += f" (standard deviation {found.precision.noise:.3g})"
    if c.fraction_outside >= 1 and c.checks:  # nothing but places of kinks could be compared
        seen = "; ".join(check.words for check in c.checks)
        return (
            f"{word} on {c.num_points:,} kinks of fresh lines: {seen}, off by at most "
            f"{c.max_relative_error:.1e}{answers}"
        )
    return (
        f"{word} on {c.num_points:,} {_fresh(found)}: max relative error {c.max_relative_error:.1e}, "
        f"rms {c.rms_relative_error:.1e}; larger on at most {100 * c.fraction_outside:.1f} % of the "
        f"domain (95 % confidence){answers}{_on_own_rows(found)}"
    )


def _on_own_rows(found: Identification) -> str:
    """How well the user's own rows are reproduced, where they were given."""
    check = None if found.certificate is None else found.certificate.check("your rows")
    return "" if check is None else f"; {check.words}"


def _fresh(found: Identification) -> str:
    return "held-out rows" if found.ledger.unit == "rows" else "fresh queries"


def _what_it_cost(found: Identification) -> str:
    total = found.ledger.total
    each = f" ({total / found.num_parameters:.1f} a parameter)" if found.num_parameters else ""
    limit = "" if found.ledger.budget is None else f" of {found.ledger.budget:,}"
    stages = ", ".join(f"{stage} {count:,}" for stage, count in found.ledger.by_stage.items() if count)
    old = found.ledger.replayed
    paid = f"; {old:,} replayed from the journal, {total - old:,} new" if old else ""
    memory = f", {spell_bytes(found.peak_memory)} at most" if found.peak_memory else ""
    return (
        f"{total:,} {found.ledger.unit}{limit}{each}: {stages or 'none'}{paid}; {found.seconds:.1f} s{memory}"
    )


def _how(found: Identification) -> str:
    chosen = (
        f"{found.method or 'none'}: {found.method_reason}" if found.method_reason else found.method or "none"
    )
    ranked = sorted(found.alternatives.items(), key=lambda item: item[1])
    tried = "; residuals " + ", ".join(f"{name} {value:.1e}" for name, value in ranked[:3]) if ranked else ""
    return f"method {chosen}{tried}"


def _what_is_not_known(found: Identification) -> str:
    parts = []
    if not found.identified:
        parts.append(found.reason or "no reason was given")
    if found.undetermined:
        shown = "; ".join(found.undetermined[:4])
        more = len(found.undetermined) - 4
        parts.append(f"undetermined: {shown}" + (f" and {more} more" if more > 0 else ""))
    if found.identified and found.network is not None:
        known = f"known up to {unseen_symmetries(found.network)}"
        error = None if found.certificate is None else found.certificate.max_standard_error
        if error is not None:
            known += f", each unit to {error:.0e} of its largest weight"
        parts.append(f"{known}; units without effect cannot be seen")
        parts.extend(_what_could_hide(found))
    parts.extend(found.warnings)
    return "; ".join(part.rstrip(".; ") for part in parts) or "nothing is known about the model"


def _what_could_hide(found: Identification) -> list[str]:
    """How rare a unit the search for disagreement may have missed, and how round a bend rounded answers leave."""
    if found.certificate is None:
        return []
    looked = [found.certificate.check(name) for name in ("search for disagreement", "sharpness of bends")]
    return [check.words for check in looked if check is not None and check.needed and check.words]


def _html_table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    def line(cells: tuple[Any, ...], tag: str) -> str:
        texts = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
        return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
