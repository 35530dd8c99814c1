"""identify end to end: real models, budgets, domains, and models that are not networks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import unweave
from truth import random_network
from unweave.core.errors import InputError, NotIdentified, OracleError, Outcome
from unweave.core.network import Network
from unweave.methods.choose import Choice
from unweave.methods.hessian.pencil import HessianPencil
from unweave.methods.in_domain.method import InDomain
from unweave.run import driver


def test_an_identified_network_is_the_model():
    truth = random_network((10, 12, 1), "tanh", 5)
    found = unweave.identify(truth)
    assert found.identified
    assert found.method == "far-field"
    assert found.hidden == (12,)
    assert unweave.compare(truth, found).max_relative_error < 1e-9
    assert found.certificate is not None
    assert found.certificate.num_points >= 200
    assert found.ledger.by_stage["certificate"] == found.certificate.num_points


def test_the_same_seed_gives_the_same_result():
    truth = random_network((6, 5, 1), "tanh", 5)
    first, second = unweave.identify(truth, seed=4), unweave.identify(truth, seed=4)
    assert first.ledger.by_stage == second.ledger.by_stage
    assert first.network is not None
    assert second.network is not None
    assert np.array_equal(first.network.flat(), second.network.flat())


@pytest.mark.parametrize("budget", [1, 10, 60, 200, 500])
def test_a_budget_is_never_exceeded(budget):
    asked = []
    truth = random_network((10, 12, 1), "tanh", 5)

    def model(x):
        asked.append(len(x))
        return truth(x)

    found = unweave.identify(model, input_size=10, budget=budget)
    assert sum(asked) <= budget
    assert found.ledger.total <= budget
    assert found.outcome is not Outcome.IDENTIFIED
    assert "budget" in found.reason


def test_no_question_leaves_the_domain():
    truth = random_network((3, 3, 1), "tanh", 2)
    largest = []

    def model(x):
        largest.append(np.max(np.linalg.norm(x, axis=1)))
        return truth(x)

    found = unweave.identify(model, input_size=3, domain=unweave.Ball(4.0))
    assert max(largest) <= 4.0 * (1 + 1e-9)
    assert found.identified, found.verdict()
    assert unweave.compare(truth, found).max_relative_error < 1e-8


@pytest.mark.parametrize("activation", ["tanh", "logistic"])
def test_a_trained_pipeline_with_its_scaler(activation):
    from sklearn.datasets import load_diabetes
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = load_diabetes(return_X_y=True)
    regressor = MLPRegressor(
        hidden_layer_sizes=(10,),
        activation=activation,
        solver="lbfgs",
        max_iter=60,
        max_fun=5000,
        tol=1e-2,
        random_state=0,
    )
    with warnings.catch_warnings(action="ignore"):
        model = make_pipeline(StandardScaler(), regressor).fit(x, (y - y.mean()) / y.std())
    found = unweave.identify(model)
    assert found.identified, found.verdict()
    assert unweave.compare(model, found).max_relative_error < 1e-8


def test_a_float32_module_is_found_to_float32_accuracy():
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    found = unweave.identify(model)
    assert found.identified, found.verdict()
    assert found.precision is not None
    assert found.precision.kind == "float32"
    assert "float32" in found.verdict()
    assert unweave.compare(model, found).max_relative_error < 1e-4


def test_units_without_effect_are_invisible():
    truth = random_network((6, 7, 1), "tanh", 0)
    output = truth.weights[1].copy()
    output[0, 3] = 0.0
    found = unweave.identify(Network([truth.weights[0], output], truth.biases, truth.activations))
    assert found.identified
    assert found.hidden == (6,)
    assert "cannot be seen" in found.verdict()


def test_a_tree_a_constant_and_an_affine_map_end_honestly():
    from sklearn.tree import DecisionTreeRegressor

    x = np.random.default_rng(0).standard_normal((200, 4))
    tree = unweave.identify(DecisionTreeRegressor(max_depth=5).fit(x, x[:, 0] * x[:, 1]), budget=5000)
    assert tree.outcome is Outcome.NOT_IDENTIFIED
    assert "jump" in tree.reason
    constant = unweave.identify(lambda x: np.full((len(x), 1), 3.0), input_size=4)
    assert constant.outcome is Outcome.NOT_IDENTIFIED
    assert "constant" in constant.reason
    affine = unweave.identify(lambda x: x[:, :1] - 2 * x[:, 1:2] + 3, input_size=3)
    assert affine.network is not None
    assert affine.hidden == ()


def test_a_convolution_comes_back_unrolled():
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 5, 5)),
        torch.nn.Conv2d(1, 2, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(18, 1),
    ).double()
    found = unweave.identify(model, input_size=25)
    assert found.identified, found.verdict()
    assert found.hidden == (18,)


def test_wrong_widths_are_corrected_in_words():
    truth = random_network((8, 6, 1), "tanh", 3)
    found = unweave.identify(truth, hidden=[5])
    assert any("differ" in warning for warning in found.warnings) or not found.identified


def test_bad_requests_are_refused_before_any_question():
    truth = random_network((3, 2, 1))
    with pytest.raises(InputError, match="unknown activation"):
        unweave.identify(truth, activation="tahn")
    with pytest.raises(InputError, match="unknown method"):
        unweave.identify(truth, method="magic")
    with pytest.raises(InputError, match="hidden="):
        unweave.identify(truth, hidden=[0])
    with pytest.raises(InputError, match="budget"):
        unweave.identify(truth, budget=0)


def test_throw_raises_what_the_outcome_says():
    with pytest.raises(NotIdentified, match="constant"):
        unweave.identify(lambda x: np.ones((len(x), 1)), input_size=2, throw=True)


def test_progress_hears_every_stage():
    heard = []
    unweave.identify(
        random_network((4, 3, 1)), progress=lambda stage, spent, budget: heard.append((stage, spent, budget))
    )
    assert {stage for stage, _, _ in heard} >= {"precision", "circle", "rows", "certificate"}
    assert [spent for _, spent, _ in heard] == sorted(spent for _, spent, _ in heard)


def test_when_nothing_is_found_the_last_method_says_why(monkeypatch):
    choices = [
        Choice(HessianPencil(), ("tanh",), "units up to as many as inputs"),
        Choice(InDomain(time_limit=0.0), ("tanh",), "anything smooth"),
    ]
    monkeypatch.setattr(driver, "choose", lambda traits: choices)
    found = unweave.identify(random_network((6, 5, 3, 1), "tanh", 2), domain=unweave.Ball(5.0))
    assert (found.outcome, found.method) == (Outcome.NOT_IDENTIFIED, "in-domain")
    assert "allow more with time_limit=" in found.reason
    assert found.ledger.by_stage["hessians"] > 0


def test_the_certificate_cannot_be_rehearsed(monkeypatch, tmp_path):
    """Without a seed of its own every certificate asks other questions; a journal keeps those of the run it began."""
    truth = random_network((3, 4, 1), "tanh", 1)
    asked: list[set[bytes]] = []

    def listen(x):
        asked[-1].update(row.tobytes() for row in x)
        return truth(x)

    seeds = iter([11, 12, 13, 14])
    monkeypatch.setattr("unweave.run.signatures.fresh_entropy", lambda: next(seeds))
    runs = []
    for options in ({}, {}, {"certificate_seed": 11}):
        asked.append(set())
        runs.append(unweave.identify(listen, input_size=3, **options))
    assert [run.certificate_seed for run in runs] == [11, 12, 11]
    assert all(run.identified for run in runs)
    assert len(asked[0] & asked[1]) <= runs[0].ledger.total - 200
    assert asked[0] == asked[2]
    assert runs[0].to_json()["certificate_seed"] == 11
    saved = unweave.load(runs[0].save(tmp_path / "run.safetensors"))
    assert saved.certificate_seed == 11
    first = unweave.identify(truth, journal=tmp_path / "paid.sqlite")
    again = unweave.identify(truth, journal=tmp_path / "paid.sqlite")
    assert first.certificate_seed == again.certificate_seed == 13
    assert again.ledger.replayed == first.ledger.total


def test_entropy_differs_from_call_to_call():
    from unweave.core.streams import fresh_entropy

    assert len({fresh_entropy() for _ in range(20)}) == 20


@pytest.mark.parametrize("budget", [0, -3, 2.5, True])
def test_a_budget_that_is_none_is_refused_before_anything_is_asked(budget):
    asked = []
    with pytest.raises(InputError, match="at least 1"):
        unweave.identify(lambda x: asked.append(x) or x[:, 0], input_size=3, budget=budget)
    assert not asked


@pytest.mark.parametrize("size", [1e120, 1e-300])
def test_answers_that_cannot_be_squared_are_an_outcome(size):
    truth = random_network((3, 4, 1), "tanh", 1)
    found = unweave.identify(lambda x: size * truth(x), input_size=3)
    assert found.outcome == "not identified"
    assert "another unit" in found.reason


@pytest.mark.parametrize("first", [0, 30])
def test_answers_beyond_all_bounds_are_none(first):
    truth, asked = random_network((3, 4, 1), "tanh", 1), [0]

    def model(x):
        asked[0] += len(x)
        return truth(x) * (1e300 if asked[0] > first else 1.0)

    with pytest.raises(OracleError, match="more than 1e"):
        unweave.identify(model, input_size=3, domain=unweave.Ball(2.0))


def test_a_model_that_fails_far_out_is_not_taken_for_growth():
    truth = random_network((3, 4, 1), "tanh", 1)

    def model(x):
        if np.max(np.abs(x)) > 1e5:
            raise ConnectionError("the server is down")
        return truth(x)

    with pytest.raises(OracleError, match="the server is down"):
        unweave.identify(model, input_size=3)
