"""How many decimals of the answers are needed to find a network: one hidden layer of tanh units, rounded answers.

Every line is one number of decimals over the same networks: how often the certificate says identified, how often a
network was called identified although it is off by more than three rounding steps somewhere on 5,000 fresh points, the
median worst relative parameter error and the median queries. A unit whose effect is below half a step cannot be seen.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from sys import path

import numpy as np

path.insert(0, str(Path(__file__).parents[1] / "tests"))

import unweave
from truth import random_network


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three networks instead of ten")
    parser.add_argument("--first-seed", type=int, default=4000)
    arguments = parser.parse_args()
    num_trials = 3 if arguments.quick else 10
    networks = [random_network((6, 8, 1), seed=arguments.first_seed + i) for i in range(num_trials)]
    print(
        f"6-8-1 tanh networks inside a ball of radius 6, {num_trials} trials a line, at most 20,000 queries"
    )
    print("decimals  identified  wrong  median worst parameter  median queries  CPU s a trial")
    for decimals in (6, 4, 3, 2, 1):
        began = time.process_time()
        results = [attempt(network, decimals, seed) for seed, network in enumerate(networks)]
        seconds = (time.process_time() - began) / num_trials
        identified = [error for outcome, error, _, _ in results if outcome]
        wrong = sum(outcome and off > 3 * 10.0**-decimals for outcome, _, off, _ in results)
        median = f"{np.median(identified):.1e}" if identified else "-"
        queries = int(np.median([count for *_, count in results]))
        print(
            f"{decimals:>8}  {len(identified):>4} of {num_trials:<3}  {wrong:>5}  {median:>22}  {queries:>14,}  "
            f"{seconds:>13.1f}",
            flush=True,
        )


def attempt(network: unweave.Network, decimals: int, seed: int) -> tuple[bool, float, float, int]:
    """Whether it was identified, the worst errors of a parameter (relative) and of an answer, and the queries."""

    def rounded(x: np.ndarray) -> np.ndarray:
        return np.round(network(x), decimals)

    domain = unweave.Ball(6.0)
    found = unweave.identify(rounded, input_size=6, domain=domain, budget=20_000, seed=seed)
    error, off = np.inf, np.inf
    if found.network is not None:
        error = unweave.compare(network, found.network).max_relative_error
        fresh = domain.sample(5000, 6, np.random.default_rng([seed, 5]))
        off = float(np.max(np.abs(found.network(fresh) - network(fresh))))
    return found.identified, error, off, found.ledger.total


if __name__ == "__main__":
    main()
