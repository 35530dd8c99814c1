"""Single neurons with k non-zero weights among d: questions, errors and CPU time.

    python benchmarks/ridge.py --quick       d = 10 000, k = 20, two trials an activation, about a minute
    python benchmarks/ridge.py               ten trials, equal magnitudes as well, and d = 100 000

Questions include precision, growth and the 200 of the certificate; the error is that of the worst parameter.
"""

from __future__ import annotations

import time

import numpy as np
from scenarios import open_parser

import unweave


def single_unit(size: int, num_nonzero: int, activation: str, flat: bool, seed: int) -> unweave.Network:
    rng = np.random.default_rng([seed, size, num_nonzero])
    row = np.zeros(size)
    values = rng.standard_normal(num_nonzero)
    row[rng.choice(size, num_nonzero, replace=False)] = np.sign(values) if flat else values
    row *= rng.uniform(0.7, 1.6) / np.linalg.norm(row)
    biases = [np.array([0.3 * rng.standard_normal()]), rng.standard_normal(1)]
    return unweave.Network([row[None], rng.uniform(0.5, 2.0, size=(1, 1))], biases, [activation, "identity"])


def show(size: int, num_nonzero: int, activation: str, count: int, *, flat: bool = False) -> None:
    questions, errors, seconds, identified = [], [], [], 0
    for seed in range(count):
        network = single_unit(size, num_nonzero, activation, flat, 5000 + seed)
        began = time.process_time()
        found = unweave.identify(network, method="ridge", seed=seed)
        seconds.append(time.process_time() - began)
        questions.append(found.ledger.total)
        identified += found.identified
        if found.network is not None:
            errors.append(unweave.compare(network, found).max_relative_error)
    kind = "equal magnitudes" if flat else "normal weights"
    print(
        f"d = {size:6d}, k = {num_nonzero}, {activation:9s} {kind:16s} {identified}/{count} identified  "
        f"{np.mean(questions):5.0f} questions (most {max(questions)})  worst error {max(errors, default=np.inf):.1e}  "
        f"{np.median(seconds):.1f} s",
        flush=True,
    )


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--trials", type=int, default=None)
    options = parser.parse_args()
    count = options.trials or (2 if options.quick else 10)
    for activation in ("tanh", "sigmoid", "erf", "gelu", "silu", "softplus", "relu"):
        show(10_000, 20, activation, count)
    show(10_000, 20, "tanh", count, flat=True)
    if not options.quick:
        show(100_000, 30, "tanh", min(count, 3))


if __name__ == "__main__":
    main()
