"""Over-wide students: widths, signs and every parameter come back; what is not determined is said."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from truth import random_network
from unweave.comparison import compare
from unweave.core.network import Network
from unweave.solve import together
from unweave.solve.descend import End, Minimum, Settings
from unweave.solve.layout import Layout
from unweave.students import overwide, student
from unweave.students import prune as pruning
from unweave.students.effort import FRUGAL, Candidate, Effort
from unweave.students.forms import Form
from unweave.students.overwide import Pool, fit_overwide
from unweave.students.prune import Removal, plan_removals, prune
from unweave.students.standard import Standard


def _recover(truth: Network, seed: int, **options):
    rng = np.random.default_rng(seed)

    def more_points(num_points):
        x = rng.standard_normal((num_points, truth.input_size))
        return x, truth(x)

    options.setdefault("depth", len(truth.hidden))
    return fit_overwide(*more_points(5), truth.activations[0], more_points=more_points, rng=rng, **options)


@pytest.mark.parametrize(
    ("sizes", "activation"),
    [
        ((8, 6, 1), "tanh"),
        ((8, 6, 1), "sigmoid"),
        ((8, 6, 1), "erf"),
        ((8, 6, 1), "softplus"),
        ((8, 6, 1), "gelu"),
        ((8, 6, 1), "silu"),
        ((4, 9, 1), "gelu"),  # more units than inputs: signs by enumeration
        ((6, 8, 3), "tanh"),
        ((6, 6, 3, 1), "tanh"),
        ((6, 5, 3, 2), "gelu"),
        ((6, 6, 4, 3, 1), "tanh"),
    ],
)
def test_everything_comes_back_without_being_told_the_widths(sizes, activation):
    truth = random_network(sizes, activation, 21)
    fit = _recover(truth, 22, effort=Effort(time_limit=60))
    assert fit.network is not None, fit.reason
    assert fit.minimal
    assert fit.network.hidden == truth.hidden
    assert compare(truth, fit.network).max_relative_error < 1e-9


@pytest.mark.parametrize("first", [0, 1])
def test_pools_of_several_ranges_are_searched_in_turn(first):
    """Over a tiny range the answers are affine to rounding; the other pool has the network, whichever comes first."""
    truth, rng = random_network((4, 3, 1), "tanh", 21), np.random.default_rng(22)

    def more_points(num_points, scale):
        x = scale * rng.standard_normal((num_points, 4))
        return x, truth(x)

    empty = np.zeros((0, 4)), np.zeros((0, 1))
    tiny, good = (Pool(*empty, partial(more_points, scale=scale)) for scale in (1e-7, 1.0))
    pools = [tiny, good] if first == 0 else [good, tiny]
    fit = overwide.search(pools, [Candidate("tanh", 1)], rng=rng, effort=Effort(time_limit=60))
    assert fit.network is not None, fit.reason
    assert compare(truth, fit.network).max_relative_error < 1e-9
    assert len(tiny.x) <= len(good.x) == fit.num_points


def _seen_together(monkeypatch):
    """Every fit as on an accelerator with room for several starts; the numbers of starts that were fitted at once."""
    counts = []

    def fit_all(layout, starts, *arguments, **options):
        counts.append(len(starts))
        return together.fit_together(layout, starts, *arguments, **options)

    monkeypatch.setattr(overwide, "runs_together", lambda *size: True)
    monkeypatch.setattr(student, "fit_each", fit_all)
    return counts


def test_students_fitted_at_once_bring_back_the_same_network(monkeypatch):
    truth, counts = random_network((5, 4, 1), "tanh", 21), _seen_together(monkeypatch)
    effort = Effort(num_together=3, growth=2.0, time_limit=60)
    fit = _recover(truth, 22, effort=effort)
    assert fit.network is not None, fit.reason
    assert compare(truth, fit.network).max_relative_error < 1e-9
    assert set(counts) == {3}


def test_few_of_the_students_fitted_at_once_are_pruned(monkeypatch):
    """A smaller network of another activation: every student is promising, none ends exact."""
    counts = _seen_together(monkeypatch)
    truth = random_network((3, 2, 1), "erf", 23)
    x = np.random.default_rng(24).standard_normal((400, 3))
    one, rng = Candidate("tanh", 1), np.random.default_rng(25)
    together_with = overwide._Students.draw(one, (12,), x, truth(x), Effort(num_together=6), rng)
    trials = together_with.run(x, truth(x), 0.0, 150, 60.0)
    assert counts == [6]
    assert sum(attempt.narrowed for _, attempt in trials) == overwide.NARROWED
    assert all(found is None for found, _ in trials)


def test_few_samples_a_parameter_suffice():
    truth = random_network((10, 10, 1), "tanh", 23)
    assert _recover(truth, 24).num_points <= 5 * truth.num_parameters


def test_known_widths_are_used():
    truth = random_network((6, 6, 1), "tanh", 25)
    fit = _recover(truth, 26, hidden=(6,))
    assert fit.attempts[0].widths == (11,)
    assert compare(truth, fit.network).max_relative_error < 1e-9


def test_vertices_of_a_cube_are_points_too():
    truth = random_network((12, 2, 1), "tanh", 27)
    rng = np.random.default_rng(28)

    def more_points(num_points):
        x = rng.choice([-1.0, 1.0], size=(num_points, 12))
        return x, truth(x)

    fit = fit_overwide(*more_points(8), "tanh", more_points=more_points, rng=rng, effort=FRUGAL)
    assert compare(truth, fit.network).max_relative_error < 1e-9


def test_samples_alone_end_with_a_reason_when_there_are_too_few():
    truth = random_network((8, 8, 1), "tanh", 29)
    x = np.random.default_rng(30).standard_normal((60, 8))
    fit = fit_overwide(x, truth(x), "tanh", rng=np.random.default_rng(31))
    assert fit.network is None
    assert "more points" in fit.reason


def test_no_points_are_bought_once_time_is_up():
    truth = random_network((5, 4, 1), "tanh", 45)
    fit = _recover(truth, 46, effort=Effort(time_limit=0))
    assert fit.network is None
    assert "allow more with time_limit=" in fit.reason
    assert fit.num_points == 5


@pytest.mark.parametrize(("noise", "expected"), [(0.0, True), (1e-17, True), (1e-6, False)])
def test_rounding_does_not_hide_that_answers_are_nearly_affine(noise, expected, monkeypatch):
    seen, plan = [], Effort.plan

    def watched(self, *arguments, nearly_affine):
        seen.append(nearly_affine)
        return plan(self, *arguments, nearly_affine=nearly_affine)

    monkeypatch.setattr(Effort, "plan", watched)
    network = random_network((4, 3, 1), "tanh", 41)
    network = Network([0.2 * network.weights[0], network.weights[1]], network.biases, network.activations)
    _recover(network, 42, noise=noise)
    assert seen[-1] == expected


def test_a_wrong_activation_is_never_accepted():
    truth = random_network((6, 5, 1), "erf", 32)
    x = np.random.default_rng(33).standard_normal((400, 6))
    fit = fit_overwide(x, truth(x), "tanh", rng=np.random.default_rng(34), effort=Effort(time_limit=20))
    assert fit.network is None
    assert fit.rms > 1e-7


def test_noise_is_not_fitted_by_extra_units():
    truth = random_network((6, 4, 1), "tanh", 35)
    rng = np.random.default_rng(36)
    x = rng.standard_normal((600, 6))
    y = truth(x) + 1e-3 * rng.standard_normal((600, 1))
    fit = fit_overwide(x, y, "tanh", noise=1e-3, rng=rng)
    assert fit.network is not None
    assert fit.network.hidden == truth.hidden
    assert compare(truth, fit.network).max_relative_error < 0.05


def test_pruning_removes_duplicates_dead_and_surplus_units():
    truth = random_network((5, 4, 1), "tanh", 37)
    rows = np.vstack([truth.weights[0], truth.weights[0][:2], [[1.0, 0, 0, 0, 0]]])
    biases = np.concatenate([truth.biases[0], truth.biases[0][:2], [0.3]])
    top = np.concatenate([truth.weights[1][0] - np.array([0.2, 0.5, 0, 0]), [0.2, 0.5, 0.0]])
    wide = Network([rows, top[None]], [biases, truth.biases[1]], truth.activations)
    x = np.random.default_rng(38).standard_normal((300, 5))
    start = Minimum(wide.flat(), 1e-16, 0, End.TARGET)
    plan = plan_removals(Layout.of(wide), start, x, truth(x), stop=1e-3)
    assert len(plan) == 3
    layout, fit = prune(Layout.of(wide), start, x, truth(x), accept=1e-11, settings=Settings())
    assert layout.hidden == (4,)
    assert compare(truth, layout.network(fit.parameters)).max_relative_error < 1e-9


def test_signs_that_no_answer_determines_are_named():
    form = Form.of("gelu")
    layout = form.layout((2, 3, 1))
    rows = np.array([[1.0, 0.5, 0.1], [-0.5, 1.0, 0.2], [-0.5, -1.5, 0.3]])  # sum of the rows is zero
    top = np.array([[1.0, 1.0, 1.0, 0.0, 0.0, 0.7]])  # so all-plus and all-minus leave no linear term
    plain = form.network(layout, np.concatenate([rows.ravel(), top.ravel()]), rtol=1e-9)
    assert plain is not None
    assert len(plain.undetermined) == 3
    x = np.random.default_rng(39).standard_normal((20, 2))
    theta = np.concatenate([rows.ravel(), top.ravel()])
    np.testing.assert_allclose(plain.network(x), layout.forward(theta, x), atol=1e-12)


def test_standard_coordinates_are_undone_exactly():
    rng = np.random.default_rng(40)
    mixing = np.array([[1.0, 0.9, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 30.0]])
    x = rng.standard_normal((200, 3)) @ mixing + [5.0, 0.0, -100.0]
    truth = random_network((3, 4, 2), "tanh", 41)
    standard = Standard.of(x, truth(x))
    u = standard.inputs(x)
    np.testing.assert_allclose(np.cov(u.T, bias=True), np.eye(3), atol=1e-10)
    inner = random_network((3, 4, 2), "tanh", 42)
    np.testing.assert_allclose(standard.outputs(standard.undo(inner)(x)), inner(u), atol=1e-10)


def test_the_same_seed_gives_the_same_network():
    truth = random_network((5, 4, 1), "tanh", 43)
    first, second = _recover(truth, 44), _recover(truth, 44)
    np.testing.assert_array_equal(first.network.flat(), second.network.flat())
    assert first.num_points == second.num_points


def test_students_too_large_for_the_memory_are_not_tried(monkeypatch):
    monkeypatch.setattr("unweave.solve.devices._memory", lambda accelerated: 2e5)
    network = random_network((6, 12, 1), "tanh", 5)
    x = np.random.default_rng(0).standard_normal((400, 6))
    fit = fit_overwide(x, network(x), "tanh", rng=np.random.default_rng(1))
    assert fit.network is None
    assert "memory" in fit.reason


def test_a_student_that_reproduces_the_answers_but_did_not_converge_is_a_surrogate(monkeypatch):
    monkeypatch.setattr("unweave.students.student.EXACT", 1e-30)
    network = random_network((5, 4, 1), "tanh", 5)
    x = np.random.default_rng(0).standard_normal((200, 5))
    fit = fit_overwide(x, network(x), "tanh", rng=np.random.default_rng(1), effort=Effort(num_last=1))
    assert fit.network is not None
    assert not fit.minimal
    assert fit.polished is None
    assert "its parameters are its own" in fit.reason
    fresh = np.random.default_rng(2).standard_normal((200, 5))
    assert np.max(np.abs(fit.network(fresh) - network(fresh))) < 1e-4


def test_a_batch_of_removals_that_leaves_nonsense_is_not_refitted(monkeypatch):
    truth = random_network((5, 4, 1), "tanh", 39)
    wide = Network(
        [np.vstack([truth.weights[0]] * 2), np.hstack([truth.weights[1] / 2] * 2)],
        [np.concatenate([truth.biases[0]] * 2), truth.biases[1]],
        truth.activations,
    )
    x = np.random.default_rng(40).standard_normal((300, 5))
    layout, refitted, fit_layout = Layout.of(wide), [], pruning.fit_layout
    promised = [Removal(0, k, (1.0 if k == 0 else 1e6) * wide.flat(), 1e-15) for k in range(7)]

    def plan(layout, *_, **__):
        return promised if layout.hidden == (8,) else []

    def watched(layout, *arguments, **options):
        refitted.append(layout.hidden)
        return fit_layout(layout, *arguments, **options)

    monkeypatch.setattr(pruning, "plan_removals", plan)
    monkeypatch.setattr(pruning, "fit_layout", watched)
    start = Minimum(wide.flat(), 1e-16, 0, End.TARGET)
    narrow, fit = prune(layout, start, x, truth(x), accept=1e-11, settings=Settings())
    assert refitted == [(7,)]  # not (1,) and (5,), which the plan promised for nothing
    assert narrow.hidden == (7,)
    assert fit.rms < 1e-11
