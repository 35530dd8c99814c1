"""Relu networks of three hidden layers and more from queries, depth and widths unknown.

    python benchmarks/relu_deep.py --quick                                   two sizes, two networks each
    python benchmarks/relu_deep.py --sizes 20-10-10-5-1 --trials 20          one row of the table
    python benchmarks/relu_deep.py --file NETWORK.npz                        one network: w0, b0, w1, b1, ...

Networks are He-initialised, initialised as torch's nn.Linear, or trained by Adam (``--kinds``). Columns: networks whose
function is right on 99.9 % of fresh points at all scales to 1e-8; whose every visible parameter is right to 1e-8 (the
output of every unit that switches; in a box its kink, where its side does not show: ``unweave.core.visibility``); whose
every parameter is; outcomes *identified*, and those among them whose function is not right; queries a parameter
(certificate apart); CPU seconds.
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
from scenarios import open_parser

import unweave
from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.core.visibility import SHARE, spread_points, visible_error, wrong_share

SIZES = ["20-10-10-5-1", "10-10-10-10-1", "10-16-16-16-3", "10-8-8-8-8-2", "40-20-10-10-1"]
QUICK = ["20-10-10-5-1", "10-10-10-10-1"]
KINDS = ("he", "linear", "trained")
NUM_POINTS = 20_000
COUNTS = ("function", "visible", "strict", "identified", "false")


def draw_network(sizes: tuple[int, ...], kind: str, seed: int) -> Network:
    rng = np.random.default_rng([seed, *sizes])
    weights, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        if kind == "he":
            weights.append(rng.standard_normal((fan_out, fan_in)) * np.sqrt(2 / fan_in))
            biases.append(0.2 * rng.standard_normal(fan_out))
        else:
            reach = 1 / np.sqrt(fan_in)
            weights.append(rng.uniform(-reach, reach, size=(fan_out, fan_in)))
            biases.append(rng.uniform(-reach, reach, size=fan_out))
    network = Network(weights, biases, ["relu"] * (len(sizes) - 2) + ["identity"])
    return train(network, rng) if kind == "trained" else network


def train(network: Network, rng: np.random.Generator, num_steps: int = 400) -> Network:
    """Fitted by Adam to a sum of waves on normal inputs."""
    import torch

    torch.set_num_threads(1)
    d, k = network.input_size, network.output_size
    x = rng.standard_normal((1000, d))
    directions = rng.standard_normal((d, 3 * k)) / np.sqrt(d)
    y = np.sin(2 * x @ directions).reshape(len(x), k, 3).sum(axis=2)
    inputs, targets = torch.tensor(x), torch.tensor(y)
    parameters = [
        torch.tensor(p, requires_grad=True)
        for pair in zip(network.weights, network.biases, strict=True)
        for p in pair
    ]
    optimiser = torch.optim.Adam(parameters, lr=1e-2)
    for _ in range(num_steps):
        h = inputs
        for i in range(0, len(parameters), 2):
            h = h @ parameters[i].T + parameters[i + 1]
            h = torch.relu(h) if i < len(parameters) - 2 else h
        optimiser.zero_grad()
        torch.mean((h - targets) ** 2).backward()
        optimiser.step()
    arrays = [p.detach().numpy() for p in parameters]
    return Network(arrays[::2], arrays[1::2], network.activations)


def fresh_points(d: int, domain: Box | None) -> np.ndarray:
    if domain is not None:
        return domain.sample(NUM_POINTS, d, np.random.default_rng(9))
    return spread_points(NUM_POINTS, d, 9)


def function_is_right(network: Network, other: Network, x: np.ndarray) -> bool:
    return wrong_share(network, other, x) < SHARE


def visible_is_right(network: Network, other: Network, x: np.ndarray, *, bounded: bool) -> bool:
    return visible_error(network, other, x, bounded=bounded) < 1e-8


def load_network(path: str) -> Network:
    """The relu network of a file of weights, in float64, its output as it is before any softmax."""
    file = np.load(path)
    count = sum(name[0] == "w" and name[1:].isdigit() for name in file.files)
    weights = [file[f"w{i}"].astype(float) for i in range(count)]
    biases = [file[f"b{i}"].astype(float).ravel() for i in range(count)]
    return Network(weights, biases, ["relu"] * (count - 1) + ["identity"])


def run(network: Network, seed: int, box: float | None, limit: float | None = None) -> dict:
    sizes = (network.input_size, *network.hidden)
    domain = None if box is None else Box(-box, box)
    began = time.process_time()
    found = unweave.identify(
        lambda x: network(x), input_size=sizes[0], seed=seed, domain=domain, time_limit=limit
    )
    seconds = time.process_time() - began
    x = fresh_points(sizes[0], domain)
    whole = None if found.network is None or found.network.is_open else found.network
    right = whole is not None and function_is_right(network, whole, x)
    same = whole is not None and whole.hidden == network.hidden
    strict = same and unweave.compare(network, whole).max_relative_error < 1e-8
    visible = strict or (
        whole is not None and visible_is_right(network, whole, x, bounded=domain is not None)
    )
    spent = found.ledger.total - found.ledger.by_stage.get("certificate", 0)
    return {
        "function": right,
        "visible": visible,
        "strict": strict,
        "identified": found.identified,
        "false": found.identified and not right,
        "queries": spent / network.num_parameters,
        "seconds": seconds,
        "layers": 0 if found.network is None else len(found.network.hidden),
    }


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--sizes", default="")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--file", default="", help="a network of its own")
    parser.add_argument("--box", type=float, default=None, help="ask only inside [-box, box]^d")
    parser.add_argument("--limit", type=float, default=None, help="seconds a network")
    options = parser.parse_args()
    sizes = options.sizes.split(",") if options.sizes else (QUICK if options.quick else SIZES)
    kinds = (
        ("he", "linear") if options.quick and options.kinds == ",".join(KINDS) else options.kinds.split(",")
    )
    trials = 2 if options.quick else options.trials
    columns = "".join(f"{name:>11}" for name in COUNTS) + "  queries    CPU s"
    print(f"{'network':<16}{'kind':<9}{columns}  (most)")
    sizes, kinds, trials = ([options.file], ["file"], 1) if options.file else (sizes, kinds, trials)
    for text in sizes:
        for kind in kinds:
            rows = []
            for seed in range(options.first, options.first + trials):
                if options.file:
                    network = load_network(options.file)
                else:
                    network = draw_network(tuple(int(v) for v in text.split("-")), kind, seed)
                rows.append(run(network, seed, options.box, options.limit))
            counts = [sum(row[name] for row in rows) for name in COUNTS]
            queries = np.median([row["queries"] for row in rows])
            seconds = [row["seconds"] for row in rows]
            figures = (
                "".join(f"{count:>11}" for count in counts) + f"{queries:>9.1f}{np.median(seconds):>9.1f}"
            )
            print(f"{text:<16}{kind:<9}{figures}  ({max(seconds):.1f}), {trials} networks", flush=True)


if __name__ == "__main__":
    main()
