"""Models that no claim must get wrong: look-alikes, hidden units, drifts, noise, rounding, defences, non-networks.

Each family draws one ``Case`` from a generator: what is asked, under which limits, and what would be a wrong claim.
``hostile_doors`` has those that fail before a network comes into it: servers, files, rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from unweave.core import activations as act
from unweave.core.domains import Ball, Box, Domain
from unweave.core.network import Network
from unweave.core.outputs import apply_output

Function = Callable[[np.ndarray], np.ndarray]
Draw = np.random.Generator


def _with_round_corner(z: np.ndarray, reach: float) -> np.ndarray:
    """A relu whose corner is a parabola; one rounded by softplus would be a softplus unit, and rightly called so."""
    return np.where(np.abs(z) < reach, (z + reach) ** 2 / (4 * reach), np.maximum(z, 0))


LOOKALIKES: dict[str, Function] = {
    "gudermannian": lambda z: 2 * np.arctan(np.tanh(z / 2)),
    "z/sqrt(1+z^2)": lambda z: z / np.sqrt(1 + z * z),
    "arctan": np.arctan,
    "sin": np.sin,
    "hard tanh, smoothed": lambda z: _with_round_corner(z + 1, 0.25) - _with_round_corner(z - 1, 0.25) - 1,
    "erf-tanh mixture": lambda z: 0.9 * np.tanh(z) + 0.1 * np.arctan(z),
    "relu with a rounded corner": lambda z: _with_round_corner(z, 5e-3),
    "cubic relu": lambda z: np.maximum(z, 0) + 1e-3 * np.maximum(z, 0) ** 2,
    "silu with its gate aside": lambda z: z / (1 + np.exp(-np.clip(z + 0.05, -700, 700))),
    "gelu-silu mixture": lambda z: 0.9 * act.get("gelu")(z) + 0.1 * act.get("silu")(z),
    "softplus and a little tanh": lambda z: np.logaddexp(0, z) + 1e-3 * np.tanh(z),
}
"""Functions of one argument that are no activation of ours."""
NEIGHBOURS = (
    "elu(1.01)",
    "elu(0.99)",
    "elu(1.1)",
    "leaky_relu(0.0102)",
    "leaky_relu(0.001)",
    "gelu",
    "gelu_tanh",
)
"""Activations of ours next to another one, or to another parameter: a claim must name the right one."""
SINGLE = 2e-4
"""How far a network of float32 answers may be from the model, relative to the spread."""


@dataclass
class Case:
    """One run: what is asked, under which limits, and what would be a wrong claim."""

    family: str
    name: str
    model: Any
    input_size: int | None
    domain: Domain | None = None
    budget: int | None = 20_000
    is_network: bool = True
    """Whether some network of ours is the model."""
    truth: Network | None = None
    """That network: a claim names its activations, and no hyperplane twice that it has once."""
    tolerance: float = 1e-6
    """How far a claimed network may be from the model, relative to the spread."""
    clean: Function | None = None
    """The model without noise or rounding, where that is what a claim is about."""
    rows: tuple[Any, Any] | None = None
    """Rows to learn from, instead of a model to ask."""
    close: Callable[[], None] | None = None
    """What ends with the run."""
    seen: list[np.ndarray] = field(default_factory=list)

    def __call__(self, x: np.ndarray) -> Any:
        self.seen.append(np.array(x))
        return self.model(x)


def random_net(rng: Draw, activation: str, deep: bool = False) -> Network:
    d = int(rng.integers(2, 7))
    inner = (int(rng.integers(1, 4)),) if deep else ()
    return draw_net(rng, (d, int(rng.integers(1, 6)), *inner, int(rng.integers(1, 3))), activation)


def draw_net(rng: Draw, sizes: tuple[int, ...], activation: str) -> Network:
    weights = [1.3 * rng.standard_normal((b, a)) / np.sqrt(a) for a, b in pairwise(sizes)]
    biases = [0.4 * rng.standard_normal(b) for b in sizes[1:]]
    return Network(weights, biases, [activation] * (len(sizes) - 2) + ["identity"])


def in_single(net: Network) -> Function:
    """The network in float32 arithmetic, with float32 answers."""
    weights, biases = ([a.astype(np.float32) for a in arrays] for arrays in (net.weights, net.biases))

    def answer(x: np.ndarray) -> np.ndarray:
        h = np.asarray(x, dtype=np.float32)
        for w, b, name in zip(weights, biases, net.activations, strict=True):
            h = act.get(name)(h @ w.T + b).astype(np.float32)
        return h

    return answer


def some_domain(rng: Draw, d: int) -> Domain | None:
    kind = rng.integers(4)
    if kind == 0:
        return None
    if kind == 1:
        return Ball(float(rng.uniform(1, 4)))
    if kind == 2:
        return Box(-float(rng.uniform(1, 3)), float(rng.uniform(1, 3)))
    centre = 10 * rng.standard_normal(d)
    return Ball(float(rng.uniform(1, 3)), centre=centre) if rng.integers(2) else Box(centre - 1, centre + 2)


def lookalike(rng: Draw) -> Case:
    name = str(rng.choice(list(LOOKALIKES)))
    unit, d, k = LOOKALIKES[name], int(rng.integers(2, 5)), int(rng.integers(1, 4))
    w, b, a = rng.standard_normal((k, d)), 0.3 * rng.standard_normal(k), rng.standard_normal((k, 1))
    single = rng.random() < 0.3

    def model(x):
        y = unit(x @ w.T + b) @ a
        return y.astype(np.float32) if single else y

    shown = f"{k} {name}{', float32' if single else ''}"
    tolerance = SINGLE if single else 1e-6
    return Case("look-alike", shown, model, d, some_domain(rng, d), is_network=False, tolerance=tolerance)


def neighbour(rng: Draw) -> Case:
    """An activation whose parameter is close to the usual one, in either precision."""
    net = random_net(rng, str(rng.choice(NEIGHBOURS)))
    single = rng.random() < 0.5
    model = in_single(net) if single else net
    name = f"{net.describe()}{', float32' if single else ''}"
    domain, tolerance = some_domain(rng, net.input_size), SINGLE if single else 1e-6
    return Case("neighbour", name, model, net.input_size, domain, truth=net, tolerance=tolerance, clean=net)


def rounding(rng: Draw) -> Case:
    decimals = int(rng.integers(2, 5))
    if rng.integers(2):
        case = lookalike(rng)
        clean, size, domain, known, name = case.model, case.input_size, case.domain, False, case.name
    else:
        net = random_net(rng, str(rng.choice(["tanh", "relu", "sigmoid", "gelu"])))
        clean, size, known, name = net, net.input_size, True, net.describe()
        domain = some_domain(rng, net.input_size)
    name = f"{name}, {decimals} decimals"

    def model(x):
        return np.round(clean(x), decimals)

    return Case("rounding", name, model, size, domain, is_network=known, tolerance=0.1, clean=clean)


def noisy(rng: Draw) -> Case:
    net = random_net(rng, str(rng.choice(["tanh", "relu", "gelu", "softplus"])))
    level, own = 10 ** rng.uniform(-7, -2), np.random.default_rng(int(rng.integers(1 << 30)))

    def model(x):
        return net(x) + level * own.standard_normal((len(x), net.output_size))

    domain, name = some_domain(rng, net.input_size), f"{net.describe()}, noise {level:.0e}"
    return Case("noise", name, model, net.input_size, domain, tolerance=max(0.3, 100 * level), clean=net)


def drifting(rng: Draw) -> Case:
    net, rate, asked = random_net(rng, "tanh"), 10 ** rng.uniform(-9, -3), [0]

    def model(x):
        asked[0] += len(x)
        return net(x) * (1 + rate * asked[0])

    domain = some_domain(rng, net.input_size)
    return Case("drift", f"{rate:.0e} a question", model, net.input_size, domain, is_network=False)


def rare_unit(rng: Draw) -> Case:
    kind = str(rng.choice(["deep", "corner", "slab", "twins", "far"]))
    if kind == "deep":
        d = int(rng.integers(4, 8))
        w, v = rng.standard_normal((d + 2, d)), rng.standard_normal((4, d + 2))
        h = np.maximum(rng.standard_normal((50_000, d)) @ w.T, 0)
        typical = np.mean(h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-9), axis=0)
        share = 10 ** rng.uniform(-4, -2.5)
        v[0] -= np.quantile(h @ v[0] / np.maximum(h @ typical, 1e-9), 1 - share) * typical
        biases = [0.3 * rng.standard_normal(d + 2), 0.3 * rng.standard_normal(4), np.zeros(1)]
        net = Network([w, v, rng.standard_normal((1, 4))], biases, ["relu", "relu", "identity"])
        return Case("rare", kind, net, d)
    d, k = int(rng.integers(3, 7)), 4
    w, b, a = rng.standard_normal((k, d)), 0.4 * rng.standard_normal(k), rng.standard_normal((1, k))
    extra = rng.standard_normal(d)
    extra /= np.linalg.norm(extra)
    domain: Domain | None = None
    if kind == "corner":
        domain = Box(-1, 1)
        bias = -np.quantile(rng.uniform(-1, 1, size=(50_000, d)) @ extra, 1 - 2e-4)
        w, b, a = np.vstack([w, extra]), np.append(b, bias), np.hstack([a, [[1.0]]])
    elif kind == "slab":
        e = 10 ** rng.uniform(-3, -1.5)
        w = np.vstack([w, [extra] * 3])
        b, a = np.append(b, 0.2 + np.array([e, 0, -e])), np.hstack([a, [[1.0, -2.0, 1.0]]])
    elif kind == "twins":
        e = 10 ** rng.uniform(-6, -3)
        w = np.vstack([w, w[0] + e * rng.standard_normal(d)])
        b, a = np.append(b, b[0] + e), np.hstack([a, np.abs(a[:, :1])])
    else:
        w, b, a = np.vstack([w, extra]), np.append(b, -(10 ** rng.uniform(2, 6))), np.hstack([a, [[1.0]]])
    return Case("rare", kind, Network([w, a], [b, [0.1]], ["relu", "identity"]), d, domain)


def quantised(rng: Draw) -> Case:
    net = random_net(rng, str(rng.choice(["tanh", "relu", "gelu", "sigmoid"])), deep=bool(rng.integers(2)))
    weights = [np.round(w * 16) / 16 for w in net.weights]
    coarse = Network(weights, [np.round(b * 16) / 16 for b in net.biases], net.activations)
    return Case("quantised", net.describe(), coarse, net.input_size, some_domain(rng, net.input_size))


def single(rng: Draw) -> Case:
    """Honest networks in float32 arithmetic, relu ones mostly inside a box."""
    kinds = ["relu", "tanh", "elu", "gelu", "silu", "softplus", "leaky_relu(0.1)", "selu", "sigmoid"]
    kind, d = str(rng.choice(kinds)), int(rng.integers(2, 6))
    net = draw_net(rng, (d, int(rng.integers(2, 8)), int(rng.integers(1, 3))), kind)
    boxed = kind == "relu" and rng.integers(2)
    domain = Box(-1.0, float(rng.choice([1.0, 3.0]))) if boxed else some_domain(rng, d)
    return Case("float32", net.describe(), in_single(net), d, domain, truth=net, tolerance=SINGLE, clean=net)


def boxed(rng: Draw) -> Case:
    """Two layers of relu in float32, inside a box, with answers near zero in its middle or a unit that hardly shows."""
    d, k = int(rng.integers(3, 6)), int(rng.integers(1, 4))
    kind = str(rng.choice(["relu", "relu", "leaky_relu(0.1)"]))
    net = draw_net(rng, (d, int(rng.integers(4, 9)), int(rng.integers(2, 7)), k), kind)
    weights, biases = [w.copy() for w in net.weights], [b.copy() for b in net.biases]
    hidden, trick = net.hidden[-1], str(rng.choice(["plain", "whisper", "corner", "always on"]))
    if trick == "whisper":
        weights[-1][:, -1] *= 10 ** rng.uniform(-5, -2)
    elif trick == "corner":
        biases[0][-1] = -np.abs(weights[0][-1]).sum() * rng.uniform(0.6, 0.95)
    elif trick == "always on":
        biases[1][: hidden // 2] += 4.0
    reach = float(rng.choice([1.0, 1.0, 3.0]))
    net = Network(weights, biases, net.activations)
    if rng.integers(2):
        net = Network(weights, [*biases[:-1], biases[-1] - net(np.zeros((1, d)))[0]], net.activations)
    net = net.with_flat(net.flat().astype(np.float32).astype(float))
    name, box = f"{net.describe()}, {trick}", Box(-reach, reach)
    return Case("boxed", name, in_single(net), d, box, 60_000, truth=net, tolerance=SINGLE, clean=net)


def squashed(rng: Draw) -> Case:
    """Answers behind a squashing, or behind one that only looks like it."""
    net = random_net(rng, str(rng.choice(["tanh", "relu"])))
    kinds = {
        "arctan": lambda z: 2 / np.pi * np.arctan(z),
        "algebraic": lambda z: 0.5 + 0.5 * z / np.sqrt(1 + z * z),
        "soft clamp": lambda z: 1 - np.logaddexp(0, 40 * (1 - z)) / 40,
        "normal": act.get("erf"),
        "probit": lambda z: 0.5 + 0.5 * act.get("erf")(z / np.sqrt(2)),
        "cloglog": lambda z: -np.expm1(-np.exp(np.clip(z, -700, 30))),
    }
    kind = str(rng.choice(["sigmoid", "softmax", "tanh", "exp", "hardtanh", *kinds]))
    known = kind not in kinds

    def model(x):
        return apply_output(kind, net(x)) if known else kinds[kind](net(x))

    domain = some_domain(rng, net.input_size)
    return Case("squashed", f"{kind} of {net.describe()}", model, net.input_size, domain, is_network=known)


def deep(rng: Draw) -> Case:
    """Two and three hidden layers, kinked or smooth, some with a unit that hardly shows."""
    kind = str(rng.choice(["relu", "relu", "tanh", "gelu", "leaky_relu(0.1)"]))
    d = int(rng.integers(3, 8))
    net = draw_net(rng, (d, *(int(rng.integers(2, d + 1)) for _ in range(rng.integers(2, 4))), 1), kind)
    if rng.integers(2):  # the last hidden unit speaks in a whisper
        net = Network(
            [*net.weights[:-1], net.weights[-1] * np.append(np.ones(net.hidden[-1] - 1), 1e-4)],
            net.biases,
            net.activations,
        )
    return Case("deep", net.describe(), net, d, some_domain(rng, d), truth=net)


def defended(rng: Draw) -> Case:
    net = random_net(rng, str(rng.choice(["tanh", "relu"])))
    size, key = 10 ** rng.uniform(-6, -2), rng.standard_normal(net.input_size)
    kind = str(rng.choice(["keyed", "clipped", "float16", "decoy", "rehearsed"]))
    asked = [0]

    def model(x):
        y, x = net(x), np.asarray(x)
        asked[0] += len(x)
        if kind == "keyed":
            return y + size * np.sin(1e4 * (x @ key))[:, None]
        if kind == "clipped":
            return np.clip(y, -1, 1)
        if kind == "float16":
            return np.clip(y, -6e4, 6e4).astype(np.float16).astype(float)
        if kind == "rehearsed":  # another model once it has been asked so many questions
            return y if asked[0] < 200 else y + size * np.tanh(x @ key)[:, None]
        return np.where(np.abs(x @ key)[:, None] < size, y + 1, y)

    known = kind == "float16"
    return Case(
        "defended",
        kind,
        model,
        net.input_size,
        some_domain(rng, net.input_size),
        is_network=known,
        tolerance=0.1 if known else 1e-6,
        clean=net if known else None,
    )


def no_network(rng: Draw) -> Case:
    d = int(rng.integers(2, 6))
    w, splits = rng.standard_normal(d), rng.standard_normal((7, d))
    centres, values = rng.standard_normal((12, d)), rng.standard_normal(12)
    models: dict[str, Function] = {
        "constant": lambda x: np.full((len(x), 1), 2.5),
        "linear": lambda x: (x @ w)[:, None],
        "square": lambda x: (x**2 @ np.abs(w))[:, None],
        "cubic": lambda x: ((x @ w) ** 3)[:, None],
        "sine": lambda x: np.sin(3 * x @ w)[:, None],
        "product": lambda x: np.prod(x, axis=1, keepdims=True),
        "length": lambda x: np.linalg.norm(x, axis=1, keepdims=True),
        "maximum": lambda x: np.max(x @ splits.T, axis=1, keepdims=True),
        "tree": lambda x: values[(x[:, :2] > splits[0, :2]) @ np.array([1, 2]) + 4 * (x[:, 0] > 0.7)][
            :, None
        ],
        "neighbour": lambda x: values[np.argmin(((x[:, None] - centres) ** 2).sum(2), axis=1)][:, None],
        "label": lambda x: (np.tanh(x @ splits.T) @ splits[:, 0] > 0).astype(float)[:, None],
        "softmax": lambda x: np.exp(x @ splits[:3].T) / np.exp(x @ splits[:3].T).sum(1, keepdims=True),
        "bump": lambda x: np.exp(-np.sum(x**2, axis=1, keepdims=True)),
        "hash": lambda x: np.modf(np.sin(x @ w)[:, None] * 43758.5453)[0],
    }
    name = str(rng.choice(list(models)))
    known = name in ("constant", "linear", "maximum", "square")
    return Case("no network", name, models[name], d, some_domain(rng, d), is_network=known)
