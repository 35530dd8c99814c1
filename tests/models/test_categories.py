"""Pipelines whose columns are categories: asked with categories only, refused without rows of data."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import unweave
from unweave.core.errors import InputError

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 300
    return pandas.DataFrame(
        {
            "age": rng.uniform(18, 90, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "income": rng.normal(3e4, 5e3, n),
            "code": rng.choice([3, 7, 11], n),
            "size": rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def pipeline(frame):
    encode = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age", "income", "size"]),
            ("names", OneHotEncoder(), ["colour", "code"]),
        ]
    )
    y = (
        np.tanh(frame["size"] + (frame["colour"] == "red"))
        + frame["age"] / 50
        - (frame["code"] == 7) * frame["income"] / 3e4
    )
    network = MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", random_state=0, max_iter=400, tol=1e-3)
    return make_pipeline(encode, network).fit(frame, y)


def test_without_rows_the_remedy_is_named(pipeline):
    with pytest.raises(InputError, match=r"takes categories \(colour, code\).*unweave.Data"):
        unweave.identify(pipeline)


def test_a_pipeline_with_categories_is_identified(pipeline, frame):
    found = unweave.identify(pipeline, domain=unweave.Data(frame))
    assert found.identified, found.verdict()
    np.testing.assert_allclose(found.predict(frame)[:, 0], pipeline.predict(frame), atol=1e-6)
    assert found.network.input_size == 3 + 3 + 3
    other = pandas.DataFrame(
        {"age": [40.0], "colour": ["green"], "income": [3e4], "code": [11], "size": [0.0]}
    )
    np.testing.assert_allclose(found(other)[:, 0], pipeline.predict(other), atol=1e-6)


def test_rows_from_a_file_with_more_columns(pipeline, frame, tmp_path, capsys):
    import joblib

    from unweave.cli import main

    frame.assign(price=1.0).to_csv(tmp_path / "rows.csv", index=False)
    joblib.dump(pipeline, tmp_path / "model.joblib")
    status = main(
        [
            "identify",
            str(tmp_path / "model.joblib"),
            "--allow-pickle",
            "--data",
            str(tmp_path / "rows.csv"),
            "--quiet",
        ]
    )
    assert status == 0
    assert "of your rows" in capsys.readouterr().out
