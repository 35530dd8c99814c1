"""A model of one's own behind an address, with and without defences, asked by the client that identify uses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from truth import random_network
from unweave.core.errors import InputError, OracleError
from unweave.models.defended import Defence, Defended, parse_defence
from unweave.models.resolve import resolve
from unweave.models.server import served

NETWORK = random_network((3, 4, 2))
X = np.random.default_rng(0).standard_normal((9, 3))


def test_a_served_model_answers_as_the_model():
    with served(resolve(NETWORK), "mine") as server:
        oracle = resolve(server.address)
        assert (oracle.input_size, oracle.output_size, oracle.dtype) == (3, 2, "float64")
        assert np.array_equal(oracle(X), NETWORK(X))
        assert server.num_rows == len(X) + oracle.probes


def test_bad_requests_are_refused_in_one_line():
    with served(resolve(NETWORK), "mine") as server:
        with pytest.raises(OracleError, match="not served"):
            resolve(server.address + "x", input_size=3)
        with pytest.raises(InputError, match="input_size=7"):
            resolve(server.address, input_size=7)


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("none", lambda y: np.array_equal(y, NETWORK(X))),
        ("float32", lambda y: np.array_equal(y, NETWORK(X).astype(np.float32))),
        ("decimals=2", lambda y: np.array_equal(y, np.round(NETWORK(X), 2))),
        ("noise=0.01", lambda y: 1e-4 < np.std(y - NETWORK(X)) < 0.1),
        ("clip=0.1", lambda y: np.max(np.abs(y)) == 0.1),
        ("top=1", lambda y: np.all(np.count_nonzero(y, axis=1) == 1)),
        ("labels", lambda y: set(np.unique(y)) <= {0.0, 1.0} and y.shape == (9, 1)),
    ],
)
def test_every_defence_does_what_it_says(text, check):
    oracle = Defended(resolve(NETWORK), parse_defence(text))
    assert check(oracle(X))
    assert np.array_equal(oracle(X), oracle(X))


@pytest.mark.parametrize("text", ["fog", "decimals", "decimals=x", "labels=3", "noise=-1"])
def test_defences_that_make_no_sense_are_refused(text):
    with pytest.raises(InputError, match="defence"):
        parse_defence(text)


def test_a_defence_is_written_as_it_is_read():
    assert parse_defence(str(Defence("noise", 1e-3))) == Defence("noise", 1e-3)


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    from unweave.exports import export

    path = export(NETWORK, tmp_path / "mine.safetensors")
    command = [sys.executable, "-m", "unweave", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = re.search(r"http://\S+?/v2/models/mine", line)
        assert address is not None, line
        assert np.array_equal(resolve(address[0])(X), NETWORK(X))
        process.send_signal(signal.SIGINT)
        assert "rows" in process.stderr.read()
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
