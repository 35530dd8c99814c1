"""Scikit-learn estimators as oracles, and multilayer perceptrons in pipelines read as networks.

Regressors answer with ``predict``. Classifiers answer with ``decision_function`` where they have one, else
with the log-odds of ``predict_proba``. Preprocessing inside a Pipeline is part of the function, hence of its
first layer.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from unweave.core.domains import Domain
from unweave.core.errors import InputError, OracleError
from unweave.core.network import Network
from unweave.evidence.data import Data
from unweave.models import log_odds
from unweave.models.layer_chain import LayerChain
from unweave.models.python_callable import CallableOracle, as_matrix, ask_once, check_size

_ACTIVATIONS = {"identity": "identity", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}


def from_estimator(
    model: Any,
    *,
    input_size: int | None = None,
    output_size: int | None = None,
    domain: Domain | Data | None = None,
) -> CallableOracle:
    """An oracle from a fitted regressor, classifier or pipeline."""
    name = f"scikit-learn {_title(model)}"
    num_inputs = _fitted(model, name)
    check_size(name, "input_size", input_size, num_inputs)
    coded = encoded_columns(model)
    if coded and not isinstance(domain, Data):
        raise InputError(
            f"{name} takes categories ({', '.join(map(str, coded[:4]))}), which numbers drawn at random are not; give "
            f"rows of data: domain=unweave.Data(X)"
        )
    answer, notes = _question(model, name)

    def evaluate(x: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return answer(_as_table(model, x))

    last = _final(model)
    probes = 0
    if isinstance(getattr(last, "coefs_", None), list):
        num_outputs = len(last.intercepts_[-1])
    else:
        num_outputs = as_matrix(ask_once(evaluate, num_inputs, name, domain), 1, name).shape[1]
        probes = 1
    check_size(name, "output_size", output_size, num_outputs)
    return CallableOracle(name, num_inputs, num_outputs, "float64", evaluate, notes, probes)


def read_estimator(model: Any) -> Network:
    """The network of an MLPRegressor or MLPClassifier, with the scalers around it folded into its layers."""
    name = f"scikit-learn {_title(model)}"
    chain = LayerChain(_fitted(model, name), name)
    _append(chain, model)
    network = chain.network()
    return log_odds.without_shift(network) if network.activations[-1] == "softmax" else network


def _append(chain: LayerChain, model: Any) -> None:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import Pipeline

    if isinstance(model, Pipeline):
        for _, step in model.steps:
            if step is not None and step != "passthrough":
                _append(chain, step)
    elif isinstance(model, GridSearchCV | RandomizedSearchCV):
        _append(chain, model.best_estimator_)
    elif isinstance(model, TransformedTargetRegressor):
        _append(chain, model.regressor_)
        factors, shift = _scaling(model.transformer_, chain.name)
        chain.scale(1 / factors, -shift / factors)
    elif isinstance(model, MLPRegressor | MLPClassifier):
        for i, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
            chain.affine(weight.T, bias)
            if i < len(model.coefs_) - 1:
                chain.activation(_ACTIVATIONS[model.activation])
        if model.out_activation_ == "softmax":
            chain.softmax()
        elif model.out_activation_ == "exp":
            chain.activation("exp")
    else:
        factors, shift = _scaling(model, chain.name)
        chain.scale(factors, shift)


def _scaling(step: Any, name: str) -> tuple[np.ndarray | float, np.ndarray | float]:
    """``(a, b)`` with ``step.transform(x) = a x + b``."""
    from sklearn.preprocessing import (
        FunctionTransformer,
        MaxAbsScaler,
        MinMaxScaler,
        RobustScaler,
        StandardScaler,
    )

    if isinstance(step, StandardScaler):
        factors = 1.0 if step.scale_ is None else 1 / np.asarray(step.scale_)
        return factors, 0.0 if not step.with_mean else -factors * np.asarray(step.mean_)
    if isinstance(step, RobustScaler):
        factors = 1.0 if step.scale_ is None else 1 / np.asarray(step.scale_)
        return factors, 0.0 if step.center_ is None else -factors * np.asarray(step.center_)
    if isinstance(step, MinMaxScaler) and not step.clip:
        return np.asarray(step.scale_), np.asarray(step.min_)
    if isinstance(step, MaxAbsScaler):
        return 1 / np.asarray(step.scale_), 0.0
    if isinstance(step, FunctionTransformer) and step.func is None and step.inverse_func is None:
        return 1.0, 0.0
    raise InputError(
        f"{name} contains {type(step).__name__}, which is no scaler or multilayer perceptron; "
        f"only MLPRegressor and MLPClassifier behind a Standard, MinMax, MaxAbs or RobustScaler are compared"
    )


def with_probabilities(model: Any, oracle: CallableOracle) -> CallableOracle:
    """The oracle of a classifier with probabilities instead of log-odds: one column of two classes."""
    if not oracle.notes or oracle.notes[0] not in (log_odds.BINARY_NOTE, log_odds.MULTICLASS_NOTE):
        return oracle
    count = len(model.classes_)

    def evaluate(x: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            probabilities = model.predict_proba(_as_table(model, x))
        return probabilities[:, 1:] if count == 2 else probabilities

    return replace(oracle, evaluate=evaluate, output_size=log_odds.num_outputs(count))


def leading_scaling(model: Any) -> tuple[np.ndarray | float, np.ndarray | float] | None:
    """``(a, b)`` of a scaler ``a x + b`` at the head of a pipeline, if there is one."""
    from sklearn.pipeline import Pipeline

    if not isinstance(model, Pipeline) or len(model.steps) < 2:
        return None
    try:
        return _scaling(model.steps[0][1], "")
    except InputError:
        return None


def encoded_columns(model: Any) -> list[str | int]:
    """The columns that some step takes as categories, by name or number."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

    if isinstance(model, Pipeline):
        first = next((step for _, step in model.steps if step is not None and step != "passthrough"), None)
        return [] if first is None else encoded_columns(first)
    if isinstance(model, OneHotEncoder | OrdinalEncoder | TargetEncoder):
        return list(getattr(model, "feature_names_in_", range(model.n_features_in_)))
    if not isinstance(model, ColumnTransformer):
        return []
    found: list[str | int] = []
    for _, step, columns in model.transformers_:
        inner = [] if isinstance(step, str) or not hasattr(step, "fit") else encoded_columns(step)
        if inner:
            chosen = (
                np.arange(int(getattr(model, "n_features_in_", 0)))[columns]
                if _by_place(columns)
                else columns
            )
            found += [column if isinstance(column, str) else int(column) for column in np.atleast_1d(chosen)]
    return found


