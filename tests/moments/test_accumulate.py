"""The same sums from arrays, iterators, files and workers."""

from functools import partial

import distributed
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from gaussian_rows import SIZE, draw_rows
from unweave.core.errors import InputError
from unweave.moments.accumulate import accumulate
from unweave.moments.residual import accumulate_residual, fit_quadratic

ROWS = 4000


def double(x, y):
    return 2 * x, y


@pytest.fixture(scope="module")
def pieces():
    return [partial(draw_rows, seed) for seed in range(4)]


@pytest.fixture(scope="module")
def data(pieces):
    chunks = [chunk for piece in pieces for chunk in piece()]
    return np.concatenate([x for x, _ in chunks]), np.concatenate([y for _, y in chunks])


def check(moments, data):
    whole = accumulate(data, order=moments.order, baseline=moments.baseline)
    assert moments.count == ROWS
    for k in range(moments.order + 1):
        np.testing.assert_allclose(moments.packed(k), whole.packed(k), rtol=1e-11, atol=1e-12)


def test_an_iterator_is_read_once(data):
    x, y = data
    check(accumulate((x[i : i + 700], y[i : i + 700]) for i in range(0, ROWS, 700)), data)


@pytest.mark.parametrize("engine", [None, "threads", "processes"])
def test_pieces_anywhere_give_the_same_sums(engine, pieces, data):
    check(accumulate(pieces, engine=engine), data)


def test_files_are_read_by_row_group_and_by_shard(tmp_path, data):
    x, y = data
    table = pyarrow.table({**{f"x{i}": x[:, i] for i in range(SIZE)}, "y": y})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    check(accumulate(tmp_path / "a.parquet", engine="threads"), data)
    check(accumulate(str(tmp_path / "a.parquet")), data)
    shards = tmp_path / "shards"
    shards.mkdir()
    parquet.write_table(table.slice(0, 1500), shards / "0.parquet")
    np.savez(shards / "1.npz", x=x[1500:], y=y[1500:])
    check(accumulate(shards), data)


def test_a_damaged_file_is_one_line(tmp_path, data):
    x, y = data
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"x0": x[:, 0], "x1": x[:, 1], "y": y}), path)
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="write the file again"):
        accumulate(path)


def test_chunks_are_prepared_on_the_worker(pieces, data):
    x, y = data
    moments = accumulate(pieces, prepare=double)
    np.testing.assert_allclose(moments.packed(4), accumulate((2 * x, y)).packed(4), rtol=1e-11, atol=1e-11)


def test_a_dask_cluster_of_two_workers_returns_the_same_sums(pieces, data):
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        with distributed.Client(cluster) as client:
            assert len(client.scheduler_info()["workers"]) == 2
            there = client.get_executor()
            forwards = accumulate(pieces, engine=there)
            backwards = accumulate(pieces[::-1], engine=there)
            quadratic = fit_quadratic(pieces, engine=there)
        by_address = accumulate(pieces, engine=cluster.scheduler_address)
    check(forwards, data)
    check(backwards, data)
    check(by_address, data)
    np.testing.assert_allclose(quadratic.matrix, fit_quadratic(data).matrix, atol=1e-10)
    for k in range(5):
        np.testing.assert_allclose(forwards.packed(k), backwards.packed(k), rtol=1e-11, atol=1e-12)


def test_two_passes_over_pieces(pieces, data):
    moments = accumulate_residual(pieces, engine="threads")
    assert moments.count == ROWS
    np.testing.assert_allclose(moments.packed(3), accumulate_residual(data).packed(3), atol=1e-10)


def test_an_empty_source_and_a_wrong_chunk_are_refused():
    with pytest.raises(InputError, match="no rows"):
        accumulate([])
    with pytest.raises(InputError, match="pairs"):
        accumulate([np.zeros((3, 2))])
