"""Weights read at the borders of features, what shows in sums only, and where a network is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from methods.relu.deep.test_engine import first_layers, he_network, open_pool
from methods.relu.deep.test_last import always_on, asked_pool, shifted
from unweave.methods.relu.any_depth import name_sums
from unweave.methods.relu.deep.borders import ask_borders
from unweave.methods.relu.deep.extremes import novel_points, spread_points
from unweave.methods.relu.deep.known import Known
from unweave.methods.relu.deep.sharpen import sharpen_layers
from unweave.methods.relu.deep.top import fit_top


def without_weights(known: Known, layer: int, feature: int) -> Known:
    """With all weights of a layer (counted from 1) for one feature guessed."""
    weights = list(known.weights)
    weights[layer - 1] = weights[layer - 1].copy()
    weights[layer - 1][:, feature] = -3.0
    return replace(known, weights=tuple(weights))


def test_open_weights_of_an_inner_layer_show_at_the_border_of_their_feature():
    network = he_network((6, 6, 7, 5, 2), 1)
    pool, known = asked_pool(network), first_layers(network, 3)
    top = fit_top(pool, known)
    found, opened = ask_borders(
        pool, without_weights(known, 2, 3), top, {2: tuple((unit, 3) for unit in range(7))}
    )
    assert not opened[2]
    assert np.allclose(found.weights[1], known.weights[1], atol=1e-7)


def test_weights_of_units_that_are_on_together_still_give_the_function():
    network = always_on(he_network((6, 6, 6, 1), 3), (1, 4))
    pool, known = asked_pool(network), first_layers(network, 2)
    top = fit_top(pool, known)
    guessed = replace(known, weights=(known.weights[0], known.weights[1].copy()))
    guessed.weights[1][[1, 4], 2] = -3.0
    found, opened = ask_borders(pool, guessed, top, {2: ((1, 2), (4, 2))})
    assert not opened[2]
    sums = [top.coefficients[[1, 4], 0] @ layers.weights[1][[1, 4], 2] for layers in (found, known)]
    assert abs(sums[0] - sums[1]) < 1e-7


def test_weights_that_show_in_one_sum_only_are_named():
    plain = he_network((6, 6, 6, 1), 3)
    assert not any("unit 4:" in name for name in name_sums(asked_pool(plain).inquiry, plain))
    network = always_on(plain, (1, 4))
    names = name_sums(asked_pool(network).inquiry, network)
    assert {name.split(":")[0] for name in names} == {"layer 2, unit 1", "layer 2, unit 4"}
    assert len(names) == 12


def test_a_network_is_judged_by_answers_that_were_not_asked_for_where_it_is_wrong():
    network = shifted(he_network((6, 8, 6, 1), 4), {2: -6.0})
    pool, known = open_pool(network), first_layers(network, 1)
    x = spread_points(pool.inquiry.meter.domain, 20_000, 6, pool.rng)
    on = known.features(x) @ network.weights[1][2] + network.biases[1][2] > 0
    assert 0 < on.mean() < 0.1
    pool.inquiry.meter.ask(np.concatenate([x[~on][:1000], x[on][:800]]))
    rows = np.delete(np.hstack([network.weights[1], network.biases[1][:, None]]), 2, axis=0)
    top = fit_top(pool, known.extended(rows))
    assert top.wrong.mean() > 0.1
    assert top.share_wrong < 0.1
    assert top.is_output


def test_points_stand_as_none_before_them():
    network = he_network((6, 6, 6, 1), 3)
    pool, known = asked_pool(network, 60), first_layers(network, 2)
    asked = pool.inquiry.meter.transcript()[0]
    x = novel_points(pool.inquiry.meter.domain, 20, known, asked, pool.rng)
    seen = {tuple(row) for row in np.hstack([z > 0 for z in known.arguments(asked)])}
    fresh = [tuple(row) for row in np.hstack([z > 0 for z in known.arguments(x)])]
    assert len(fresh) == len(set(fresh)) == 20
    assert not seen & set(fresh)


def test_layers_that_are_known_roughly_become_sharp():
    network = he_network((6, 6, 6, 1), 3)
    pool, known = asked_pool(network), first_layers(network, 2)
    rough = replace(
        known,
        weights=tuple(
            w * (1 + 1e-9 * np.random.default_rng(0).standard_normal(w.shape)) for w in known.weights
        ),
    )
    top = fit_top(pool, rough)
    assert top.median_miss > 1e-11
    fine, fit = sharpen_layers(pool, rough, top)
    assert fit.median_miss < 1e-12
    assert np.allclose(fine.features(np.ones((1, 6))), known.features(np.ones((1, 6))), atol=1e-7)
