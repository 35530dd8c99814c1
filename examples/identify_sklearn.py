"""A trained scikit-learn pipeline: the scaler in front comes out as part of the first layer."""

import warnings

from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unweave

x, y = load_diabetes(return_X_y=True)
regressor = MLPRegressor(hidden_layer_sizes=(16,), activation="tanh", max_iter=300, random_state=0)
model = make_pipeline(StandardScaler(), regressor)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    model.fit(x, (y - y.mean()) / y.std())

found = unweave.identify(model)
print(found.verdict())
print(f"worst parameter error: {unweave.compare(model, found.network).max_relative_error:.1e}")
