"""Any shape of JSON as a served model's request and answer: a template to fill in, and a path to read from.

In the template the text ``"$rows"`` stands for a list of rows (one request may carry many), ``"$row"`` for the numbers
of one row, ``"$records"`` and ``"$record"`` for the same with named features. Without any of the plural ones a request
carries one row. The path walks the answer: keys and indices between dots, ``*`` for every entry of a list
(``data.predictions.*.score``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.core.errors import InputError, OracleError
from unweave.models.http_formats import as_numbers, restore_float32
from unweave.models.http_scores import Labels

MANY, ONE = ("$rows", "$records"), ("$row", "$record")


@dataclass(frozen=True)
class Template:
    """A JSON request with places for rows, and where its answer keeps the outputs."""

    path: str
    body: Any
    output_path: str = ""
    features: tuple[str, ...] = ()
    labels: Labels = field(default_factory=Labels, compare=False)

    @property
    def takes_many(self) -> bool:
        """Whether one request may carry several rows."""
        return any(place in _texts(self.body) for place in MANY)

    def write(self, x: np.ndarray) -> Any:
        rows = x.tolist()
        named = [dict(zip(self.features, row, strict=True)) for row in rows] if self.features else []
        places = {"$rows": rows, "$records": named, "$row": rows[0], "$record": named[0] if named else {}}
        return _fill(self.body, places)

    def read(self, answer: Any, num_rows: int, name: str) -> np.ndarray:
        found = _walk(answer, self.output_path, name)
        scores = self.labels.read(found, num_rows, name)
        values = as_numbers(found, name) if scores is None else scores
        if num_rows == 1 and not (values.ndim > 0 and len(values) == 1):
            values = values.reshape(1, -1)
        if values.ndim == 0 or len(values) != num_rows:
            raise OracleError(
                f"{name} answered {num_rows} questions with shape {values.shape} at {self.output_path or 'the top'}; "
                f"check output_path=, or use $row in template= if it takes one row at a time"
            )
        return restore_float32(values.reshape(num_rows, -1))


def parse_template(
    text: str | Any, path: str, output_path: str | None, features: Sequence[str], labels: Labels | None = None
) -> Template:
    """The template a user wrote, refused in one line where it cannot be filled in."""
    try:
        body = json.loads(text) if isinstance(text, str) else text
    except ValueError as error:
        raise InputError(f'template: it is no JSON ({error}); write it like {{"inputs": "$rows"}}') from error
    places = [place for place in (*MANY, *ONE) if place in _texts(body)]
    if len(places) != 1:
        raise InputError('template: put exactly one of "$rows", "$row", "$records", "$record" into it')
    if places[0].startswith("$record") and not features:
        raise InputError("template: $record needs the names of the inputs: features='a,b,c'")
    return Template(path or "/", body, output_path or "", tuple(features), labels or Labels())


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _texts(part)]


def _fill(value: Any, places: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return places.get(value, value)
    if isinstance(value, dict):
        return {key: _fill(part, places) for key, part in value.items()}
    return [_fill(part, places) for part in value] if isinstance(value, list) else value


def _walk(value: Any, path: str, name: str) -> Any:
    """What ``path`` names inside ``value``."""
    head, _, rest = path.partition(".")
    if not head:
        return value
    if head == "*":
        if not isinstance(value, list):
            raise OracleError(f"{name}: output_path= has * where the answer is no list")
        return [_walk(part, rest, name) for part in value]
    try:
        inner = value[int(head)] if isinstance(value, list) else value[head]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        held = ", ".join(sorted(map(str, value)))[:120] if isinstance(value, dict) else type(value).__name__
        raise OracleError(f"{name} answers with {held}, not with {head!r}; check output_path=") from error
    return _walk(inner, rest, name)
