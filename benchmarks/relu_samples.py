"""One hidden layer of relu units from samples: exact recovery, noise against the Cramer-Rao bound, an Adam student.

    python benchmarks/relu_samples.py --quick         a few networks of each kind, about two minutes
    python benchmarks/relu_samples.py                 every figure of the table
    python benchmarks/relu_samples.py --part noise    one part: exact, large, biases, noise, adam

Networks: ``f(x) = sum_i a_i relu(w_i.x + b_i)``, unit rows in uniform directions, biases uniform in [-1, 1], |a_i|
uniform in [0.5, 1.5] with random signs; inputs N(0, I); p = (m+1)(d+1). The width is not given to unweave. Exact: the
largest relative error of a parameter after alignment is below 1e-9. False claims: identified, but not the true network
(exact rows), or not of the true width (noisy rows). Errors against the bound: root mean square over parameters and
seeds of the error, over that of the Cramer-Rao bound at the truth on all rows; coverage: parameters within 1.96
reported standard errors. The Adam student (torch) has the true width, three restarts and ten times the time.
"""

from __future__ import annotations

import time

import numpy as np
from scenarios import open_parser

import unweave
from unweave.core.network import Network
from unweave.solve.streamed import streamed_information

FIRST_SEED = 310_000
EXACT = [((5, 5), 4, 50), ((10, 5), 4, 50), ((10, 10), 4, 50), ((8, 15), 4, 50), ((20, 20), 4, 30)]
LARGE = [((40, 40), 6, 5), ((30, 60), 6, 5)]
NOISE = [(0.01, 20_000, 30), (0.1, 20_000, 30), (0.01, 200_000, 30), (0.1, 200_000, 30)]


