"""Results to draw: a whole one, one of each outcome, and one whose every text tries to break out of the page."""

from __future__ import annotations

import numpy as np

from truth import random_network
from unweave.certificates.certificate import Certificate
from unweave.core.errors import Outcome
from unweave.core.network import Network
from unweave.evidence.ledger import Ledger
from unweave.evidence.precision import Precision
from unweave.result import Identification

EVIL = """<script>alert(1)</script><img src=x onerror=alert(2)>"'&{{7*7}}</style></svg>$\\frac{"""


def certificate(network: Network, **changes) -> Certificate:
    rng = np.random.default_rng(0)
    answers = network(rng.standard_normal((200, network.input_size)))
    errors = 10 ** rng.uniform(-16, -12, 200)
    units = sum(len(w) for w in network.weights)
    fresh = {
        "answers": answers,
        "outputs": answers * (1 + errors[:, None]),
        "errors": errors,
        "deviations": 10 ** rng.uniform(-15, -12, units),
    }
    figures = {"condition": 1e3, "max_standard_error": 1e-12, "fresh": fresh}
    return Certificate(1e-12, 1e-13, 200, 1e-9, 0.0296, **{**figures, **changes})


def result(sizes=(5, 6, 3, 2), **changes) -> Identification:
    network = random_network(sizes, "tanh", seed=1)
    fields = {
        "outcome": Outcome.IDENTIFIED,
        "network": network,
        "certificate": certificate(network),
        "ledger": Ledger(
            1000, {"circle": 70, "rows": 30, "certificate": 200}, {"circle": 0.2, "rows": 0.003}
        ),
        "method": "hessian-span",
        "method_reason": "asked for",
        "alternatives": {"tanh": 1e-15, "erf": 3e-3, "relu": float("inf")},
        "precision": Precision(1e-16, 1.0, "float64"),
        "seconds": 1.25,
        "seed": 7,
        "model_name": "ONNX model m.onnx",
        "details": {
            "hessian_spectrum": np.array([3.0, 2.0, 1.0, 0.5, 0.2, 0.1, 1e-9, 5e-10]),
            "ranks": {"hessian_spectrum": 6},
            "attempts": [("tanh", (6, 2), 40, 1e-15, "target"), ("tanh", (6, 3), 90, 2e-16, "target")],
            "asked": {"model": "m.onnx", "activation": "auto", "method": "hessian-span", "budget": 1000},
        },
    }
    return Identification(**{**fields, **changes})


def hostile() -> Identification:
    """Every text a model, a file or a stage can bring in."""
    whole = result()
    return result(
        model_name=EVIL,
        reason=EVIL,
        outcome=Outcome.PARTLY,
        method=EVIL,
        method_reason=EVIL,
        warnings=(EVIL, "a <b> & c"),
        undetermined=(EVIL,),
        ledger=Ledger(None, {EVIL: 7}, {EVIL: 0.5}),
        precision=Precision(1e-16, 1.0, EVIL),
        alternatives={EVIL: 1e-3},
        details={
            f"{EVIL}_spectrum": whole.details["hessian_spectrum"],
            "asked": {"model": EVIL, "domain": EVIL, "method": EVIL},
        },
    )
