"""The result of a run: five lines, JSON keys, and a save file that brings everything back."""

from __future__ import annotations

import json

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.certificates.certificate import Certificate
from unweave.core.errors import ExportError, InputError, Outcome
from unweave.core.network import Network
from unweave.evidence.ledger import Ledger
from unweave.evidence.precision import Precision
from unweave.exports import load_network
from unweave.result import Identification, load

JSON_KEYS = {
    "outcome",
    "identified",
    "method",
    "activation",
    "hidden",
    "queries",
    "queries_by_stage",
    "parameters",
    "certificate",
    "seconds",
    "warnings",
}


def _result(**changes) -> Identification:
    fields = {
        "outcome": Outcome.IDENTIFIED,
        "network": random_network((5, 6, 3, 2), "sigmoid", seed=1),
        "certificate": Certificate(3.1e-14, 2e-15, 200, 1e-9, 0.0149, condition=float("inf")),
        "ledger": Ledger(1000, {"circle": 70, "secants": 30}),
        "method": "far field",
        "method_reason": "the model saturates",
        "warnings": ("log-odds stand in for logits.",),
        "alternatives": {"tanh": 1e-15, "erf": np.float64(3e-3), "relu": float("inf")},
        "precision": Precision(1e-16, 1.0, "float64"),
        "seconds": 1.25,
        "seed": 7,
        "model_name": "model.onnx",
        "details": {
            "spectrum": np.arange(4.0),
            "ranks": [np.int64(3), (1, 2)],
            "curves": {"a": np.ones((2, 3), np.float32)},
            "odd": object,
        },
    }
    return Identification(**{**fields, **changes})


def test_the_verdict_has_five_lines():
    lines = _result().verdict().splitlines()
    assert len(lines) == 5
    assert lines[0] == "identified (model.onnx): 5-6-3-2 sigmoid, 65 parameters"
    assert lines[1] == (
        "verified on 200 fresh queries: max relative error 3.1e-14, rms 2.0e-15; "
        "larger on at most 1.5 % of the domain (95 % confidence); answers are float64"
    )
    assert lines[2] == "100 queries of 1,000 (1.5 a parameter): circle 70, secants 30; 1.2 s"
    assert lines[3].startswith("method far field: the model saturates; residuals tanh 1.0e-15, erf 3.0e-03")
    assert "order of hidden units" in lines[4]
    assert "log-odds" in lines[4]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"network": None, "outcome": Outcome.NOT_IDENTIFIED, "reason": "two\nlines\n\nof reason"},
        {"certificate": None, "precision": None},
        {"certificate": Certificate(0.0, 0.0, 0, 1e-9, 1.0), "outcome": Outcome.PARTLY},
        {"outcome": Outcome.PARTLY, "undetermined": tuple(f"unit {i}: sign" for i in range(9))},
        {
            "network": None,
            "outcome": Outcome.NOT_IDENTIFIED,
            "warnings": (),
            "ledger": Ledger(),
            "method": "",
        },
        {"network": Network([[[1.0, 2.0]]], [[0.5]], ["identity"]), "model_name": "a\nb"},
    ],
)
def test_every_verdict_has_five_full_lines(changes):
    lines = _result(**changes).verdict().split("\n")
    assert len(lines) == 5
    assert all(lines)


def test_the_last_line_names_reason_and_what_is_open():
    result = _result(
        outcome=Outcome.PARTLY, reason="unit 3 never moves; widen the domain", undetermined=("unit 3: bias",)
    )
    last = result.verdict().splitlines()[-1]
    assert last.startswith("unit 3 never moves; widen the domain; undetermined: unit 3: bias")


def test_json_is_strict_and_has_the_agreed_keys():
    record = _result().to_json()
    assert record.keys() >= JSON_KEYS
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["alternatives"]["relu"] is None
    assert (record["certificate"]["num_points"], record["certificate"]["condition"]) == (200, None)
    assert (record["hidden"], record["activation"], record["parameters"]) == ([6, 3], "sigmoid", 65)
    empty = _result(network=None, outcome=Outcome.NOT_IDENTIFIED).to_json()
    assert (empty["identified"], empty["hidden"], empty["parameters"]) == (False, None, None)


def test_save_and_load_bring_everything_back(tmp_path):
    result = _result()
    again = load(result.save(tmp_path / "r.safetensors"))
    assert again.verdict() == result.verdict()
    assert again.to_json() == result.to_json()
    assert again.alternatives["relu"] == float("inf")
    assert again.certificate == result.certificate
    assert np.array_equal(again.network.flat(), result.network.flat())
    assert np.array_equal(again.details["spectrum"], np.arange(4.0))
    assert again.details["curves"]["a"].dtype == np.float32
    assert again.details["ranks"] == [3, [1, 2]]
    assert unweave.load is load


def test_a_saved_result_is_a_saved_network(tmp_path):
    result = _result()
    network = load_network(result.save(tmp_path / "r.safetensors"))
    assert np.array_equal(network.flat(), result.network.flat())


def test_a_result_without_a_network(tmp_path):
    result = _result(network=None, outcome=Outcome.NOT_IDENTIFIED, reason="a tree; use a smooth model")
    path = result.save(tmp_path / "r.safetensors")
    assert load(path).network is None
    with pytest.raises(InputError, match="holds no network"):
        load_network(path)
    with pytest.raises(ExportError, match="a tree"):
        result.export(tmp_path / "n.onnx")


def test_export_writes_the_network(tmp_path):
    result = _result()
    assert np.array_equal(load_network(result.export(tmp_path / "n.npz")).flat(), result.network.flat())


def test_bad_files_are_refused_in_one_line(tmp_path):
    result = _result()
    with pytest.raises(ExportError, match="safetensors"):
        result.save(tmp_path / "r.json")
    network = result.export(tmp_path / "n.safetensors")
    with pytest.raises(InputError, match="without its identification"):
        load(network)
    saved = result.save(tmp_path / "r.safetensors")
    saved.write_bytes(saved.read_bytes()[:-9])
    with pytest.raises(InputError) as caught:
        load(saved)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "nothing.safetensors")


def test_a_damaged_record_is_refused(tmp_path):
    from unweave.formats.native import save_tensors

    for record in ("nonsense", "{}", '{"outcome": "perhaps"}'):
        save_tensors(tmp_path / "r.safetensors", {}, {"identification": record})
        with pytest.raises(InputError, match="damaged"):
            load(tmp_path / "r.safetensors")
