"""Whether the answers bend at given places."""

from __future__ import annotations

import numpy as np

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.models.resolve import resolve
from unweave.probes.inquiry import Inquiry, open_inquiry
from unweave.probes.looks import look


def _ask_in_box() -> Inquiry:
    network = Network([np.eye(3), np.ones((1, 3))], [np.zeros(3), np.zeros(1)], ["relu", "identity"])
    meter = Meter(resolve(network), domain=Box(-1.0, 1.0))
    return open_inquiry(meter, Precision(noise=1e-16, scale=1.0, kind="float64"), np.random.default_rng(0))


def test_a_look_tells_one_kink_none_and_where() -> None:
    inquiry = _ask_in_box()
    x = np.array([[0.0, 0.3, 0.4], [0.2, 0.3, 0.4]])
    seen = look(inquiry, x - [0.001, 0, 0], np.array([[1.0, 0, 0]] * 2), np.full(2, 0.01))
    assert seen.bent.tolist() == [True, False]
    assert seen.straight.tolist() == [False, True]
    assert abs(seen.shift[0] - 0.001) < 1e-12
