"""Served models: every format, a server that fails in every way, and secrets that never show."""

from __future__ import annotations

import json
import logging
import time

import numpy as np
import pytest

import unweave
from models.http_server import serving
from truth import random_network
from unweave.cli import main
from unweave.core.domains import Ball, Box
from unweave.core.errors import InputError, OracleError
from unweave.evidence.meter import Meter
from unweave.models.http_formats import restore_float32
from unweave.models.http_model import ServedModel, from_url
from unweave.models.resolve import resolve, resolve_network

NETWORK = random_network((3, 4, 2))
POINTS = np.random.default_rng(5).standard_normal((50, 3))


def described(shape=(-1, 3), datatype="FP64", num_inputs=1) -> dict:
    tensors = [{"name": f"x{i}", "shape": list(shape), "datatype": datatype} for i in range(num_inputs)]
    return {"name": "net", "inputs": tensors, "outputs": []}


@pytest.fixture
def no_pause(monkeypatch):
    """Retries without their pauses."""
    monkeypatch.setattr("unweave.models.http_transport._FIRST_PAUSE", 0.001)


@pytest.mark.parametrize(
    ("path", "probes"),
    [
        ("/v2/models/net", 1),
        ("/v2/models/net/infer", 1),
        ("/v1/models/net", 4),
        ("/predict", 4),
        ("/instances/", 4),
    ],
)
def test_every_format_answers_in_full_precision_over_one_connection(path, probes):
    with serving(NETWORK, 3) as server:
        oracle = resolve(server.origin + path, input_size=3)
        assert (oracle.input_size, oracle.output_size, oracle.dtype) == (3, 2, "float64")
        assert oracle.name == server.origin + path.rstrip("/")
        for size in (1, 50):
            assert np.array_equal(oracle(POINTS[:size]), NETWORK(POINTS[:size]))
        assert server.num_rows == 51 + probes
        assert len(server.ports) == 1
        meter = Meter(oracle)
        assert np.array_equal(meter.ask(POINTS), NETWORK(POINTS))


def test_metadata_tell_sizes_names_and_float32():
    def f(x):
        assert np.array_equal(x, x.astype(np.float32))
        return NETWORK(x).astype(np.float32)

    with serving(f, 3, metadata=described(datatype="FP32"), datatype="FP32") as server:
        oracle = from_url(server.origin + "/v2/models/net")
        assert (oracle.input_size, oracle.dtype, oracle.probes) == (3, "float32", 1)
        assert np.array_equal(Meter(oracle).ask(POINTS), f(POINTS.astype(np.float32).astype(np.float64)))
    with serving(NETWORK, 6, metadata=described((-1, 2, 3))) as server:
        server.f = random_network((6, 4, 2))
        oracle = from_url(server.origin + "/v2/models/net")
        assert oracle.input_size == 6
        assert oracle(np.ones((5, 6))).shape == (5, 2)
    with serving(NETWORK, 3, metadata=described((8, 3))) as server:
        oracle = from_url(server.origin + "/v2/models/net")
        assert np.array_equal(oracle(POINTS), NETWORK(POINTS))
        assert set(server.sizes) == {8}


@pytest.mark.parametrize("refusal", [413, 400])
def test_batches_shrink_to_what_the_server_takes(refusal):
    with serving(NETWORK, 3, max_rows=7, refusal=refusal) as server:
        oracle = from_url(ServedModel(server.origin + "/v2/models/net", batch_size=40), input_size=3)
        pieces = list(oracle.answer_in_pieces(POINTS))
        assert np.array_equal(np.concatenate(pieces), NETWORK(POINTS))
        assert len(pieces) == 10
        assert server.num_rows == 51


@pytest.mark.parametrize(
    "fault", [500, 502, 503, 429, 408, "reset", "slow", "cut", "short", b"<html>busy</html>"]
)
@pytest.mark.usefixtures("no_pause")
def test_a_flaky_server_is_asked_again(fault):
    with serving(NETWORK, 3) as server:
        oracle = from_url(ServedModel(server.origin + "/v2/models/net", timeout=0.3), input_size=3)
        server.faults.extend([fault, None, fault, fault, None])
        for rows in (POINTS[:3], POINTS[3:]):
            assert np.array_equal(oracle(rows), NETWORK(rows))
        assert server.num_rows == 51
        assert oracle.notes == ("3 requests had to be sent again",)


