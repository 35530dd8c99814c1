"""The public names are documented: Parameters, Returns and Raises where they belong, and examples that run."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import unweave
from unweave.audit import audit

FUNCTIONS = [
    unweave.identify,
    unweave.learn,
    unweave.compare,
    unweave.resolve,
    unweave.load,
    unweave.fit,
    unweave.certify,
    unweave.landscape,
    audit,
]
CLASSES = [
    unweave.Data,
    unweave.Ball,
    unweave.Box,
    unweave.Network,
    unweave.NetworkRegressor,
    unweave.ServedModel,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_say_what_they_take_return_and_raise(function):
    text = inspect.getdoc(function)
    for heading in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"{heading}\n{'-' * len(heading)}" in text, heading
    parameters = text.split("Parameters\n----------")[1].split("Returns\n-------")[0]
    for name in inspect.signature(function).parameters:
        assert name in parameters


@pytest.mark.parametrize("thing", [*FUNCTIONS, *CLASSES], ids=lambda f: f.__name__)
def test_examples_run(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(thing.__module__)
    found = doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, module=module)
    assert any(test.examples for test in found)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in found:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
