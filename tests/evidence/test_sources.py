"""Sources: the same rows from arrays, files, shards and iterators; one line for what cannot be read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from unweave.core.errors import InputError
from unweave.evidence.sources import open_source


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((250, 3)), rng.standard_normal((250, 2))


def _read(source) -> tuple[np.ndarray, np.ndarray]:
    x, y = zip(*source.chunks(), strict=True)
    return np.concatenate(x), np.concatenate(y)


def _write_parquet(path, x, y) -> None:
    columns = {f"c{i}": x[:, i] for i in range(x.shape[1])} | {f"y{i}": y[:, i] for i in range(y.shape[1])}
    pa.parquet.write_table(pa.table(columns), path, row_group_size=40)


def test_every_kind_of_source_yields_the_same_rows(rows, tmp_path):
    x, y = rows
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    _write_parquet(tmp_path / "rows.parquet", x, y)
    shards = tmp_path / "shards"
    shards.mkdir()
    np.savez(shards / "a.npz", x=x[:100], y=y[:100])
    _write_parquet(shards / "b.parquet", x[100:], y[100:])
    iterator = ((x[i : i + 60], y[i : i + 60]) for i in range(0, 250, 60))
    for given in (
        (x, y),
        (str(tmp_path / "rows.npz"),),
        (tmp_path / "rows.parquet",),
        (shards,),
        (iterator,),
    ):
        source = open_source(*given)
        assert (source.num_rows, source.input_size, source.output_size) == (250, 3, 2)
        again_x, again_y = _read(source)
        assert np.array_equal(again_x, x)
        assert np.array_equal(again_y, y)


def test_a_vector_y_is_one_output(rows):
    x, y = rows
    assert open_source(x, y[:, 0]).output_size == 1


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros(5), np.zeros(5), "shape"),
        (np.zeros((5, 2)), np.zeros(4), "one row for each of the 5 rows"),
        (np.array([["a"]]), np.zeros(1), "real numbers"),
        (np.zeros((5, 2)), None, "without y"),
        (3.0, None, "without y"),
        ([], None, "no rows"),
        ([1, 2], None, "pairs"),
        ([(np.zeros((2, 2)), np.zeros(2)), (np.zeros((2, 3)), np.zeros(2))], None, "differ"),
    ],
)
def test_what_cannot_be_rows_is_refused(x, y, words):
    with pytest.raises(InputError, match=words):
        open_source(x, y)


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not a zip at all")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nor this")
    (tmp_path / "rows.txt").write_text("1,2\n")
    np.savez(tmp_path / "names.npz", a=np.zeros(3))
    np.savez(tmp_path / "objects.npz", x=np.array([[{}]]), y=np.zeros(1))
    (tmp_path / "empty").mkdir()
    pa.parquet.write_table(pa.table({"a": [1.0]}), tmp_path / "no_y.parquet")
    for name, words in {
        "bad.npz": "not a readable npz",
        "bad.parquet": "damaged",
        "rows.txt": "npz",
        "names.npz": "arrays x and y",
        "objects.npz": "is pickled",
        "empty": "no .npz",
        "no_y.parquet": "which column is the answer",
        "missing.npz": "no such file",
    }.items():
        with pytest.raises(InputError, match=words) as caught:
            open_source(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_a_truncated_parquet_file_is_refused(rows, tmp_path):
    path = tmp_path / "cut.parquet"
    _write_parquet(path, *rows)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="damaged"):
        open_source(path)


def test_shards_must_have_one_layout(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=np.zeros(3))
    np.savez(tmp_path / "b.npz", x=np.zeros((3, 4)), y=np.zeros(3))
    with pytest.raises(InputError, match=r"b\.npz has 4 inputs"):
        open_source(tmp_path)
