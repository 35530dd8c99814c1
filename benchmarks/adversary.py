"""Hostile runs: models that look like networks, hide units, drift, lie or fail, and files that are none.

    python benchmarks/adversary.py --runs 200                 about ten minutes on one core
    python benchmarks/adversary.py --runs 2000 --seed 7       other models
    python benchmarks/adversary.py --family rounding --runs 20

Every run is one call with a budget, a domain and a time limit, and must end as an outcome or as one line of ours.
Counted as a fault: *claim*, a network called identified that is not the model beyond what the verdict leaves open;
*exception*, one that is not ours; *outside*, a question outside the domain; *budget*, more questions than allowed;
*time*, more than the limit and a tenth. A rare unit below the shares that the verdict states is *missed as stated*,
which is no fault.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import unweave
from unweave.core.domains import Ball, Box, Domain
from unweave.core.errors import InputError, UnweaveError
from unweave.core.network import Network
from unweave.formats.write import export

MISSED = "missed as stated"
SLACK = 1.0
"""Seconds beside the limit and a tenth of it: what is loaded and resolved before a run begins."""
Function = Callable[[np.ndarray], np.ndarray]
LOOKALIKES: dict[str, Function] = {
    "gudermannian": lambda z: 2 * np.arctan(np.tanh(z / 2)),
    "z/sqrt(1+z^2)": lambda z: z / np.sqrt(1 + z * z),
    "arctan": np.arctan,
    "sin": np.sin,
    "hard tanh, smoothed": lambda z: (np.logaddexp(0, 8 * (z + 1)) - np.logaddexp(0, 8 * (z - 1))) / 8 - 1,
    "erf-tanh mixture": lambda z: 0.9 * np.tanh(z) + 0.1 * np.arctan(z),
    "relu with a rounded corner": lambda z: np.logaddexp(0, 400 * z) / 400,
    "cubic relu": lambda z: np.maximum(z, 0) + 1e-3 * np.maximum(z, 0) ** 2,
}


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
    activation: str = ""
    """The only hidden activation a claim may name, if it matters."""
    tolerance: float = 1e-6
    """How far a claimed network may be from the model, relative to the spread."""
    rare: bool = False
    """Whether the model differs from a smaller network only where few points lie."""
    clean: Function | None = None
    """The model without noise or rounding, where that is what a claim is about."""
    seen: list[np.ndarray] = field(default_factory=list)

    def __call__(self, x: np.ndarray) -> Any:
        self.seen.append(np.array(x))
        return self.model(x)


def random_net(rng: np.random.Generator, activation: str, deep: bool = False) -> Network:
    d = int(rng.integers(2, 7))
    sizes = (
        d,
        int(rng.integers(1, 6)),
        *((int(rng.integers(1, 4)),) if deep else ()),
        int(rng.integers(1, 3)),
    )
    weights = [1.3 * rng.standard_normal((b, a)) / np.sqrt(a) for a, b in pairwise(sizes)]
    biases = [0.4 * rng.standard_normal(b) for b in sizes[1:]]
    return Network(weights, biases, [activation] * (len(sizes) - 2) + ["identity"])


def some_domain(rng: np.random.Generator, d: int) -> Domain | None:
    kind = rng.integers(4)
    if kind == 0:
        return None
    if kind == 1:
        return Ball(float(rng.uniform(1, 4)))
    if kind == 2:
        return Box(-float(rng.uniform(1, 3)), float(rng.uniform(1, 3)))
    centre = 10 * rng.standard_normal(d)
    return Ball(float(rng.uniform(1, 3)), centre=centre) if rng.integers(2) else Box(centre - 1, centre + 2)


def lookalike(rng: np.random.Generator) -> Case:
    name = str(rng.choice(list(LOOKALIKES)))
    unit, d, k = LOOKALIKES[name], int(rng.integers(2, 5)), int(rng.integers(1, 4))
    w, b, a = rng.standard_normal((k, d)), 0.3 * rng.standard_normal(k), rng.standard_normal((k, 1))

    def model(x):
        return unit(x @ w.T + b) @ a

    return Case("look-alike", f"{k} {name}", model, d, some_domain(rng, d), is_network=False)


def rounding(rng: np.random.Generator) -> Case:
    decimals = int(rng.integers(2, 5))
    if rng.integers(2):
        case = lookalike(rng)
        clean = case.model
        size, domain, known = case.input_size, case.domain, False
        name = case.name
    else:
        net = random_net(rng, str(rng.choice(["tanh", "relu", "sigmoid", "gelu"])))
        clean, size, domain, known, name = (
            net,
            net.input_size,
            some_domain(rng, net.input_size),
            True,
            net.describe(),
        )
    return Case(
        "rounding",
        f"{name}, {decimals} decimals",
        lambda x: np.round(clean(x), decimals),
        size,
        domain,
        is_network=known,
        tolerance=0.1,
        clean=clean,
    )


def noisy(rng: np.random.Generator) -> Case:
    net = random_net(rng, str(rng.choice(["tanh", "relu", "gelu", "softplus"])))
    level, own = 10 ** rng.uniform(-7, -2), np.random.default_rng(int(rng.integers(1 << 30)))

    def model(x):
        return net(x) + level * own.standard_normal((len(x), net.output_size))

    domain = some_domain(rng, net.input_size)
    name = f"{net.describe()}, noise {level:.0e}"
    return Case("noise", name, model, net.input_size, domain, tolerance=max(0.3, 100 * level), clean=net)


def drifting(rng: np.random.Generator) -> Case:
    net, rate, asked = random_net(rng, "tanh"), 10 ** rng.uniform(-9, -3), [0]

    def model(x):
        asked[0] += len(x)
        return net(x) * (1 + rate * asked[0])

    domain = some_domain(rng, net.input_size)
    return Case(
        "drift", f"{rate:.0e} a question", model, net.input_size, domain, is_network=False, clean=None
    )


def rare_unit(rng: np.random.Generator) -> Case:
    kind = str(rng.choice(["deep", "corner", "slab", "twins", "far"]))
    names = ["relu", "identity"]
    if kind == "deep":
        d = int(rng.integers(4, 8))
        w, v = rng.standard_normal((d + 2, d)), rng.standard_normal((4, d + 2))
        h = np.maximum(rng.standard_normal((50_000, d)) @ w.T, 0)
        typical = np.mean(h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-9), axis=0)
        share = 10 ** rng.uniform(-4, -2.5)
        v[0] -= np.quantile(h @ v[0] / np.maximum(h @ typical, 1e-9), 1 - share) * typical
        biases = [0.3 * rng.standard_normal(d + 2), 0.3 * rng.standard_normal(4), np.zeros(1)]
        net = Network([w, v, rng.standard_normal((1, 4))], biases, ["relu", "relu", "identity"])
        return Case("rare", kind, net, d, rare=True)
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
    return Case("rare", kind, Network([w, a], [b, [0.1]], names), d, domain, rare=True)


def quantised(rng: np.random.Generator) -> Case:
    net = random_net(rng, str(rng.choice(["tanh", "relu", "gelu", "sigmoid"])), deep=bool(rng.integers(2)))
    weights = [np.round(w * 16) / 16 for w in net.weights]
    biases = [np.round(b * 16) / 16 for b in net.biases]
    coarse = Network(weights, biases, net.activations)
    return Case("quantised", net.describe(), coarse, net.input_size, some_domain(rng, net.input_size))


def defended(rng: np.random.Generator) -> Case:
    net = random_net(rng, str(rng.choice(["tanh", "relu"])))
    size, key = 10 ** rng.uniform(-6, -2), rng.standard_normal(net.input_size)
    kind = str(rng.choice(["keyed", "clipped", "float16", "decoy"]))

    def model(x):
        y = net(x)
        if kind == "keyed":
            return y + size * np.sin(1e4 * (x @ key))[:, None]
        if kind == "clipped":
            return np.clip(y, -1, 1)
        if kind == "float16":
            return np.clip(y, -6e4, 6e4).astype(np.float16).astype(float)
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


def no_network(rng: np.random.Generator) -> Case:
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


BROKEN = ("nan", "complex", "words", "short", "none", "wide", "huge", "integers")
"""Kinds of answers that are none."""


class Hostile:
    """A model that misbehaves after a number of questions."""

    def __init__(self, kind: str, net: Network, after: int):
        self.kind, self.net, self.after, self.asked = kind, net, after, 0

    def __call__(self, x: np.ndarray) -> Any:
        self.asked += len(x)
        y = self.net(x)
        if self.kind == "in place":
            x *= 0
            return y
        if self.asked < self.after:
            return y
        if self.kind == "raises":
            raise ConnectionError("gone\naway")
        if self.kind == "exits":
            raise MemoryError
        if self.kind == "slow":
            time.sleep(0.05)
            return y
        wrong = {
            "nan": y * np.nan,
            "complex": y * 1j,
            "words": [["no"]] * len(x),
            "short": y[:-1],
            "none": None,
        }
        wrong |= {
            "wide": np.hstack([y, y]),
            "huge": y * 1e300,
            "list": y.tolist(),
            "integers": np.round(y).astype(int),
        }
        return wrong[self.kind]


def hostile(rng: np.random.Generator) -> Case:
    kinds = [
        "in place",
        "raises",
        "exits",
        "slow",
        "nan",
        "complex",
        "words",
        "short",
        "none",
        "wide",
        "huge",
        "list",
        "integers",
    ]
    kind, net = str(rng.choice(kinds)), random_net(rng, str(rng.choice(["tanh", "relu"])))
    model = Hostile(kind, net, int(rng.choice([1, 2, 30, 60, 300])))
    honest = kind in ("in place", "slow", "list")
    return Case(
        "hostile", kind, model, net.input_size, some_domain(rng, net.input_size), is_network=honest, clean=net
    )


def bad_file(rng: np.random.Generator) -> Case:
    kind = str(rng.choice([".npz", ".safetensors", ".onnx", ".pkl", ".pt", ".txt"]))
    net = random_net(rng, "tanh")
    with tempfile.NamedTemporaryFile(suffix=kind, delete=False) as file:
        path = Path(file.name)
    if kind in (".npz", ".safetensors"):
        export(net, path)
        content = bytearray(path.read_bytes())
    else:
        content = bytearray(rng.integers(0, 256, size=600, dtype=np.uint8).tobytes())
    how = str(rng.choice(["cut", "flip", "empty", "noise"]))
    if how == "cut":
        content = content[: int(rng.integers(1, len(content)))]
    elif how == "flip":
        for at in rng.integers(len(content), size=int(rng.integers(1, 30))):
            content[at] ^= int(rng.integers(1, 256))
    elif how == "empty":
        content = bytearray()
    path.write_bytes(bytes(content))
    return Case("bad file", f"{kind} {how}", str(path), None)


FAMILIES: dict[str, Callable[[np.random.Generator], Case]] = {
    "look-alike": lookalike,
    "rounding": rounding,
    "noise": noisy,
    "drift": drifting,
    "rare": rare_unit,
    "quantised": quantised,
    "defended": defended,
    "no network": no_network,
    "hostile": hostile,
    "bad file": bad_file,
}


def run_case(case: Case, time_limit: float) -> tuple[str, str, float]:
    """The fault ("" if none), what was said, and the seconds it took."""
    began = time.monotonic()
    path = Path(case.model) if isinstance(case.model, str) else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = unweave.identify(
                case if path is None else path,
                input_size=case.input_size,
                domain=case.domain,
                budget=case.budget,
                time_limit=time_limit,
            )
    except UnweaveError as error:
        said = f"{type(error).__name__}: {error}"
        blames_user = path is None and isinstance(error, InputError)
        fault = "exception" if blames_user or "\n" in str(error) else ""
        return fault or _limits(case, time.monotonic() - began, time_limit), said, time.monotonic() - began
    except Exception:
        return "exception", traceback.format_exc(limit=-2), time.monotonic() - began
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
    seconds = time.monotonic() - began
    said = f"{found.outcome}: {found.network.describe() if found.network else found.reason}"
    fault = _limits(case, seconds, time_limit)
    if not fault and "traceback" in found.details:
        return "exception", str(found.details["traceback"])[-600:], seconds
    if not fault and found.identified:
        fault = judge_claim(case, found)
    return fault, said, seconds


def _limits(case: Case, seconds: float, time_limit: float) -> str:
    asked = np.concatenate(case.seen) if case.seen else None
    if asked is not None and case.domain is not None and not np.all(case.domain.contains(asked, 0.0)):
        return "outside"
    if asked is not None and case.budget is not None and len(asked) > case.budget:
        return "budget"
    return "time" if seconds > 1.1 * time_limit + SLACK else ""


def judge_claim(case: Case, found: unweave.Identification) -> str:
    """Whether a network that was called identified is the model, on many points of the domain."""
    model = case.clean if case.clean is not None else case.model
    if isinstance(model, str) or found.network is None:
        return ""
    if isinstance(model, Hostile):
        model = model.net
    if found.network.is_open:
        return ""
    rng = np.random.default_rng(0)
    d = found.network.input_size
    where = Box(-3, 3) if case.domain is None else case.domain
    x = np.concatenate([where.sample(3000, d, rng), where.edge(1000, d, rng)])
    y = np.asarray(model(x), dtype=float).reshape(len(x), -1)
    apart = np.max(np.abs(found.network(x) - y), axis=1) / max(float(np.std(y)), 1e-300)
    share = float(np.mean(apart > case.tolerance))
    assert found.certificate is not None
    stated = found.certificate.fraction_outside
    search = found.certificate.check("search for disagreement")
    if search is not None:
        stated = max(stated, search.figures.get("rare_directions", 0.0))
    if share > stated:
        return "claim"
    if not found.network.hidden:
        return "claim" if share else ""  # what is affine in the domain may be called so
    if not case.is_network and share == 0 and case.family in ("look-alike", "rounding"):
        return "claim"  # the very function, called a network of other units
    return MISSED if share > 0 else ""


def make_case(number: int, seed: int, family: str | None = None) -> Case:
    names = list(FAMILIES) if family is None else [family]
    return FAMILIES[names[number % len(names)]](np.random.default_rng([seed, number]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--family", choices=list(FAMILIES))
    parser.add_argument("--time-limit", type=float, default=10.0)
    arguments = parser.parse_args()
    outcomes: Counter[tuple[str, str]] = Counter()
    faults: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(arguments.first, arguments.first + arguments.runs):
        case = make_case(number, arguments.seed, arguments.family)
        fault, said, seconds = run_case(case, arguments.time_limit)
        outcomes[case.family, said.split(":")[0]] += 1
        if fault:
            faults[fault] += 1
            print(f"run {number} {case.family} ({case.name}): {fault}; {said}; {seconds:.1f} s", flush=True)
    print(f"\n{arguments.runs} runs in {time.monotonic() - began:.0f} s")
    for (family, outcome), count in sorted(outcomes.items()):
        print(f"| {family} | {outcome} | {count} |")
    print("faults:", {name: n for name, n in faults.items() if name != MISSED} or "none")
    print("missed as stated:", faults[MISSED])


if __name__ == "__main__":
    main()
