"""Where work runs.

Linear algebra here is many small and middling calls. On a busy machine the threads of a BLAS library wait for
each other far longer than they work (seen: 100 s instead of 5), so one thread is the default; the usual variables
(``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS``, ``MKL_NUM_THREADS``) still decide when they are set.

``engine=`` names where independent pieces run: nothing (one after the other, here), "threads", "processes", the
address of a Dask scheduler, or any ``concurrent.futures.Executor``. Pieces are functions of seeds and counts that
return small mergeable values; data does not travel.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from unweave.core import clock
from unweave.core.arguments import shown
from unweave.core.errors import InputError

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside, unless the environment says how many it may use."""
    if any(os.environ.get(name) for name in THREAD_VARIABLES):
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


class Here(Executor):
    """Runs each piece at once in the calling thread; what an absent ``engine=`` means."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_engine(engine: Executor | str | None) -> Iterator[Executor]:
    """The executor that ``engine=`` means; one we started is shut down at the end, a given one is left alone."""
    if engine is None:
        yield Here()
        return
    with clock.waiting(), _executor(engine) as executor:
        yield executor


@contextmanager
def _executor(engine: Executor | str) -> Iterator[Executor]:
    if isinstance(engine, Executor):
        yield engine
    elif isinstance(engine, str) and engine == "threads":
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            yield pool
    elif isinstance(engine, str) and engine == "processes":
        from multiprocessing import get_context

        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            yield pool
    elif isinstance(engine, str) and "://" in engine:
        with _dask_client(engine) as client:
            yield client.get_executor()
    else:
        raise InputError(
            f"engine={shown(engine)}: give threads, processes, the address of a Dask scheduler (tcp://host:8786) "
            "or an Executor"
        )


def _dask_client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(f"engine={address!r} needs Dask: pip install 'unweave[dask]'") from error
    try:
        return Client(address, timeout="10s")
    except OSError as error:
        raise InputError(f"no Dask scheduler answers at {address}; start one with: dask scheduler") from error
