"""A result in plain words: what was found, what was verified and what was not, what each warning asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unweave.core.errors import Outcome
from unweave.core.network import unseen_symmetries

if TYPE_CHECKING:
    from unweave.evidence.ledger import Ledger
    from unweave.result import Identification

_ASK_MORE = "Ask more queries, or widen the domain to where these units bend."
_AGAIN = "Run again with another seed= or a larger budget=."
_REMEDIES = (
    ("budget", "Raise budget= (--budget), or leave it out."),
    ("time limit", "Give the run more time, or the widths with hidden= (--hidden)."),
    ("log-odds", "Nothing to do: only differences between classes can be seen behind a softmax."),
    ("the journal was begun", "Check that it is the same model, or begin another journal."),
    (
        "the journal was not checked",
        "Raise budget= (--budget), so that some stored answers can be asked again.",
    ),
    ("sent again", "Nothing to do: the answers arrived; a steadier server saves time."),
    ("nan or infinity and were left out", "Check where these rows come from."),
    ("repeat the input", "Nothing to do: they would have made the check too easy."),
    ("read as a stream", "Nothing to do: every row is used."),
    ("gaussian", "Nothing to do if the outcome is identified; otherwise give rows with Gaussian inputs."),
    ("invisible in", "Widen the domain, or check the widths given with hidden= (--hidden)."),
    ("the side it is active on", "Nothing to do: the function is the same on either side."),
    ("units: their number", "Give more or more exact rows, or the width with hidden= (--hidden)."),
    ("active in few rows", "Give more rows, or rows where these units are active."),
    ("could be removed", "Run again with another seed=, or give the widths with hidden= (--hidden)."),
    ("do not move in the data", "Move every input, or leave it out."),
    ("faces; there may be more", "Name the number of units with hidden= (--hidden)."),
    ("constant input", "Nothing to do: it is the same network."),
    ("probabilit", "Nothing to do: only differences between classes can be seen behind a softmax."),
    ("float16", "Ask a float32 or float64 copy of the model for more digits."),
    ("lower precision", "Ask a float64 copy of the model for more digits."),
    ("computes in", "Ask a float32 or float64 copy of the model for more digits."),
    ("differ from those given", "Check the widths given with hidden= (--hidden), or leave them out."),
    ("no kink", "Widen the domain, or name the activation if it is not piecewise linear."),
    ("opposite units", "Nothing to do: units on one hyperplane are seen only together."),
    ("linear term", "Nothing to do: the function is right; a skip connection leaves sides of units open."),
    ("always active", "Widen the domain, so that these units switch inside it."),
    ("determined", _ASK_MORE),
    ("not traced", _AGAIN),
    ("noise", "Average repeated answers, or ask a more exact copy of the model."),
)
"""What helps, by a word of the warning; the first that matches counts."""
_FOR_ROWS = {
    _ASK_MORE: "Give more rows, or rows where these units bend.",
    _AGAIN: "Give more rows, or run again with another seed=.",
}
_WITHOUT_BUDGET = {
    _ASK_MORE: "Widen the domain to where these units bend.",
    _AGAIN: "Run again with another seed=.",
}
"""The same from rows, and where nothing limits the queries: there is no budget to raise."""


@dataclass(frozen=True)
class Remark:
    """Sentences that share a remedy; it is empty where nothing is to be done, or the sentence says it."""

    texts: tuple[str, ...]
    remedy: str = ""


def points_word(found: Identification) -> str:
    """What the certificate compared on: fresh points asked of a model, or rows held out of a data set."""
    return "held-out rows" if found.ledger.unit == "rows" else "fresh points"


def headline(found: Identification) -> str:
    """The outcome as one sentence."""
    if found.outcome is Outcome.IDENTIFIED:
        part = "first layer" if found.network is not None and found.network.is_open else "network"
        return f"The {part} behind {_subject(found)} was recovered."
    if found.outcome is Outcome.PARTLY:
        return "A network was found, but not all of it is certain."
    return f"The network behind {_subject(found)} was not found."


def explanation(found: Identification) -> str:
    """What stands behind the headline, in one or two sentences."""
    if found.network is None:
        return _sentence(found.reason or "No method found a network that reproduces the answers")
    size = f"{found.network.describe()}, {found.network.num_parameters:,} parameters"
    c = found.certificate
    checked = (
        f"On {c.num_points:,} {points_word(found)}, none of them used to find it, it agrees "
        f"{_to(c.max_relative_error)}."
        if c is not None and c.num_points
        else f"It was not checked on {points_word(found)}."
    )
    open_points = "" if found.identified else " " + _sentence(found.reason)
    return f"It is {size}. {checked}{open_points}"


def verified(found: Identification) -> list[str]:
    """Every check that was made, with its figures."""
    c = found.certificate
    if c is None or not c.num_points:
        return []
    agrees = "agree" if c.agrees else "do not agree well enough"
    rows = found.ledger.unit == "rows"
    lines = [
        f"The {'answers' if rows else 'model'} and the network {agrees} on {c.num_points:,} {points_word(found)}: "
        f"largest relative error {c.max_relative_error:.1e}, root mean square {c.rms_relative_error:.1e}; allowed "
        f"{c.tolerance:.1e}.",
        f"With 95 % confidence the error is larger than that on at most {100 * c.fraction_outside:.1f} % of the "
        f"{'distribution the rows come from' if rows else 'domain'}.",
    ]
    if c.max_standard_error is not None:
        lines.append(
            "The answers determine every unit's parameters to a relative standard error of "
            f"{c.max_standard_error:.1e} or better."
            if c.max_standard_error < 1e-2
            else f"The worst unit is determined to a relative standard error of {c.max_standard_error:.1e} only."
        )
    lines += [_sentence(check.words) for check in c.checks if check.words]
    return lines


def not_verified(found: Identification) -> list[str]:
    """What no check has covered, and what no observer could see."""
    c = found.certificate
    if found.network is None or c is None or not c.num_points:
        if found.network is None:
            tried = c is not None and c.num_points
            why = "the network that was tried was refused" if tried else "there is no network to check"
            return [f"Nothing about the model is verified: {why}."]
        if found.ledger.shortage:
            return [f"Nothing was verified: {found.ledger.shortage} were left for a check."]
        return [f"Nothing was verified: nothing could be compared on {points_word(found)}."]
    lines = [f"Corners smaller than {100 * c.fraction_outside:.1f} % of the domain may differ unseen."]
    if found.ledger.unit == "rows":
        lines = ["Where the rows have no points the network may differ from the model."]
    domain = (found.details.get("asked") or {}).get("domain")
    if domain:
        lines.append(f"Nothing was asked outside {domain}: the network may differ from the model there.")
    lines.append(f"The network is known up to {unseen_symmetries(found.network)}: no observer can see more.")
    lines.append("Units without any effect on the answers cannot be seen.")
    if c.max_standard_error is None:
        lines.append("How firmly each parameter is determined was not computed for this network.")
    return lines


def remarks(found: Identification) -> list[Remark]:
    """Every warning and every undetermined part with its remedy."""
    groups: dict[str, list[str]] = {}
    for text in dict.fromkeys([*found.warnings, *found.undetermined]):
        groups.setdefault(_remedy(text, found.ledger), []).append(_sentence(text))
    return [Remark(tuple(texts), remedy) for remedy, texts in groups.items()]


def _to(error: float) -> str:
    return f"to a relative error of {error:.1e}" if error else "exactly"


def _subject(found: Identification) -> str:
    return "these rows" if found.ledger.unit == "rows" else "this model"


def _remedy(text: str, ledger: Ledger) -> str:
    lowered = text.lower()
    remedy = next((remedy for word, remedy in _REMEDIES if word in lowered), "")
    if not remedy and ";" not in text:
        return "The guide of the method says when this happens, and what it means."
    if ledger.unit == "rows":
        return _FOR_ROWS.get(remedy, remedy)
    return _WITHOUT_BUDGET.get(remedy, remedy) if ledger.budget is None else remedy


def _sentence(text: str) -> str:
    text = " ".join(text.split()).rstrip(".; ")
    return f"{text[:1].upper()}{text[1:]}." if text else ""
