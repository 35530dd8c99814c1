"""The two-layer paper: as stated agrees with the plain transcription, unweave's column is complete."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from unweave.core import activations as act
from unweave.evidence.meter import Meter
from unweave.experiments import two_layer_printed as printed
from unweave.experiments.frame import AS_STATED, UNWEAVE, Cell, Scope, run_cell, setting
from unweave.experiments.scenarios import SCENARIOS, Truth, entangle
from unweave.experiments.two_layer import PAPER, plan
from unweave.experiments.two_layer_stated import (
    StatedOptions,
    descend,
    draw_start,
    find_vectors,
    gradient_energy,
)
from unweave.methods.hessian.span_layers import Deparametrised
from unweave.probes.derivatives import Differences, estimate_hessians

OPTIONS = StatedOptions(num_hessians=150, num_starts=80, descent_steps=200)
STEPS = Differences("forward", 1e-5, 1e-5)


def load_reference():
    path = Path(__file__).parents[2] / "benchmarks" / "stated_reference.py"
    spec = importlib.util.spec_from_file_location("stated_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = load_reference()


def measured(cell: Cell) -> dict[tuple[str, float | None], float]:
    return {(m.measure, m.at): m.value for m in run_cell(PAPER.run, cell)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_as_stated_agrees_with_the_plain_transcription(scenario):
    truth = Truth.draw(scenario, 8, 3, 11)
    f, meter = reference.plain_function(truth), Meter(truth.oracle(), remember=False)
    points = reference.draw_points(OPTIONS.num_hessians, 8, np.random.default_rng(1))
    hessians = estimate_hessians(meter, points, STEPS)[:, 0]
    plain = reference.loop_hessians(f, points[:20], 1e-5)
    # answers are rounded at 1e-16 and divided by the square of the step
    assert np.max(np.abs(plain - hessians[:20])) < 2e-4
    vectors = find_vectors(hessians, 11, np.random.default_rng(2), OPTIONS)[1]
    slow = reference.loop_vectors(hessians, 11, np.random.default_rng(2), OPTIONS)
    # in no order: runs of k-means that end alike are told apart by rounding
    order = np.argmax(np.abs(vectors @ slow.T), axis=1)
    assert sorted(order) == list(range(11))
    assert np.max(np.abs(vectors - slow[order])) < 1e-9
    energy = gradient_energy(meter, vectors, STEPS)
    assert energy == pytest.approx(reference.loop_energy(f, vectors, 1e-5), rel=1e-8)


@pytest.mark.parametrize("scenario", ["POD/tanh", "sphere/sigmoid"])
def test_the_descent_takes_the_stated_steps(scenario):
    truth, rng = Truth.draw(scenario, 6, 2, 5), np.random.default_rng(0)
    profiles = np.linalg.solve(truth.rows.T, truth.entangled.T).T
    model = Deparametrised(truth.rows, profiles, act.get(truth.activation), free_outputs=False)
    x = rng.standard_normal((80, 6))
    y, start = truth.network(x)[:, 0], draw_start(model, rng)
    found, loss = descend(model, start, x, y, rate=0.025, num_steps=3000)
    slow = reference.loop_descent(model, start, x, y, 0.025, 3000)
    assert np.max(np.abs(found - slow)) < 1e-12
    assert loss < float(np.mean(y**2))


def test_the_oracle_rounds_less_than_the_network():
    """Second differences of step 1e-5 need the paper's centred units: halves in biases cost digits."""
    truth = Truth.draw("POD/sigmoid", 45, 23, 1)
    x = np.sqrt(45) * np.eye(45)
    (a, b, _), theta, tau = truth.network.weights, truth.theta, truth.tau
    a, b, theta, tau, precise = (v.astype(np.longdouble) for v in (a, b, theta, tau, x))

    def phi(s):
        return 1 / (1 + np.exp(-s)) - 0.5

    exact = np.sum(phi(phi(precise @ a.T + theta) @ b.T + tau), axis=1)
    of_oracle, of_network = (
        float(np.sqrt(np.mean((f(x)[:, 0] - exact) ** 2))) for f in (truth.oracle(), truth.network)
    )
    assert of_oracle < 1e-15
    assert of_oracle < 0.5 * of_network


