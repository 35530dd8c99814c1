"""A real server on loopback that serves a function in every format, and misbehaves on demand."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np

from unweave.models.server import QuietHandler


class ModelServer(ThreadingHTTPServer):
    """Serves ``f`` at /v2/models/net, /v1/models/net:predict, /predict (inputs) and /instances.

    ``faults`` are used up one a request: a status, "reset", "slow", "cut" (truncated JSON), "short" (the
    connection ends inside the body), or a function that writes the whole answer. ``num_rows`` and ``sizes``
    count what was answered.
    """

    daemon_threads = True

    def __init__(self, f: Callable[[np.ndarray], np.ndarray], input_size: int, **traits: Any):
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), _Handler)
        self.f, self.input_size = f, input_size
        self.metadata: dict[str, Any] | None = traits.pop("metadata", None)
        self.datatype: str = traits.pop("datatype", "FP64")
        self.token: str | None = traits.pop("token", None)
        self.max_rows: int | None = traits.pop("max_rows", None)
        self.refusal: int = traits.pop("refusal", 413)
        self.decimals: int | None = traits.pop("decimals", None)
        self.dump: Callable[[Any], str] = traits.pop("dump", json.dumps)
        self.delay: float = traits.pop("delay", 0.0)
        assert not traits
        self.faults: deque[Any] = deque()
        self.retry_after = "0.1"
        self.num_rows = 0
        self.sizes: list[int] = []
        self.times: list[float] = []
        self.headers: list[dict[str, str]] = []
        self.ports: set[int] = set()
        self.connections: list[socket.socket] = []

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def do_GET(self):
        if self._refused():
            return
        if self.path.split("?")[0] != "/v2/models/net":
            self._reply(404, {"error": "Model not found"})
        else:
            self._reply(200, self.server.metadata or {"name": "net", "inputs": [], "outputs": []})

    def do_POST(self):
        server = self.server
        server.times.append(time.monotonic())
        server.headers.append(dict(self.headers))
        server.ports.add(self.client_address[1])
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._refused() or self._faulty():
            return
        path = self.path.split("?")[0]
        if path == "/v2/models/net/infer":
            tensor = body["inputs"][0]
            x = np.array(tensor["data"]).reshape(tensor["shape"][0], -1)
        elif path in ("/v1/models/net:predict", "/instances") and "instances" in body:
            x = np.array(body["instances"])
        elif path == "/predict" and "inputs" in body:
            x = np.array(body["inputs"])
        else:
            self._reply(422, {"detail": f"bad request to {path} with {sorted(body)}"})
            return
        if x.shape[1] != server.input_size:
            self._reply(400, {"error": f"expected {server.input_size} features"})
        elif server.max_rows is not None and len(x) > server.max_rows:
            self._reply(server.refusal, {"error": f"batch-size must be <= {server.max_rows}"})
        else:
            self._answer(path, x)

    def _answer(self, path: str, x: np.ndarray) -> None:
        server = self.server
        time.sleep(server.delay)
        y = server.f(x)
        if server.decimals is not None:
            y = np.round(y, server.decimals)
        server.num_rows += len(x)
        server.sizes.append(len(x))
        if path.startswith("/v2"):
            tensor = {"name": "y", "shape": list(y.shape), "datatype": server.datatype}
            self._reply(200, {"outputs": [{**tensor, "data": y.reshape(-1).tolist()}]})
        elif path == "/predict":
            self._reply(200, {"outputs": y.tolist()})
        else:
            self._reply(200, {"predictions": y.tolist()})

    def _refused(self) -> bool:
        token = self.server.token
        if token is None or self.headers.get("Authorization") == f"Bearer {token}":
            return False
        self._reply(401, {"error": f"bad credentials {self.headers.get('Authorization')}"})
        return True

    def _faulty(self) -> bool:
        """Misbehave once, if that was asked for."""
        if not self.server.faults:
            return False
        fault = self.server.faults.popleft()
        if fault is None:
            return False
        if fault == "reset":
            self.close_connection = True
            self.connection.close()
        elif fault == "slow":
            time.sleep(1.0)
            self.close_connection = True
        elif fault == "cut":
            self._write(200, b'{"outputs": [{"name": "y", "da')
        elif fault == "short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"outputs": [')
            self.close_connection = True
        elif isinstance(fault, int):
            self._reply(fault, {"error": "try again"})
        else:
            self._write(200, fault)
        return True

    def _reply(self, status: int, body: Any) -> None:
        self._write(status, self.server.dump(body).encode())

    def _write(self, status: int, content: bytes) -> None:
        self.send_response(status)
        if status in (429, 503):
            self.send_header("Retry-After", self.server.retry_after)
        if status in (301, 307):
            self.send_header("Location", "http://elsewhere.invalid/model?key=hunter2")
        self.send_body(content)

    def setup(self) -> None:
        QuietHandler.setup(self)
        self.server.connections.append(self.connection)


@contextmanager
def serving(f: Callable[[np.ndarray], np.ndarray], input_size: int, **traits: Any) -> Iterator[ModelServer]:
    """A server in a thread of this process, for as long as the block lasts."""
    server = ModelServer(f, input_size, **traits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        for connection in server.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()
