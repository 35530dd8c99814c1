"""A model behind an address with what is needed to ask it, checked before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unweave.core.arguments import flag, number, one_of, shown, whole
from unweave.core.errors import InputError
from unweave.models.http_formats import DATATYPES

PROTOCOLS = ("auto", "v2", "instances", "inputs")
DEFAULT_BUDGET = 10_000
"""Queries a served model may be asked where the user says nothing: they cost money, and somebody else answers."""


@dataclass(frozen=True)
class ServedModel:
    """A model behind an address, with what is needed to ask it; pass it to ``identify`` in place of the model.

    Secrets belong into ``headers`` or, better, into an environment variable that ``token_env`` names: its value
    is sent as ``Authorization: Bearer ...``. They appear in no name, message, journal or report.

    Examples
    --------
    >>> import unweave
    >>> unweave.ServedModel("http://localhost:8080/v2/models/churn", batch_size=64, concurrency=4).batch_size
    64
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_env: str | None = None
    timeout: float = 30.0
    """Seconds to wait for one answer."""
    retries: int = 6
    """How often a request is sent again when the server is busy, fails or hangs up."""
    patience: float = 120.0
    """Seconds after which a request is given up, retries and pauses included."""
    batch_size: int = 1024
    """Most rows in one request; halved where the server refuses so many."""
    concurrency: int = 1
    """Requests under way at the same time."""
    requests_per_second: float | None = None
    template: Any = None
    """The JSON of a request, as text or as lists and dictionaries, where no protocol fits: ``http_template``."""
    output_path: str | None = None
    """Where the answer to a template keeps the outputs: ``data.predictions.*.score``."""
    features: tuple[str, ...] = ()
    """Names of the inputs, for templates with records."""
    labels: tuple[str, ...] = ()
    """Names of the classes, in order, where the answers name what they score."""
    protocol: str = "auto"
    """``v2``, ``instances``, ``inputs``, or ``auto``: told from the address."""
    input_name: str | None = None
    output_name: str | None = None
    datatype: str | None = None
    """``FP64`` or ``FP32``, where the server does not tell."""
    probabilities: bool = False
    """The answers are class probabilities: take their log-odds."""


def send_headers(served: ServedModel) -> dict[str, str]:
    headers = dict(served.headers)
    if served.token_env is not None:
        token = os.environ.get(served.token_env, "").strip()
        if not token:
            raise InputError(f"the environment variable {served.token_env} holds no token; set it first")
        headers["Authorization"] = f"Bearer {token}"
    for header, value in headers.items():
        if not header.isascii() or not value.isascii() or not (header + value).isprintable():
            raise InputError(f"the header {header!r} must be printable ASCII on one line")
    return headers


def check_served(served: ServedModel) -> None:
    """Refuse options that cannot be used."""
    one_of("protocol", served.protocol, PROTOCOLS)
    if served.datatype is not None:
        one_of("datatype", served.datatype, DATATYPES)
    number("timeout", served.timeout, above=0)
    number("patience", served.patience, above=0)
    if served.requests_per_second is not None:
        number("requests_per_second", served.requests_per_second, above=0)
    whole("retries", served.retries)
    whole("batch_size", served.batch_size, 1)
    whole("concurrency", served.concurrency, 1)
    flag("probabilities", served.probabilities)
    for name in ("features", "labels"):
        value = getattr(served, name)
        if isinstance(value, str) or not all(isinstance(part, str) for part in value):
            raise InputError(f"{name}={shown(value)}: give a sequence of names")
    if served.template is None and (served.output_path is not None or served.features):
        raise InputError("output_path= and features= go with template=; without one give output_name=")
