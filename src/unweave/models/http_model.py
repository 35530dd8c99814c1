"""Served models as oracles: an address that answers f(x) over HTTP.

``/v2/models/NAME`` is asked in the Open Inference Protocol v2, ``/v1/models/NAME`` as TensorFlow Serving and
KServe v1, any other address with plain rows of JSON, or in the shape a template gives. Batches larger than the
server accepts are halved until they pass; several requests may be under way at once. Every piece is handed on as soon
as it is answered, so that a journal loses none of it.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unweave.core.domains import Domain
from unweave.core.errors import InputError, OracleError
from unweave.evidence.data import Data
from unweave.models import log_odds
from unweave.models.http_formats import DATATYPES, Described, Format, Rows, Tensors, read_metadata
from unweave.models.http_template import Template, parse_template
from unweave.models.http_transport import Refused, Transport, parse_address
from unweave.models.python_callable import as_matrix, check_size

PROTOCOLS = ("auto", "v2", "instances", "inputs")
_TOO_MUCH = frozenset({400, 413, 422})
"""Refusals after which a smaller batch may pass."""
_NUM_PROBES = 4
"""Points asked of a server that states no datatype: enough to tell float32 from float64 by their digits."""


@dataclass(frozen=True)
class ServedModel:
    """A model behind an address, with what is needed to ask it; pass it to ``identify`` in place of the model.

    Secrets belong into ``headers`` or, better, into an environment variable that ``token_env`` names: its value
    is sent as ``Authorization: Bearer ...``. They appear in no name, message, journal or report.
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
    protocol: str = "auto"
    """``v2``, ``instances``, ``inputs``, or ``auto``: told from the address."""
    input_name: str | None = None
    output_name: str | None = None
    datatype: str | None = None
    """``FP64`` or ``FP32``, where the server does not tell."""
    probabilities: bool = False
    """The answers are class probabilities: take their log-odds."""


