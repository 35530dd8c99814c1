"""Certificates: fresh points find wrong networks, standard errors are honest, undetermined units are named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from truth import random_network
from unweave.certificates import queries
from unweave.certificates.certificate import NUM_POINTS, Certificate
from unweave.certificates.queries import active_points, certify, choose_answers, name_twins
from unweave.core.domains import Ball, Box
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.models.resolve import resolve
from unweave.solve.weighted import weighted_polish, weighted_system

EXACT = Precision(1e-16, 1.0, "float64")


def asked(network: Network, num_points: int, seed: int = 0, **options) -> Meter:
    meter = Meter(resolve(network), **options)
    meter.ask(np.random.default_rng(seed).standard_normal((num_points, network.input_size)))
    return meter


def test_the_true_network_agrees_on_fresh_points():
    truth = random_network((6, 8, 2), "tanh", 1)
    meter = asked(truth, 300)
    certificate = certify(truth, meter, EXACT, np.random.default_rng(9))
    assert certificate.agrees
    assert certificate.complete
    assert certificate.num_points == NUM_POINTS == meter.ledger.by_stage["certificate"]
    assert certificate.max_relative_error < 1e-14
    assert certificate.undetermined == ()
    assert certificate.fraction_outside == pytest.approx(1 - 0.05 ** (1 / 100))


@pytest.mark.parametrize("size", [1e-3, 1e-6])
def test_one_wrong_weight_is_seen(size):
    truth = random_network((6, 8, 1), "tanh", 1)
    wrong = truth.with_flat(truth.flat() + size * np.eye(truth.num_parameters)[10])
    certificate = certify(wrong, asked(truth, 300), EXACT, np.random.default_rng(9))
    assert not certificate.agrees
    assert certificate.max_relative_error > size / 100


def test_fresh_points_stay_inside_the_domain_and_the_budget():
    truth = random_network((4, 3, 1), "tanh", 1)
    meter = asked(truth, 10, domain=Ball(9.0), budget=60)
    certificate = certify(truth, meter, EXACT, np.random.default_rng(0))
    assert meter.ledger.total == 60
    assert certificate.num_points == 50
    assert not certificate.complete


def test_a_duplicated_unit_is_named():
    truth = random_network((5, 4, 1), "tanh", 2)
    rows, biases = truth.weights[0].copy(), truth.biases[0].copy()
    rows[1], biases[1] = rows[0], biases[0]
    twins = Network([rows, truth.weights[1]], [biases, truth.biases[1]], truth.activations)
    certificate = certify(twins, asked(twins, 300), EXACT, np.random.default_rng(0))
    assert certificate.agrees
    assert any("layer 1, unit 0" in name for name in certificate.undetermined)
    assert any("layer 1, unit 1" in name for name in certificate.undetermined)


def test_hyperplanes_that_the_first_questions_do_not_tell_apart_are_no_twins():
    truth, rng = random_network((5, 40, 1), "gelu", 4), np.random.default_rng(0)
    line = 1e10 * np.linspace(1, 2, 1500)[:, None] * np.ones(5)
    spread = rng.standard_normal((1500, 5))
    assert name_twins(truth, line, 1e-3)
    assert not name_twins(truth, np.concatenate([line, spread]), 1e-3)


def test_the_free_scale_of_relu_units_is_not_an_uncertainty():
    truth = random_network((5, 4, 1), "relu", 2)
    certificate = certify(truth, asked(truth, 300), EXACT, np.random.default_rng(0))
    assert certificate.undetermined == ()
    assert certificate.max_standard_error is not None
    assert certificate.max_standard_error < 1e-12


def test_standard_errors_cover_the_truth():
    truth = random_network((4, 5, 1), "tanh", 3)
    noise, inside, total = 1e-4, 0, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((400, 4))
        y = truth(x) + noise * rng.standard_normal((400, 1))
        fitted = weighted_polish(truth, x, y, noise, max_steps=6)
        system = weighted_system(fitted, x, y, noise)
        assert system is not None
        covered = np.abs(fitted.flat() - truth.flat()) <= 1.96 * system.standard_errors()
        inside, total = inside + int(covered.sum()), total + covered.size
    assert 0.88 < inside / total < 0.99


def test_active_points_excite_the_units():
    truth = random_network((10, 30, 1), "tanh", 4)
    shifted = Network(
        [truth.weights[0] * 50, truth.weights[1]], [truth.biases[0] + 20, truth.biases[1]], truth.activations
    )
    x = active_points(shifted, 500, np.random.default_rng(0))
    arguments = x @ shifted.weights[0].T + shifted.biases[0]
    assert 0.3 < np.median(np.abs(arguments)) < 30


def test_the_record_reads_back():
    for activation in ("tanh", "relu"):
        truth = random_network((3, 2, 1), activation)
        certificate = certify(truth, asked(truth, 50), EXACT, np.random.default_rng(0))
        assert Certificate.from_dict(json.loads(json.dumps(certificate.to_dict()))) == certificate
    assert [check.passed for check in certificate.checks] == [True, True]


def test_a_decision_with_a_face_missing_does_not_agree():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    def union(num_faces: int) -> Network:
        layers = [rows[:num_faces], np.ones((1, num_faces))]
        return Network(layers, [-np.ones(num_faces), np.array([-0.5])], ["step", "step"])

    meter = Meter(resolve(union(4)))
    decisions = Precision(0.29, 0.5, "rounded", 1.0)
    assert certify(union(4), meter, decisions, rng).agrees
    assert not certify(union(3), meter, decisions, rng).agrees


@pytest.mark.parametrize("in_domain", [False, True])
@pytest.mark.parametrize("entries", [6e7, 4e3])
def test_a_hyperplane_named_twice_is_not_determined(entries, in_domain, monkeypatch):
    """One unit split in two is the same function, however many answers there are to make sure of it."""
    monkeypatch.setattr(queries, "MOST_ENTRIES", entries)
    truth = random_network((4, 5, 1), "relu", 1)
    (first, second), (b, c) = truth.weights, truth.biases
    halves = np.hstack([second, 0.5 * second[:, :1]]) - np.eye(1, 6) * 0.5 * second[:, :1]
    split = Network([np.vstack([first, first[:1]]), halves], [np.append(b, b[0]), c], truth.activations)
    for network, right in ((truth, True), (split, False)):
        meter = Meter(resolve(truth), domain=Box(-3, 3))
        meter.ask(meter.domain.sample(300, 4, np.random.default_rng(0)))
        certificate = certify(network, meter, EXACT, np.random.default_rng(1), in_domain=in_domain)
        assert certificate.points_agree
        assert (certificate.undetermined == ()) is right


def test_standard_errors_of_many_outputs_keep_the_answers_near_the_origin(monkeypatch):
    truth, rng = random_network((6, 8, 10), "tanh", 1), np.random.default_rng(3)
    far, near = 1e6 * rng.standard_normal((3000, 6)), rng.standard_normal((100, 6))
    x = np.concatenate([far, near])
    monkeypatch.setattr(queries, "MOST_ENTRIES", 200 * 10 * truth.num_parameters)
    rows = choose_answers(truth, x, truth(x), rng)
    assert len(rows) == len(np.unique(rows)) <= 200
    assert np.sum(rows >= len(far)) == len(near)
