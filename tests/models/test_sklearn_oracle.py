"""Scikit-learn models as oracles: pipelines, classifiers, and perceptrons read with their scalers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from unweave.core.errors import InputError, OracleError
from unweave.evidence.meter import Meter
from unweave.models.resolve import resolve, resolve_network


def _data(num_outputs: int = 1):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 4)) * [1, 20, 0.1, 3] + [0, 5, 100, -2]
    y = np.sin(x[:, :num_outputs]) + 0.1 * x[:, 1:2]
    return x, y[:, 0] if num_outputs == 1 else y


def _fit(model, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, y)


def _mlp(**options):
    return MLPRegressor(
        **{"hidden_layer_sizes": (7, 5), "activation": "tanh", "max_iter": 30, "random_state": 0} | options
    )


@pytest.mark.parametrize(
    "scaler",
    [StandardScaler(), StandardScaler(with_mean=False), MinMaxScaler(), MaxAbsScaler(), RobustScaler()],
)
@pytest.mark.parametrize("activation", ["tanh", "logistic", "relu", "identity"])
def test_pipelines_answer_as_they_predict_and_are_read_with_their_scaler(scaler, activation):
    x, y = _data(2)
    model = _fit(make_pipeline(scaler, "passthrough", _mlp(activation=activation)), x, y)
    oracle = resolve(model)
    assert (oracle.input_size, oracle.output_size, oracle.dtype, oracle.probes) == (4, 2, "float64", 0)
    assert np.array_equal(oracle(x), model.predict(x))
    network = resolve_network(model)
    assert np.allclose(network(x), model.predict(x), rtol=1e-9, atol=1e-10)


def test_targets_scaled_and_searched_models_are_unwrapped():
    x, y = _data()
    inner = make_pipeline(StandardScaler(), _mlp())
    model = _fit(TransformedTargetRegressor(inner, transformer=StandardScaler()), x, 100 * y + 7)
    assert np.allclose(resolve_network(model)(x)[:, 0], model.predict(x), rtol=1e-10)
    oracle = resolve(model)
    assert (oracle.output_size, oracle.probes) == (1, 1)
    search = _fit(GridSearchCV(_mlp(hidden_layer_sizes=(3,)), {"alpha": [0.1, 1]}, cv=2), x, y)
    assert np.allclose(resolve_network(search)(x)[:, 0], search.predict(x), rtol=1e-10)


def test_binary_classifiers_answer_with_log_odds():
    x, y = _data()
    model = _fit(make_pipeline(StandardScaler(), MLPClassifier((6,), max_iter=50, random_state=0)), x, y > 0)
    oracle = resolve(model)
    probabilities = model.predict_proba(x)
    assert oracle.output_size == 1
    assert "log-odds" in oracle.notes[0]
    assert np.allclose(
        oracle(x)[:, 0], np.log(probabilities[:, 1] / probabilities[:, 0]), rtol=1e-12, atol=1e-12
    )
    assert np.allclose(resolve_network(model)(x), oracle(x), rtol=1e-8, atol=1e-8)


def test_classifiers_sure_of_themselves_are_read_all_the_same():
    x, y = _data()
    mlp = MLPClassifier((20,), activation="relu", solver="lbfgs", alpha=0.0, max_iter=300, random_state=0)
    model = _fit(make_pipeline(StandardScaler(), mlp), x, y > 0)
    assert not np.all(np.isfinite(resolve(model)(np.zeros((1, 4)))))
    network = resolve_network(model)
    logits = resolve(model)(x)
    clear = np.abs(logits) < 10
    assert clear.sum() > 3
    assert np.allclose(network(x)[clear], logits[clear], rtol=1e-8, atol=1e-8)


def test_multiclass_classifiers_answer_with_centred_logits():
    x, y = _data()
    labels = np.digitize(y, [-0.5, 0.5, 1.5])
    model = _fit(MLPClassifier((6,), activation="tanh", max_iter=50, random_state=0), x / 100, labels)
    oracle = resolve(model)
    assert oracle.output_size == len(np.unique(labels)) > 2
    logs = np.log(model.predict_proba(x / 100))
    assert np.allclose(oracle(x / 100), logs - logs.mean(axis=1, keepdims=True), rtol=1e-12, atol=1e-12)
    assert np.allclose(oracle(x / 100).sum(axis=1), 0, atol=1e-12)
    assert np.allclose(resolve_network(model)(x / 100), oracle(x / 100), rtol=1e-9, atol=1e-9)


def test_multilabel_classifiers_answer_with_one_logit_a_label():
    x, y = _data(2)
    model = _fit(MLPClassifier((6,), max_iter=50, random_state=0), x / 100, (y > 0).astype(int))
    oracle = resolve(model)
    assert oracle.output_size == 2
    assert np.allclose(resolve_network(model)(x / 100), oracle(x / 100), rtol=1e-9, atol=1e-9)


def test_decision_functions_are_used_where_they_exist():
    x, y = _data()
    model = _fit(LogisticRegression(), x, y > 0)
    oracle = resolve(model)
    assert np.array_equal(oracle(x)[:, 0], model.decision_function(x))
    assert "decision function" in oracle.notes[0]
    assert resolve(_fit(Perceptron(), x, y > 0)).output_size == 1


def test_other_regressors_are_asked_too():
    x, y = _data()
    for model in (
        LinearRegression(),
        DecisionTreeRegressor(max_depth=3),
        make_pipeline(PCA(2), LinearRegression()),
    ):
        assert np.array_equal(resolve(_fit(model, x, y))(x)[:, 0], model.predict(x))
    with pytest.raises(InputError, match="contains PCA"):
        resolve_network(_fit(make_pipeline(PCA(2), _mlp()), x, y))


def test_mistakes_are_explained():
    x, y = _data()
    with pytest.raises(InputError, match="not fitted"):
        resolve(MLPRegressor())
    with pytest.raises(InputError, match="not fitted"):
        resolve(make_pipeline(StandardScaler(), MLPRegressor()))
    with pytest.raises(InputError, match="no predict method"):
        resolve(_fit(StandardScaler(), x, y))
    with pytest.raises(InputError, match="input_size=3 does not fit the model, which has 4"):
        resolve(_fit(LinearRegression(), x, y), input_size=3)
    labels_only = _fit(NearestCentroid(), x, y > 0)
    if not callable(getattr(labels_only, "decision_function", None)):
        with pytest.raises(InputError, match="only labels"):
            resolve(labels_only)
    sure = resolve(_fit(DecisionTreeClassifier(), x, y > 0))
    with pytest.raises(OracleError, match="restrict domain="):
        Meter(sure).ask(x)
