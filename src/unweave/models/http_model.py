"""Served models as oracles: an address that answers f(x) over HTTP.

``/v2/models/NAME`` is asked in the Open Inference Protocol v2, ``/v1/models/NAME`` as TensorFlow Serving and
KServe v1, any other address with plain rows of JSON, or in the shape a template gives. Batches larger than the
server accepts are halved until they pass; several requests may be under way at once. Every piece is handed on as soon
as it is answered, so that a journal loses none of it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from unweave.core.domains import Domain
from unweave.core.errors import InputError, OracleError
from unweave.evidence.data import Data
from unweave.models import log_odds
from unweave.models.http_formats import Described, Format, Rows, Tensors, are_float32, read_metadata
from unweave.models.http_scores import Labels, labels_of
from unweave.models.http_served import ServedModel, check_served, send_headers
from unweave.models.http_template import Template, parse_template
from unweave.models.http_transport import Refused, Transport, parse_address
from unweave.models.python_callable import as_matrix, check_size

__all__ = ["HttpOracle", "ServedModel", "from_url"]

_NUM_PROBES = 4
"""Points asked of a server that states no datatype: enough to tell float32 from float64 by their digits."""
_NUM_LABELLED = 16
"""Points asked of a server that names one label a row: enough to meet the common ones."""


class HttpOracle:
    """A server as an oracle; ``probes`` are the questions asked to learn its number of outputs."""

    output_size: int
    dtype: str
    probes: int

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
        if not error.splits or len(piece) == 1 or self._fixed is not None:
            raise error
        self._batch_size = min(self._batch_size, (len(piece) + 1) // 2)

    def probe(
        self, points: np.ndarray, datatype: str | None, forms: Sequence[Format], labels: Labels
    ) -> None:
        """Ask the first questions: how many outputs there are, and in which precision they come.

        The first request carries one row, whatever the server takes. ``forms`` are the formats it may want, likeliest
        first; ``labels`` numbers what answers are named by.
        """
        self._form = forms[0]
        if self._fixed is None and isinstance(forms[0], Template) and not forms[0].takes_many:
            self._batch_size = 1
        raw = [self._first_answer(points[:1], forms)]
        points = points if labels.single else points[:_NUM_PROBES]
        raw += self._few_more(points[1:])
        labels.closed = True
        width = max(answer.shape[1] for answer in raw)  # later answers may have named further labels
        answers = [np.pad(answer, ((0, 0), (0, width - answer.shape[1]))) for answer in raw]
        values = np.concatenate(answers)
        single = datatype == "FP32" or (
            datatype is None and (values.dtype == np.float32 or are_float32(values))
        )
        self.dtype = "float32" if single else "float64"
        self.output_size = self._as_outputs(values).shape[1]
        self.probes = len(points)

    def _first_answer(self, point: np.ndarray, forms: Sequence[Format]) -> np.ndarray:
        """The answer in the first format that is understood; each is tried once, then the likeliest with patience."""
        for self._form in forms if len(forms) > 1 else ():
            try:
                return self._send(point, once=True)
            except OracleError:
                continue
        self._form = forms[0]
        return self._send(point)

    def _few_more(self, points: np.ndarray) -> list[np.ndarray]:
        """Answers to some rows at once; one by one where the server does not take several."""
        if not len(points):
            return []
        if self._batch_size > 1:
            try:
                return [self._send(points[: self._batch_size]), *self._few_more(points[self._batch_size :])]
            except OracleError:
                self._batch_size = 1
        return [self._send(points[i : i + 1]) for i in range(len(points))]

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
    check_served(served)
    address = parse_address(served.url)
    name = address.shown
    transport = Transport(
        address,
        headers=send_headers(served),
        timeout=served.timeout,
        retries=served.retries,
        patience=served.patience,
        requests_per_second=served.requests_per_second,
    )
    labels = labels_of(served.labels)
    forms, described = _choose_formats(served, transport, name, labels)
    size = input_size if described.input_size is None else described.input_size
    if size is None:
        raise InputError(f"{name} does not say how many inputs it takes; pass input_size=...")
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
    num_points = 1 if datatype is not None or isinstance(forms[0], Tensors) else _NUM_LABELLED
    rng = np.random.default_rng(0)
    if domain is None:
        points = rng.standard_normal((num_points, size))
    else:
        points = domain.sample(num_points, size, rng)
        points = points if points.dtype == object else np.asarray(points, dtype=np.float64)
    if datatype == "FP32":
        points = points.astype(np.float32).astype(np.float64)
    oracle.probe(points, datatype, forms, labels)
    check_size(name, "output_size", output_size, oracle.output_size)
    return oracle


def _choose_formats(
    served: ServedModel, transport: Transport, name: str, labels: Labels
) -> tuple[tuple[Format, ...], Described]:
    """How to talk to the server, likeliest first, and what it says about its input."""
    path, protocol = transport.address.path, served.protocol
    if served.template is not None:
        return (
            parse_template(served.template, path, served.output_path, served.features, labels),
        ), Described(shape=(len(served.features),) if served.features else None)
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
    return tuple(Rows(path or "/", key, served.output_name, labels) for key in keys), Described()


def _describe(transport: Transport, base: str, name: str, input_name: str | None) -> Described:
    try:
        metadata = transport.get(base)
    except Refused as error:
        if error.status in (401, 403, 404):
            raise
        metadata = None
    return read_metadata(metadata, name, input_name)


def _both_classes(probabilities: np.ndarray) -> np.ndarray:
    """Probabilities of every class; a single column is that of the second of two."""
    if np.any((probabilities < 0) | (probabilities > 1)):
        raise OracleError("the answers are no probabilities (outside 0..1); leave out probabilities=True")
    if probabilities.shape[1] == 1:
        return np.concatenate([1 - probabilities, probabilities], axis=1)
    return probabilities
