"""Saturating networks as they are: three and more layers, float32, trained, large; a line a class.

    python benchmarks/saturating.py --quick           one network of seven quick classes, a minute each at most
    python benchmarks/saturating.py --count 10        ten of every class
    python benchmarks/saturating.py --only "float32"  classes whose name contains this

Activation, widths and depth are not given. *Complete* means: identified, and every parameter to the tolerance of its
class after alignment; a trial that says "identified" with an error a thousand times larger is a false claim. Seconds
are those of the process, and of the clock. Those in a box want an accelerator (``unweave[accelerator]``). Networks:
He weights with biases N(0, 0.01), torch's own initialisation, or trained (Adam, a regression on normal inputs; digits).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import unweave
from unweave.core.domains import Box, Domain
from unweave.core.network import Network
from unweave.models.resolve import resolve_network


@dataclass(frozen=True)
class Class:
    name: str
    make: Callable[[int], Any]
    tolerance: float = 1e-6
    quick: bool = False
    domain: Domain | None = None


def he_network(sizes: tuple[int, ...], activation: str, seed: int) -> Network:
    """Gaussian weights of variance 2 / inputs (sigmoid: four times that), small biases, linear outputs."""
    rng = np.random.default_rng([seed, *sizes])
    gain = 2.0 if activation == "sigmoid" else 1.0
    weights, biases, last = [], [], len(sizes) - 2
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        factor = np.sqrt(2 / fan_in) * (gain if i < last else 1.0)
        weights.append(factor * rng.standard_normal((fan_out, fan_in)))
        biases.append(0.1 * rng.standard_normal(fan_out))
    return Network(weights, biases, [activation] * last + ["identity"])


def torch_network(
    sizes: tuple[int, ...], activation: str, seed: int, *, steps: int = 0, double: bool = False
):
    """A torch module as torch initialises it, or trained for a number of steps."""
    import torch

    torch.manual_seed(seed)
    unit = {"tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}[activation]
    layers: list = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [torch.nn.Linear(fan_in, fan_out), unit()]
    module = torch.nn.Sequential(*layers[:-1])
    if steps:
        x = torch.randn(2000, sizes[0])
        y = torch.sin(x @ torch.randn(sizes[0], sizes[-1])) + 0.5 * x[:, :1] * x[:, 1:2]
        _train(module, x, y, torch.nn.functional.mse_loss, steps, 2e-3)
    return module.double() if double else module


def remote_network(seed: int, *, single: bool = False):
    """A 40-8-3 sigmoid network of related rows; three units are saturated at all but some corners of [0, 1]^40."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((3, 40))
    rows = 2 * (rng.standard_normal((8, 3)) @ common + rng.standard_normal((8, 40)))
    share = np.where(np.arange(8) % 3 == 0, -0.7, 0.1)
    shifts = share * np.abs(rows).sum(axis=1) / 2 - rows.sum(axis=1) / 2
    top, last = 3 * rng.standard_normal((3, 8)), rng.standard_normal(3)
    if not single:
        return Network([rows, top], [shifts, last], ["sigmoid", "identity"])
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(40, 8), torch.nn.Sigmoid(), torch.nn.Linear(8, 3))
    values = (rows, shifts, top, last)
    for parameter, value in zip(module.parameters(), values, strict=True):
        parameter.data = torch.tensor(value, dtype=torch.float32)
    return module


def digits_network(activation: str, seed: int):
    """A 64-32-10 classifier of digits in float32."""
    import torch
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    module = torch_network((64, 32, 10), activation, seed)
    inputs, labels = torch.tensor(x / 16).float(), torch.tensor(y)
    _train(module, inputs, labels, torch.nn.functional.cross_entropy, 900, 3e-3)
    return module


def _train(module, x, y, loss, steps: int, rate: float) -> None:
    import torch

    optimiser = torch.optim.Adam(module.parameters(), lr=rate)
    for _ in range(steps):
        rows = torch.randint(0, len(x), (128,))
        optimiser.zero_grad()
        loss(module(x[rows]), y[rows]).backward()
        optimiser.step()


