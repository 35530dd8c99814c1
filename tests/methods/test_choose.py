"""The choice is a sort: those methods that suit, in order of preference, for rows by what small students say."""

from __future__ import annotations

import pytest

from unweave.core.errors import InputError
from unweave.evidence.kinds import Evidence
from unweave.methods.base import Traits
from unweave.methods.choose import asked_for, choose, find_method
from unweave.methods.registry import named
from unweave.probes.growth import Growth

SATURATING = {"growth": Growth.SATURATING, "piecewise_linear": False}
LINEAR = {"growth": Growth.LINEAR, "piecewise_linear": False}


def chosen(evidence: Evidence, input_size: int = 10, **traits) -> list[tuple[str, str]]:
    choices = choose(Traits(evidence, input_size, **traits))
    assert all(choice.reason for choice in choices)
    return [(choice.method.name, choice.activations[0]) for choice in choices]


@pytest.mark.parametrize(
    ("traits", "names"),
    [
        (SATURATING, ["far-field", "in-domain"]),
        ({**SATURATING, "input_size": 40}, ["far-field", "hessian-pencil", "in-domain"]),
        ({**SATURATING, "input_size": 600}, ["ridge", "far-field", "hessian-pencil", "in-domain"]),
        ({**SATURATING, "reach": 5.0}, ["in-domain"]),
        ({"growth": Growth.UNSEEN, "piecewise_linear": False, "reach": 5.0}, ["in-domain"]),
        ({"growth": Growth.LINEAR, "piecewise_linear": True}, ["relu-lines", "relu-layers"]),
        (
            {"growth": Growth.UNSEEN, "piecewise_linear": True, "reach": 2.0},
            ["relu-lines", "relu-lifted", "relu-layers"],
        ),
        (
            {"growth": Growth.LINEAR, "activation": "leaky_relu(0.2)"},
            ["relu-lines", "relu-lifted", "relu-layers"],
        ),
        (
            {"growth": Growth.LINEAR, "piecewise_linear": True, "exact": False, "single": True},
            ["linear", "relu-lines", "relu-features", "relu-lifted", "relu-layers"],
        ),
        ({"two_valued": True, "growth": Growth.CONSTANT}, ["halfspaces"]),
        ({"growth": Growth.OTHER, "activation": "exp"}, ["in-domain"]),
        ({**LINEAR, "exact": False}, ["in-domain"]),
    ],
)
def test_queries(traits, names):
    assert [name for name, _ in chosen(Evidence.QUERIES, **traits)] == names


def test_candidates_are_what_is_left():
    assert chosen(Evidence.QUERIES, **SATURATING)[-1] == ("in-domain", "tanh")
    assert chosen(Evidence.QUERIES, **LINEAR, exact=False)[-1] == ("in-domain", "gelu")
    assert asked_for(named("in-domain", Evidence.QUERIES), "auto").activations[:2] == ("tanh", "erf")
    assert asked_for(named("in-domain", Evidence.QUERIES), "silu").activations == ("silu",)


def test_rows_go_to_the_activation_that_predicts_best():
    kinked = {"relu": 1e-3, "tanh": 1e-2, "erf": 2e-2}
    assert chosen(Evidence.ROWS, ranking=kinked) == [("relu-samples", "relu"), ("in-domain", "tanh")]
    smooth = {"gelu": 1e-3, "relu": 1e-2, "tanh": 2e-2}
    assert chosen(Evidence.ROWS, ranking=smooth) == [("in-domain", "gelu"), ("relu-samples", "relu")]
    assert chosen(Evidence.ROWS, two_valued=True) == [("high-threshold", "step")]
    assert chosen(Evidence.ROWS, activation="relu") == [("relu-samples", "relu")]
    assert chosen(Evidence.ROWS, activation="sigmoid") == [("in-domain", "sigmoid")]


def test_names_are_checked_and_objects_taken():
    method = named("ridge", Evidence.QUERIES)
    assert find_method(method, Evidence.QUERIES) is method
    assert find_method("auto", Evidence.ROWS) is None
    with pytest.raises(InputError, match="unknown method 'magic'; known: auto, "):
        find_method("magic", Evidence.QUERIES)
    with pytest.raises(InputError, match="learns from queries"):
        find_method(method, Evidence.ROWS)