def test_retry_after_is_kept_and_bounded():
    with serving(NETWORK, 3) as server:
        oracle = from_url(ServedModel(server.origin + "/v2/models/net", patience=5), input_size=3)
        server.retry_after = "0.6"
        server.faults.append(429)
        began = time.monotonic()
        oracle(POINTS)
        assert 0.6 <= time.monotonic() - began < 4
        for wanted in ("3600", "Fri, 31 Dec 2199 23:59:59 GMT"):
            server.retry_after = wanted
            server.faults.append(503)
            began = time.monotonic()
            with pytest.raises(OracleError, match=r"answered 503 .* asks to wait \d+ s \(asked 1 time\)"):
                oracle(POINTS)
            assert time.monotonic() - began < 2


@pytest.mark.usefixtures("no_pause")
def test_retries_end():
    with serving(NETWORK, 3) as server:
        oracle = from_url(ServedModel(server.origin + "/v2/models/net", retries=3), input_size=3)
        server.faults.extend([500] * 4)
        with pytest.raises(OracleError, match=r"500 Internal Server Error: try again \(asked 4 times\)"):
            oracle(POINTS)
        assert np.array_equal(oracle(POINTS), NETWORK(POINTS))
        gone = server.origin
    with pytest.raises(OracleError, match=r"cannot be reached .* check that the server is up"):
        oracle(POINTS)
    with pytest.raises(OracleError, match=r"cannot be reached .*asked 3 times"):
        from_url(gone + "/v2/models/net", input_size=3)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_first_requests_carry_no_more_rows_than_asked_for(batch_size):
    with serving(NETWORK, 3, max_rows=batch_size, refusal=500) as server:
        served = ServedModel(server.origin + "/predict", batch_size=batch_size, retries=0)
        oracle = from_url(served, input_size=3)
        assert server.sizes[0] == 1
        assert max(server.sizes) <= batch_size
        assert (oracle.probes, server.num_rows) == (4, 4)


def test_a_server_that_breaks_on_several_rows_is_asked_one_by_one():
    with serving(NETWORK, 3, max_rows=1, refusal=500) as server:
        oracle = from_url(ServedModel(server.origin + "/predict", retries=0), input_size=3)
        assert np.allclose(oracle(POINTS), NETWORK(POINTS), rtol=1e-13)
        assert set(server.sizes) == {1}


def test_float32_answers_mean_float32_questions():
    """Whole doubles that are float32 numbers, as ``tolist`` of a float32 array writes them."""

    def f(x):
        return NETWORK(x.astype(np.float32)).astype(np.float32).astype(np.float64)

    asked = []

    def noting(x):
        asked.append(x)
        return f(x)

    with serving(noting, 3) as server:
        assert from_url(server.origin + "/predict", input_size=3).dtype == "float32"
        asked.clear()
        unweave.identify(server.origin + "/predict", input_size=3, budget=200)
        later = np.concatenate(asked[2:])  # the first four show the precision
        assert np.array_equal(later, later.astype(np.float32))
        assert (
            from_url(ServedModel(server.origin + "/predict", datatype="FP64"), input_size=3).dtype
            == "float64"
        )


def test_a_served_model_has_a_budget_unless_told_otherwise(capsys, monkeypatch):
    with serving(NETWORK, 3) as server:
        address = server.origin + "/predict"
        found = unweave.identify(address, input_size=3)
        assert found.ledger.budget == 10_000
        assert "of 10,000" in found.verdict()
        assert unweave.identify(address, input_size=3, budget=None).ledger.budget is None
        assert unweave.identify(address, input_size=3, budget=2_000).ledger.budget == 2_000
        assert unweave.identify(NETWORK, input_size=3).ledger.budget is None
        assert main(["identify", address, "--input-size", "3", "--budget", "none"]) == 0
        assert " of " not in capsys.readouterr().out.splitlines()[2].split(":")[0]
        monkeypatch.setattr("unweave.run.asked.DEFAULT_BUDGET", 60)
        assert main(["identify", address, "--input-size", "3"]) == 4
        assert "60 queries are the default budget of a served model: --budget allows more, --budget none" in (
            capsys.readouterr().out
        )


def test_a_rate_is_kept():
    with serving(NETWORK, 3) as server:
        served = ServedModel(server.origin + "/v2/models/net", requests_per_second=20, batch_size=10)
        from_url(served, input_size=3)(POINTS)
        assert len(server.times) == 6
        assert server.times[-1] - server.times[0] >= 0.24


def answers(text: str) -> bytes:
    return text.encode()


