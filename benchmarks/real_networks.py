"""Published networks, inside the box their inputs come from: how many of a folder come back.

    python benchmarks/real_networks.py FOLDER --quick            networks of at most 1,500 parameters, float64
    python benchmarks/real_networks.py FOLDER --dtype float32    the same arithmetic as most of them are shipped with
    python benchmarks/real_networks.py FOLDER --dtype shipped    each in its own arithmetic, its outputs squashed
    python benchmarks/real_networks.py FOLDER --only NAME --limit 300
    python benchmarks/real_networks.py FOLDER --units tanh,sigmoid   networks of these hidden activations

FOLDER holds one ``.npz`` a network: ``w0, b0, w1, b1, ...`` (weights (out, in)), ``activations`` of the hidden layers,
``output`` (what stands behind the last layer), ``dtype``, ``low`` and ``high`` of the inputs. Each is evaluated up to
its last affine layer, or as shipped; nothing but the box is given. A line a network: outcome, method, activation and
widths found, largest error of the function on 4,000 fresh points of the box relative to its spread, queries a
parameter, CPU seconds. *False* marks an identified network whose function is wrong.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import unweave
from unweave.core import activations as act
from unweave.core.network import Network
from unweave.core.outputs import apply_output

TOLERANCE = {"float64": 1e-6, "float32": 1e-2}
OUTPUTS = {"exp - 1": "expm1", "clamp": "identity"}
"""Where the file's word for an output is not ours; it does not say where a clamp begins."""


@dataclass(frozen=True)
class Real:
    """A network of the folder."""

    name: str
    weights: list[np.ndarray]
    biases: list[np.ndarray]
    activations: list[str]
    output: str
    dtype: str
    box: unweave.Box

    @staticmethod
    def load(path: Path) -> Real:
        data = np.load(path)
        count = sum(1 for name in data.files if name.startswith("w"))
        output = str(data["output"]).replace("(special)", "").strip()
        return Real(
            path.stem,
            [np.asarray(data[f"w{i}"], float) for i in range(count)],
            [np.asarray(data[f"b{i}"], float) for i in range(count)],
            [str(a) for a in data["activations"]],
            OUTPUTS.get(output, output),
            str(data["dtype"]),
            unweave.Box(np.asarray(data["low"], float), np.asarray(data["high"], float)),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return (*(w.shape[1] for w in self.weights), len(self.biases[-1]))

    @property
    def num_parameters(self) -> int:
        return sum(w.size + b.size for w, b in zip(self.weights, self.biases, strict=True))

    def function(self, dtype: str, output: str) -> Callable[[np.ndarray], np.ndarray]:
        """The network as a function computed in ``dtype``, with ``output`` behind its last layer."""
        kind = np.dtype(dtype)
        layers = [(w.astype(kind), b.astype(kind)) for w, b in zip(self.weights, self.biases, strict=True)]
        units = [act.get(name) for name in self.activations]

        def answer(x: np.ndarray) -> np.ndarray:
            h = x.astype(kind)
            for (w, b), unit in zip(layers, units, strict=False):
                h = np.asarray(unit(h @ w.T + b), dtype=kind)
            w, b = layers[-1]
            return np.asarray(apply_output(output, h @ w.T + b), dtype=kind).astype(float)

        return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", choices=[*TOLERANCE, "shipped"], default="float64")
    parser.add_argument("--units", default="", help="only these hidden activations, separated by commas")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a network")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    units = options.units.split(",") if options.units else None
    tally: dict[int, list[bool]] = {}
    num_false = 0
    for path in sorted(options.folder.glob(f"*{options.only}*.npz")):
        real = Real.load(path)
        other = units is not None and not set(real.activations) <= set(units)
        if other or (options.quick and real.num_parameters > 1500):
            continue
        shipped = options.dtype == "shipped"
        dtype, output = (real.dtype, real.output) if shipped else (options.dtype, "identity")
        size, began = real.sizes[0], time.process_time()
        found = unweave.identify(
            real.function(dtype, output),
            input_size=size,
            domain=real.box,
            seed=options.seed,
            time_limit=options.limit,
        )
        seconds = time.process_time() - began
        error = np.inf
        if found.network is not None and not found.network.is_open:
            x = real.box.sample(4000, size, np.random.default_rng(9))
            truth = real.function("float64", output)(x)
            error = float(np.max(np.abs(found.network(x) - truth)) / np.std(truth))
        right = found.identified and error <= TOLERANCE[dtype]
        num_false += found.identified and not right
        tally.setdefault(len(real.activations), []).append(right)
        print(
            f"{real.name:28s} {'-'.join(map(str, real.sizes)):24s} {real.activations[0]:10s} {found.outcome!s:20s} "
            f"{found.method:12s} {_describe(found.network):26s} error {error:.1e}  "
            f"{found.ledger.total / real.num_parameters:6.1f} queries a parameter  {seconds:6.1f} s"
            f"{'' if right or not found.identified else '  FALSE'}",
            flush=True,
        )
    for depth, results in sorted(tally.items()):
        print(f"{depth} hidden: {sum(results)} of {len(results)}")
    print(f"false claims: {num_false}")


def _describe(network: Network | None) -> str:
    """Activation and widths of the hidden layers found."""
    if network is None or not network.hidden:
        return "-"
    return f"{network.activations[0]} {'-'.join(map(str, network.hidden))}"


if __name__ == "__main__":
    main()
