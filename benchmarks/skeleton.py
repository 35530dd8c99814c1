"""Networks of gelu, silu, softplus, elu, mish, selu units as people train them: activation, widths and depth unknown.

    python benchmarks/skeleton.py --quick             one network a cell of the small sizes, a minute
    python benchmarks/skeleton.py                     twenty networks a cell (fewer of the largest sizes)
    python benchmarks/skeleton.py --peer              the same with method="in-domain" beside it, 240 s a network

Weights are those of ``nn.Linear`` as torch initialises it (*torch*), He's (*he*), or trained by Adam on a smooth
regression (*trained*, needs torch). *Exact*: the outcome is *identified* and every parameter agrees to 1e-9 (1e-5 for
float32 answers); a *false claim* is *identified* with a parameter off by more than 1e-6 (1e-2). Queries include the
certificate; seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import unweave
from unweave.core.network import Network

PEER_SECONDS = 240


@dataclass(frozen=True)
class Cell:
    """One kind of network; ``count`` of them are asked."""

    activations: tuple[str, ...]
    sizes: tuple[int, ...]
    weights: str = "torch"
    count: int = 20
    radius: float | None = None
    single: bool = False
    """Answers in float32."""
    quick: bool = True

    def __str__(self) -> str:
        names = "/".join(dict.fromkeys(self.activations))
        extra = f" radius {self.radius:g}" if self.radius else ""
        extra += " float32" if self.single else ""
        return f"{names} {'-'.join(map(str, self.sizes))} {self.weights}{extra}"


def one(name: str, sizes: tuple[int, ...], weights: str = "torch", **options) -> Cell:
    return Cell((name,) * (len(sizes) - 2), sizes, weights, **options)


CELLS = [
    *(one(name, (10, 16, 1), weights, quick=number % 3 == place) for number, name in enumerate(
        ("gelu", "silu", "softplus", "elu", "mish", "selu"))
      for place, weights in enumerate(("torch", "he", "trained"))),
    *(one(name, sizes, weights, quick=weights == usual) for name, sizes, usual in (
        ("gelu", (10, 16, 16, 1), "torch"), ("gelu", (10, 16, 16, 2), "trained"),
        ("elu", (10, 16, 12, 1), "torch"), ("softplus", (10, 16, 12, 1), "he"))
      for weights in ("torch", "he", "trained")),
    Cell(("gelu", "elu"), (10, 16, 12, 1), count=5),
    one("silu", (10, 32, 32, 1), quick=False),
    *(one("silu", (8, 64, 64, 2), weights, count=10, quick=False) for weights in ("torch", "he", "trained")),
    *(one(name, (8, 64, 64, 2), count=10, quick=False) for name in ("gelu", "softplus")),
    one("gelu", (100, 200, 10), count=5, quick=False),
    one("gelu", (10, 12, 12, 12, 1), count=10, quick=False),
    one("silu", (10, 12, 12, 12, 1), count=10, quick=False),
    *(one(name, (10, 16, 1), radius=radius, quick=name in ("gelu", "elu") and radius == 10.0)
      for name in ("gelu", "silu", "softplus", "elu", "mish", "selu") for radius in (10.0, 30.0)),
    one("gelu", (10, 16, 16, 1), radius=10.0, count=5, quick=False),
    *(one("gelu", sizes, radius=radius, count=2, quick=False)
      for sizes in ((10, 16, 1), (10, 16, 16, 1)) for radius in (1e3, 1e5, 1e7, 1e8, 1e9, 1e10)),
    *(one(name, (10, 16, 1), single=True, quick=name == "gelu")
      for name in ("gelu", "silu", "softplus", "elu", "mish", "selu")),
    *(one(name, (10, 16, 16, 1), single=True, quick=False) for name in ("gelu", "silu")),
]  # fmt: skip


def draw(cell: Cell, seed: int) -> Network:
    """A network of the cell."""
    rng = np.random.default_rng([seed, *cell.sizes])
    weights, biases = [], []
    for fan_in, fan_out in pairwise(cell.sizes):
        if cell.weights == "he":
            weights.append(rng.standard_normal((fan_out, fan_in)) * np.sqrt(2 / fan_in))
            biases.append(0.1 * rng.standard_normal(fan_out))
        else:
            bound = 1 / np.sqrt(fan_in)
            weights.append(rng.uniform(-bound, bound, (fan_out, fan_in)))
            biases.append(rng.uniform(-bound, bound, fan_out))
    network = Network(weights, biases, [*cell.activations, "identity"])
    return train(network, rng) if cell.weights == "trained" else network


def train(network: Network, rng: np.random.Generator, steps: int = 1200) -> Network:
    """The network after Adam on a regression of standard normal inputs."""
    import torch

    from unweave.formats.torch import to_torch
    from unweave.models.torch_module import read_module

    torch.manual_seed(int(rng.integers(2**31)))
    d, k = network.input_size, network.output_size
    inner = torch.from_numpy(1.5 * rng.standard_normal((6, d)) / np.sqrt(d))
    outer, phase = torch.from_numpy(rng.standard_normal((k, 6))), torch.from_numpy(rng.standard_normal(6))
    x = torch.from_numpy(rng.standard_normal((4000, d)))
    y = torch.sin(x @ inner.T + phase) @ outer.T + x[:, :k] * x[:, k : 2 * k]
    model = to_torch(network)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(x), (256,))
        loss = torch.mean((model(x[rows]) - y[rows]) ** 2)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return read_module(model)


def run(cell: Cell, seed: int, method: str = "auto", time_limit: float | None = None) -> dict:
    truth = draw(cell, seed)
    model = truth
    if cell.single:
        import torch

        from unweave.formats.torch import to_torch

        model = to_torch(truth).to(torch.float32)
        from unweave.models.torch_module import read_module

        truth = read_module(model)
    domain = None if cell.radius is None else unweave.Ball(cell.radius)
    began = time.process_time()
    found = unweave.identify(model, domain=domain, seed=seed, method=method, time_limit=time_limit)
    seconds = time.process_time() - began
    record = {"queries": found.ledger.total / truth.num_parameters, "seconds": seconds, "error": np.inf}
    record |= {"outcome": str(found.outcome), "reason": found.reason, "method": found.method}
    if found.network is not None and not found.network.is_open and found.network.hidden == truth.hidden:
        record["error"] = unweave.compare(truth, found.network).max_relative_error
    claimed = record["outcome"] == "identified"
    record["exact"] = claimed and record["error"] <= (1e-5 if cell.single else 1e-9)
    record["false"] = claimed and not record["error"] <= (1e-2 if cell.single else 1e-6)
    return record


def _report(cell: Cell, seed: int, method: str, queue) -> None:
    queue.put(run(cell, seed, method))


def run_limited(cell: Cell, seed: int, method: str, limit: float) -> dict:
    """``run`` in a process of its own, ended after ``limit`` seconds."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=_report, args=(cell, seed, method, queue))
    worker.start()
    try:
        return queue.get(timeout=limit)
    except Exception:
        ended = {"outcome": "ended", "reason": f"not done after {limit:.0f} s", "method": method}
        return {**ended, "queries": np.nan, "seconds": limit, "error": np.inf, "exact": False, "false": False}
    finally:
        worker.terminate()
        worker.join()


