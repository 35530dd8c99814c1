"""Tables as rows: text files, frames, dictionaries, data sets; which columns are the answers."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core.errors import InputError
from unweave.evidence.sources import open_source


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 3)), rng.standard_normal((40, 1))


def _columns(x, y, answer="price"):
    return {**{f"c{i}": x[:, i] for i in range(x.shape[1])}, answer: y[:, 0]}


def _write_csv(path, columns, delimiter=",", header=True):
    lines = [delimiter.join(columns)] if header else []
    lines += [delimiter.join(repr(float(v)) for v in row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def _torch_dataset(x, y):
    import torch
    from torch.utils.data import TensorDataset

    return TensorDataset(torch.as_tensor(x), torch.as_tensor(y))


def _torch_loader(x, y):
    from torch.utils.data import DataLoader

    return DataLoader(_torch_dataset(x, y), batch_size=7)


def _frame(x, y):
    import pandas as pd

    return pd.DataFrame(_columns(x, y, "y"))


def _arrow(x, y):
    import pyarrow as pa

    return pa.table(_columns(x, y, "y"))


@pytest.mark.parametrize(
    "make",
    [
        lambda x, y: (x, y),
        lambda x, y: {"inputs": x, "targets": y},
        lambda x, y: _columns(x, y, "target"),
        _frame,
        _arrow,
        _torch_dataset,
        _torch_loader,
    ],
)
def test_what_people_keep_rows_in(rows, make):
    source = open_source(make(*rows))
    assert np.array_equal(source.x, rows[0])
    assert np.array_equal(source.y, rows[1])


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_a_named_target(rows, delimiter, tmp_path):
    path = _write_csv(tmp_path / "rows.csv", _columns(*rows), delimiter)
    source = open_source(path, target="price")
    assert np.array_equal(source.x, rows[0])
    assert np.array_equal(source.y, rows[1])
    assert open_source(path, target=["price", "c0"]).output_size == 2


def test_csv_without_a_header_ends_in_the_answer(rows, tmp_path):
    path = _write_csv(tmp_path / "rows.csv", _columns(*rows), header=False)
    assert np.array_equal(open_source(path).y, rows[1])
    assert np.array_equal(open_source(path, target=0).y[:, 0], rows[0][:, 0])


def test_an_empty_field_is_missing(tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n,3\n")
    assert np.isnan(open_source(tmp_path / "rows.csv").x[1, 0])


def test_npz_with_other_names(rows, tmp_path):
    np.savez(tmp_path / "rows.npz", features=rows[0], labels=rows[1])
    assert np.array_equal(open_source(tmp_path / "rows.npz").y, rows[1])
    np.savez(tmp_path / "odd.npz", a=rows[0], b=rows[1])
    assert np.array_equal(open_source(tmp_path / "odd.npz", target="b").x, rows[0])


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("a,b\n1,2\n", None, "name it with target="),
        ("a,y\n1,2\n", "z", "there is no column 'z'"),
        ("town,y\nBern,2\n", None, "column 'town' does not hold numbers"),
        ("a,a,y\n1,2,3\n", None, "the same name"),
        ("a,y\n1,2,3\n", None, "row 1 has 3 fields"),
        ("", None, "empty"),
        ("y\n1\n", None, "none is an input"),
    ],
)
def test_what_cannot_be_read_is_one_line(text, target, words, tmp_path):
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        open_source(tmp_path / "rows.csv", target=target)