def planted(d: int, m: int, seed: int, *, largest_bias: float = 1.0) -> Network:
    rng = np.random.default_rng([seed, d, m])
    rows = rng.standard_normal((m, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    outputs = rng.choice([-1.0, 1.0], m) * rng.uniform(0.5, 1.5, m)
    return Network(
        [rows, outputs[None]], [rng.uniform(-largest_bias, largest_bias, m), None], ["relu", "identity"]
    )


def draw_rows(network: Network, num_rows: int, seed: int, noise: float = 0.0):
    rng = np.random.default_rng([seed, 7])
    x = rng.standard_normal((num_rows, network.input_size))
    return x, network(x)[:, 0] + noise * rng.standard_normal(num_rows)


def measure_exact(size, ratio: float, num_seeds: int, largest_bias: float = 1.0) -> None:
    d, m = size
    num_rows = int(ratio * (m + 1) * (d + 1))
    exact, false, seconds, worst = 0, 0, [], 0.0
    for seed in range(FIRST_SEED, FIRST_SEED + num_seeds):
        truth = planted(d, m, seed, largest_bias=largest_bias)
        began = time.process_time()
        found = unweave.learn(*draw_rows(truth, num_rows, seed), activation="relu", seed=seed)
        seconds.append(time.process_time() - began)
        error = error_of(truth, found.network)
        good = found.identified and error < 1e-9
        exact, false = exact + good, false + (found.identified and not good)
        worst = max(worst, error) if good else worst
    print(
        f"({d},{m})  {num_rows:>6} rows ({ratio:g} p)  biases in [-{largest_bias:g}, {largest_bias:g}]  "
        f"exact {exact}/{num_seeds}  "
        f"false claims {false}  worst error of those exact {worst:.0e}  CPU s a run: median {np.median(seconds):.2f}, "
        f"largest {max(seconds):.1f}",
        flush=True,
    )


def error_of(truth: Network, network: Network | None) -> float:
    return float("inf") if network is None else unweave.compare(truth, network).max_relative_error


def measure_noise(noise: float, num_rows: int, num_seeds: int, size=(10, 10)) -> None:
    squared, bound, inside, identified, false, seconds = [], [], [], 0, 0, []
    for seed in range(FIRST_SEED, FIRST_SEED + num_seeds):
        truth = planted(*size, seed)
        x, y = draw_rows(truth, num_rows, seed, noise)
        began = time.process_time()
        found = unweave.learn(x, y, activation="relu", seed=seed)
        seconds.append(time.process_time() - began)
        identified += found.identified
        false += found.identified and found.hidden != truth.hidden
        if found.network is None or found.hidden != truth.hidden:
            continue
        comparison = unweave.compare(truth, found.network)
        error = comparison.aligned.flat() - comparison.reference.flat()
        expected = streamed_information(comparison.reference, [(x, y[:, None])])
        assert expected is not None
        stated = aligned_errors(comparison.aligned, found.network, found.details["standard_errors"])
        squared.append(np.mean(error**2))
        bound.append(np.mean((noise * expected.deviations) ** 2))
        inside.append(np.mean(np.abs(error) <= 1.96 * stated))
    ratio = np.sqrt(np.mean(squared) / np.mean(bound)) if squared else np.inf
    print(
        f"{size}  {num_rows:>7} rows  noise {noise:<5g}  identified {identified}/{num_seeds}  false claims {false}  "
        f"error {ratio:.3f} of the bound  coverage {100 * np.mean(inside):.1f} % "
        f"(worst seed {100 * np.min(inside):.0f} %)  CPU s a run: median {np.median(seconds):.1f}  "
        f"({num_seeds} seeds, {len(squared)} with a network)",
        flush=True,
    )


def aligned_errors(aligned: Network, network: Network, errors: np.ndarray) -> np.ndarray:
    """The standard errors of ``network`` in the order of its aligned copy."""
    other = network.normalised()
    order = [int(np.argmin(np.sum((other.weights[0] - row) ** 2, axis=1))) for row in aligned.weights[0]]
    return network.with_flat(errors).permuted(0, np.array(order)).flat()


def measure_adam(num_seeds: int, sizes=((5, 5), (10, 10), (8, 15))) -> None:
    """The same rows for unweave and for a student of the true width trained by Adam, ten times as long."""
    try:
        import torch
    except ImportError:
        print("Adam student: torch is not installed")
        return
    torch.set_num_threads(1)
    for d, m in sizes:
        ours, theirs, our_errors, their_errors, budget = 0, 0, [], [], []
        for seed in range(FIRST_SEED, FIRST_SEED + num_seeds):
            truth = planted(d, m, seed)
            x, y = draw_rows(truth, 4 * (m + 1) * (d + 1), seed)
            fresh_x, fresh_y = draw_rows(truth, 5000, seed + 1_000_000)
            began = time.perf_counter()
            found = unweave.learn(x, y, activation="relu", seed=seed)
            limit = float(np.clip(10 * (time.perf_counter() - began), 2.0, 60.0))
            student = train_adam(x, y, m, seed, limit)
            ours += found.identified and error_of(truth, found.network) < 1e-9
            theirs += error_of(truth, student) < 1e-9
            spread = np.std(fresh_y)
            our_errors.append(
                np.inf if found.network is None else _rms(found.network(fresh_x)[:, 0] - fresh_y) / spread
            )
            their_errors.append(_rms(student(fresh_x)[:, 0] - fresh_y) / spread)
            budget.append(limit)
        print(
            f"({d},{m})  4 p rows  {num_seeds} seeds  exact: unweave {ours}/{num_seeds}, Adam {theirs}/{num_seeds}  "
            f"median test error: unweave {np.median(our_errors):.0e}, Adam {np.median(their_errors):.0e}  "
            f"Adam's time: median {np.median(budget):.0f} s a network",
            flush=True,
        )


def train_adam(x: np.ndarray, y: np.ndarray, width: int, seed: int, seconds: float) -> Network:
    """The best of three restarts, each a third of the time; the learning rate falls from 1e-2 to 1e-5."""
    import torch

    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)[:, None]
    best, least = None, np.inf
    for restart in range(3):
        torch.manual_seed(1000 * restart + seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
        ).double()
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        began = time.perf_counter()
        while (share := (time.perf_counter() - began) / (seconds / 3)) < 1:
            for group in optimiser.param_groups:
                group["lr"] = 1e-2 * 10 ** (-3 * share)
            for _ in range(20):
                optimiser.zero_grad()
                loss = torch.mean((model(inputs) - targets) ** 2)
                loss.backward()
                optimiser.step()
        if loss.item() < least:
            best, least = [p.detach().numpy().copy() for p in model.parameters()], loss.item()
    assert best is not None
    return Network([best[0], best[2]], [best[1], best[3]], ["relu", "identity"])


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--part", choices=["exact", "large", "biases", "noise", "adam"])
    options = parser.parse_args()
    parts = [options.part] if options.part else ["exact", "biases", "noise", "adam", "large"]
    quick = options.quick
    if "exact" in parts:
        for size, ratio, num_seeds in EXACT:
            measure_exact(size, ratio, min(num_seeds, 5 if size[0] < 20 else 1) if quick else num_seeds)
    if "biases" in parts:
        measure_exact((10, 10), 8, 5 if quick else 50, largest_bias=2.0)
    if "noise" in parts:
        for noise, num_rows, num_seeds in NOISE[:2] if quick else NOISE:
            measure_noise(noise, num_rows, 2 if quick else num_seeds)
    if "adam" in parts:
        measure_adam(1 if quick else 10)
    if "large" in parts and not quick:
        for size, ratio, num_seeds in LARGE:
            measure_exact(size, ratio, num_seeds)


if __name__ == "__main__":
    main()
