"""The scikit-learn regressor: scikit-learn's own checks, and a network recovered through it."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import unweave
from truth import random_network


def test_scikit_learn_accepts_the_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(unweave.NetworkRegressor(time_limit=0.3))


def test_a_network_comes_back_through_fit():
    network = random_network((3, 2, 1))
    x = np.random.default_rng(0).standard_normal((500, 3))
    model = unweave.NetworkRegressor(time_limit=60).fit(x, network(x)[:, 0])
    assert model.identified_
    assert unweave.compare(model.network_, network).max_relative_error < 1e-6
    assert model.predict(x).shape == (500,)


def test_it_works_in_pipelines_and_cross_validation():
    x = np.random.default_rng(0).uniform(-1, 1, (90, 2))
    y = np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(90)
    model = make_pipeline(StandardScaler(), unweave.NetworkRegressor(time_limit=0.5))
    assert cross_val_score(model, x, y, cv=2).min() > 0.5
