"""Trained relu networks from queries: scikit-learn pipelines with one and two hidden layers.

    python benchmarks/relu_trained.py --quick         one network a cell
    python benchmarks/relu_trained.py                 five networks a cell

The model asked is the whole pipeline, StandardScaler included. *Exact*: every observable parameter agrees, to 1e-9 (one
hidden layer) or 1e-8 (two), and the function to 1e-8 on N(0, 1.5^2) points of the scaler's coordinates. Training leaves
units that nothing can observe: first-layer units whose bend is below the rounding of the answers, second-layer units
never active at scales from 1.5 to 1000; they are left out of the truth. Second-layer units active everywhere show only
in the sum of their effects.
"""

from __future__ import annotations

import time

import numpy as np
from scenarios import open_parser, trained_regressor
from scipy.optimize import linear_sum_assignment

import unweave
from unweave.core.network import Network
from unweave.models.resolve import resolve_network

CELLS = [
    (data, hidden)
    for hidden in ((16,), (30,), (100,), (10, 10), (10, 5), (20, 10))
    for data in ("diabetes", "friedman", "digits")
]
ROUNDING = 1e-14


def visible(network: Network) -> Network:
    """The network without first-layer units whose bend drowns in rounding."""
    w, b, c = network.weights[0], network.biases[0], network.weights[1]
    size = np.linalg.norm(w, axis=1) * np.linalg.norm(c, axis=0)
    kept = size > ROUNDING * size.sum()
    shift = c[:, ~kept] @ np.maximum(b[~kept], 0.0)
    weights = [w[kept], c[:, kept], *network.weights[2:]]
    return Network(weights, [b[kept], network.biases[1] + shift, *network.biases[2:]], network.activations)


def rows_of(network: Network, layer: int) -> np.ndarray:
    return np.hstack([network.weights[layer], network.biases[layer][:, None]])


def paired(truth: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, float]:
    """Which found row belongs to each true one, and the worst error relative to the row's largest entry."""
    if len(found) < len(truth):
        return np.zeros(0, dtype=int), float("inf")
    sizes = np.maximum(np.max(np.abs(truth), axis=1, keepdims=True), 1e-300)
    apart = np.max(np.abs(truth[:, None] - found[None]), axis=2) / sizes
    rows, columns = linear_sum_assignment(np.minimum(apart, 1e3))
    return columns, float(np.max(apart[rows, columns], initial=0.0))


def observable_error(truth: Network, found: Network, x: np.ndarray) -> float:
    """Worst relative error over the parameters that show; scales between layers put where rows have unit length."""
    truth, found = visible(truth), visible(found)
    if len(truth.hidden) != len(found.hidden) or truth.hidden[0] != found.hidden[0]:
        return float("inf")
    if len(truth.hidden) == 1:
        return unweave.compare(truth, found).max_relative_error
    scales = [np.linalg.norm(network.weights[0], axis=1) for network in (truth, found)]
    first = [rows_of(n, 0) / s[:, None] for n, s in zip((truth, found), scales, strict=True)]
    match, worst = paired(first[0], first[1])
    if not np.isfinite(worst):
        return worst
    seconds = []
    for network, scale, order in zip((truth, found), scales, (np.arange(len(match)), match), strict=True):
        out = np.linalg.norm(network.weights[2], axis=0)[:, None]
        weights = (network.weights[1] * scale)[:, order]
        seconds.append(out * np.hstack([weights, network.biases[1][:, None]]))
    on = np.mean(Network(truth.weights[:2], truth.biases[:2], truth.activations[:2])(x) > 0, axis=0)
    observable = (on > 0) & (on < 1) & np.any(truth.weights[2] != 0, axis=0)
    return max(worst, paired(seconds[0][observable], seconds[1])[1])


def run(data: str, hidden: tuple[int, ...], seed: int) -> dict:
    model = trained_regressor(data, "relu", hidden, "adam", seed)
    truth, scaler = resolve_network(model), model[0]
    began = time.process_time()
    found = unweave.identify(model, seed=seed)
    seconds = time.process_time() - began
    rng = np.random.default_rng(seed)
    record = {"queries": found.ledger.total / truth.num_parameters, "seconds": seconds}
    record |= {"outcome": str(found.outcome), "reason": found.reason, "exact": False, "error": np.inf}
    if found.network is None or found.network.is_open:
        return record
    x = [s * rng.standard_normal((30_000, truth.input_size)) for s in (1.5, 10.0, 1000.0)]
    x = [points * scaler.scale_ + scaler.mean_ for points in x]
    error = observable_error(truth, found.network, np.concatenate(x))
    values = truth(x[0])
    function = np.quantile(np.max(np.abs(values - found.network(x[0])), axis=1) / np.std(values), 0.9999)
    limit = 1e-9 if len(hidden) == 1 else 1e-8
    return {**record, "error": error, "exact": bool(error <= limit and function <= 1e-8)}


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--first-seed", type=int, default=1000)
    options = parser.parse_args()
    count = 1 if options.quick else 5
    totals: dict[int, list[bool]] = {1: [], 2: []}
    for data, hidden in CELLS:
        records = [run(data, hidden, options.first_seed + i) for i in range(count)]
        totals[len(hidden)] += [r["exact"] for r in records]
        false = sum(r["outcome"] == "identified" and not r["error"] <= 1e-6 for r in records)
        errors = [r["error"] for r in records if np.isfinite(r["error"])]
        rest = {f"{r['outcome']}: {r['reason'][:60]}" for r in records if not r["exact"]}
        print(
            f"{data:9s} {hidden!s:9s} {sum(r['exact'] for r in records)}/{count} exact"
            f"  worst {max(errors, default=np.inf):.0e}  queries/parameter"
            f" {np.mean([r['queries'] for r in records]):.2f}  {np.mean([r['seconds'] for r in records]):.1f} s"
            f" (worst {max(r['seconds'] for r in records):.1f})  false claims {false}  {'; '.join(sorted(rest))}",
            flush=True,
        )
    for depth, exact in totals.items():
        print(f"{depth} hidden layer(s): {sum(exact)} of {len(exact)} exact")


if __name__ == "__main__":
    main()