class HttpOracle:
    """A server as an oracle; ``probes`` are the questions asked to learn its number of outputs."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        input_size: int,
        *,
        batch_size: int,
        fixed_batch: int | None,
        probabilities: bool,
        concurrency: int = 1,
    ):
        self.name = name
        self.input_size = input_size
        self.output_size = 0
        self.dtype = "float64"
        self.notes: tuple[str, ...] = ()
        self.probes = 0
        self._transport = transport
        self._form: Format = Rows("/")
        self._batch_size, self._fixed = fixed_batch or batch_size, fixed_batch
        self._probabilities = probabilities
        self._concurrency = concurrency

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate(list(self.answer_in_pieces(x)))

    def answer_in_pieces(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """Answers to the rows of ``x`` in order, a request at a time; the next ones are already under way."""
        if self._concurrency == 1:
            yield from self._one_by_one(x)
            return
        with ThreadPoolExecutor(self._concurrency) as pool:
            waiting: deque[tuple[np.ndarray, Future[np.ndarray]]] = deque()
            start = 0
            try:
                while waiting or start < len(x):
                    while start < len(x) and len(waiting) < self._concurrency:
                        piece = x[start : start + self._batch_size]
                        waiting.append((piece, pool.submit(self._send, piece)))
                        start += len(piece)
                    piece, answer = waiting.popleft()
                    try:
                        yield self._as_outputs(answer.result())
                    except Refused as error:
                        self._smaller(piece, error)
                        yield from self._one_by_one(piece)
            finally:
                for _, answer in waiting:
                    answer.cancel()

    def _one_by_one(self, x: np.ndarray) -> Iterator[np.ndarray]:
        start = 0
        while start < len(x):
            piece = x[start : start + self._batch_size]
            try:
                yield self._as_outputs(self._send(piece))
            except Refused as error:
                self._smaller(piece, error)
                continue
            start += len(piece)

    def _smaller(self, piece: np.ndarray, error: Refused) -> None:
        """Half as many rows a request from now on, unless that cannot be why the server refused."""
        if error.status not in _TOO_MUCH or len(piece) == 1 or self._fixed is not None:
            raise error
        self._batch_size = min(self._batch_size, (len(piece) + 1) // 2)

    def probe(self, points: np.ndarray, datatype: str | None, forms: Sequence[Format]) -> None:
        """Ask the first questions: how many outputs there are, and in which precision they come.

        ``forms`` are the formats the server may want, likeliest first.
        """
        self._form = forms[0]
        if self._fixed is None and isinstance(forms[0], Template) and not forms[0].takes_many:
            self._batch_size = 1
        size = self._batch_size
        pieces = [points[i : i + size] for i in range(0, len(points), size)]
        raw = self._first_answers(pieces[0], forms)
        raw = np.concatenate([raw, *(self._send(piece) for piece in pieces[1:])])
        single = raw.dtype == np.float32 if datatype is None else datatype == "FP32"
        self.dtype = "float32" if single else "float64"
        self.output_size = self._as_outputs(raw).shape[1]
        self.probes = len(points)

    def _first_answers(self, points: np.ndarray, forms: Sequence[Format]) -> np.ndarray:
        """Answers in the first format that is understood; each is tried once, then the likeliest with patience."""
        for self._form in forms if len(forms) > 1 else ():
            try:
                return self._send(points, once=True)
            except OracleError:
                continue
        self._form = forms[0]
        try:
            return self._send(points)
        except Refused as error:
            self._smaller(points, error)
        return np.concatenate([self._send(points[i : i + 1]) for i in range(len(points))])

    def _send(self, x: np.ndarray, *, once: bool = False) -> np.ndarray:
        """Raw answers to one request."""
        num_rows = len(x)
        if self._fixed is not None:
            x = np.concatenate([x, np.repeat(x[-1:], self._fixed - num_rows, axis=0)])
        answer = self._transport.post(self._form.path, self._form.write(x), once=once)
        self._take_notes()
        return self._form.read(answer, len(x), self.name)[:num_rows]

    def _take_notes(self) -> None:
        notes = []
        if self._probabilities:
            notes.append(log_odds.note(2 if self.output_size == 1 else self.output_size))
        if self._transport.num_repeats:
            notes.append(f"{self._transport.num_repeats} requests had to be sent again")
        self.notes = tuple(notes)

    def _as_outputs(self, raw: np.ndarray) -> np.ndarray:
        values = as_matrix(raw, len(raw), self.name)
        return log_odds.from_probabilities(_both_classes(values)) if self._probabilities else values


def from_url(
    model: str | ServedModel,
    *,
    input_size: int | None = None,
    output_size: int | None = None,
    domain: Domain | Data | None = None,
) -> HttpOracle:
    """An oracle for a served model: reads its metadata where there are any, and asks one to four questions."""
    served = ServedModel(model) if isinstance(model, str) else model
    _check(served)
    address = parse_address(served.url)
    name = address.shown
    transport = Transport(
        address,
        headers=_headers(served),
        timeout=served.timeout,
        retries=served.retries,
        patience=served.patience,
        requests_per_second=served.requests_per_second,
    )
    forms, described = _choose_formats(served, transport, name)
    size = input_size if described.input_size is None else described.input_size
    if size is None:
        raise InputError(f"{name} does not say how many inputs it takes; pass input_size=... (--input-size)")
    check_size(name, "input_size", input_size, size)
    oracle = HttpOracle(
        name,
        transport,
        size,
        batch_size=served.batch_size,
        fixed_batch=described.batch_size,
        probabilities=served.probabilities,
        concurrency=served.concurrency,
    )
    datatype = served.datatype or described.datatype
    num_points = 1 if datatype is not None or isinstance(forms[0], Tensors) else _NUM_PROBES
    rng = np.random.default_rng(0)
    if domain is None:
        points = rng.standard_normal((num_points, size))
    else:
        points = domain.sample(num_points, size, rng)
        points = points if points.dtype == object else np.asarray(points, dtype=np.float64)
    if datatype == "FP32":
        points = points.astype(np.float32).astype(np.float64)
    oracle.probe(points, datatype, forms)
    check_size(name, "output_size", output_size, oracle.output_size)
    return oracle


def _choose_formats(
    served: ServedModel, transport: Transport, name: str
) -> tuple[tuple[Format, ...], Described]:
    """How to talk to the server, likeliest first, and what it says about its input."""
    path, protocol = transport.address.path, served.protocol
    if served.template is not None:
        return (parse_template(served.template, path, served.output_path, served.features),), Described(
            shape=(len(served.features),) if served.features else None
        )
    if protocol == "v2" or (protocol == "auto" and re.search(r"/v2/models/[^/]+", path)):
        base = path.removesuffix("/infer")
        described = _describe(transport, base, name, served.input_name)
        form = Tensors(
            base + "/infer",
            described.input_name or "input-0",
            served.datatype or described.datatype or "FP64",
            described.shape or (),
            served.output_name,
        )
        return (form,), described
    if protocol == "auto" and re.search(r"/v1/models/[^/]+", path):
        path, protocol = path.removesuffix(":predict") + ":predict", "instances"
    keys = ("inputs", "instances") if protocol == "auto" else (protocol,)
    if served.input_name is not None:
        keys = (served.input_name,)
    return tuple(Rows(path or "/", key, served.output_name) for key in keys), Described()


def _describe(transport: Transport, base: str, name: str, input_name: str | None) -> Described:
    try:
        metadata = transport.get(base)
    except Refused as error:
        if error.status in (401, 403, 404):
            raise
        metadata = None
    return read_metadata(metadata, name, input_name)


def _headers(served: ServedModel) -> dict[str, str]:
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


def _check(served: ServedModel) -> None:
    if served.protocol not in PROTOCOLS:
        raise InputError(f"protocol={served.protocol!r}: give one of {', '.join(PROTOCOLS)}")
    if served.datatype is not None and served.datatype not in DATATYPES:
        raise InputError(f"datatype={served.datatype!r}: give FP64 or FP32")
    rate = served.requests_per_second
    for what, value in (("timeout", served.timeout), ("patience", served.patience), ("rate", rate)):
        if value is not None and not value > 0:
            raise InputError(f"{what}={value}: give a positive number")
    if served.retries < 0 or served.batch_size < 1 or served.concurrency < 1:
        raise InputError(
            f"retries={served.retries}, batch_size={served.batch_size}, concurrency={served.concurrency}: give at "
            f"least 0 retries, 1 row and 1 request"
        )
    if served.template is None and (served.output_path is not None or served.features):
        raise InputError("output_path and features go with a template; without one give output_name")


def _both_classes(probabilities: np.ndarray) -> np.ndarray:
    """Probabilities of every class; a single column is that of the second of two."""
    if np.any((probabilities < 0) | (probabilities > 1)):
        raise OracleError("the answers are no probabilities (outside 0..1); leave out --probabilities")
    if probabilities.shape[1] == 1:
        return np.concatenate([1 - probabilities, probabilities], axis=1)
    return probabilities
