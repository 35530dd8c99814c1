"""Models served by MLServer, a production server of the Open Inference Protocol, on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier, MLPRegressor

import unweave
from unweave.cli import main
from unweave.core.errors import OracleError
from unweave.models.resolve import resolve

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 13), reason="MLServer has no release for this Python")


def _train() -> dict:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    options = {"activation": "tanh", "solver": "lbfgs", "max_iter": 10_000, "alpha": 1e-2, "random_state": 0}
    regressor = MLPRegressor(hidden_layer_sizes=(5,), **options).fit(x, np.sin(x[:, 0]) + x[:, 1] * x[:, 2])
    classifier = MLPClassifier(hidden_layer_sizes=(4,), **{**options, "alpha": 0.3})
    return {"regressor": regressor, "classifier": classifier.fit(x, x[:, 0] + x[:, 1] ** 2 > 0.5)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def models() -> dict:
    return _train()


@pytest.fixture(scope="module")
def origin(models, tmp_path_factory):
    """The address of a running MLServer."""
    folder = tmp_path_factory.mktemp("mlserver")
    port = _free_port()
    settings = {"host": "127.0.0.1", "http_port": port, "grpc_port": _free_port(), "parallel_workers": 0}
    (folder / "settings.json").write_text(json.dumps({**settings, "metrics_endpoint": None}))
    for name, model in models.items():
        (folder / name).mkdir()
        joblib.dump(model, folder / name / "model.joblib")
        described = {"name": name, "implementation": "mlserver_sklearn.SKLearnModel"}
        described["parameters"] = {"uri": "./model.joblib"}
        (folder / name / "model-settings.json").write_text(json.dumps(described))
    with (folder / "log.txt").open("w") as log:
        command = [str(Path(sys.executable).parent / "mlserver"), "start", str(folder)]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)
    try:
        for name in models:
            _wait(server, f"http://127.0.0.1:{port}/v2/models/{name}/ready", folder / "log.txt")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def _wait(server: subprocess.Popen, address: str, log: Path) -> None:
    for _ in range(240):
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-2000:])


def test_a_served_regressor_is_identified_and_resumed(origin, models, tmp_path):
    address, journal = f"{origin}/v2/models/regressor", tmp_path / "run.journal"
    found = unweave.identify(address, input_size=4, journal=journal)
    assert found.identified
    assert found.precision is not None
    assert found.precision.kind == "float64"
    assert unweave.compare(models["regressor"], found.network).max_relative_error < 1e-8
    again = unweave.identify(address, input_size=4, journal=journal)
    assert again.identified
    assert again.ledger.total - again.ledger.replayed == 5


def test_a_served_classifier_is_identified_by_its_probabilities(origin, models):
    served = unweave.ServedModel(
        f"{origin}/v2/models/classifier", output_name="predict_proba", probabilities=True
    )
    found = unweave.identify(served, input_size=4, domain=unweave.Ball(2.0))
    assert found.identified
    assert unweave.compare(models["classifier"], found.network).max_relative_error < 1e-4
    assert "log-odds" in found.verdict()
    with pytest.raises(OracleError, match=r"BOOL .*output_name= .*predict_proba"):
        resolve(f"{origin}/v2/models/classifier", input_size=4)


def test_the_command_line_names_what_is_wrong(origin, capsys):
    assert main(["identify", f"{origin}/v2/models/nobody", "--input-size", "4"]) == 2
    assert "is not served (404 Not Found: Model nobody not found)" in capsys.readouterr().err
    assert main(["identify", f"{origin}/v2/models/regressor"]) == 2
    assert "does not say how many inputs it takes; pass --input-size" in capsys.readouterr().err
    assert main(["identify", f"{origin}/v2/models/regressor", "--input-size", "7", "--retries", "1"]) == 2
    said = capsys.readouterr().err
    assert "500 Internal Server Error: ValueError: X has 7 features, but MLPRegressor is expecting 4" in said
    assert "(asked 2 times); check that the server is up and takes these questions" in said