def classes() -> list[Class]:
    def he(sizes, activation="tanh"):
        return lambda seed: he_network(sizes, activation, seed)

    def torch(sizes, **options):
        return lambda seed: torch_network(sizes, "tanh", seed, **options)

    return [
        Class("three layers 10-16-12-8-1 tanh", he((10, 16, 12, 8, 1)), quick=True),
        Class("three layers 10-16-12-8-1 sigmoid", he((10, 16, 12, 8, 1), "sigmoid"), quick=True),
        Class("four layers 10-12-10-8-6-1 tanh", he((10, 12, 10, 8, 6, 1)), quick=True),
        Class("five layers 8-10-10-8-8-6-1 tanh", he((8, 10, 10, 8, 8, 6, 1))),
        Class("float32 digits 64-32-10 tanh", lambda seed: digits_network("tanh", seed), 1e-4, True),
        Class("float32 digits 64-32-10 sigmoid", lambda seed: digits_network("sigmoid", seed), 1e-4),
        Class("float32 8-32-32-2 initialised", torch((8, 32, 32, 2)), 1e-3, True),
        Class("float32 8-32-32-2 trained", torch((8, 32, 32, 2), steps=1500), 1e-3),
        Class("float32 8-16-16-2 trained", torch((8, 16, 16, 2), steps=1500), 1e-3),
        Class("trained 8-16-16-2", torch((8, 16, 16, 2), steps=1500, double=True)),
        Class("trained 8-24-24-2", torch((8, 24, 24, 2), steps=1500, double=True)),
        Class("trained 8-32-32-2 tanh", torch((8, 32, 32, 2), steps=1500, double=True)),
        Class("initialised 8-64-64-2", torch((8, 64, 64, 2), double=True)),
        Class("trained 8-64-64-2", torch((8, 64, 64, 2), steps=1500, double=True)),
        Class("three layers 8-32-32-32-2 tanh", torch((8, 32, 32, 32, 2), double=True)),
        Class("100-100-50-1", torch((100, 100, 50, 1), double=True), quick=True),
        Class("200-150-50-10", torch((200, 150, 50, 10), double=True)),
        Class("box, units at corners 40-8-3", remote_network, quick=True, domain=Box(0.0, 1.0)),
        Class(
            "box, float32 units at corners 40-8-3",
            lambda seed: remote_network(seed, single=True),
            1e-4,
            domain=Box(0.0, 1.0),
        ),
        Class("box 60-60-30-1 tanh", he((60, 60, 30, 1)), domain=Box(-1.0, 1.0)),
        Class("box 60-120-1 tanh", he((60, 120, 1)), domain=Box(-1.0, 1.0)),
        Class("box 100-200-1 tanh", he((100, 200, 1)), domain=Box(-1.0, 1.0)),
    ]


def run(case: Class, seeds: range, time_limit: float | None) -> None:
    errors, queries, seconds, walls, claims = [], [], [], [], []
    for seed in seeds:
        model = case.make(seed)
        truth = resolve_network(model)
        began, start = time.process_time(), time.monotonic()
        found = unweave.identify(model, seed=seed, time_limit=time_limit, domain=case.domain)
        seconds.append(time.process_time() - began)
        walls.append(time.monotonic() - start)
        error = np.inf if found.network is None else unweave.compare(truth, found.network).max_relative_error
        errors.append(error)
        claims.append(found.identified)
        queries.append(found.ledger.total / truth.num_parameters)
    complete = sum(c and e <= case.tolerance for c, e in zip(claims, errors, strict=True))
    false = sum(c and not e <= 1e3 * case.tolerance for c, e in zip(claims, errors, strict=True))
    print(
        f"{case.name:36s} {complete:3d}/{len(seeds):<3d} complete to {case.tolerance:g}  "
        f"{np.mean(queries):5.1f} queries/parameter  median {np.median(seconds):6.1f} CPU s, {np.median(walls):.1f} s  "
        f"median error {np.median(errors):.1e}  false claims {false}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--time-limit", type=float, default=None)
    options = parser.parse_args()
    count = 1 if options.quick else options.count
    limit = 60.0 if options.quick and options.time_limit is None else options.time_limit
    for case in classes():
        if options.only in case.name and (case.quick or not options.quick):
            run(case, range(options.first_seed, options.first_seed + count), limit)


if __name__ == "__main__":
    main()
