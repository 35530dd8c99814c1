"""Requests to a server that may be slow, busy or flaky: sent again a bounded number of times, never for ever.

Connections are reused. A request that times out, is cut off, or is answered with 408, 425, 429 or a 5xx status
is sent again after a growing pause, or after the pause the server asks for (``Retry-After``), until ``retries``
or ``patience`` is used up. Every other refusal ends at once, in one line that names the remedy. What was given
as a secret (header values, user and password, values in the query of the address) is blotted out of every
message and of the log records of the HTTP library.
"""

from __future__ import annotations

import base64
import email.utils
import json
import logging
import re
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from unweave.core import clock
from unweave.core.deadline import held
from unweave.core.errors import InputError, MissingExtra, OracleError

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 30.0
_FIRST_CONTACT = 2
"""Retries while the server has never answered at all."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Refused(OracleError):
    """The server understood the request and refused it.

    ``status`` is what it answered with, ``splits`` whether a smaller batch may pass.
    """

    splits: bool

    def __init__(self, message: str, status: int, *, splits: bool = True):
        Exception.__init__(self, message)
        self.status = status
        self.splits = splits and status in (400, 413, 422)


@dataclass
class Address:
    """A parsed address: where to send, what to show, and what must never be shown."""

    origin: str
    path: str
    query: str = field(repr=False)
    user: tuple[str, str] | None = field(repr=False)

    @property
    def shown(self) -> str:
        """The address without user, password and query."""
        return self.origin + self.path

    @property
    def secrets(self) -> list[str]:
        """Everything in the address that may be a key or a password, as written and decoded."""
        values = [part.partition("=")[2] or part for part in self.query.split("&")]
        if self.user is not None:
            values += [*self.user, base64.b64encode(":".join(self.user).encode()).decode()]
        return [*values, *(unquote_plus(value) for value in values)]

    def url(self, path: str) -> str:
        return f"{self.origin}{path}{'?' + self.query if self.query else ''}"


def parse_address(url: str) -> Address:
    """The parts of an http address; an unusable one is refused without repeating it."""
    httpx = _httpx()
    try:
        parts = httpx.URL(url.strip())
    except (httpx.InvalidURL, TypeError):
        raise InputError("the address cannot be read; give http://host:port/v2/models/NAME") from None
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InputError("the address must begin with http:// or https:// and name a host")
    host = f"[{parts.host}]" if ":" in parts.host else parts.host
    origin = f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port is not None else "")
    user = (parts.username, parts.password) if parts.userinfo else None
    return Address(origin, parts.path.rstrip("/"), parts.query.decode("ascii"), user)


class Transport:
    """One server, asked with JSON over reused connections.

    ``num_repeats`` counts the requests that had to be sent again.
    """

    num_repeats: int

    def __init__(
        self,
        address: Address,
        *,
        headers: Mapping[str, str],
        timeout: float,
        retries: int,
        patience: float,
        requests_per_second: float | None,
    ):
        httpx = _httpx()
        self.address = address
        self.num_repeats = 0
        self._errors = httpx.TransportError
        self._timeouts = httpx.TimeoutException
        self._retries, self._patience, self._timeout = retries, patience, timeout
        self._interval = 0.0 if requests_per_second is None else 1.0 / requests_per_second
        self._next = 0.0
        self._reached = False
        secrets = [*address.secrets, *(word for value in headers.values() for word in value.split())]
        self._secrets = sorted({s for s in secrets if len(s) >= 4 and s != "Bearer"}, key=len, reverse=True)
        self._client = httpx.Client(
            headers={"Accept": "application/json", **headers},
            auth=None if any(name.lower() == "authorization" for name in headers) else address.user,
            timeout=timeout,
            mounts={f"all://{host}": None for host in _LOOPBACK},  # no proxy stands between us and ourselves
        )
        weakref.finalize(self, self._client.close)

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None, self._retries)

    def post(self, path: str, body: Any, *, once: bool = False) -> Any:
        """The parsed answer to ``body``; with ``once`` nothing is sent again."""
        content = json.dumps(body, allow_nan=False).encode()
        return self._ask("POST", path, content, 0 if once else self._retries)

    def redact(self, text: str) -> str:
        """``text`` in one line, with every secret blotted out."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split())

    def _ask(self, method: str, path: str, body: bytes | None, retries: int) -> Any:
        with clock.waiting():
            return self._ask_patiently(method, path, body, retries)

    def _ask_patiently(self, method: str, path: str, body: bytes | None, retries: int) -> Any:
        """The parsed answer to one request, sent again while that may help."""
        deadline = time.monotonic() + min(self._patience, held().grace)
        for attempt in range(retries + 1):
            wanted = 0.0
            self._keep_rate()
            try:
                response, content = self._send(method, path, body, deadline)
                if response.status_code not in BUSY:
                    self._refuse(response, content, path)
                    return self._parse(content)
                trouble = f"answered {_status(response, content)}"
                wanted = _retry_after(response.headers.get("Retry-After"))
            except self._timeouts:
                waited = min(self._timeout, held().seconds)
                trouble = f"did not answer within {waited:g} s (a longer timeout= or a smaller batch_size=?)"
            except self._errors as error:
                if not self._reached:  # a wrong address is likelier than a server that comes up just now
                    retries = min(retries, _FIRST_CONTACT)
                trouble = f"cannot be reached or hung up ({type(error).__name__}: {error})"
            except ValueError as error:
                trouble = f"answered with broken JSON ({error})"
            pause = max(wanted, min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE))
            if attempt >= retries or time.monotonic() + pause > deadline:
                break
            self.num_repeats += 1
            time.sleep(pause)
        asks = f", asks to wait {wanted:.0f} s" if wanted else ""
        tries = f"{attempt + 1} time{'s' if attempt else ''}"
        raise OracleError(
            self.redact(
                f"{self.address.shown} {trouble}{asks} (asked {tries}); check that the server is up and takes "
                f"these questions, and run again"
            )
        )

    def _send(self, method: str, path: str, body: bytes | None, deadline: float) -> tuple[Any, bytes]:
        """One request and the whole body of its answer, which may not trickle in beyond the deadline."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        log, blotter = logging.getLogger("httpx"), _Blotter(self.redact)
        log.addFilter(blotter)
        try:
            url = self.address.url(path)
            timeout = min(self._timeout, max(deadline - time.monotonic(), 1e-3))
            with self._client.stream(method, url, content=body, headers=headers, timeout=timeout) as response:
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if time.monotonic() > deadline:
                        raise self._timeouts("the answer trickles in too slowly")
                self._reached = True
                return response, bytes(content)
        finally:
            log.removeFilter(blotter)

    def _keep_rate(self) -> None:
        now = time.monotonic()
        if now < self._next:
            time.sleep(self._next - now)
        self._next = max(now, self._next) + self._interval

    def _refuse(self, response: Any, content: bytes, path: str) -> None:
        """Raise unless the request succeeded."""
        if response.is_success:
            return
        status, said = response.status_code, _status(response, content)
        where = self.address.origin + path
        if response.is_redirect:
            target = response.headers.get("Location", "").split("?")[0]
            message = f"{where} redirects to {target}; give that address"
        elif status in (401, 403, 407):
            message = f"{where} refuses us ({said}); name the variable that holds a token: token_env='NAME'"
        elif status in (404, 405):
            message = f"{where} is not served ({said}); check the model's name and the path"
        elif status in (400, 422) and (span := named_range(content.decode(errors="replace"))) is not None:
            message = (
                f"{where} takes inputs of a range only ({said}); ask inside it: domain=unweave.Box({span})"
            )
            raise Refused(self.redact(message), status, splits=False)
        elif status == 413:
            message = f"{where} finds even one question too large ({said}); raise the server's limit"
        else:
            message = (
                f"{where} refuses the questions ({said}); check input_size=, the input's name and datatype"
            )
        raise Refused(self.redact(message), status)

    def _parse(self, content: bytes) -> Any:
        def refuse(word: str) -> float:
            raise OracleError(
                f"{self.address.shown} answered {word}, which is no number; restrict domain=, to less than now"
            )

        return json.loads(content, parse_constant=refuse)


class _Blotter(logging.Filter):
    """Redacts log records; httpx writes whole addresses at level INFO."""

    def __init__(self, redact: Callable[[str], str]):
        logging.Filter.__init__(self)
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redact(record.getMessage()), None
        return True


def named_range(text: str) -> str | None:
    """The range that a refusal names, ``LOW, HIGH``; a side it does not name stays a word.

    "between 0 and 1", "in [-1, 1]", and what FastAPI says: "greater than or equal to 0", "less than 1".
    """
    number = r"(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
    for words in (rf"between {number} and {number}", rf"\[\s*{number}\s*,\s*{number}\s*\]"):
        found = re.search(words, text)
        if found and float(found[1]) < float(found[2]):
            return f"{found[1]}, {found[2]}"
    about = r"(?:inputs?|values?|features?)\b[^.\"']{0,40}?"
    low = re.search(
        rf"{about}(?:greater than (?:or equal to )?|>=? ?|at least ){number}", text, re.IGNORECASE
    )
    high = re.search(rf"{about}(?:less than (?:or equal to )?|<=? ?|at most ){number}", text, re.IGNORECASE)
    sides = [found[1] if found else word for found, word in ((low, "LOW"), (high, "HIGH"))]
    return None if sides == ["LOW", "HIGH"] else ", ".join(sides)


def _status(response: Any, content: bytes) -> str:
    """The status of an answer and what the server gives as its reason, shortened."""
    text = content.decode(errors="replace")
    try:
        body = json.loads(text)
        text = next(str(body[key]) for key in ("error", "detail", "message") if key in body)
    except (ValueError, TypeError, StopIteration):
        text = re.sub(r"<[^>]*>", " ", text)
    if text.startswith("Traceback"):
        text = text.strip().splitlines()[-1]
    text = " ".join(text.split())
    reason = f"{response.status_code} {response.reason_phrase}"
    return f"{reason}: {text[:160]}" if text and text != response.reason_phrase else reason


def _retry_after(value: str | None) -> float:
    """Seconds to wait, given as a number or as a date; 0 where it says nothing."""
    if value is None:
        return 0.0
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra("httpx", "http") from error
    return httpx
