"""Tables and figures of a paper beside what was computed: paper, as stated, unweave.

An exhibit takes a table of results apart into lines, one a setting, with the same measures in three columns. What the
paper prints is given as text, since some of it is words ("almost 1") or missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from unweave.experiments.frame import AS_STATED, UNWEAVE, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTHING = "–"
PAPER_TRIALS = 30
"""Repetitions behind the rates the papers print."""
ROUNDING = 0.005
"""Printed rates have two digits."""


@dataclass(frozen=True)
class Summary:
    """One measure over the trials of a setting."""

    value: float
    standard_error: float
    num_trials: int


@dataclass(frozen=True)
class Entry:
    """A measure and where it comes from: the names of studies; "" where a column has none."""

    label: str
    measure: str
    stated: str = ""
    unweave: str = ""
    at: float | None = None
    style: str = "rate"
    """"rate", "error", "count", "seconds" or "number"."""
    statistic: str = "mean"
    trials_of: str = ""
    """How many things a trial counts, a parameter of the setting or a number: for the standard error of a rate."""

    @property
    def is_cost(self) -> bool:
        """Queries, steps, seconds: the papers print none."""
        return self.style in ("count", "seconds")


def seconds_of(stated: str, unweave: str | None = None) -> Entry:
    """What a trial costs, of these studies."""
    ours = stated if unweave is None else unweave
    return Entry("CPU s", "seconds", stated, ours, style="seconds", statistic="median")


@dataclass(frozen=True)
class Triple:
    """One measure in three columns."""

    entry: Entry
    paper: str
    stated: Summary | None
    unweave: Summary | None

    @property
    def texts(self) -> tuple[str, ...]:
        """Paper, as stated, unweave; costs without the paper."""
        computed = render(self.stated, self.entry.style), render(self.unweave, self.entry.style)
        return computed if self.entry.is_cost else (self.paper, *computed)

    def agrees(self, setting: Mapping[str, str]) -> bool | None:
        """Whether a rate as stated is within two standard errors of a proportion of the printed one.

        Both are estimates, the paper's from thirty trials, and the printed one is rounded. None: nothing to compare.
        """
        if not self.entry.trials_of or self.stated is None or not _is_number(self.paper):
            return None
        count = float(setting.get(self.entry.trials_of, "") or self.entry.trials_of)
        ours, theirs = self.stated.num_trials * count, PAPER_TRIALS * count
        printed = float(self.paper)
        pooled = (self.stated.value * ours + printed * theirs) / (ours + theirs)
        error = np.sqrt(pooled * (1 - pooled) * (1 / ours + 1 / theirs))
        return bool(abs(self.stated.value - printed) <= 2 * error + ROUNDING)


@dataclass(frozen=True)
class Line:
    """One setting."""

    setting: tuple[str, ...]
    triples: tuple[Triple, ...]
    num_stated: int
    num_unweave: int


@dataclass(frozen=True)
class Exhibit:
    """A table or figure: which settings, which measures, what the paper prints, and a drawing."""

    names: tuple[str, ...]
    title: str
    by: tuple[str, ...]
    entries: tuple[Entry, ...]
    printed: Mapping[tuple[str, ...], Mapping[str, str]] = field(default_factory=dict)
    """By setting, then by the label of the measure."""
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values of parameters that belong here, where not all do."""
    draw: Callable[[Results], Mapping[str, Figure]] | None = None
    note: str = ""
    derive: Callable[[Results, str, Mapping[str, str]], Mapping[str, float]] | None = None
    """Of the results, a column and a setting: numbers read off all its trials together, by label."""

    @property
    def name(self) -> str:
        return " and ".join(self.names) if self.names else self.title

    @property
    def studies(self) -> frozenset[str]:
        return frozenset(s for e in self.entries for s in (e.stated, e.unweave) if s)

    def holds(self, study: str, parameters: Mapping[str, str]) -> bool:
        """Whether a cell is needed here."""
        return study in self.studies and all(parameters.get(k) in v for k, v in self.only.items())

    def lines(self, results: Results) -> list[Line]:
        lines = []
        for where in self._settings(results):
            printed = self.printed.get(where, {})
            values = dict(zip(self.by, where, strict=True))
            triples = []
            for entry in self.entries:
                stated = _summarise(results, entry, entry.stated, AS_STATED, values)
                ours = _summarise(results, entry, entry.unweave, UNWEAVE, values)
                triples.append(Triple(entry, printed.get(entry.label, NOTHING), stated, ours))
            triples = self._derived(results, values, triples)
            counts = [
                max((s.num_trials for s in column if s is not None), default=0)
                for column in ([t.stated for t in triples], [t.unweave for t in triples])
            ]
            lines.append(Line(where, tuple(triples), *counts))
        return lines

    def agreement(self, lines: Sequence[Line]) -> str:
        """How many rates as stated agree with the printed ones; empty where none is printed."""
        verdicts = [
            t.agrees(dict(zip(self.by, line.setting, strict=True))) for line in lines for t in line.triples
        ]
        known = [v for v in verdicts if v is not None]
        if not known:
            return ""
        return (
            f"As stated, {sum(known)} of {len(known)} rates are within two standard errors of a proportion of the "
            "paper's."
        )

    def _derived(self, results: Results, where: Mapping[str, str], triples: list[Triple]) -> list[Triple]:
        if self.derive is None:
            return triples
        stated, ours = (self.derive(results, column, where) for column in (AS_STATED, UNWEAVE))
        done = []
        for t in triples:
            label = t.entry.label
            if label in stated or label in ours:
                t = replace(t, stated=_whole(stated.get(label)), unweave=_whole(ours.get(label)))
            done.append(t)
        return done

    def _settings(self, results: Results) -> list[tuple[str, ...]]:
        """Settings in the order of the plan: that of their first result, by column of the table."""
        seen: dict[tuple[str, ...], None] = {}
        for record in results.records:
            given = dict(record.cell.parameters)
            if self.holds(record.cell.study, given) and all(name in given for name in self.by):
                seen.setdefault(tuple(given[name] for name in self.by))
        return sorted(seen, key=lambda where: tuple(_order(value) for value in where))


def render(summary: Summary | None, style: str) -> str:
    """A number as short as its kind allows."""
    if summary is None or not np.isfinite(summary.value):
        return NOTHING
    value = summary.value
    if style == "rate":
        return f"{value:.2f}"
    if style == "count":
        return f"{value:,.0f}"
    if style == "seconds":
        return f"{value:.2g}" if value < 10 else f"{value:,.0f}"
    if style == "error":
        return f"{value:.1e}"
    return f"{value:.4g}"


def describe_setting(by: Sequence[str], where: Sequence[str]) -> str:
    """``POD/tanh, m0 = 30, m1 = 3``: words stand for themselves, numbers with their names."""
    return ", ".join(
        value if not _is_number(value) else f"{name} = {value}" for name, value in zip(by, where, strict=True)
    )


def _summarise(
    results: Results, entry: Entry, study: str, column: str, where: Mapping[str, str]
) -> Summary | None:
    if not study:
        return None
    values = results.values(study, column, entry.measure, entry.at, **where)
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    value = float(np.median(values) if entry.statistic == "median" else np.mean(values))
    spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
    return Summary(value, spread, len(values))


def _whole(value: float | None) -> Summary | None:
    """A number of all trials together."""
    return None if value is None else Summary(value, float("nan"), 0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _order(value: str) -> tuple[int, float, str]:
    return (0, float(value), "") if _is_number(value) else (1, 0.0, value)
