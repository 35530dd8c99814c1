"""Options for models behind an address: what to send, how patiently, and where the secrets come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from unweave.models.http_model import ServedModel


@Parameter(name="*", group=Group("Served models", sort_key=1))
@dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """What is sent to a server and how long it is waited for."""

    header: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A header, "Name: value"; "Name: env:VARIABLE" takes the value from the environment. May be repeated."""
    token_env: str | None = None
    """The environment variable that holds a token, sent as Authorization: Bearer."""
    timeout: float = 30.0
    """Seconds to wait for one answer."""
    retries: int = 6
    """How often a request is sent again when the server is busy, fails or hangs up."""
    batch_size: int = 1024
    """Most rows in one request; halved where the server refuses so many."""
    concurrency: int = 1
    """Requests under way at the same time."""
    rate: float | None = None
    """Most requests a second."""
    template: str | None = None
    """JSON of a request where no protocol fits: {"data": "$rows"}, or $row, $records, $record."""
    output_path: str | None = None
    """Where the answer to a template keeps the outputs: data.predictions.*.score."""
    features: str | None = None
    """Names of the inputs, comma separated, for $records and $record."""
    labels: str | None = None
    """Names of the classes, comma separated, where the answers name what they score."""
    protocol: str = "auto"
    """v2 (Open Inference Protocol), instances or inputs (rows of JSON); auto tells from the address."""
    input_name: str | None = None
    """Name of the input tensor, or the key of the rows."""
    output_name: str | None = None
    """Name of the output tensor, or the key of the answers."""
    datatype: str | None = None
    """FP64 or FP32, where the server does not tell."""
    probabilities: Annotated[bool, Parameter(negative="")] = False
    """The answers are class probabilities: take their log-odds."""

    def serve(self, model: str) -> str | ServedModel:
        """The model with these options if it is an address; options for another kind of model are refused."""
        from unweave.core.errors import InputError
        from unweave.models.http_model import ServedModel
        from unweave.models.resolve import is_address

        if not is_address(model):
            if self != ServedOptions():
                raise InputError(f"{model} is no http address; options for served models do not apply to it")
            return model
        return ServedModel(
            model,
            headers=dict(_parse_header(text) for text in self.header),
            token_env=self.token_env,
            timeout=self.timeout,
            retries=self.retries,
            batch_size=self.batch_size,
            concurrency=self.concurrency,
            requests_per_second=self.rate,
            template=self.template,
            output_path=self.output_path,
            features=_split(self.features),
            labels=_split(self.labels),
            protocol=self.protocol,
            input_name=self.input_name,
            output_name=self.output_name,
            datatype=self.datatype,
            probabilities=self.probabilities,
        )


def _split(names: str | None) -> tuple[str, ...]:
    return () if names is None else tuple(name.strip() for name in names.split(","))


def _parse_header(text: str) -> tuple[str, str]:
    """Name and value of a header; what cannot be read is not repeated, it may be a secret."""
    from unweave.core.errors import InputError

    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not name or not value:
        raise InputError('--header: write "Name: value" or "Name: env:VARIABLE"')
    if value.startswith("env:"):
        variable = value.removeprefix("env:")
        value = os.environ.get(variable, "").strip()
        if not value:
            raise InputError(f"--header {name}: the environment variable {variable} is empty; set it first")
    return name, value
