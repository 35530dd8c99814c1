"""Where work runs.

Linear algebra here is many small and middling calls. On a busy machine the threads of a BLAS library wait for
each other far longer than they work (seen: 100 s instead of 5), so one thread is the default; the usual variables
(``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS``, ``MKL_NUM_THREADS``) still decide when they are set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
