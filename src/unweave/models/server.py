"""A model behind an address on this machine, in the Open Inference Protocol v2: to try an attack on oneself.

``GET /v2/models/NAME`` describes the model, ``POST /v2/models/NAME/infer`` answers, ``GET /v2/health/ready`` says that
it is up. Only the loopback interface is bound; there is no other state than the number of rows answered.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from unweave.core.errors import UnweaveError
from unweave.core.oracle import Oracle
from unweave.version import __version__

LARGEST_BODY = 64 * 2**20


class ModelServer(ThreadingHTTPServer):
    """An oracle served as ``/v2/models/NAME``; ``num_rows`` counts what was answered."""

    lock: threading.Lock

    oracle: Oracle
    name: str
    num_rows: int

    daemon_threads = True

    def __init__(self, oracle: Oracle, name: str, port: int = 0):
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", port), _Handler)
        self.oracle, self.name = oracle, name
        self.num_rows = 0
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v2/models/{self.name}"

    def describe(self) -> dict[str, Any]:
        datatype = "FP64" if self.oracle.dtype == "float64" else "FP32"
        tensor = {"datatype": datatype}
        return {
            "name": self.name,
            "platform": "unweave",
            "inputs": [{"name": "input-0", "shape": [-1, self.oracle.input_size], **tensor}],
            "outputs": [{"name": "output-0", "shape": [-1, self.oracle.output_size], **tensor}],
        }

    def answer(self, request: Any) -> dict[str, Any]:
        """The answer to an inference request; ``ValueError`` says what is wrong with it."""
        try:
            tensor = request["inputs"][0]
            x = np.asarray(tensor["data"], dtype=np.float64).reshape(-1, self.oracle.input_size)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"want one tensor with rows of {self.oracle.input_size} numbers") from error
        with self.lock:  # models need not be thread-safe
            y = self.oracle(x)
            self.num_rows += len(x)
        described = self.describe()["outputs"][0]
        output = {**described, "shape": list(y.shape), "data": y.reshape(-1).tolist()}
        return {"model_name": self.name, "outputs": [output]}


class QuietHandler(BaseHTTPRequestHandler):
    """Logs nothing, and takes it calmly that a client hangs up."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the command shows how much was answered."""

    def handle(self) -> None:
        try:
            BaseHTTPRequestHandler.handle(self)
        except (ConnectionError, ValueError):
            self.close_connection = True

    def finish(self) -> None:
        try:
            BaseHTTPRequestHandler.finish(self)
        except (ConnectionError, ValueError):
            self.close_connection = True

    def send_body(self, content: bytes) -> None:
        """The rest of an answer whose status and other headers are written: JSON, or what passes for it."""
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    server_version = f"unweave/{__version__}"
    server: ModelServer

    def do_GET(self) -> None:
        if self.path in ("/v2/health/ready", "/v2/health/live"):
            self._send(200, {"ready": True})
        elif self.path == f"/v2/models/{self.server.name}":
            self._send(200, self.server.describe())
        else:
            self._send(404, {"error": f"there is only /v2/models/{self.server.name}"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            self.close_connection = True
            self._send(413, {"error": f"want a body of at most {LARGEST_BODY} bytes"})
            return
        body = self.rfile.read(int(length))
        if self.path != f"/v2/models/{self.server.name}/infer":
            self._send(404, {"error": f"there is only /v2/models/{self.server.name}/infer"})
            return
        try:
            answer = self.server.answer(json.loads(body))
        except (ValueError, UnweaveError) as error:
            self._send(400, {"error": " ".join(str(error).split())})
            return
        if not all(math.isfinite(value) for value in answer["outputs"][0]["data"]):
            self._send(400, {"error": "the model answers with NaN or infinity there"})
            return
        self._send(200, answer)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_body(json.dumps(body).encode())


@contextmanager
def served(oracle: Oracle, name: str = "model", port: int = 0) -> Iterator[ModelServer]:
    """The oracle behind an address for as long as the block lasts."""
    server = ModelServer(oracle, name, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