def show(cell: Cell, records: list[dict], label: str) -> None:
    exact = [r["error"] for r in records if r["exact"]]
    rest = {f"{r['outcome']}: {r['reason'][:80]}" for r in records if not r["exact"]}
    print(
        f"{label:9s} {cell!s:36s} exact {sum(r['exact'] for r in records)}/{len(records)}"
        f"  false claims {sum(r['false'] for r in records)}  worst {max(exact, default=np.inf):.0e}"
        f"  queries a parameter {np.nanmean([r['queries'] for r in records]):.1f}"
        f"  CPU seconds {np.mean([r['seconds'] for r in records]):.1f}"
        f" (most {max(r['seconds'] for r in records):.1f})  {'; '.join(sorted(rest))}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peer", action="store_true", help='method="in-domain" beside it')
    parser.add_argument("--count", type=int, help="networks a cell")
    parser.add_argument("--first-seed", type=int, default=3000)
    parser.add_argument("--time-limit", type=float, help="wall-clock seconds a network")
    parser.add_argument("--only", help="the cell of this name, or cells whose name contains it")
    parser.add_argument("--each", action="store_true", help="print every network as well")
    options = parser.parse_args()
    cells = [cell for cell in CELLS if options.only == str(cell)] or [
        cell for cell in CELLS if (options.only or "") in str(cell) and (cell.quick or not options.quick)
    ]
    for cell in cells:
        count = options.count or (1 if options.quick else cell.count)
        seeds = range(options.first_seed, options.first_seed + count)
        records = []
        for seed in seeds:
            records.append(run(cell, seed, time_limit=options.time_limit))
            if options.each:
                show(cell, records[-1:], f"{seed}")
        show(cell, records, "auto")
        if options.peer:
            show(cell, [run_limited(cell, s, "in-domain", PEER_SECONDS) for s in seeds], "in-domain")


if __name__ == "__main__":
    main()
