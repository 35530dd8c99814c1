"""What fails before a network comes into it: models and servers that misbehave, files that are none, rows that lie."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from hostile_models import Case, Draw, random_net, some_domain

from unweave.core.network import Network
from unweave.formats.write import export
from unweave.models.server import QuietHandler

MISBEHAVIOUR = (
    "in place",
    "raises",
    "exits",
    "slow",
    "nan",
    "complex",
    "words",
    "short",
    "none",
    "wide",
    "huge",
    "list",
    "integers",
)
REPLIES = ("error", "busy", "words", "html", "short", "nan", "cut", "reset", "elsewhere", "honest", "changes")


class Hostile:
    """A model that misbehaves after a number of questions."""

    def __init__(self, kind: str, net: Network, after: int):
        self.kind, self.net, self.after, self.asked = kind, net, after, 0

    def __call__(self, x: np.ndarray) -> Any:
        self.asked += len(x)
        y = self.net(x)
        if self.kind == "in place":
            x *= 0
            return y
        if self.asked < self.after:
            return y
        if self.kind == "raises":
            raise ConnectionError("gone\naway")
        if self.kind == "exits":
            raise MemoryError
        if self.kind == "slow":
            time.sleep(0.05)
            return y
        wrong = {
            "nan": y * np.nan,
            "complex": y * 1j,
            "words": [["no"]] * len(x),
            "short": y[:-1],
            "none": None,
            "wide": np.hstack([y, y]),
            "huge": y * 1e300,
            "list": y.tolist(),
            "integers": np.round(y).astype(int),
        }
        return wrong[self.kind]


def hostile(rng: Draw) -> Case:
    kind, net = str(rng.choice(MISBEHAVIOUR)), random_net(rng, str(rng.choice(["tanh", "relu"])))
    model = Hostile(kind, net, int(rng.choice([1, 2, 30, 60, 300])))
    honest, domain = kind in ("in place", "slow", "list"), some_domain(rng, net.input_size)
    return Case("hostile", kind, model, net.input_size, domain, is_network=honest, clean=net)


class Served(ThreadingHTTPServer):
    """Answers POST {"inputs": [[...]]} with {"outputs": [[...]]} until it misbehaves; counts what it was asked."""

    daemon_threads = True

    def __init__(self, net: Network, kind: str = "honest", after: int = 0, delay: float = 0.0):
        ThreadingHTTPServer.__init__(self, ("127.0.0.1", 0), _Handler)
        self.net, self.kind, self.after, self.delay = net, kind, after, delay
        self.seen: list[np.ndarray] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/predict"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def num_rows(self) -> int:
        return sum(map(len, self.seen))

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(QuietHandler):
    server: Served

    def do_POST(self) -> None:
        server = self.server
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        x = np.array(asked.get("inputs", []), dtype=float)
        if x.ndim != 2 or x.shape[1] != server.net.input_size:
            self.send_error(422)
            return
        server.seen.append(x)
        time.sleep(server.delay)
        y = server.net(x)
        kind = server.kind if server.num_rows > server.after else "honest"
        answers: Any = {"outputs": (1.001 * y if kind == "changes" else y).tolist()}
        body, status = json.dumps(answers).encode(), 200
        if kind == "words":
            body = b'{"outputs": [["no"]]}'
        elif kind == "html":
            body = b"<html>Bad gateway</html>"
        elif kind == "short":
            body = json.dumps({"outputs": y.tolist()[:-1]}).encode()
        elif kind == "nan":
            body = json.dumps({"outputs": (y * np.nan).tolist()}).encode()
        elif kind == "cut":
            body = body[: len(body) // 2]
        elif kind == "reset":
            self.close_connection = True
            self.connection.close()
            return
        status = {"error": 500, "busy": 429, "elsewhere": 307}.get(kind, 200)
        self.send_response(status)
        if kind == "busy":
            self.send_header("Retry-After", "0.05")
        if kind == "elsewhere":
            self.send_header("Location", "http://elsewhere.invalid/")
        self.send_body(body)


def served(rng: Draw) -> Case:
    """A server on loopback that stops being one."""
    net, kind = random_net(rng, str(rng.choice(["tanh", "relu"]))), str(rng.choice(REPLIES))
    server = Served(net, kind, int(rng.choice([0, 1, 40, 120, 400])))
    settled = kind == "changes" and server.after <= 1  # before anything is learnt of it

    def clean(x):
        return (1.001 if settled else 1.0) * net(x)

    return Case(
        "server",
        kind,
        server.url,
        net.input_size,
        some_domain(rng, net.input_size),
        is_network=settled or kind == "honest",
        clean=clean,
        close=server.end,
        seen=server.seen,
    )


def bad_file(rng: Draw) -> Case:
    kind = str(rng.choice([".npz", ".safetensors", ".onnx", ".pkl", ".pt", ".txt", ".csv", ".json"]))
    net = random_net(rng, "tanh")
    with tempfile.NamedTemporaryFile(suffix=kind, delete=False) as file:
        path = Path(file.name)
    if kind in (".npz", ".safetensors"):
        export(net, path)
        content = bytearray(path.read_bytes())
    else:
        content = bytearray(rng.integers(0, 256, size=600, dtype=np.uint8).tobytes())
    how = str(rng.choice(["cut", "flip", "empty", "noise"]))
    if how == "cut":
        content = content[: int(rng.integers(1, len(content)))]
    elif how == "flip":
        for at in rng.integers(len(content), size=int(rng.integers(1, 30))):
            content[at] ^= int(rng.integers(1, 256))
    elif how == "empty":
        content = bytearray()
    path.write_bytes(bytes(content))
    return Case("bad file", f"{kind} {how}", path, None, close=lambda: path.unlink(missing_ok=True))


def recorded(rng: Draw) -> Case:
    """Rows of a network, of noise around it, of labels, or of what is no network."""
    kind = str(rng.choice(["exact", "noisy", "labels", "square", "constant", "few", "nan", "twice"]))
    net = random_net(rng, str(rng.choice(["tanh", "relu", "gelu", "elu", "softplus"])))
    d, count = net.input_size, 12 if kind == "few" else int(rng.integers(300, 900))
    x = rng.standard_normal((count, d))
    y, level = net(x), 10 ** rng.uniform(-5, -1.5)
    if kind == "noisy":
        y = y + level * rng.standard_normal(y.shape)
    elif kind == "labels":
        y = (y[:, :1] > np.median(y[:, 0])).astype(float)
    elif kind == "square":
        y = np.sum(x**2, axis=1, keepdims=True) + 0.1 * np.prod(x, axis=1, keepdims=True)
    elif kind == "constant":
        y = np.ones((count, 1))
    elif kind == "nan":
        y = np.where(rng.random(y.shape) < 0.1, np.nan, y)
    elif kind == "twice":  # the same inputs with other answers
        x, y = np.vstack([x, x[: count // 3]]), np.vstack([y, y[: count // 3] + 0.1])
    known = kind in ("exact", "noisy", "few", "nan")
    tolerance = max(0.3, 100 * level) if kind == "noisy" else 1e-3 if known else 1e-6
    name = f"{kind}, {net.describe()}, {count} rows"
    clean = net if known else None
    return Case("rows", name, None, d, is_network=known, tolerance=tolerance, clean=clean, rows=(x, y))
