"""npz files: headers that lie and arrays that do not fit are refused before anything is unpacked."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from unweave.core import npz
from unweave.core.errors import InputError
from unweave.core.memory import available_memory, spell_bytes
from unweave.core.npz import open_npz


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    stream = io.BytesIO()
    facts = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()


def pack(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_arrays_come_back(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "names": np.array(["tanh", "relu"]), "n": np.array(3)}
    np.savez(tmp_path / "a.npz", **arrays)
    with open_npz(tmp_path / "a.npz") as file:
        assert set(file.names) == set(arrays)
        for name, value in arrays.items():
            assert np.array_equal(file.read(name), value)


@pytest.mark.parametrize("shape", [(10**9, 1000), (2**62, 2**62), (3, 1)])
def test_a_header_that_lies_is_refused_at_once(tmp_path, shape):
    path = pack(tmp_path / "liar.npz", {"x": header(shape) + b"\0" * 16})
    began = time.monotonic()
    with pytest.raises(InputError, match=r"says it holds|not a readable npz"), open_npz(path) as file:
        file.read("x")
    assert time.monotonic() - began < 1


def test_an_array_that_does_not_fit_is_not_unpacked(tmp_path, monkeypatch):
    path = pack(tmp_path / "bomb.npz", {"x": header((1000, 1000)) + b"\0" * 8_000_000})
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(npz, "available_memory", lambda: 1e7)
    with pytest.raises(InputError, match=r"takes 7.63 MiB, more than a third"), open_npz(path) as file:
        file.read("x")


@pytest.mark.parametrize(
    "content",
    [b"", b"nothing of the kind", header((2,))[:20], header((2,), "|O") + b"\0" * 16, b"\x93NUMPY\x09\x00"],
)
def test_damaged_members_are_one_line(tmp_path, content):
    path = pack(tmp_path / "damaged.npz", {"x": content})
    with pytest.raises(InputError) as caught, open_npz(path) as file:
        file.read("x")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError), open_npz(tmp_path / "absent.npz"):
        pass


def test_memory_is_known_and_spelled():
    assert available_memory() > 2**20
    assert [spell_bytes(size) for size in (2048, 3 * 2.0**20, 6.4e9, 7.7e12)] == [
        "2 KiB",
        "3 MiB",
        "5.96 GiB",
        "7 TiB",
    ]
