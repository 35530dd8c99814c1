"""Where a fit runs: without JAX on the host, and on the host too once an accelerator has failed at a size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from truth import random_network
from unweave.core.errors import DeviceError
from unweave.solve import devices, together
from unweave.solve.accelerated import AcceleratedProblem
from unweave.solve.descend import Settings
from unweave.solve.fit import fit_network
from unweave.solve.layout import Layout


def _fail(*args):
    import jax

    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate\nmore of it")


@pytest.fixture
def full(monkeypatch):
    """An accelerator that can hold nothing."""
    monkeypatch.setattr(devices, "has_accelerator", lambda: True)
    monkeypatch.setattr(devices, "WORTH", 0)
    monkeypatch.setattr(devices, "_refused", [float("inf")])
    monkeypatch.setattr("unweave.solve.accelerated._compiled", lambda: (_fail, _fail))
    monkeypatch.setattr(together, "_step", lambda: _fail)


def _task():
    truth = random_network((4, 3, 1), "tanh", 1)
    x = np.random.default_rng(2).standard_normal((100, 4))
    return truth, truth.with_flat(1.01 * truth.flat()), x


def test_a_full_accelerator_is_one_of_our_errors(full):
    truth, start, x = _task()
    problem = AcceleratedProblem(Layout.of(truth), x, truth(x))
    with pytest.raises(DeviceError, match="UNWEAVE_DEVICE=cpu"):
        problem.expand(problem.inside(start.flat()), False)


def test_the_host_takes_over_and_larger_fits_do_not_try_again(full):
    truth, start, x = _task()
    assert devices.use_accelerator(100, 19)
    assert fit_network(start, x, truth(x)).converged
    assert not devices.use_accelerator(100, 19)
    assert devices.use_accelerator(99, 19)


def test_starts_side_by_side_fall_back_too(full):
    truth, start, x = _task()
    fits = list(together.fit_each(Layout.of(truth), [start.flat()] * 2, x, truth(x), Settings()))
    assert [fit.converged for fit in fits] == [True, True]


def test_without_jax_everything_runs_on_the_host():
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "import numpy as np\n"
        "from truth import random_network\n"
        "from unweave.solve import devices\n"
        "from unweave.solve.fit import fit_network\n"
        "from unweave.students.overwide import fit_overwide\n"
        "devices.WORTH = 0\n"
        "truth = random_network((3, 2, 1), 'tanh', 1)\n"
        "x = np.random.default_rng(0).standard_normal((200, 3))\n"
        "assert fit_network(truth.with_flat(1.01 * truth.flat()), x, truth(x)).converged\n"
        "assert fit_overwide(x, truth(x), 'tanh', rng=np.random.default_rng(0)).minimal\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
