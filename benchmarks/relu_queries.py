"""Relu networks from queries, side by side: unweave, the packaged attack, and a student trained by Adam.

    python benchmarks/relu_queries.py --quick         a few small networks, half a minute
    python benchmarks/relu_queries.py                 every size of the table, 20 trials each (10 for the largest),
                                                      and the first layer of deeper networks, 10 trials each

Peers are optional: adversarial-robustness-toolbox (its FunctionallyEquivalentExtraction handles one hidden layer and
one output and is told the width) and torch (a student of the true width, trained on as many random queries as
unweave used). Each peer runs in a process of its own with a time limit. Columns: networks found exactly, worst
parameter error of those, worst error of the function on N(0, 1.5^2) points relative to its spread, queries a parameter
(identification + certificate), CPU seconds.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from itertools import pairwise

import numpy as np
from scenarios import open_parser

import unweave
from unweave.core.network import Network

ONE_LAYER = [
    (10, 20, 1), (20, 10, 1), (10, 20, 3), (20, 40, 1), (100, 64, 1), (100, 64, 10), (784, 32, 1), (784, 128, 10),
]  # fmt: skip
TWO_LAYERS = [
    (20, 10, 10, 1), (10, 10, 10, 1), (10, 10, 5, 1), (30, 20, 10, 1), (10, 15, 15, 1), (40, 20, 10, 1),
    (80, 40, 20, 1),
]  # fmt: skip
DEEPER = [(10, 10, 10, 10, 1), (20, 10, 10, 5, 1), (30, 20, 10, 10, 1), (12, 8, 8, 8, 8, 2)]
"""Three and four hidden layers: the first of them is what is looked for."""
QUICK = [(10, 20, 1), (20, 40, 1), (10, 10, 5, 1), (20, 10, 10, 1)]


def random_network(sizes, seed: int) -> Network:
    """Rows of norm one, biases uniform in [-1, 1]."""
    rng = np.random.default_rng([seed, *sizes])
    weights, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        rows = rng.standard_normal((fan_out, fan_in))
        weights.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        biases.append(rng.uniform(-1, 1, size=fan_out))
    return Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])


def test_points(network: Network) -> np.ndarray:
    return 1.5 * np.random.default_rng(9).standard_normal((10_000, network.input_size))


def functional_error(network: Network, other) -> float:
    """The 99.99th percentile of the error on normal points, relative to the spread of the outputs."""
    x = test_points(network)
    values = network(x)
    errors = np.max(np.abs(values - other(x)), axis=1) / np.std(values)
    return float(np.quantile(errors, 0.9999))


def run_unweave(sizes, seed: int) -> dict:
    network = random_network(sizes, seed)
    began = time.process_time()
    found = unweave.identify(lambda x: network(x), input_size=sizes[0], seed=seed)
    seconds = time.process_time() - began
    spent = found.ledger.by_stage.get("certificate", 0)
    record = {
        "outcome": str(found.outcome),
        "exact": False,
        "claimed": found.identified,
        "error": float("inf"),
        "functional": float("inf"),
        "identification": (found.ledger.total - spent) / network.num_parameters,
        "certificate": spent / network.num_parameters,
        "queries": found.ledger.total,
        "seconds": seconds,
    }
    if found.network is not None:
        tolerance = 1e-9 if len(sizes) == 3 else 1e-8
        record["error"] = unweave.compare(network, found.network).max_relative_error
        record["functional"] = functional_error(network, found.network)
        record["exact"] = record["error"] <= tolerance
    return record


def run_deeper(sizes, seed: int) -> dict:
    """How much of the first layer of a deeper network comes back: directions with their offsets, and sides."""
    network = random_network(sizes, seed)
    began = time.process_time()
    found = unweave.identify(lambda x: network(x), input_size=sizes[0], seed=seed)
    seconds = time.process_time() - began
    record = {"claimed": found.identified, "queries": found.ledger.total, "seconds": seconds}
    if found.network is None:
        return {**record, "right": 0, "wrong": 0, "error": 0.0}
    truth = np.hstack([network.weights[0], network.biases[0][:, None]])
    rows = np.hstack([found.network.weights[0], found.network.biases[0][:, None]])
    errors = np.array([np.min(np.max(np.abs(truth - row), axis=1)) for row in rows])
    named = {part.split(":")[0] for part in found.undetermined}
    unnamed = [i for i in np.flatnonzero(errors > 1e-8) if f"layer 1, unit {i}" not in named]
    right = errors[errors <= 1e-8]
    return {**record, "right": len(right), "wrong": len(unnamed), "error": float(np.max(right, initial=0.0))}


def run_adam(sizes, seed: int, num_queries: int, num_steps: int) -> dict:
    """A student of the true architecture, trained on random queries."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    network = random_network(sizes, seed)
    x = 1.5 * np.random.default_rng(seed).standard_normal((num_queries, sizes[0]))
    inputs, targets = torch.tensor(x), torch.tensor(network(x))
    layers: list = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
    student = torch.nn.Sequential(*layers[:-1]).double()
    optimiser = torch.optim.Adam(student.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, num_steps)
    began = time.process_time()
    for _ in range(num_steps):
        optimiser.zero_grad()
        loss = torch.mean((student(inputs) - targets) ** 2)
        loss.backward()
        optimiser.step()
        schedule.step()
    seconds = time.process_time() - began
    linear = [m for m in student if isinstance(m, torch.nn.Linear)]
    fitted = Network(
        [m.weight.detach().numpy() for m in linear],
        [m.bias.detach().numpy() for m in linear],
        network.activations,
    )
    error = unweave.compare(network, fitted).max_relative_error
    return {
        "error": error,
        "functional": functional_error(network, fitted),
        "exact": error <= 1e-8,
        "seconds": seconds,
    }