@pytest.mark.parametrize(
    ("path", "answer", "message"),
    [
        (
            "/v2/models/net",
            '{"outputs": [{"name": "y", "datatype": "FP64", "data": [NaN, 1]}]}',
            "NaN.*domain=",
        ),
        (
            "/v2/models/net",
            '{"outputs": [{"name": "y", "datatype": "FP64", "data": [null, 1]}]}',
            "null.*domain=",
        ),
        ("/v2/models/net", '{"outputs": [{"name": "y", "datatype": "INT64", "data": [1]}]}', "INT64.*labels"),
        (
            "/v2/models/net",
            '{"outputs": [{"name": "a", "data": [1]}, {"name": "b", "data": [1]}]}',
            "a, b; name",
        ),
        ("/v2/models/net", '{"predictions": [[1]]}', "is it a v2 server"),
        ("/v1/models/net", '{"predictions": [["cat", "dog"]]}', "not answer with numbers but with .*cat"),
        ("/v1/models/net", '{"predictions": [[1.0], [2.0]]}', "1 questions with shape"),
        ("/v1/models/net", '{"predictions": [[1.0], [1, 2]]}', "different lengths"),
        ("/v1/models/net", '{"scores": [[1.0]]}', "answers with scores.*output_name="),
        ("/v1/models/net", '{"predictions": [-Infinity, 1, 1, 1]}', "-Infinity"),
    ],
)
def test_answers_that_are_no_numbers_are_named(path, answer, message):
    with serving(NETWORK, 3) as server:
        server.faults.append(answers(answer))
        with pytest.raises(OracleError, match=message):
            from_url(server.origin + path, input_size=3)


@pytest.mark.usefixtures("no_pause")
def test_what_cannot_work_is_refused_in_one_line():
    with serving(NETWORK, 3, metadata=described()) as server:
        url = server.origin + "/v2/models/net"
        cases = [
            (server.origin + "/v2/models/other", {}, OracleError, "not served.*Model not found.*name"),
            (url, {"input_size": 4}, InputError, "input_size=4 does not fit"),
            (ServedModel(url, input_name="z"), {}, InputError, "no input 'z'; it has x0"),
            (ServedModel(url, protocol="grpc"), {}, InputError, "give one of auto, v2"),
            (ServedModel(url, timeout=0), {}, InputError, "positive"),
            (ServedModel(url, token_env="UNWEAVE_NO_SUCH"), {}, InputError, "UNWEAVE_NO_SUCH holds no token"),
            (server.origin + "/predict", {}, InputError, "does not say how many inputs"),
            (server.origin + "/predict", {"input_size": 5}, OracleError, "expected 3 features.*input_size"),
            ("http://", {}, InputError, "name a host"),
            ("http://exa mple:x/", {}, InputError, "cannot be read"),
        ]
        for model, sizes, kind, message in cases:
            with pytest.raises(kind, match=message) as caught:
                resolve(model, **sizes)
            assert "\n" not in str(caught.value)
        server.metadata = described(num_inputs=2)
        with pytest.raises(InputError, match="takes 2 inputs"):
            resolve(url)
        server.metadata = described(datatype="INT64")
        with pytest.raises(InputError, match="takes INT64 inputs"):
            resolve(url)
        with pytest.raises(InputError, match="identify it first"):
            resolve_network(url)
        server.metadata = described()
        server.faults.append(307)
        with pytest.raises(OracleError, match=r"redirects to http://elsewhere.invalid/model; give that"):
            resolve(url)


def test_the_probe_stays_in_the_domain():
    def f(x):
        assert np.all((x >= 2) & (x <= 3))
        return NETWORK(x)

    with serving(f, 3) as server:
        assert resolve(server.origin + "/predict", input_size=3, domain=Box(2, 3)).output_size == 2


def test_shortest_float32_digits_are_float32_numbers():
    rng = np.random.default_rng(0)
    single = rng.standard_normal((40, 2)).astype(np.float32)
    sent = np.array([float(str(value)) for value in single.reshape(-1)]).reshape(40, 2)
    assert not np.array_equal(sent, single)
    assert np.array_equal(restore_float32(sent), single)
    for values in (
        rng.standard_normal((40, 2)),
        np.round(rng.standard_normal((40, 2)), 5),
        single.astype(float),
    ):
        assert restore_float32(values) is values


def test_a_classifier_is_identified_through_its_probabilities():
    def f(x):
        logits = NETWORK(x)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    with serving(f, 3) as server:
        served = ServedModel(server.origin + "/v1/models/net", probabilities=True)
        oracle = from_url(served, input_size=3)
        logits = NETWORK(POINTS)
        assert oracle.output_size == 1
        assert np.allclose(oracle(POINTS)[:, 0], logits[:, 1] - logits[:, 0], atol=1e-13)
        assert "log-odds" in oracle.notes[0]


SECRET = "hunter2-very-secret"


