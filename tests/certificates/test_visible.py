"""What a box shows of the parameters, and which points would tell what is not known."""

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.certificates.visible import measure_visible

BOX = unweave.Box(-3.0, 3.0)
NOISE, UNIT = 1e-4, 1e-4


EXACT = 1e-15, 2e-16


def _measure(network, x, bars=(NOISE, UNIT), seed=0):
    return measure_visible(network, x, BOX, *bars, np.random.default_rng(seed))


def _all_over():
    rng = np.random.default_rng(2)
    return rng.permutation(np.concatenate([BOX.sample(4000, 3, rng), BOX.edge(4000, 3, rng)]))


def test_points_that_would_tell_are_of_the_domain_and_do_tell():
    network = random_network((3, 8, 6, 2), "relu", 1)
    rng = np.random.default_rng(2)
    asked = np.concatenate([rng.uniform(2.0, 3.0, (200, 3)), rng.uniform(-3.0, 3.0, (30, 3))])
    before = _measure(network, asked)
    assert np.max(before.deviations) > 1e-2
    assert 0 < len(before.telling) < 50
    assert BOX.contains(before.telling).all()
    after = before
    for _ in range(6):
        asked = np.concatenate([asked, after.telling])
        after = _measure(network, asked)
    assert np.max(after.deviations) < 1e-2
    assert after.num_hidden < 5
    assert not len(after.telling)


def test_answers_from_all_over_leave_nothing_to_tell():
    network = random_network((3, 8, 6, 2), "relu", 1)
    x = _all_over()
    visible = _measure(network, x)
    assert np.max(visible.deviations) < 1e-2
    assert not len(visible.telling)


@pytest.mark.parametrize("bars", [(NOISE, UNIT), EXACT])
def test_what_no_answer_shows_is_open_where_the_domain_shows_it(bars):
    network = random_network((3, 8, 6, 2), "relu", 1)
    x = _all_over()
    hidden = np.maximum(x @ network.weights[0].T + network.biases[0], 0.0)
    on = hidden @ network.weights[1].T + network.biases[1] > 0
    unit = int(np.argmin(np.abs(on.mean(axis=0) - 0.2)))
    off = _measure(network, x[~on[:, unit]], bars)
    assert off.deviations[8 + unit] > 0.1
    assert len(off.telling)
    assert np.max(_measure(network, x, bars).deviations) < 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_few_answers_that_show_a_weight_are_found_among_many(seed):
    """What the first answers leave open is no rounding beside what they tell."""
    network = random_network((3, 12, 10, 2), "relu", 1)
    biases = [b.copy() for b in network.biases]
    biases[0][:4], biases[1][:3] = 20.0, 200.0  # always on: many sums of weights show nowhere
    network = unweave.Network(network.weights, biases, network.activations)
    x = _all_over()
    hidden = x @ network.weights[0].T + biases[0]
    above = np.maximum(hidden, 0.0) @ network.weights[1].T + biases[1]
    shown = (hidden[:, 4:, None] > 0) & (above[:, None, 3:] > 0)
    often = shown.mean(axis=0)
    lower, upper = np.unravel_index(np.argmin(np.abs(often - 0.15)), often.shape)
    both = shown[:, lower, upper]
    few = np.random.default_rng(seed).permutation(np.concatenate([x[~both], x[both][:40]]))
    none = _measure(network, x[~both], (1e-7, 1e-7), seed).deviations
    assert none[12 + 3 + upper] > 0.1
    for bars in (1e-7, 1e-7), EXACT:
        assert np.max(_measure(network, few, bars, seed).deviations) < 1e-2


def test_a_unit_that_hardly_shows_hides_no_other():
    network = random_network((3, 8, 6, 2), "relu", 1)
    first, second, last = (w.copy() for w in network.weights)
    first = np.vstack([first, [[0.3, -0.2, 0.1]]])
    second = np.hstack([second, np.full((6, 1), 1e-9)])
    biases = [np.append(network.biases[0], 10.0), *network.biases[1:]]
    faint = unweave.Network([first, second, last], biases, network.activations)
    x = _all_over()
    assert _measure(faint, x).num_hidden < 30
    hidden = np.maximum(x @ first.T + biases[0], 0.0)
    on = hidden @ second.T + biases[1] > 0
    unit = int(np.argmin(np.abs(on.mean(axis=0) - 0.2)))
    assert _measure(faint, x[~on[:, unit]]).deviations[9 + unit] > 0.1