def run_toolbox(sizes, seed: int) -> dict:
    """adversarial-robustness-toolbox's functionally equivalent extraction, given the width."""
    from art.attacks.extraction import FunctionallyEquivalentExtraction
    from art.estimators.classification import BlackBoxClassifierNeuralNetwork

    network, count = random_network(sizes, seed), [0]

    def answer(x):
        count[0] += len(x)
        value = network(np.asarray(x, dtype=np.float64).reshape(len(x), -1))
        return np.hstack([value, -value]) if value.shape[1] == 1 else value

    began = time.process_time()
    classifier = BlackBoxClassifierNeuralNetwork(answer, (sizes[0],), 2, clip_values=None)
    attack = FunctionallyEquivalentExtraction(classifier=classifier, num_neurons=sizes[1])
    stolen = attack.extract(np.random.default_rng(seed).standard_normal((100, sizes[0])), delta_0=0.05)
    seconds = time.process_time() - began
    error = functional_error(network, lambda x: np.asarray(stolen.predict(x))[:, :1])
    return {"functional": error, "exact": error <= 1e-6, "queries": count[0], "seconds": seconds}


def limited(function, arguments: tuple, seconds: float) -> dict:
    """The function's result from a process of its own, or why there is none."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(function, arguments, sender))
    process.start()
    sender.close()
    try:
        result = receiver.recv() if receiver.poll(seconds) else {"failure": f"stopped after {seconds:.0f} s"}
    except EOFError:
        result = {"failure": "the process ended without an answer"}
    process.terminate()
    process.join()
    return result


def _send(function, arguments, sender) -> None:
    try:
        sender.send(function(*arguments))
    except Exception as error:
        sender.send({"failure": f"{type(error).__name__}: {str(error)[:60]}"})


def report_ours(sizes, records: list[dict]) -> None:
    exact = [r for r in records if r["exact"]]
    false_claims = sum(r["claimed"] and not r["exact"] for r in records)
    errors = [r["error"] for r in exact]
    print(
        f"{'-'.join(map(str, sizes)):>14}  unweave  {len(exact):2d}/{len(records):<2d} exact"
        f"  worst {max(errors, default=float('nan')):.0e}"
        f"  function {max((r['functional'] for r in exact), default=float('nan')):.0e}"
        f"  queries/parameter {np.mean([r['identification'] for r in records]):.2f}"
        f" + {np.mean([r['certificate'] for r in records]):.2f}"
        f"  {np.mean([r['seconds'] for r in records]):.2f} s (worst {max(r['seconds'] for r in records):.1f})"
        f"  claims beyond the tolerance: {false_claims}",
        flush=True,
    )


def report_deeper(sizes, records: list[dict]) -> None:
    print(
        f"{'-'.join(map(str, sizes)):>14}  first layer whole in {sum(r['right'] == sizes[1] for r in records):2d}"
        f"/{len(records):<2d}, {sum(r['right'] for r in records)} of {sizes[1] * len(records)} units"
        f"  worst {max(r['error'] for r in records):.0e}  wrong and not named {sum(r['wrong'] for r in records)}"
        f"  {np.mean([r['queries'] for r in records]):.0f} queries"
        f"  {np.mean([r['seconds'] for r in records]):.1f} s (worst {max(r['seconds'] for r in records):.1f})"
        f"  claims {sum(r['claimed'] for r in records)}",
        flush=True,
    )


def report_peer(name: str, records: list[dict]) -> None:
    done = [r for r in records if "failure" not in r]
    failures = [r["failure"] for r in records if "failure" in r]
    text = f"{'':>14}  {name:<8} {sum(r['exact'] for r in done):2d}/{len(records):<2d} exact"
    if done:
        text += f"  function {np.median([r['functional'] for r in done]):.0e}"
        text += f"  {np.mean([r['seconds'] for r in done]):.1f} s"
        if "queries" in done[0]:
            text += f"  {np.mean([r['queries'] for r in done]):.0f} queries"
    print(text + (f"  ({len(failures)} failed: {failures[0]})" if failures else ""), flush=True)


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--no-peers", action="store_true", help="only unweave")
    parser.add_argument("--trials", type=int, help="networks a size")
    parser.add_argument("--sizes", help="for instance 10-20-1,20-10-10-1")
    parser.add_argument("--json", help="write every record to this file")
    options = parser.parse_args()
    table = QUICK if options.quick else ONE_LAYER + TWO_LAYERS
    if options.sizes:
        table = [tuple(int(s) for s in text.split("-")) for text in options.sizes.split(",")]
    everything = []
    for sizes in [] if options.quick or options.sizes else DEEPER:
        records = [run_deeper(sizes, 1000 + seed) for seed in range(options.trials or 10)]
        report_deeper(sizes, records)
        everything.append({"sizes": sizes, "records": records})
    for sizes in table:
        trials = options.trials or (3 if options.quick else 10 if sizes[0] in (40, 80) else 20)
        records = [run_unweave(sizes, 1000 + seed) for seed in range(trials)]
        report_ours(sizes, records)
        everything.append({"sizes": sizes, "records": records})
        if options.no_peers or sizes[0] > 100:
            continue
        few = range(1 if options.quick else 3)
        limit, steps = (20.0, 1000) if options.quick else (120.0, 5000)
        adam = [limited(run_adam, (sizes, 1000 + i, records[i]["queries"], steps), limit) for i in few]
        report_peer("adam", adam)
        peers = {"adam": adam}
        if len(sizes) == 3 and sizes[-1] == 1:
            peers["toolbox"] = [limited(run_toolbox, (sizes, 1000 + i), limit) for i in few]
            report_peer("toolbox", peers["toolbox"])
        everything[-1]["peers"] = peers
    if options.json:
        with open(options.json, "w") as file:
            json.dump(everything, file)


if __name__ == "__main__":
    main()
