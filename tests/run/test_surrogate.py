"""A copy with honest fidelity where nothing is identified."""

from __future__ import annotations

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.cli import main
from unweave.core.errors import InputError, Outcome

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
    assert off < 0.2
    assert off < 5 * found.surrogate_error + 1e-6
    assert np.array_equal(found.predict(x), found(x))


def test_the_copy_is_kept_in_the_file(found, tmp_path):
    again = unweave.load(found.save(tmp_path / "found.safetensors"))
    x = BOX.sample(5, 2, np.random.default_rng(0))
    assert np.array_equal(again(x), found(x))
    assert again.surrogate_error == found.surrogate_error


def test_without_the_wish_nothing_more_is_asked():
    plain = unweave.identify(
        wave, input_size=2, domain=BOX, time_limit=1, method="in-domain", activation="tanh"
    )
    assert "surrogate" not in plain.ledger.by_stage


def test_an_identified_network_is_its_own_surrogate():
    network = random_network((4, 3, 1))
    found = unweave.identify(network, surrogate=True)
    assert found.surrogate is found.network
    assert "surrogate" not in found.ledger.by_stage
    assert repr(found).startswith("<Identification: identified 4-3-1")
    assert "<li>" in found._repr_html_()


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
