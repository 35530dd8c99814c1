"""engine=: the same pieces give the same values wherever they run."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from unweave.core.engine import open_engine
from unweave.core.errors import InputError


def square(value: int) -> int:
    return value * value


@pytest.mark.parametrize("name", [None, "threads", "processes"])
def test_values_come_in_order(name):
    with open_engine(name) as engine:
        assert list(engine.map(square, range(8))) == [i * i for i in range(8)]


def test_a_given_executor_is_used_and_left_open():
    with ThreadPoolExecutor(1) as pool:
        with open_engine(pool) as engine:
            assert engine is pool
        assert pool.submit(square, 3).result() == 9


def test_errors_of_a_piece_reach_the_caller():
    with open_engine(None) as engine, pytest.raises(ZeroDivisionError):
        engine.submit(lambda: 1 // 0).result()


def test_an_unknown_name_is_refused_with_the_remedy():
    with pytest.raises(InputError, match="threads, processes"), open_engine("cluster"):
        pass


def test_an_absent_scheduler_is_one_line():
    with pytest.raises(InputError, match="no Dask scheduler answers"), open_engine("tcp://127.0.0.1:9"):
        pass