def _by_place(columns: Any) -> bool:
    return isinstance(columns, slice) or np.asarray(columns).dtype.kind == "b"


def _question(model: Any, name: str) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """What to call, and what the verdict must say about it."""
    from sklearn.base import is_classifier

    if not is_classifier(model):
        if not callable(getattr(model, "predict", None)):
            raise InputError(f"{name} has no predict method; give a regressor, a classifier or a callable")
        return model.predict, ()
    if callable(getattr(model, "decision_function", None)):
        return model.decision_function, ("the outputs are the classifier's decision function",)
    if not callable(getattr(model, "predict_proba", None)):
        raise InputError(
            f"{name} gives only labels; train it with probabilities, or give a callable with numeric answers"
        )
    if getattr(_final(model), "out_activation_", "") == "logistic" and _final(model).n_outputs_ > 1:
        return lambda x: _logits(model.predict_proba(x)), (
            "the outputs are the log-odds of each label's probability",
        )

    def answer(x: Any) -> np.ndarray:
        probabilities = model.predict_proba(x)
        if not isinstance(probabilities, np.ndarray):
            raise OracleError(f"{name} predicts several targets at once; give a callable for one of them")
        return log_odds.from_probabilities(probabilities)

    return answer, (log_odds.note(len(model.classes_)),)


def _logits(probabilities: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities) - np.log1p(-probabilities)


def _fitted(model: Any, name: str) -> int:
    """The number of inputs of a fitted model."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
        return int(model.n_features_in_)
    except (NotFittedError, AttributeError, TypeError) as error:
        raise InputError(
            f"{name} is not fitted (or does not know its number of inputs); call fit first"
        ) from error


def _as_table(model: Any, x: np.ndarray) -> Any:
    """A data frame for models fitted on one, since their steps may choose columns by name."""
    columns = getattr(model, "feature_names_in_", None)
    if columns is None:
        return x
    try:
        import pandas  # pyright: ignore[reportMissingImports]
    except ImportError:
        return x
    return pandas.DataFrame(x, columns=columns).infer_objects()


def _final(model: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def _title(model: Any) -> str:
    last = _final(model)
    return type(model).__name__ if last is model else f"{type(model).__name__} with {type(last).__name__}"
