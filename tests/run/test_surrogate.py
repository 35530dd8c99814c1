"""A copy with honest fidelity where nothing is identified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.cli import main
from unweave.core.errors import InputError, Outcome
from unweave.evidence.kinds import Evidence
from unweave.methods.base import Finding, Serves

BOX = unweave.Box(-1, 1)


def wave(x):
    return np.sin(3 * x[:, :1]) * np.cos(2 * x[:, 1:2])


@pytest.fixture(scope="module")
def found():
    return unweave.identify(wave, input_size=2, domain=BOX, time_limit=2, surrogate=True)


def test_what_is_no_network_is_copied_with_its_error(found):
    assert found.outcome is not Outcome.IDENTIFIED
    assert found.surrogate is not None
    x = BOX.sample(500, 2, np.random.default_rng(0))
    off = np.sqrt(np.mean((found.surrogate(x) - wave(x)) ** 2)) / np.std(wave(x))
    assert off < 0.2, found.verdict()
    assert off < 5 * found.surrogate_error + 1e-6
    assert np.array_equal(found.predict(x), found(x))


def test_the_copy_is_kept_in_the_file(found, tmp_path):
    again = unweave.load(found.save(tmp_path / "found.safetensors"))
    x = BOX.sample(5, 2, np.random.default_rng(0))
    assert np.array_equal(again(x), found(x))
    assert again.surrogate_error == found.surrogate_error


def test_who_wants_no_copy_pays_for_none():
    settings = {"input_size": 2, "domain": BOX, "time_limit": 1, "method": "in-domain", "activation": "tanh"}
    assert "surrogate" not in unweave.identify(wave, **settings, surrogate=False).ledger.by_stage


def test_without_a_word_there_is_a_copy_of_what_may_be_a_network():
    found = unweave.identify(wave, input_size=2, domain=BOX, budget=4000, time_limit=5)
    assert not found.identified
    assert found.surrogate is not None
    assert found.ledger.total <= 4000
    assert "a surrogate 2-" in found.verdict().splitlines()[0]


def test_what_is_known_to_be_no_network_is_copied_only_on_demand():
    def labels(x):
        return np.floor(2 + 1.5 * x[:, :1])

    plain = unweave.identify(labels, input_size=2, domain=BOX)
    assert "the answers are labels" in plain.reason
    assert plain.surrogate is None
    asked = unweave.identify(labels, input_size=2, domain=BOX, surrogate=True, time_limit=4)
    assert asked.surrogate is not None
    assert asked.reason == plain.reason


def test_the_copy_is_judged_on_the_users_rows():
    rows = np.random.default_rng(0).uniform(-1, 1, size=(60, 2))
    found = unweave.identify(wave, input_size=2, domain=unweave.Data(rows), budget=5000, time_limit=5)
    assert found.surrogate is not None
    off = np.sqrt(np.mean((found(rows) - wave(rows)) ** 2)) / np.std(wave(rows))
    assert found.surrogate_error_on_rows == pytest.approx(off, rel=1e-6)
    assert "on your rows by" in found.verdict().splitlines()[0]


def test_an_identified_network_is_its_own_surrogate():
    network = random_network((4, 3, 1))
    found = unweave.identify(network, surrogate=True)
    assert found.surrogate is found.network
    assert "surrogate" not in found.ledger.by_stage
    assert repr(found).startswith("<Identification: identified 4-3-1")
    page = found._repr_html_()
    assert "<li>" in page
    assert "<td>3 x 4</td>" in page
    assert f"<td>all</td><td>{found.ledger.total}</td>" in page


def test_nothing_to_evaluate_is_one_line():
    nothing = unweave.identify(lambda x: np.ones((len(x), 1)), input_size=2)
    with pytest.raises(InputError, match="no network to evaluate"):
        nothing.predict(np.zeros((1, 2)))


def test_the_command_writes_the_copy(tmp_path, capsys, monkeypatch):
    (tmp_path / "waves.py").write_text(
        "import numpy as np\n\ndef wave(x):\n    return np.sin(3 * x[:, :1]) * np.cos(2 * x[:, 1:2])\n"
    )
    out = tmp_path / "copy.safetensors"
    model = f"{tmp_path / 'waves.py'}:wave"
    command = ["identify", model, "--input-size", "2", "--box", "-1,1", "--time-limit", "2", "--surrogate"]
    assert main([*command, "--out", str(out)]) in (3, 4)
    assert out.exists()
    assert "surrogate" in capsys.readouterr().err


def test_a_student_that_a_method_ended_with_is_the_copy():
    network = random_network((3, 4, 1))

    @dataclass(frozen=True)
    class Ends:
        name: str = "ends"
        serves: ClassVar[Serves] = Serves(Evidence.QUERIES, ("tanh",))

        def suits(self, traits):
            return None

        def recover(self, meter, problem):
            return Finding(None, "it ended with a student", student=network)

    found = unweave.identify(
        lambda x: network(x) + 1e-6 * np.tanh(9 * x[:, :1]), input_size=3, method=Ends(), surrogate=True
    )
    assert not found.identified
    assert found.surrogate_error < 1e-4
    assert np.array_equal(found.surrogate.weights[0], network.weights[0])
    assert "surrogate" not in found.ledger.by_stage
