"""learn: arrays and files in, one Identification out; every unusable input has its own line."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave import Network, compare, learn
from unweave.certificates.base import Check, FreshRows
from unweave.certificates.certificate import Certificate
from unweave.certificates.first_layer import FirstLayerOnRows
from unweave.cli import main
from unweave.core.errors import InputError, NotIdentified, Outcome
from unweave.core.network import UNKNOWN
from unweave.evidence.kinds import Evidence
from unweave.evidence.rows import Samples
from unweave.methods.base import Finding, Problem, Serves, Traits


def _rows(sizes=(5, 5, 1), activation="relu", num_rows=250, seed=0):
    truth = random_network(sizes, activation, seed)
    x = np.random.default_rng([seed, 1]).standard_normal((num_rows, sizes[0]))
    return truth, x, truth(x)


def test_the_activation_is_found():
    for activation in ("relu", "tanh"):
        truth, x, y = _rows((6, 5, 1), activation, 300)
        found = learn(x, y)
        assert found.identified, found.verdict()
        assert compare(truth, found.network).max_relative_error < 1e-9
        assert len(found.alternatives) > 2


def test_results_repeat_and_survive_saving(tmp_path):
    _, x, y = _rows()
    first, second = learn(x, y, activation="relu", seed=3), learn(x, y, activation="relu", seed=3)
    assert first.network is not None
    assert second.network is not None
    assert np.array_equal(first.network.flat(), second.network.flat())
    again = unweave.load(first.save(tmp_path / "found.safetensors"))
    assert again.ledger == first.ledger
    assert again.ledger.unit == "rows"
    assert np.array_equal(again.details["standard_errors"], first.details["standard_errors"])


def test_the_verdict_speaks_of_rows():
    _, x, y = _rows()
    found = learn(x, y, activation="relu")
    lines = found.verdict().splitlines()
    assert lines[1].startswith("verified on 25 held-out rows: max relative error")
    assert lines[2].startswith("250 rows (6.9 a parameter): fit 225, held out 25")
    assert found.to_json()["rows_by_stage"] == {"fit": 225, "held out": 25}


def test_whitening_is_undone_in_the_weights():
    truth = random_network((4, 4, 1), "relu", 2)
    rng = np.random.default_rng(0)
    mixing = np.diag([10.0, 0.1, 1.0, 1.0]) @ (np.eye(4) + 0.3 * rng.standard_normal((4, 4)))
    mean = np.array([5.0, 0.0, -1.0, 0.0])
    shifted = Network(
        [truth.weights[0] @ np.linalg.inv(mixing.T), truth.weights[1]],
        [truth.biases[0] - truth.weights[0] @ np.linalg.inv(mixing.T) @ mean, truth.biases[1]],
        truth.activations,
    )
    x = rng.standard_normal((300, 4)) @ mixing + mean
    for moments in ({}, {"mean": mean, "covariance": mixing.T @ mixing}):
        found = learn(x, shifted(x), activation="relu", **moments)
        assert found.identified, found.verdict()
        assert compare(shifted, found.network).max_relative_error < 1e-9


def test_nan_rows_are_left_out_with_a_warning():
    truth, x, y = _rows()
    x[4, 1] = np.nan
    found = learn(x, y, activation="relu")
    assert compare(truth, found.network).max_relative_error < 1e-9
    assert "1 of 250 rows contain NaN" in found.verdict()


def test_a_constant_has_no_units():
    _, x, _ = _rows()
    found = learn(x, np.ones(len(x)))
    assert found.outcome is Outcome.NOT_IDENTIFIED
    assert "a constant has no units" in found.verdict()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden": (5,), "width": 5}, "not both"),
        ({"width": 0}, "positive"),
        ({"hidden": (2.5,)}, "whole number"),
        ({"method": "far-field"}, "unknown method 'far-field' for samples"),
        ({"activation": "sine"}, "unknown activation"),
        ({"noise": -1.0}, "noise=-1"),
        ({"held_out": 0}, "held_out=0"),
        ({"mean": np.zeros(3)}, "mean has 3 entries"),
        ({"covariance": np.eye(2)}, "covariance must be"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, words):
    _, x, y = _rows()
    with pytest.raises(InputError, match=words) as caught:
        learn(x, y, **options)
    assert "\n" not in str(caught.value)


def test_throw_raises_what_the_verdict_says():
    _, x, y = _rows(num_rows=20)
    with pytest.raises(NotIdentified, match="rows"):
        learn(x, y, activation="relu", throw=True)


@dataclass(frozen=True)
class _Recorder:
    """A method that keeps what it was given and returns the network, and wants the checks, it was told to."""

    network: Network
    seen: list
    checks: tuple = ()
    name: str = "recorder"
    serves: ClassVar[Serves] = Serves(Evidence.ROWS, gaussian=True)

    def suits(self, traits: Traits) -> str | None:
        return None

    def recover(self, samples: Samples, problem: Problem) -> Finding:
        self.seen.append((samples, problem))
        return Finding(self.network, checks=self.checks)

    def certify(self, finding: Finding, x: np.ndarray, y: np.ndarray) -> Certificate:
        """What no run asks for."""
        return Certificate(0.0, 0.0, len(x), 1e-9, 0.1, num_needed=1)


class _Always:
    """A check that is passed whatever the network."""

    def make(self, network: Network, fresh: FreshRows) -> Check:
        return Check("always", True)


def test_a_method_of_ones_own_is_judged_on_rows_it_has_not_seen():
    truth, x, y = _rows()
    seen: list = []
    assert learn(x, y, method=_Recorder(truth, seen)).identified
    samples, problem = seen[0]
    assert len(samples.x) == 225
    assert problem.activations == ()
    wrong = random_network((5, 5, 1), "relu", 99)
    found = learn(x, y, method=_Recorder(wrong, [], (_Always(),)))
    assert found.outcome is Outcome.NOT_IDENTIFIED
    assert found.certificate is not None
    assert found.certificate.check("always") == Check("always", True)


def test_a_first_layer_is_believed_as_far_as_rows_show_it():
    truth = random_network((4, 2, 1), "step", 0)
    x = np.random.default_rng(0).standard_normal((2000, 4))
    rows = truth.weights[0] / np.linalg.norm(truth.weights[0], axis=1, keepdims=True)
    y = np.any(x @ rows.T > 1.2, axis=1).astype(float)

    def outcome(rows: np.ndarray, *checks) -> Outcome:
        layer = Network([rows], [-1.2 * np.ones(2)], ["step"], UNKNOWN)
        return learn(x, y, method=_Recorder(layer, [], checks)).outcome

    generous = FirstLayerOnRows(np.zeros(1), np.ones(1), tolerance=1e9, standard_errors=np.zeros(2))
    strict = replace(generous, tolerance=1e-6)
    other = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 2)))[0].T
    assert outcome(rows, strict) is Outcome.IDENTIFIED
    assert outcome(rows) is Outcome.NOT_IDENTIFIED
    assert outcome(other, strict) is Outcome.NOT_IDENTIFIED
    assert outcome(other, generous) is not Outcome.IDENTIFIED


def test_inputs_that_are_not_gaussian_warn_methods_that_assume_it():
    truth = random_network((5, 5, 1), "relu", 0)
    x = np.random.default_rng(0).uniform(-2, 2, (600, 5))
    assert "not Gaussian" in learn(x, truth(x), method=_Recorder(truth, [])).verdict()
    found = learn(x, truth(x), activation="relu")
    assert found.identified
    assert "not Gaussian" not in found.verdict()


def test_the_command_line(tmp_path, capsys):
    truth, x, y = _rows()
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    status = main(
        [
            "learn", str(tmp_path / "rows.npz"), "--activation", "relu", "--out", str(tmp_path / "net.onnx"),
            "--json", str(tmp_path / "verdict.json"), "--save", str(tmp_path / "found.safetensors"), "--quiet",
        ]
    )  # fmt: skip
    assert status == 0
    assert capsys.readouterr().out.startswith("identified (rows.npz): 5-5-1 relu")
    assert json.loads((tmp_path / "verdict.json").read_text())["rows"] == 250
    assert compare(truth, tmp_path / "net.onnx").max_relative_error < 1e-9
    np.savez(tmp_path / "constant.npz", x=x, y=np.ones(len(x)))
    assert main(["learn", str(tmp_path / "constant.npz"), "--quiet"]) == 4
    assert main(["learn", str(tmp_path / "nothing.npz")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_labels_that_the_units_do_not_explain_are_not_claimed(seed):
    """Whether a relu network exceeds a threshold is no union of halfspaces, however few of the rows say so."""
    rng = np.random.default_rng(seed)
    w, b, a = rng.standard_normal((6, 5)), 0.5 * rng.standard_normal(6), rng.standard_normal(6)
    x = rng.standard_normal((680, 5))
    score = np.maximum(x @ w.T + b, 0) @ a
    found = unweave.learn(x, (score > np.median(score) * (1.0 if seed % 2 else 0.2)).astype(float))
    assert not found.identified
    assert found.certificate is None or found.certificate.num_points == 68
    assert found.network is None or any("contradict" in part for part in found.undetermined)


def test_a_progress_that_raises_does_not_end_learning():
    truth = random_network((3, 2, 1), "tanh", 1)
    x = np.random.default_rng(0).standard_normal((200, 3))

    def progress(*what):
        raise ValueError("no screen")

    found = learn(x, truth(x), activation="tanh", progress=progress)
    assert found.identified
    assert any("progress raised ValueError" in warning for warning in found.warnings)
