"""Far field against its figures: the class of Fornasier et al., random real networks, trained regressors, float32.

    python benchmarks/far_field.py --quick           a few trials a cell, about two minutes
    python benchmarks/far_field.py                   100 / 40 / 20 / 10 trials a scenario, 20 and 10 a network

Every line states its number of trials. *Complete* means every parameter to 1e-9 relative after alignment; a trial
that says "identified" with a larger error counts as a false claim. Queries include precision and certificate.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scenarios import open_parser, paper_network, random_mlp, trained_regressor

import unweave
from unweave.models.resolve import resolve_network

COMPLETE = 1e-9
COMPLETE_FLOAT32 = 1e-4


@dataclass(frozen=True)
class Trial:
    error: float
    identified: bool
    queries: float
    seconds: float


def run(model: Any, seed: int) -> Trial:
    truth = resolve_network(model)
    began = time.perf_counter()
    found = unweave.identify(model, seed=seed)
    seconds = time.perf_counter() - began
    error = float("inf") if found.network is None else unweave.compare(truth, found).max_relative_error
    return Trial(error, found.identified, found.ledger.total / truth.num_parameters, seconds)


def show(name: str, trials: list[Trial], limit: float = COMPLETE) -> None:
    complete = np.array([t.error <= limit and t.identified for t in trials])
    false_claims = sum(t.identified and not t.error <= 1e3 * limit for t in trials)
    queries = np.array([t.queries for t in trials])
    errors = [t.error for t in trials if np.isfinite(t.error)]
    print(
        f"{name:34s} {complete.sum():4d}/{len(trials):<4d} complete  {queries.mean():5.2f} queries/parameter "
        f"(worst {queries.max():5.2f})  median {np.median([t.seconds for t in trials]):6.2f} s  "
        f"worst error {max(errors, default=np.inf):.1e}  false claims {false_claims}",
        flush=True,
    )


def paper_cells(counts: dict[tuple[int, int], int], first_seed: int) -> None:
    print("Two hidden layers of the paper's class (unit rows, output weights 1), d = m0:")
    means = []
    for (m0, m1), count in counts.items():
        for geometry in ("pod", "sphere"):
            for activation in ("tanh", "sigmoid"):
                trials = [
                    run(paper_network(m0, m1, geometry, activation, first_seed + s), first_seed + s)
                    for s in range(count)
                ]
                means.append(np.mean([t.queries for t in trials]))
                show(f"  ({m0},{m1}) {geometry} {activation}", trials)
    print(f"  mean over cells {np.mean(means):.2f} queries/parameter, worst cell {np.max(means):.2f}")


def random_cells(count: int, first_seed: int) -> None:
    print("Random networks with free norms, biases and output weights:")
    for sizes in ((10, 16, 1), (10, 64, 1), (20, 10, 4, 1), (10, 16, 8, 3), (10, 30, 10, 3), (30, 20, 8, 1)):
        for activation in ("tanh", "sigmoid", "erf"):
            trials = [
                run(random_mlp(sizes, activation, first_seed + s), first_seed + s) for s in range(count)
            ]
            show(f"  {'-'.join(map(str, sizes))} {activation}", trials)


def trained_cells(count: int, first_seed: int) -> None:
    print("Trained scikit-learn pipelines (StandardScaler and MLPRegressor):")
    for data in ("diabetes", "friedman"):
        for activation in ("tanh", "logistic"):
            for width in (16, 30):
                for solver in ("adam", "lbfgs"):
                    trials = [
                        run(
                            trained_regressor(data, activation, (width,), solver, first_seed + s),
                            first_seed + s,
                        )
                        for s in range(count)
                    ]
                    show(f"  {data} {activation} {width} {solver}", trials)


def as_float32(model: Any):
    """The same network as a float32 torch module."""
    import torch

    network = resolve_network(model)
    activations = {"tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}
    layers: list = []
    for w, b, name in zip(network.weights, network.biases, network.activations, strict=True):
        linear = torch.nn.Linear(w.shape[1], w.shape[0])
        linear.weight.data, linear.bias.data = torch.tensor(w).float(), torch.tensor(b).float()
        layers += [linear] if name == "identity" else [linear, activations[name]()]
    return torch.nn.Sequential(*layers)


def float32_cells(count: int, first_seed: int) -> None:
    """Errors are what float32 allows; complete means here: identified, every parameter to 1e-4."""
    print("float32 torch modules:")
    seeds = range(first_seed, first_seed + count)
    cells = {
        f"{'-'.join(map(str, sizes))} {activation}": [random_mlp(sizes, activation, s) for s in seeds]
        for sizes in ((10, 16, 1), (20, 10, 4, 1))
        for activation in ("tanh", "sigmoid")
    }
    for data in ("diabetes", "friedman"):
        cells[f"{data} tanh 16 adam"] = [trained_regressor(data, "tanh", (16,), "adam", s) for s in seeds]
    for name, models in cells.items():
        trials = [run(as_float32(model), s) for model, s in zip(models, seeds, strict=True)]
        show(f"  {name}", trials, COMPLETE_FLOAT32)


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--only", choices=("paper", "random", "trained", "float32"))
    parser.add_argument("--first-seed", type=int, default=1000)
    options = parser.parse_args()
    full = {(30, 3): 100, (30, 9): 40, (30, 15): 20, (45, 14): 10}
    counts = {(30, 3): 3, (30, 9): 2, (30, 15): 1} if options.quick else full
    if options.only in (None, "paper"):
        paper_cells(counts, options.first_seed)
    if options.only in (None, "random"):
        random_cells(2 if options.quick else 20, options.first_seed)
    if options.only in (None, "trained"):
        trained_cells(1 if options.quick else 10, options.first_seed)
    if options.only in (None, "float32"):
        float32_cells(1 if options.quick else 5, options.first_seed)


if __name__ == "__main__":
    main()
