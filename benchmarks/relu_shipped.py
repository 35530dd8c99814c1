"""Relu networks as they are shipped: float32, in a box, leaky, wider than their input. A line a class.

    python benchmarks/relu_shipped.py --quick       two seeds of the small classes, about two minutes
    python benchmarks/relu_shipped.py --trials 20   every class
    python benchmarks/relu_shipped.py --only NAME

Everything but the box is unknown. Columns: trials, identified and right, false claims, largest parameter error where
the network itself comes back (its units all change side in the domain), largest error of the function on fresh points
relative to its spread, queries a parameter, CPU seconds a trial.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import unweave
from unweave.core.network import Network


@dataclass(frozen=True)
class Case:
    """A class of networks and how they are asked."""

    name: str
    sizes: tuple[int, ...]
    dtype: str = "float64"
    box: tuple[float, float] | None = None
    leak: float = 0.0
    quick: bool = False

    @property
    def domain(self):
        return None if self.box is None else unweave.Box(*self.box)


CASES = [
    Case("float32 6-8-2", (6, 8, 2), "float32", quick=True),
    Case("float32 64-32-10", (64, 32, 10), "float32"),
    Case("float32 64-32-10 Box[-1,1]", (64, 32, 10), "float32", (-1.0, 1.0)),
    Case("float32 64-32-10 Box[0,1]", (64, 32, 10), "float32", (0.0, 1.0)),
    Case("float32 10-16-16-3", (10, 16, 16, 3), "float32", quick=True),
    Case("leaky 10-16-16-3", (10, 16, 16, 3), leak=0.1),
    Case("10-16-16-3 Box[-3,3]", (10, 16, 16, 3), box=(-3.0, 3.0), quick=True),
    Case("10-16-16-3 Box[-1,1]", (10, 16, 16, 3), box=(-1.0, 1.0)),
    Case("8-64-64-4", (8, 64, 64, 4)),
]


def draw_network(case: Case, seed: int) -> Network:
    """He's weights, biases as torch draws them."""
    rng = np.random.default_rng([seed, *case.sizes])
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(case.sizes)]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in pairwise(case.sizes)]
    if case.dtype == "float32":
        weights, biases = ([p.astype(np.float32).astype(float) for p in ps] for ps in (weights, biases))
    name = "relu" if case.leak == 0 else f"leaky_relu({case.leak})"
    return Network(weights, biases, [name] * (len(case.sizes) - 2) + ["identity"])


def arithmetic(network: Network, case: Case):
    kind = np.dtype(case.dtype)
    layers = [(w.astype(kind), b.astype(kind)) for w, b in zip(network.weights, network.biases, strict=True)]

    def answer(x: np.ndarray) -> np.ndarray:
        h = x.astype(kind)
        for i, (w, b) in enumerate(layers):
            h = h @ w.T + b
            if i < len(layers) - 1:
                h = np.where(h > 0, h, kind.type(case.leak) * h)
        return h.astype(float)

    return answer


def run_case(case: Case, seeds: range, limit: float) -> None:
    right, false, parameters, functions, queries, seconds = 0, 0, [], [], [], []
    for seed in seeds:
        network = draw_network(case, seed)
        began = time.process_time()
        found = unweave.identify(
            arithmetic(network, case),
            input_size=case.sizes[0],
            domain=case.domain,
            seed=seed,
            time_limit=limit,
        )
        seconds.append(time.process_time() - began)
        queries.append(found.ledger.total / network.num_parameters)
        if not found.identified:
            continue
        rng = np.random.default_rng(9)
        x = (
            rng.standard_normal((4000, case.sizes[0]))
            if case.box is None
            else rng.uniform(*case.box, (4000, case.sizes[0]))
        )
        truth = network(x)
        error = float(np.max(np.abs(found.network(x) - truth)) / np.std(truth))
        good = error <= (1e-6 if case.dtype == "float64" else 1e-3)
        right, false = right + good, false + (not good)
        functions.append(error)
        if found.network.hidden == network.hidden:
            parameters.append(float(unweave.compare(network, found.network).max_relative_error))
    print(
        f"{case.name:30s} {len(seeds):3d} trials  {right:3d} right  {false} false  "
        f"parameters {max(parameters, default=np.nan):.1e} ({len(parameters)})  "
        f"function {max(functions, default=np.nan):.1e}  {np.median(queries):6.1f} queries a parameter  "
        f"{np.mean(seconds):6.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds a trial")
    options = parser.parse_args()
    for case in CASES:
        if (options.quick and not case.quick) or options.only not in case.name:
            continue
        trials = 2 if options.quick else options.trials
        run_case(case, range(options.first, options.first + trials), options.limit)


if __name__ == "__main__":
    main()