def test_cells_repeat_and_unweave_is_complete():
    where = setting(scenario="POD/sigmoid", m0=8, m1=2)
    stated = Cell("weights", AS_STATED, where, 0, 0)
    first, second = measured(stated), measured(stated)
    assert {k: v for k, v in first.items() if k[0] != "seconds"} == {
        k: v for k, v in second.items() if k[0] != "seconds"
    }
    assert first["queries", None] == 1000 * (1 + 8 + 36) + 10 * 40 * 9
    assert first["recovered first", 0.05] > 0.8
    ours = measured(Cell("identify", UNWEAVE, where, 0, 0))
    assert ours["complete", None] == 1.0
    assert ours["MSE", None] < 1e-20
    assert ours["attributed first", None] == ours["attributed second", None] == 1.0
    assert ours["false positives", 0.001] == 0.0
    assert ours["E_theta", None] < 1e-16
    assert ours["queries", None] < 0.05 * first["queries", None]


def test_given_weights_and_end_to_end_measure_the_function():
    where = setting(scenario="POD/tanh", m0=6, m1=2, steps=400)
    given = measured(Cell("given weights", AS_STATED, where, 1, 0))
    assert given["MSE", None] < 1.0
    assert given["queries", None] == 80
    whole = measured(Cell("end to end", AS_STATED, where, 1, 0))
    assert whole["admitted", None] in (0.0, 1.0)
    assert whole["queries", None] > given["queries", None]


def test_trajectories_tell_the_layers_apart():
    where = setting(scenario="POD/tanh", m0=8, m1=2)
    lines = run_cell(PAPER.run, Cell("trajectories", UNWEAVE, where, 0, 0))
    at_ten = {m.measure: m.value for m in lines if m.at == 10.0}
    assert at_ten["first middle"] > at_ten["second middle"] > 0


def test_the_scenarios_are_those_of_the_paper():
    for scenario in SCENARIOS:
        truth = Truth.draw(scenario, 30, 9, 1)
        norms = [np.linalg.norm(w, axis=1) for w in (truth.rows, truth.network.weights[1], truth.entangled)]
        assert np.allclose(np.concatenate(norms), 1.0)
        assert np.std(truth.tau) < 0.3
        x = np.zeros((1, 30))
        slopes = act.get(truth.activation).first(truth.theta, np)
        assert np.allclose(np.abs(np.sum(entangle(truth.network) * truth.entangled, axis=1)), 1.0)
        assert truth.network(x).shape == (1, 1)
        assert truth.oracle()(x) == pytest.approx(truth.network(x), abs=1e-14)
        assert np.all(slopes > 0)
    deviation = np.linalg.svd(Truth.draw("POD/tanh", 30, 3, 2).rows, compute_uv=False) - 1
    assert np.linalg.norm(deviation) == pytest.approx(0.3, abs=0.05)


def test_printed_tables_are_whole():
    assert len(printed.table_1()) == len(printed.table_2()) == 24
    assert len(printed.table_3()) == 12
    assert printed.table_1()["sphere/tanh", "45", "23"] == {"L1": "0.79", "L2": "0.64"}
    assert printed.table_3()["POD/tanh", "30", "15"]["(67) holds"] == "0.76"
    assert set(printed.table_2()["POD/tanh", "45", "5"]) == {"MSE", "E_inf", "E_theta", "E_tau"}


def test_the_full_plan_has_the_papers_settings_and_repetitions():
    cells = plan(Scope("full"))
    weights = [c for c in cells if c.study == "weights"]
    assert len(weights) == 6 * 4 * 30
    assert {c["steps"] for c in cells if c.study == "given weights"} == {"500000"}
    assert len(set(cells)) == len(cells)
