"""Published networks, inside the box their inputs come from: how many of a folder come back.

    python benchmarks/real_networks.py FOLDER --quick            relu networks of at most 1,500 parameters, float64
    python benchmarks/real_networks.py FOLDER --dtype float32    the same arithmetic as most of them are shipped with
    python benchmarks/real_networks.py FOLDER --only NAME --limit 300

FOLDER holds one ``.npz`` a network: ``w0, b0, w1, b1, ...`` (weights (out, in)), ``activations`` of the hidden layers,
``low`` and ``high`` of the inputs. Each is evaluated up to its last affine layer; nothing but the box is given. A line
a network: outcome, method, widths found, largest error of the function on 4,000 fresh points of the box relative to its
spread, queries a parameter, CPU seconds. *False* marks an identified network whose function is wrong.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import unweave

TOLERANCE = {"float64": 1e-6, "float32": 1e-2}


def load(path: Path):
    """Weights, biases, activations and the box of a network."""
    data = np.load(path)
    count = sum(1 for name in data.files if name.startswith("w"))
    weights = [np.asarray(data[f"w{i}"], float) for i in range(count)]
    biases = [np.asarray(data[f"b{i}"], float) for i in range(count)]
    low, high = np.asarray(data["low"], float), np.asarray(data["high"], float)
    return weights, biases, [str(a) for a in data["activations"]], unweave.Box(low, high)


def arithmetic(weights, biases, activations, dtype: str):
    """The network as a function computed in ``dtype``."""
    kind = np.dtype(dtype)
    layers = [(w.astype(kind), b.astype(kind)) for w, b in zip(weights, biases, strict=True)]

    def answer(x: np.ndarray) -> np.ndarray:
        h = x.astype(kind)
        for i, (w, b) in enumerate(layers):
            h = h @ w.T + b
            if i < len(layers) - 1:
                slope = kind.type(0.01 if activations[i] == "leaky_relu" else 0.0)
                h = np.where(h > 0, h, slope * h)
        return h.astype(float)

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", choices=list(TOLERANCE), default="float64")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a network")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tally: dict[int, list[bool]] = {}
    num_false = 0
    for path in sorted(options.folder.glob("*.npz")):
        weights, biases, activations, box = load(path)
        size = sum(w.size + b.size for w, b in zip(weights, biases, strict=True))
        if not all(a in ("relu", "leaky_relu") for a in activations) or options.only not in path.stem:
            continue
        if options.quick and size > 1500:
            continue
        began = time.process_time()
        model = arithmetic(weights, biases, activations, options.dtype)
        found = unweave.identify(
            model, input_size=weights[0].shape[1], domain=box, seed=options.seed, time_limit=options.limit
        )
        error = np.inf
        if found.network is not None and not found.network.is_open:
            x = box.sample(4000, weights[0].shape[1], np.random.default_rng(9))
            truth = arithmetic(weights, biases, activations, "float64")(x)
            error = float(np.max(np.abs(found.network(x) - truth)) / np.std(truth))
        right = found.identified and error <= TOLERANCE[options.dtype]
        num_false += found.identified and not right
        tally.setdefault(len(activations), []).append(right)
        widths = "-".join(str(w.shape[1]) for w in weights) + f"-{len(biases[-1])}"
        hidden = "-" if found.network is None else "-".join(map(str, found.network.hidden))
        print(
            f"{path.stem:28s} {widths:24s} {found.outcome!s:20s} {found.method:12s} hidden {hidden:12s} "
            f"error {error:.1e}  {found.ledger.total / size:6.1f} queries a parameter  "
            f"{time.process_time() - began:6.1f} s{'' if right or not found.identified else '  FALSE'}",
            flush=True,
        )
    for depth, results in sorted(tally.items()):
        print(f"{depth} hidden: {sum(results)} of {len(results)}")
    print(f"false claims: {num_false}")


if __name__ == "__main__":
    main()
