"""The user's rows as a domain: kinds of columns, what is asked, and what may be claimed."""

import numpy as np
import pytest

import unweave
from unweave.core.errors import InputError
from unweave.core.network import Network
from unweave.evidence.data import Data


@pytest.fixture
def rows():
    """Age, income, a constant, a flag, a one-hot group, a small number."""
    rng = np.random.default_rng(3)
    n = 240
    return np.column_stack(
        [
            rng.uniform(18, 90, n),
            rng.normal(5e4, 1e4, n),
            np.full(n, 7.0),
            rng.integers(0, 2, n),
            np.eye(3)[rng.integers(0, 3, n)],
            rng.normal(0, 0.01, n),
        ]
    )


def planted(rows, activation, units=5, seed=0):
    """A network of standardised columns."""
    rng = np.random.default_rng(seed)
    middle, spread = rows.mean(axis=0), np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)
    first = rng.normal(size=(units, rows.shape[1])) / spread / 2
    bias = rng.normal(size=units) / 2 - first @ middle
    return Network([first, rng.normal(size=(2, units))], [bias, np.ones(2)], [activation, "identity"])


def test_kinds_of_columns(rows):
    data = Data(rows)
    assert data.input_size == 8
    assert data.moving.tolist() == [True, True, False, False, False, False, False, True]
    assert [column.constant for column in data.columns].count(True) == 1
    assert "5 of them" not in repr(data)
    assert "4 of them categories" in repr(data)


@pytest.mark.parametrize("within", ["box", "hull", "density"])
def test_every_question_is_where_the_rows_are(rows, within):
    truth, seen = planted(rows, "tanh"), []

    def model(x):
        seen.append(x.copy())
        return truth(x)

    found = unweave.identify(model, domain=Data(rows, within=within), activation="tanh")
    assert found.identified
    asked = np.concatenate(seen)
    assert np.all(asked >= rows.min(axis=0))
    assert np.all(asked <= rows.max(axis=0))
    assert np.all(asked[:, 2] == 7)
    assert set(asked[:, 3]) == {0, 1}
    assert np.all(asked[:, 4:7].sum(axis=1) == 1)
    np.testing.assert_allclose(found(rows), truth(rows), atol=1e-7)
    assert "of your rows" in found.verdict()
    assert found.certificate.check("your rows").passed


def test_relu_and_the_constant_column(rows):
    truth = planted(rows, "relu", 4, seed=1)
    found = unweave.identify(truth, domain=Data(rows))
    assert found.identified
    np.testing.assert_allclose(found(rows), truth(rows), atol=1e-6)
    assert np.all(found.network.weights[0][:, 2] == 0)


def test_float32_models_far_from_the_origin():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(2000, 2026, 200), rng.uniform(-1, 1, (200, 3))])
    truth = planted(rows, "tanh", 3, seed=2)

    def model(x):
        h = x.astype(np.float32)
        for i, (w, b) in enumerate(zip(truth.weights, truth.biases, strict=True)):
            h = h @ w.T.astype(np.float32) + b.astype(np.float32)
            h = np.tanh(h) if i == 0 else h
        return h

    seen = []
    found = unweave.identify(lambda x: seen.append(x) or model(x), domain=Data(rows), activation="tanh")
    asked = np.concatenate(seen)
    assert np.array_equal(asked[1:], asked[1:].astype(np.float32))
    assert found.surrogate is not None


def test_where_the_claim_holds_only_between_the_rows():
    """Among the rows x and y are equal, and there the model is another function than around them."""
    rng = np.random.default_rng(1)
    t = rng.uniform(-1, 1, 200)
    rows = np.column_stack([t, t])
    truth = Network([np.eye(2), [[1.0, 2.0]]], [[0.1, 0.2], [0.0]], ["tanh", "identity"])

    def model(x):
        return truth(x) + np.where(np.abs(x[:, :1] - x[:, 1:]) < 1e-9, 1.0, 0.0)

    found = unweave.identify(model, domain=Data(rows), activation="tanh")
    assert not found.identified
    assert "only where none of your data lie" in found.verdict()


def test_units_that_no_row_switches_are_told():
    rng = np.random.default_rng(2)
    t = rng.uniform(-1, 1, 300)
    rows = np.column_stack([t, t + rng.uniform(-0.01, 0.01, 300), rng.uniform(-1, 1, 300)])
    first = [[1.0, 0.5, 0.3], [1.0, -1.0, 0.1], [0.2, 0.3, 1.0]]
    truth = Network([first, [[1.0, 2.0, -1.5]]], [[0.1, -0.9, 0.2], [0.0]], ["relu", "identity"])
    found = unweave.identify(truth, domain=Data(rows))
    assert "1 of 3 units of the first layer switch nowhere among your rows" in found.verdict()


def test_flat_rows_have_no_hull():
    t = np.linspace(0, 1, 20)
    with pytest.raises(InputError, match="within='box'"):
        unweave.identify(lambda x: x, domain=Data(np.column_stack([t, t]), within="hull"))


def test_columns_by_name_text_and_missing_fields(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"{i % 7},{'red' if i % 3 else 'blue'},{i / 10},{i}" for i in range(30)] + [",red,1.0,2"]
    path.write_text("age,colour,size,price\n" + "\n".join(lines) + "\n")
    data = Data(path, target="price")
    assert data.num_rows == 30
    assert data.inputs == ("age", "colour=blue", "colour=red", "size")
    assert data.decode(data.encoded)[0].tolist() == [0.0, "blue", 0.0]
    assert np.array_equal(data.encode({"age": [1.0], "colour": ["red"], "size": [2.0]}), [[1, 0, 1, 2]])
    assert Data(path, target="price", categories=["age"]).input_size == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Data(np.zeros((3, 2))), "at least 8"),
        (lambda: Data(np.zeros(3)), "shape"),
        (lambda: Data(np.zeros((9, 2)), within="ball"), "box, hull, density"),
        (lambda: Data(np.zeros((9, 2)), categories=["colour"]), "no column"),
        (lambda: Data("nowhere.csv"), "no such file"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_another_number_of_columns_than_the_model(rows):
    with pytest.raises(InputError, match="target="):
        unweave.identify(planted(rows, "tanh"), domain=Data(rows[:, :5]))
