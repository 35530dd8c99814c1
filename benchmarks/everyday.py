"""Everyday classifiers without arguments: breast cancer, iris and digits, scikit-learn and torch, relu and tanh.

    python benchmarks/everyday.py               every model, about ten minutes
    python benchmarks/everyday.py --only torch --seed 1

Each is trained as in a tutorial (standardised inputs, one hidden layer: scikit-learn's default of 100 units, 32 for
torch, or ``--width``) and given to ``identify`` as it is, the pipeline or the module with its logits. Columns: outcome,
network, largest difference of the classes' probabilities on the data, queries, CPU and wall seconds; and for what was
not identified what the verdict says.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import unweave

DATA = ("iris", "cancer", "digits")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    from sklearn import datasets

    return {
        "iris": datasets.load_iris,
        "cancer": datasets.load_breast_cancer,
        "digits": datasets.load_digits,
    }[name](return_X_y=True)


def train_sklearn(name: str, activation: str, width: int, seed: int):
    """A pipeline, its rows, and its probabilities as a function."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = make_pipeline(
            StandardScaler(),
            MLPClassifier((width or 100,), activation=activation, max_iter=300, random_state=seed),
        ).fit(x, y)
    return pipe, x, pipe.predict_proba


def train_torch(name: str, activation: str, width: int, seed: int):
    """A module of logits, its rows, standardised as in a data loader, and its probabilities as a function."""
    import torch

    torch.manual_seed(seed)
    x, y = load(name)
    width = width or 32
    x = ((x - x.mean(0)) / np.maximum(x.std(0), 1e-9)).astype(np.float32)
    unit = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[activation]
    model = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], width), unit(), torch.nn.Linear(width, len(np.unique(y)))
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs, labels = torch.tensor(x), torch.tensor(y)
    for _ in range(200):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()

    def answer(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.tensor(rows)).softmax(dim=1).numpy().astype(float)

    return model, x, answer


def on_the_data(network: unweave.Network | None, x: np.ndarray, truth: np.ndarray) -> float:
    """The largest difference of the probabilities; NaN where the network is open."""
    if network is None or network.is_open:
        return float("nan")
    logits = network(x)
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return float(np.max(np.abs(odds / odds.sum(axis=1, keepdims=True) - truth)))


def run(kind: str, name: str, activation: str, options: argparse.Namespace) -> None:
    train = train_sklearn if kind == "sklearn" else train_torch
    model, x, answer = train(name, activation, options.width, options.seed)
    began, wall = time.process_time(), time.monotonic()
    found = unweave.identify(model, seed=options.seed, time_limit=options.limit)
    cpu, wall = time.process_time() - began, time.monotonic() - wall
    network = found.network if found.identified else found.network or found.surrogate
    print(
        f"{kind:8s} {name:7s} {activation:5s} {found.outcome!s:21s} {network!s:38s} "
        f"{on_the_data(network, x, answer(x)):.1e} {found.ledger.total:7d} queries {cpu:6.1f} CPU s {wall:6.1f} s  "
        f"{'' if found.identified else found.verdict()[:300]}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Everyday classifiers, identified without arguments.")
    parser.add_argument("--only", default="")
    parser.add_argument("--width", type=int, default=0, help="hidden units; 0: 100 for sklearn, 32 for torch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    for kind in ("sklearn", "torch"):
        for name in DATA:
            for activation in ("relu", "tanh"):
                if options.only in f"{kind} {name} {activation}":
                    run(kind, name, activation, options)


if __name__ == "__main__":
    main()
