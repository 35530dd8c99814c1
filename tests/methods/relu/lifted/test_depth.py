"""Where zero sets seldom meet the planes that should bend them, there are more than two layers."""

from __future__ import annotations

import numpy as np

import unweave
from truth import random_network
from unweave.methods.relu.lifted.depth import MEETINGS, Meetings


def test_meetings_tell_of_deeper_units():
    met = Meetings()
    met.count(np.zeros(MEETINGS - 1, dtype=bool))
    assert not met.tell_of_deeper_units
    met.count(np.zeros(1, dtype=bool))
    assert met.tell_of_deeper_units
    met.count(np.ones(MEETINGS, dtype=bool))
    assert not met.tell_of_deeper_units
    assert not Meetings(False, MEETINGS, 0).tell_of_deeper_units


def test_a_deep_network_ends_the_search_for_two_layers_early():
    network = random_network((5, 20, 20, 20, 20, 1), "relu", 1)
    found = unweave.identify(
        network, domain=unweave.Box(-1.0, 1.0), method="relu-lifted", seed=1, surrogate=False, time_limit=60
    )
    assert found.network is None
    assert "deeper" in found.reason
    assert found.ledger.total < 60_000
