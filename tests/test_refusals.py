"""Whatever is given for whatever argument of the public functions: a result, or one of our errors, never a raw one."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import unweave
from unweave.audit import audit
from unweave.core.errors import InputError, UnweaveError

WEIGHTS = np.random.default_rng(0).normal(size=(2, 2))
LAYERS = ([WEIGHTS, np.ones((1, 2))], [np.zeros(2), np.zeros(1)], ["tanh", "identity"])
NETWORK = unweave.Network(*LAYERS)
X = np.random.default_rng(1).normal(size=(24, 2))
Y = NETWORK(X)
ODD: list[Any] = [
    None,
    "",
    "x",
    -1,
    0,
    3.0,
    float("nan"),
    float("inf"),
    True,
    [],
    {},
    [1, "a"],
    [None],
    object(),
    np.zeros((2, 2)),
    np.array([]),
    b"x",
    len,
    1 + 2j,
    {"a": 1},
    10**400,
]


def answer(x):
    return np.tanh(x @ WEIGHTS.T).sum(axis=1, keepdims=True)


FOUND = unweave.identify(answer, input_size=2)
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (unweave.identify, (answer,), {"input_size": 2, "budget": 20, "surrogate": False}),
    (unweave.learn, (X, Y), {"time_limit": 0.1}),
    (audit, (answer,), {"input_size": 2, "budget": 20, "defences": ["none"], "limits": []}),
    (unweave.compare, (NETWORK, NETWORK), {}),
    (unweave.fit, (X[:8], Y[:8]), {"width": 1, "num_starts": 1, "max_steps": 2}),
    (unweave.certify, (NETWORK, X[:8], Y[:8]), {}),
    (unweave.landscape, ("quadratic",), {"n": 4, "d": 2, "k": 1, "trials": (1, 1), "descent_steps": 2}),
    (unweave.resolve, (answer,), {"input_size": 2}),
    (unweave.load, ("nothing",), {}),
    (unweave.citation, (FOUND,), {}),
    (unweave.Ball, (1.0,), {}),
    (unweave.Box, (-1, 1), {}),
    (unweave.Normal, (), {}),
    (unweave.Data, (X,), {}),
    (unweave.Network, LAYERS, {}),
    (NETWORK.__call__, (X,), {}),
    (FOUND.predict, (X,), {}),
    (FOUND.save, ("found.safetensors",), {}),
    (FOUND.export, ("found.npz",), {}),
    (FOUND.report, ("found.html",), {}),
]
ARGUMENTS = [
    pytest.param(function, given, named, name, id=f"{function.__qualname__}-{name}")
    for function, given, named in CALLS
    for name in inspect.signature(function).parameters
]


@pytest.mark.parametrize(("function", "given", "named", "name"), ARGUMENTS)
def test_odd_arguments_are_used_or_refused(function, given, named, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    position = list(inspect.signature(function).parameters).index(name)
    refusals: list[str] = []
    for odd in ODD:
        if name == "progress" and callable(odd):  # what it raises is the caller's own
            continue
        positional, keywords = list(given), dict(named)
        if position < len(given):
            positional[position] = odd
        else:
            keywords[name] = odd
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function(*positional, **keywords)
            except UnweaveError as error:
                refusals.append(str(error))
    assert not [text for text in refusals if "\n" in text]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"domain": 3.0}, r"domain=3.0: give unweave.Ball\(radius\)"),
        ({"seed": None}, "seed=None: give a whole number, 0 or more"),
        ({"hidden": (6, 0)}, r"hidden=\(6, 0\): give one positive whole number for each hidden layer"),
        ({"method": 3}, "method=3: give auto"),
        ({"budget": "much"}, "budget='much'"),
        ({"time_limit": -1}, "time_limit=-1: give a positive number"),
    ],
)
def test_refusals_name_the_argument_and_the_remedy(arguments, words):
    with pytest.raises(InputError, match=words):
        unweave.identify(answer, input_size=2, **arguments)


def test_ordinary_spellings_are_understood():
    found = unweave.identify(answer, input_size=2, activation="Tanh", hidden=2)
    assert found.identified
    assert (found.activation, found.hidden) == ("tanh", (2,))
    assert unweave.Network(LAYERS[0], LAYERS[1], ["ReLU", "linear"]).activations == ("relu", "identity")
    with pytest.raises(InputError, match="unknown activation 'elur'"):
        unweave.identify(answer, input_size=2, activation="elur")
