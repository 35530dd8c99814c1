"""Endpoints of any JSON shape, on a real FastAPI server: templates, paths, one row a request, several at a time."""

from __future__ import annotations

import socket
import threading
import time

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI, HTTPException, Request

from truth import random_network
from unweave.core.errors import InputError, OracleError
from unweave.models.http_model import ServedModel, from_url
from unweave.models.http_template import parse_template

NETWORK = random_network((3, 4, 2))
X = np.random.default_rng(1).uniform(-1, 1, (11, 3))


def _app() -> FastAPI:
    app = FastAPI()
    app.state.under_way, app.state.most = 0, 0

    @app.post("/one")
    async def one(request: Request):
        record = (await request.json())["features"]
        if not all(-1 <= value <= 1 for value in record.values()):
            raise HTTPException(422, "inputs must be between -1 and 1")
        scores = NETWORK(np.array([[record[name] for name in ("a", "b", "c")]]))[0]
        return {"result": {"label": int(scores.argmax()), "scores": scores.tolist()}}

    @app.post("/many")
    def many(body: dict):
        app.state.under_way += 1
        app.state.most = max(app.state.most, app.state.under_way)
        time.sleep(0.02)
        rows = np.array(body["payload"]["rows"])
        app.state.under_way -= 1
        return [{"score": {"value": float(v[0])}} for v in NETWORK(rows)]

    return app


@pytest.fixture(scope="module")
def server():
    app = _app()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        runner = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=runner.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not runner.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", app
        runner.should_exit = True
        thread.join()


def test_named_features_one_row_at_a_time(server):
    address, _ = server
    model = ServedModel(
        address + "/one",
        template={"features": "$record", "version": 2},
        output_path="result.scores",
        features=("a", "b", "c"),
    )
    oracle = from_url(model, domain=_box())
    assert (oracle.input_size, oracle.output_size) == (3, 2)
    assert np.allclose(oracle(X), NETWORK(X), rtol=1e-13)


def test_nested_answers_and_several_requests_under_way(server):
    address, app = server
    template = '{"payload": {"rows": "$rows"}}'
    model = ServedModel(
        address + "/many", template=template, output_path="*.score.value", batch_size=2, concurrency=4
    )
    oracle = from_url(model, input_size=3)
    assert np.allclose(oracle(X), NETWORK(X)[:, :1], rtol=1e-13)
    assert 1 < app.state.most <= 4


def test_a_refusal_that_names_a_range_suggests_the_box(server):
    address, _ = server
    model = ServedModel(
        address + "/one",
        template={"features": "$record"},
        output_path="result.scores",
        features=("a", "b", "c"),
    )
    oracle = from_url(model, domain=_box())
    with pytest.raises(OracleError, match="--box -1,1"):
        oracle(2 + X)


def test_a_path_that_leads_nowhere_names_what_is_there(server):
    address, _ = server
    model = ServedModel(
        address + "/one", template={"features": "$record"}, output_path="scores", features=("a", "b", "c")
    )
    with pytest.raises(OracleError, match="answers with result, not with 'scores'"):
        from_url(model, domain=_box())


@pytest.mark.parametrize(
    ("template", "words"),
    [('{"rows": ', "no JSON"), ({"rows": []}, "exactly one of"), ({"a": "$record"}, "names of the inputs")],
)
def test_templates_that_cannot_be_filled_are_refused(template, words):
    with pytest.raises(InputError, match=words):
        parse_template(template, "/", None, ())


def _box():
    from unweave import Box

    return Box(-1, 1)