def test_secrets_never_show(tmp_path, monkeypatch, caplog):
    """Neither in names, results, reports, journals, logs nor errors."""
    monkeypatch.setenv("UNWEAVE_TEST_TOKEN", SECRET)
    network = random_network((3, 4, 1))
    caplog.set_level(logging.DEBUG)
    journal, saved, page = tmp_path / "run.journal", tmp_path / "found.safetensors", tmp_path / "page.html"
    with serving(network, 3, token=SECRET) as server:
        address = server.origin.replace("http://", f"http://user:{SECRET}@") + f"/v2/models/net?key={SECRET}"
        served = ServedModel(address, token_env="UNWEAVE_TEST_TOKEN", headers={"X-Key": SECRET})
        found = unweave.identify(served, input_size=3, journal=journal)
        assert found.identified
        assert server.headers[-1]["X-Key"] == SECRET
        found.save(saved)
        found.report(page)
        monkeypatch.setenv("UNWEAVE_TEST_TOKEN", f"wrong-{SECRET}")
        with pytest.raises(OracleError, match=r"refuses us.*token_env=") as caught:
            resolve(served, input_size=3)
        assert "bad credentials" in str(caught.value)
        with pytest.raises(OracleError) as away:
            resolve(address.replace(str(server.server_address[1]), "1"), input_size=3)
    assert "HTTP Request" in caplog.text
    texts = [repr(served), str(caught.value), str(away.value), caplog.text, found.verdict(), repr(found)]
    texts += [json.dumps(found.to_json()), page.read_text(), repr(found.details)]
    for file in tmp_path.iterdir():
        texts.append(file.read_bytes().decode("latin-1"))
    assert not [text for text in texts if SECRET in text]


def test_a_plain_address_with_a_key_is_kept_out_of_the_result():
    with serving(random_network((3, 4, 1)), 3) as server:
        found = unweave.identify(f"{server.origin}/predict?key={SECRET}", input_size=3)
    assert found.identified
    assert SECRET not in repr(found) + json.dumps(found.to_json())


@pytest.mark.parametrize("decimals", [6, 3])
def test_rounded_answers_are_called_rounded_and_still_give_the_network_away(decimals):
    network = random_network((5, 6, 1), seed=2)
    with serving(network, 5, decimals=decimals) as server:
        found = unweave.identify(server.origin + "/predict", input_size=5, domain=Ball(4.0))
    assert found.identified, found.verdict()
    assert found.precision is not None
    assert found.precision.kind == "rounded"
    assert "answers are rounded" in found.verdict()
    error = unweave.compare(network, found.network).max_relative_error
    assert 1e-9 < error < 5 * 10.0**-decimals


def test_answers_rounded_to_a_decimal_are_not_called_identified():
    with serving(random_network((5, 6, 1), seed=2), 5, decimals=1) as server:
        found = unweave.identify(server.origin + "/predict", input_size=5, domain=Ball(4.0), budget=3000)
    assert not found.identified


def test_the_command_line_passes_headers_and_names_missing_ones(monkeypatch, capsys):
    monkeypatch.setenv("UNWEAVE_TEST_TOKEN", SECRET)
    with serving(random_network((3, 4, 1)), 3, token=SECRET, metadata=described()) as server:
        url = server.origin + "/v2/models/net"
        options = ["--token-env", "UNWEAVE_TEST_TOKEN", "--header", "X-A: env:UNWEAVE_TEST_TOKEN"]
        assert main(["identify", url, *options, "--header", "X-B: two words", "--batch-size", "64"]) == 0
        assert max(server.sizes) <= 64
        assert server.headers[-1]["X-A"] == SECRET
        assert server.headers[-1]["X-B"] == "two words"
        assert SECRET not in capsys.readouterr().out
        for bad, message in [
            (["--header", SECRET], 'write "Name: value"'),
            (["--header", "X-A: env:UNWEAVE_NO_SUCH"], "UNWEAVE_NO_SUCH is empty"),
            (["--protocol", "grpc"], "give one of auto, v2"),
            ([], "401 Unauthorized"),
        ]:
            assert main(["identify", url, *bad]) == 2
            shown = capsys.readouterr().err
            assert message in shown
            assert SECRET not in shown
            assert shown.count("\n") == 1
    assert main(["identify", "model.onnx", "--rate", "3"]) == 2
    assert "no http address" in capsys.readouterr().err


def test_waiting_for_a_server_keeps_to_the_time_limit_of_the_run():
    with serving(lambda x: x[:, :1], 3) as server:
        server.faults.extend([500] * 50)
        began = time.monotonic()
        with pytest.raises(OracleError, match="asked"):
            unweave.identify(f"{server.origin}/predict", input_size=3, time_limit=1.0)
        assert time.monotonic() - began < 5.0  # its own patience is a minute
