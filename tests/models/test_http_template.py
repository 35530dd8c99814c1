"""Endpoints of any JSON shape, on a real FastAPI server: templates, paths, one row a request, several at a time."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Annotated

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

import unweave
from truth import random_network
from unweave.cli import main
from unweave.core.errors import InputError, OracleError
from unweave.models.http_model import ServedModel, from_url
from unweave.models.http_template import parse_template
from unweave.models.http_transport import named_range

NETWORK = random_network((3, 4, 2))
THREE = random_network((3, 4, 3), seed=1)
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

    @app.post("/bounded")
    def bounded(body: Bounded):
        return NETWORK(np.array(body.rows)).tolist()

    @app.post("/scores")
    def scores(body: dict):
        pairs = [
            [{"label": label, "score": float(p)} for label, p in zip("abc", row, strict=True)]
            for row in _probabilities(np.array(body["rows"]))
        ]
        return [sorted(row, key=lambda pair: -pair["score"]) for row in pairs]

    @app.post("/best")
    def best(body: dict):
        return [row[0] for row in scores(body)]

    @app.post("/words")
    def words(body: dict):
        return [row["label"] for row in best(body)]

    @app.post("/best-of-two")
    def best_of_two(body: dict):
        p = 1 / (1 + np.exp(-NETWORK(np.array(body["rows"]))[:, 0]))
        return [{"label": "yes" if q > 0.5 else "no", "score": float(max(q, 1 - q))} for q in p]

    return app


class Bounded(BaseModel):
    rows: list[list[Annotated[float, Field(ge=-1, le=1)]]]


def _probabilities(x: np.ndarray) -> np.ndarray:
    logits = 2 * THREE(x)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


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
    with pytest.raises(OracleError, match=r"domain=unweave.Box\(-1, 1\)"):
        oracle(2 + X)


@pytest.mark.parametrize(
    ("said", "span"),
    [
        ("inputs must be between 0 and 1", "0, 1"),
        ("every value in [-2.5, 1e3]", "-2.5, 1e3"),
        ('[{"msg": "Input should be less than or equal to 1"}]', "LOW, 1"),
        ('[{"msg": "Input should be greater than -1"}, {"msg": "Input should be less than 2"}]', "-1, 2"),
        ("batch-size must be <= 7", None),
        ("List should have at most 7 items after validation", None),
        ("expected 3 features", None),
    ],
)
def test_ranges_are_read_from_refusals(said, span):
    assert named_range(said) == span


def test_a_validated_field_suggests_the_box_on_the_command_line(server, capsys):
    """FastAPI's own refusal of a field with bounds."""
    address, _ = server
    options = ["--template", '{"rows": "$rows"}', "--input-size", "3"]
    assert main(["identify", address + "/bounded", *options]) == 2
    assert re.search("--box (LOW|-1),(HIGH|1)", capsys.readouterr().err)


def test_labels_with_scores_become_columns(server):
    """All classes, sorted by score as text classifiers answer; the order of columns is that of first appearance."""
    address, _ = server
    oracle = from_url(ServedModel(address + "/scores", template={"rows": "$rows"}), input_size=3)
    answers = oracle(X)
    assert np.allclose(np.sort(answers, axis=1), np.sort(_probabilities(X), axis=1), rtol=1e-13)
    named = ServedModel(address + "/scores", template={"rows": "$rows"}, labels=("a", "b", "c"))
    assert np.allclose(from_url(named, input_size=3)(X), _probabilities(X), rtol=1e-13)
    with pytest.raises(OracleError, match=r"label not seen before, '[abc]'.*labels=\('x', '[abc]'\)"):
        from_url(ServedModel(address + "/scores", template={"rows": "$rows"}, labels=("x",)), input_size=3)


def test_one_label_with_its_score_tells_both_of_two_classes(server):
    address, _ = server
    model = ServedModel(address + "/best-of-two", template={"rows": "$rows"}, labels=("no", "yes"))
    p = 1 / (1 + np.exp(-NETWORK(X)[:, 0]))
    assert np.allclose(from_url(model, input_size=3)(X), np.column_stack([1 - p, p]), rtol=1e-12)


def test_the_best_label_of_many_is_refused_with_the_remedy(server):
    address, _ = server
    model = ServedModel(address + "/best", template={"rows": "$rows"}, labels=("a", "b", "c"))
    found = unweave.identify(model, input_size=3)
    assert not found.identified
    assert "only the 1 largest of 3 outputs are answered" in found.reason
    words = ServedModel(address + "/words", template={"rows": "$rows"})
    assert "the answers are labels" in unweave.identify(words, input_size=3).reason


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
