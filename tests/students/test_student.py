"""Students: nearly affine answers are fitted by what bends in them, and explained with their affine part."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.comparison import compare
from unweave.core.network import Network
from unweave.solve.descend import End, Minimum, Settings
from unweave.solve.layout import Layout
from unweave.students import nearly_affine, student
from unweave.students.forms import Form
from unweave.students.nearly_affine import NEARLY_AFFINE, narrow_down_bent
from unweave.students.student import resume_student, try_student


def _scaled(sizes: tuple[int, ...], activation: str, seed: int, scale: float = 0.3) -> Network:
    """A random network, nearly affine where the scale of its first layer is small."""
    network = random_network(sizes, activation, seed)
    return Network([scale * network.weights[0], *network.weights[1:]], network.biases, network.activations)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus"])
def test_a_nearly_affine_network_comes_back_with_its_affine_part(activation, monkeypatch):
    monkeypatch.setattr(nearly_affine, "CHEAP", 0.0)
    network = _scaled((4, 5, 1), activation, 1)
    x = np.random.default_rng(0).standard_normal((400, 4))
    y = network(x)
    design = np.hstack([x, np.ones((400, 1))])
    bend = np.std(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) / np.std(y)
    assert bend < NEARLY_AFFINE
    found, attempt = try_student(x, y, activation, (9,), rng=np.random.default_rng(1), max_steps=300)
    assert found is not None, attempt
    assert compare(network, found.network).max_relative_error < 1e-8


@pytest.mark.parametrize("bent", [False, True])
def test_only_nearly_affine_answers_are_fitted_by_what_bends(bent, monkeypatch):
    seen = []
    fit_each = student.fit_each  # the first fits

    def watched(layout, *arguments, **options):
        seen.append(layout.bent)
        return fit_each(layout, *arguments, **options)

    monkeypatch.setattr(student, "fit_each", watched)
    monkeypatch.setattr(nearly_affine, "CHEAP", 0.0)
    network = _scaled((4, 5, 1), "tanh", 1, 0.3 if bent else 3.0)
    x = np.random.default_rng(2).standard_normal((400, 4))
    found, attempt = try_student(x, network(x), "tanh", (9,), rng=np.random.default_rng(3))
    assert found is not None, attempt
    assert seen == [bent]


def test_a_student_fitted_without_the_affine_part_predicts_with_it(monkeypatch):
    monkeypatch.setattr(nearly_affine, "CHEAP", 0.0)
    network = _scaled((4, 8, 1), "tanh", 4)
    rng = np.random.default_rng(5)
    x, fresh = rng.standard_normal((300, 4)), rng.standard_normal((100, 4))
    found, attempt = try_student(x, network(x), "tanh", (2,), rng=rng, max_steps=20)
    assert found is None
    assert attempt.student.affine is not None
    assert attempt.student.fresh_residual(fresh, network(fresh)) < 2 * attempt.rms < 0.1
    assert attempt.student.network("tanh") is None  # two units do not make up for the affine part


def test_what_bends_leaves_only_the_constant_to_the_last_fit():
    """A converged student with surplus units, its constant off: pruned, and exact after hardly a step."""
    truth = _scaled((4, 5, 3, 1), "tanh", 6)
    u = np.random.default_rng(7).standard_normal((900, 4))
    dead = np.vstack([truth.weights[0], [0.5, 0.1, -0.2, 0.3]])
    wide = Network(
        [dead, np.hstack([truth.weights[1], np.zeros((3, 1))]), truth.weights[2]],
        [np.append(truth.biases[0], 0.1), truth.biases[1], truth.biases[2] + 5.0],
        truth.activations,
    )
    layout, fit = narrow_down_bent(
        Layout.of(wide),
        Minimum(wide.flat(), 1e-14, 0, End.TARGET),
        u,
        truth(u),
        accept=1e-11,
        refit=Settings(target=1e-13, max_steps=60),
        max_steps=100,
    )
    assert layout.hidden == truth.hidden
    assert fit.rms < 1e-11
    assert fit.num_steps <= 3
    assert compare(truth, layout.network(fit.parameters)).max_relative_error < 1e-8


def test_a_student_that_stopped_goes_on_from_where_it_was_on_more_points():
    network = random_network((4, 5, 1), "tanh", 6)
    rng = np.random.default_rng(8)
    x = rng.standard_normal((500, 4))
    _, begun = try_student(x[:300], network(x[:300]), "tanh", (8,), rng=rng, max_steps=12)
    assert begun.end is End.STEPS
    found, attempt = resume_student(begun, x, network(x))
    assert found is not None, attempt
    assert compare(network, found.network).max_relative_error < 1e-8
    _, unmoved = resume_student(begun, x, network(x), deadline=0.0)
    assert unmoved.rms < 1.5 * begun.rms  # in the coordinates of all points it is the same student


@pytest.mark.parametrize(("stated", "accepted"), [(1.0, True), (0.4, True), (0.1, False)])
def test_noise_may_be_a_few_times_what_was_measured(stated, accepted):
    """A few differences tell the level of rounding within a factor; far beyond it something else is left over."""
    network, rng = random_network((4, 5, 1), "tanh", 6), np.random.default_rng(8)
    x, noise = rng.standard_normal((300, 4)), 1e-7
    y = network(x) + noise * rng.standard_normal((300, 1))
    found, attempt = try_student(x, y, "tanh", (9,), rng=rng, noise=stated * noise)
    assert (found is not None) == accepted, attempt
    if found is not None:
        assert found.minimal
        assert compare(network, found.network).max_relative_error < 1e-5


@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_signs_of_rounded_answers_may_have_more_slack(noise, monkeypatch):
    """Skips of rounded answers are known less well than the noise says: the polish tells whether signs are right."""
    seen, solve = [], Form.network

    def strict(form, layout, parameters, rtol):
        seen.append(rtol)
        return solve(form, layout, parameters, rtol=rtol) if rtol > 5 * seen[0] else None

    monkeypatch.setattr(Form, "network", strict)
    network, rng = random_network((4, 3, 1), "softplus", 6), np.random.default_rng(8)
    x = rng.standard_normal((300, 4))
    y = network(x) + noise * rng.standard_normal((300, 1))
    found, attempt = try_student(x, y, "softplus", (6,), rng=rng, noise=noise)
    assert (found is not None) == (noise > 0), attempt
    if found is not None:
        assert compare(network, found.network).max_relative_error < 1e-3
