"""Creases: elu and softsign units have them inside a box, smooth units and relu units have none."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.core.domains import Box
from unweave.evidence.meter import Meter
from unweave.evidence.precision import measure_precision
from unweave.models.resolve import resolve
from unweave.probes.creases import crosses_crease


@pytest.mark.parametrize("half", [1.0, 30.0])
@pytest.mark.parametrize(
    ("activation", "creased"),
    [("elu", True), ("softsign", True), ("tanh", False), ("gelu", False), ("mish", False), ("relu", False)],
)
def test_lines_across_a_box_tell_whether_units_have_creases(activation, creased, half):
    network = random_network((5, 8, 6, 2), activation, 3)
    meter = Meter(resolve(network), domain=Box(-half, half))
    precision = measure_precision(meter, np.random.default_rng(0))
    before = meter.ledger.total
    assert crosses_crease(meter, precision, np.random.default_rng(1)) is creased
    assert meter.ledger.total - before <= 1500
