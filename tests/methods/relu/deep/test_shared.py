"""What is known of one unit from two sides: kinks and traces that leave one row between them."""

from __future__ import annotations

import numpy as np

from methods.relu.deep.test_engine import first_layers, he_network, open_pool, rows_of
from unweave.core.network import Network
from unweave.methods.relu.deep.extremes import random_lines
from unweave.methods.relu.deep.follow import begin
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.pool import Pool
from unweave.methods.relu.deep.shared import KinkEquations, join_traces, take_kinks
from unweave.methods.relu.deep.trace import Trace
from unweave.methods.relu.deep.view import LayerView


def owners(network: Network, x: np.ndarray) -> np.ndarray:
    """The unit of the second layer whose zero set each point is on; -1: none."""
    h = np.maximum(x @ network.weights[0].T + network.biases[0], 0)
    z = np.abs(h @ network.weights[1].T + network.biases[1])
    return np.where(z.min(axis=1) < 1e-8 * (1 + np.linalg.norm(x, axis=1)), z.argmin(axis=1), -1)


def drawn(sizes=(6, 14, 8, 6, 2), num_lines: int = 6) -> tuple[Network, Pool, Known, np.ndarray, np.ndarray]:
    """A pool with all normals of the kinks above the first layer, and whose kinks these are."""
    network = he_network(sizes, 1)
    pool, known = open_pool(network), first_layers(network, 1)
    pool.add_lines(random_lines(pool.inquiry.meter.domain, num_lines, network.input_size, pool.rng), known)
    kinks = LayerView(pool, known).open
    pool.measure(kinks, known)
    kinks = kinks[np.isfinite(pool.normal_error[kinks])]
    return network, pool, known, kinks, owners(network, pool.x[kinks])


def tell(trace: Trace, row: np.ndarray, known: Known, num: int, pool: Pool) -> None:
    """The trace learns ``num`` directions more, as crossings would tell them."""
    row = row / (trace.gauge @ row)
    for _ in range(num):
        w = trace.null @ pool.rng.standard_normal(trace.null.shape[1])
        trace.learn(w, float(w @ row), 1e-10)
    trace.solve()


def test_a_kink_of_the_unit_tells_the_rest_of_its_row_and_no_other_does():
    network, pool, known, kinks, owner = drawn()
    equations = KinkEquations.at(pool, known, kinks)
    rows, told = rows_of(network, 1), 0
    for unit in np.unique(owner[owner >= 0]):
        mine = kinks[owner == unit]
        if len(mine) < 3:
            continue
        trace = begin(pool, known, int(mine[0]))
        tell(trace, rows[unit], known, max(trace.null.shape[1] - 2, 0), pool)
        foreign = KinkEquations.at(pool, known, kinks[owner != unit])
        assert not take_kinks(trace, foreign)
        while take_kinks(trace, equations):
            pass
        if trace.null.shape[1]:
            continue
        told += 1
        cosine = trace.row @ rows[unit] / np.linalg.norm(trace.row) / np.linalg.norm(rows[unit])
        assert abs(cosine) > 1 - 1e-12
    assert told >= 3


def test_traces_that_know_half_of_one_row_each_are_told_to_be_one():
    network, pool, known, kinks, owner = drawn()
    rows, traces, units = rows_of(network, 1), [], []
    for unit in np.unique(owner[owner >= 0]):
        mine = kinks[owner == unit]
        for kink in mine[: 2 if len(mine) > 1 else 0]:
            trace = begin(pool, known, int(kink))
            tell(trace, rows[unit], known, max(trace.null.shape[1] - 4, 0), pool)
            traces.append(trace)
            units.append(unit)
    joined = join_traces(traces)
    assert len(joined) < len(traces)
    assert len(joined) >= len(set(units))
    for trace in joined:
        if not trace.null.shape[1]:
            cosine = rows @ trace.row / np.linalg.norm(rows, axis=1) / np.linalg.norm(trace.row)
            assert np.max(np.abs(cosine)) > 1 - 1e-12
