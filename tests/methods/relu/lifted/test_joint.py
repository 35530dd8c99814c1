"""Everything fitted together to float32 answers in a box, and weights that only a corner shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import unweave
from methods.relu.lifted.test_follow import draw_network, open_search
from unweave.certificates.visible import measure_visible
from unweave.methods.relu.lifted import compare
from unweave.methods.relu.lifted.corners import cross_corners
from unweave.methods.relu.lifted.free import fit_freely
from unweave.methods.relu.lifted.held import fit_some
from unweave.methods.relu.lifted.joint import fit_jointly
from unweave.methods.relu.lifted.missing import add_unit, as_traces
from unweave.methods.relu.lifted.ridge_sum import put_up
from unweave.methods.relu.lifted.votes import cross_by_votes


def traced(sizes=(3, 8, 6, 2), seed: int = 0):
    network, box = draw_network(sizes, seed), unweave.Box(-2.0, 2.0)
    search = open_search(network, box)
    search.draw(12)
    search.find_planes()
    search.explain()
    assert search.follower is not None
    return network, box, search


def test_a_joint_fit_is_closer_than_its_start():
    network, box, search = traced()
    rng, follower = np.random.default_rng(3), search.follower
    x = box.sample(3000, 3, rng)
    y, bars = network(x), np.full(len(x), 1e-7)
    traces = replace(follower.traces, gamma=follower.traces.gamma * (1 + 1e-4 * rng.standard_normal((1, 4))))
    traces.covariance = np.array([np.diag(np.full(len(c), 1e-8)) for c in traces.covariance])
    start = put_up(traces, follower.faces, x, y, bars)
    fitted, point = fit_jointly(traces, start, x, y, bars)
    before, after = (np.median(np.abs(p(x) - y)) for p in (start, point))
    assert after < 1e-2 * before
    assert np.all(np.isfinite(fitted.covariance))


def test_a_weight_left_out_comes_back_from_the_answers_it_spoils():
    network, box, search = traced()
    follower, x = search.follower, box.sample(6000, 3, np.random.default_rng(4))
    y, bars = network(x), np.full(len(x), 1e-9)
    point = put_up(follower.traces, follower.faces, x, y, bars)
    right = np.max(np.abs(point(x) - y), axis=1) < 1e-6
    assert np.mean(right) > 0.9
    # a unit is taken to be off beyond a plane where it is on in a corner
    best = None
    for j in range(len(follower.traces)):
        for i in np.flatnonzero(follower.traces.known[j]):
            traces = follower.traces.take(np.arange(len(follower.traces)))
            side, steep = traces.sides[j, i], 50 * np.abs(point.beta).max()
            traces.known[j, i] = False
            gamma, beta = point.gamma.copy(), point.beta.copy()
            beta[j, i] -= steep
            gamma[j] += steep * side * point.rows[i]
            spoiled = replace(point, gamma=gamma, beta=beta)
            far = np.flatnonzero((np.max(np.abs(spoiled(x) - y), axis=1) > 1e-6) & right)
            if len(far) > 10 and (best is None or len(far) < len(best[3])):
                best = traces, spoiled, (j, i), far
    assert best is not None
    traces, spoiled, (j, i), far = best
    traces.beta[j, i] = 0.0
    found = cross_corners(traces, spoiled, x[far], y[far] - spoiled(x[far]), np.full(len(far), 1e-6))
    assert found == 1
    assert traces.known[j, i]
    assert abs(traces.beta[j, i] - point.beta[j, i]) < 1e-3 * abs(point.beta[j, i])


def test_a_large_network_is_looked_at_unit_by_unit(monkeypatch):
    network, box = draw_network((3, 8, 6, 2), 1), unweave.Box(-2.0, 2.0)
    rng = np.random.default_rng(5)
    x = np.concatenate([box.sample(3000, 3, rng), box.edge(3000, 3, rng)])
    whole = measure_visible(network, x, box, 1e-9, 1e-12, np.random.default_rng(6))
    monkeypatch.setattr("unweave.certificates.visible.MOST_PARAMETERS", 10)
    alone = measure_visible(network, x, box, 1e-9, 1e-12, np.random.default_rng(6))
    assert alone.alone
    assert not whole.alone
    assert len(alone.deviations) == len(whole.deviations)
    assert np.max(alone.deviations) < 10 * np.max(whole.deviations)
    assert np.max(whole.deviations) < 1e-5
    monkeypatch.setattr("unweave.certificates.visible.MOST_DIRECTIONS", 20)
    plain = measure_visible(network, x, box, 1e-9, 1e-12, np.random.default_rng(6))
    assert np.max(plain.deviations) < 10 * np.max(whole.deviations)


def test_bars_grow_with_what_a_good_fit_leaves():
    _, _, search = traced()
    bars, errors = np.linspace(1e-7, 1e-6, 1000), np.full((1000, 2), 1e-6)
    relative = search.inquiry.relative
    search._roughen_locally(errors, bars)
    assert search.inquiry.relative > relative
    assert search.inquiry.noise > 0
    assert search.roughness <= 4
    assert compare.BEYOND == 8.0


def test_a_weak_unit_comes_back_from_what_the_others_leave():
    network, box, search = traced()
    follower, rng = search.follower, np.random.default_rng(7)
    x = box.sample(4000, 3, rng)
    whole = put_up(follower.traces, follower.faces, x, network(x), np.full(len(x), 1e-6))
    share = np.mean(whole.forward(np.hstack([x, np.ones((len(x), 1))]))[2] > 0, axis=0)
    weak = np.arange(len(whole.beta)) == int(np.argmin(np.abs(share - 0.4)))
    y = replace(whole, output=np.where(weak[:, None], 1e-3 * whole.output, whole.output))(x)
    bars, less = np.full(len(x), 2e-6), follower.traces.take(~weak)
    start = put_up(less, follower.faces, x, y, bars)
    grown, left = add_unit(start, x, y, bars, rng)
    assert left < 0.8
    held = fit_some(grown, np.array([len(less)]), x, y, bars, typical=1.0)
    assert np.array_equal(held.gamma[:-1], grown.gamma[:-1])
    assert np.mean(np.abs(held(x) - y) > 8 * bars[0]) < 0.02
    more = less.join(as_traces(grown, 1, less.planes, x))
    more, fitted = fit_jointly(more, grown, x, y, bars, max_steps=40)
    assert len(more) == len(whole.beta)
    assert np.max(np.abs(start(x) - y)) > 50 * bars[0]
    assert np.mean(np.abs(fitted(x) - y) > 8 * bars[0]) < 0.02


def test_a_boundary_that_is_off_is_mended_by_the_answers_beyond_it():
    network, box, search = traced()
    follower, x = search.follower, box.sample(4000, 3, np.random.default_rng(8))
    whole = put_up(follower.traces, follower.faces, x, network(x), np.full(len(x), 1e-6))
    y, bars = whole(x), np.full(len(x), 1e-6)
    gamma = whole.gamma.copy()
    gamma[0, -1] += 0.01 * np.linalg.norm(gamma[0])
    mended = fit_freely(replace(whole, gamma=gamma), x, y, bars)
    assert np.mean(np.abs(replace(whole, gamma=gamma)(x) - y) > 8 * bars[:, None]) > 0.1
    assert np.all(np.abs(mended(x) - y) < 8 * bars[:, None])
    assert len(whole.take(np.arange(2)).output) == 2


def test_a_weight_that_no_question_crossed_is_told_by_kinks_beyond():
    _, _, search = traced()
    follower = search.follower
    search.draw(20)
    kinks = search.open_kinks()
    follower.own(kinks)
    told = 0
    for j in range(len(follower.traces)):
        for i in np.flatnonzero(follower.traces.known[j]):
            traces = replace(
                follower.traces, gamma=follower.traces.gamma.copy(), beta=follower.traces.beta.copy()
            )
            traces.known, weight = follower.traces.known.copy(), float(traces.beta[j, i])
            traces.known[j, i], traces.beta[j, i] = False, 0.0
            traces.gamma[j] += weight * traces.sides[j, i] * traces.ridges[i]
            if not cross_by_votes(search.sightings, traces, kinks):
                continue
            if traces.known[j, i]:
                told += 1
                assert abs(traces.beta[j, i] - weight) < 1e-3 * np.abs(traces.beta[j]).max()
    assert told >= 5
