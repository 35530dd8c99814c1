"""Reasons are claims too: no layer is called known that is not there, no budget blamed that was not set."""

from __future__ import annotations

import re

import numpy as np
import pytest

from truth import random_network
from unweave import Identification, identify, learn
from unweave.core.domains import Ball, Box
from unweave.report.words import explanation, not_verified, remarks, verified

LIMIT = 0.8
"""Seconds a hopeless run is given."""
LAYERS_KNOWN = re.compile(r"layers? (is|are) known")


def everything_said(found: Identification) -> str:
    """Verdict, reason, warnings and what the page makes of them."""
    pieces = [found.verdict(), found.reason, *found.warnings, explanation(found)]
    pieces += [*verified(found), *not_verified(found), *(remark.remedy for remark in remarks(found))]
    return "\n".join(pieces).lower()


def shares_of_rows_known(found: Identification, truth) -> float:
    """The share of the rows of an open network's first layer that are rows of the truth, up to length and sign."""
    assert found.network is not None
    mine, theirs = (
        np.column_stack([net.weights[0], net.biases[0]]) / np.linalg.norm(net.weights[0], axis=1)[:, None]
        for net in (found.network, truth)
    )
    apart = np.minimum(
        np.linalg.norm(mine[:, None] - theirs, axis=2), np.linalg.norm(mine[:, None] + theirs, axis=2)
    )
    return float(np.mean(apart.min(axis=1) < 1e-6))


HOPELESS = {
    "four relu layers": (random_network((6, 10, 10, 10, 10, 1), "relu", 1), {}),
    "wide relu in a box": (random_network((5, 30, 30, 2), "relu", 2), {"domain": Box(-1.0, 1.0)}),
    "three tanh layers in a ball": (random_network((6, 12, 12, 12, 1), "tanh", 3), {"domain": Ball(2)}),
    "waves": (lambda x: np.sin(7 * x).sum(axis=1) * np.cos(x[:, 0]), {"input_size": 4}),
    "roots": (lambda x: np.sqrt(np.abs(x)).sum(axis=1), {"input_size": 3, "domain": Box(-1.0, 1.0)}),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_without_a_budget_none_is_blamed(name):
    model, options = HOPELESS[name]
    found = identify(model, time_limit=LIMIT, **options)
    assert not found.identified
    said = everything_said(found)
    assert "budget" not in said
    assert "were left" not in said
    if found.network is None:
        assert not LAYERS_KNOWN.search(said)


@pytest.mark.parametrize("budget", [1, 30, 120, 700, 2500, 9000])
def test_what_is_called_known_is_known(budget):
    """Of four relu layers, whatever the budget: no layer is named unless it is in the network, and true."""
    truth = random_network((6, 10, 10, 10, 10, 1), "relu", 1)
    found = identify(truth, budget=budget, time_limit=4 * LIMIT)
    said = everything_said(found)
    assert "no queries were left" not in said or found.ledger.left == 0
    if LAYERS_KNOWN.search(said):
        assert shares_of_rows_known(found, truth) == 1
    elif found.network is None:
        assert "nothing about the model is verified" in said
    if budget == 9000:  # the words are not merely never said
        assert LAYERS_KNOWN.search(said)


def rows_of(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    if kind == "few":
        x = rng.standard_normal((14, 5))
        return x, random_network((5, 6, 1), "relu", 1)(x)
    x = rng.standard_normal((200, 5))
    if kind == "deep":
        return x, random_network((5, 8, 8, 8, 1), "relu", 2)(x)
    if kind == "noisy":
        return x, random_network((5, 6, 1), "relu", 3)(x) + 0.3 * rng.standard_normal((200, 1))
    if kind == "labels":
        return x, (random_network((5, 12, 1), "relu", 4)(x) > 0).astype(float)
    return x, np.sin(5 * x).sum(axis=1)


@pytest.mark.parametrize("kind", ["few", "deep", "noisy", "labels", "waves"])
@pytest.mark.parametrize("activation", ["auto", "relu"])
def test_learning_asks_for_rows_and_never_for_a_budget(kind, activation):
    found = learn(*rows_of(kind), activation=activation, time_limit=LIMIT)
    said = everything_said(found)
    for word in ("budget", "queries", "question"):
        assert word not in said
    if found.network is None:
        assert not LAYERS_KNOWN.search(said)
