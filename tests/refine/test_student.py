"""Students: nearly affine answers are fitted by what bends in them, and explained with their affine part."""

from __future__ import annotations

import numpy as np
import pytest

from truth import random_network
from unweave.comparison import compare
from unweave.network import Network
from unweave.refine import student
from unweave.refine.student import NEARLY_AFFINE, try_student


def _scaled(sizes: tuple[int, ...], activation: str, seed: int, scale: float = 0.3) -> Network:
    """A random network, nearly affine where the scale of its first layer is small."""
    network = random_network(sizes, activation, seed)
    return Network([scale * network.weights[0], *network.weights[1:]], network.biases, network.activations)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "softplus"])
def test_a_nearly_affine_network_comes_back_with_its_affine_part(activation, monkeypatch):
    monkeypatch.setattr(student, "CHEAP", 0.0)
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
    fit_layout = student.fit_layout

    def watched(layout, *arguments, **options):
        seen.append(layout.bent)
        return fit_layout(layout, *arguments, **options)

    monkeypatch.setattr(student, "fit_layout", watched)
    monkeypatch.setattr(student, "CHEAP", 0.0)
    network = _scaled((4, 5, 1), "tanh", 1, 0.3 if bent else 3.0)
    x = np.random.default_rng(2).standard_normal((400, 4))
    found, attempt = try_student(x, network(x), "tanh", (9,), rng=np.random.default_rng(3))
    assert found is not None, attempt
    assert any(seen) == bent
    assert not seen[-1]
