"""Relu networks as they are shipped: float32, in a box, leaky, wider than their input, squashed. A line a class.

    python benchmarks/relu_shipped.py --quick       two seeds of the small classes, about two minutes
    python benchmarks/relu_shipped.py --trials 20   every class
    python benchmarks/relu_shipped.py --only NAME

Everything but the box is unknown. Columns: trials, identified and right, false claims, largest parameter error where
the network itself comes back (its units all change side in the domain), largest error of the function on fresh points
relative to its spread, queries a parameter, CPU seconds a trial. For rounded and noisy answers also the median over
trials of the units' errors in units of their standard errors (root mean square; 1 is the Cramer-Rao bound of the
questions asked), and how many trials have one below 1.5.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

import unweave
from unweave.core.network import Network
from unweave.core.outputs import apply_output


@dataclass(frozen=True)
class Case:
    """A class of networks and how they are asked."""

    name: str
    sizes: tuple[int, ...]
    dtype: str = "float64"
    box: tuple[float, float] | None = None
    leak: float = 0.0
    trained: str = ""
    """``digits``: on scikit-learn's digits; ``regression``: on a smooth function of the inputs; by torch's Adam in
    float32, ``smooth``: on such a function, ``controller``: on linear feedback that saturates."""
    uniform: bool = False
    """Weights as torch draws them; else He's."""
    quick: bool = False
    decimals: int | None = None
    """Answers are rounded to so many."""
    noise: float = 0.0
    """Standard deviation of Gaussian noise, relative to the spread of the answers."""
    head: str = "identity"
    """What stands behind the last layer."""

    @property
    def domain(self):
        return None if self.box is None else unweave.Box(*self.box)


BY_ADAM = (
    (2, 25, 25, 1),
    (4, 25, 25, 2),
    (4, 32, 32, 1),
    (3, 32, 32, 3),
    (6, 21, 21, 3),
    (14, 32, 32, 14),
    (4, 64, 32, 2),
)
"""Sizes of published controllers and emulators."""
HEADS = ("softmax", "sigmoid", "tanh", "exp", "clamp(-1.0, 2.0)")
HEADED = (6, 24, 2), (10, 16, 3), (10, 16, 16, 3)
"""Behind which networks they are tried."""

CASES = [
    Case("float32 6-8-2", (6, 8, 2), "float32", quick=True),
    Case("float32 64-32-10", (64, 32, 10), "float32"),
    Case("float32 64-32-10 Box[-1,1]", (64, 32, 10), "float32", (-1.0, 1.0)),
    Case("float32 64-32-10 Box[0,1]", (64, 32, 10), "float32", (0.0, 1.0)),
    Case("digits 64-32-10", (64, 32, 10), "float32", trained="digits"),
    Case("digits 64-32-10 Box[-1,1]", (64, 32, 10), "float32", (-1.0, 1.0), trained="digits"),
    Case("digits 64-32-10 Box[0,1]", (64, 32, 10), "float32", (0.0, 1.0), trained="digits"),
    Case("digits 64-32-16-10", (64, 32, 16, 10), "float32", trained="digits"),
    Case("float32 10-16-16-3", (10, 16, 16, 3), "float32", quick=True),
    Case("trained 10-16-16-2", (10, 16, 16, 2), "float32", trained="regression"),
    Case("leaky 10-16-16-3", (10, 16, 16, 3), leak=0.1),
    Case("10-16-16-3 Box[-3,3]", (10, 16, 16, 3), box=(-3.0, 3.0), quick=True),
    Case("10-16-16-3 Box[-1,1]", (10, 16, 16, 3), box=(-1.0, 1.0)),
    Case("trained 10-16-16-2 Box[-3,3]", (10, 16, 16, 2), box=(-3.0, 3.0), trained="regression"),
    Case("trained 10-16-16-2 Box[-1,1]", (10, 16, 16, 2), box=(-1.0, 1.0), trained="regression"),
    Case("trained 10-16-16-3 Box[-1,1]", (10, 16, 16, 3), box=(-1.0, 1.0), trained="regression"),
    Case("8-64-64-4", (8, 64, 64, 4)),
    Case("8-64-64-4 as torch draws it", (8, 64, 64, 4), uniform=True),
    Case("100-100-50-10", (100, 100, 50, 10)),
    Case("200-128-64-10", (200, 128, 64, 10)),
    Case("784-64-32-10", (784, 64, 32, 10)),
    *(
        Case(f"{kind} {'-'.join(map(str, sizes))} {dtype} Box[-1,1]", sizes, dtype, (-1.0, 1.0), trained=kind)
        for sizes in BY_ADAM
        for kind in ("smooth", "controller")
        for dtype in ("float64", "float32")
    ),
    *(
        Case(f"{head} {'-'.join(map(str, sizes))} {dtype}", sizes, dtype, head=head)
        for sizes in HEADED
        for head in HEADS
        for dtype in ("float64", "float32")
    ),
    Case("8-12-1, 4 decimals", (8, 12, 1), decimals=4, quick=True),
    Case("8-12-1, 3 decimals", (8, 12, 1), decimals=3),
    Case("8-12-1, noise 1e-3", (8, 12, 1), noise=1e-3, quick=True),
    Case("10-16-1, 4 decimals", (10, 16, 1), decimals=4),
    Case("10-16-1, 3 decimals", (10, 16, 1), decimals=3),
    Case("10-16-1, noise 1e-3", (10, 16, 1), noise=1e-3),
    Case("10-16-8-1, 3 decimals", (10, 16, 8, 1), decimals=3),
    Case("10-16-8-1, noise 1e-3", (10, 16, 8, 1), noise=1e-3),
]


def train(case: Case, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights (out, in) and biases that scikit-learn or torch ends with."""
    if case.trained in ("smooth", "controller"):
        return train_by_adam(case, seed)
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    options = {"hidden_layer_sizes": case.sizes[1:-1], "random_state": seed, "max_iter": 60}
    warnings.filterwarnings("ignore", module="sklearn")
    if case.trained == "digits":
        x, y = load_digits(return_X_y=True)
        fitted = MLPClassifier(**options).fit(x / 16, y)
    else:
        rng = np.random.default_rng([seed, 7])
        x = rng.uniform(-1, 1, (2000, case.sizes[0]))
        mixed = x @ rng.standard_normal((case.sizes[0], case.sizes[-1]))
        fitted = MLPRegressor(**options).fit(x, np.sin(mixed) + 0.3 * mixed**2)
    return [w.T.copy() for w in fitted.coefs_], list(fitted.intercepts_)


def train_by_adam(case: Case, seed: int, num_steps: int = 2000) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Torch's own initial weights, and batches of 256 points of the box."""
    import torch

    rng = np.random.default_rng([seed, 11, *case.sizes])
    torch.manual_seed(int(rng.integers(2**31)))
    d, k = case.sizes[0], case.sizes[-1]
    first, second, push = (rng.standard_normal((d, k)) / np.sqrt(d) for _ in range(3))

    def target(x: np.ndarray) -> np.ndarray:
        if case.trained == "controller":
            return np.clip(3 * x @ first + np.sin(2 * x @ second), -1, 1)
        return np.sin(3 * x @ first) + (x @ second) ** 2 + 0.5 * x @ push

    layers = [torch.nn.Linear(a, b) for a, b in pairwise(case.sizes)]
    model = torch.nn.Sequential(
        *[part for layer in layers[:-1] for part in (layer, torch.nn.ReLU())], layers[-1]
    )
    descent = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(num_steps):
        x = rng.uniform(*(case.box or (-1.0, 1.0)), (256, d))
        loss = torch.mean((model(torch.tensor(x).float()) - torch.tensor(target(x)).float()) ** 2)
        descent.zero_grad()
        loss.backward()
        descent.step()
    return [p.weight.detach().double().numpy() for p in layers], [
        p.bias.detach().double().numpy() for p in layers
    ]


def draw_network(case: Case, seed: int) -> Network:
    """He's weights or torch's, biases as torch draws them; or trained ones."""
    rng = np.random.default_rng([seed, *case.sizes])
    weights = [rng.standard_normal((b, a)) * np.sqrt(2 / a) for a, b in pairwise(case.sizes)]
    if case.uniform:
        weights = [rng.uniform(-1, 1, (b, a)) / np.sqrt(a) for a, b in pairwise(case.sizes)]
    biases = [rng.uniform(-1, 1, b) / np.sqrt(a) for a, b in pairwise(case.sizes)]
    if case.trained:
        weights, biases = train(case, seed)
    if case.dtype == "float32":
        weights, biases = ([p.astype(np.float32).astype(float) for p in ps] for ps in (weights, biases))
    name = "relu" if case.leak == 0 else f"leaky_relu({case.leak})"
    return Network(weights, biases, [name] * (len(case.sizes) - 2) + [case.head])


def arithmetic(network: Network, case: Case, seed: int):
    kind = np.dtype(case.dtype)
    rng = np.random.default_rng([seed, 1])
    noise = case.noise * np.std(network(rng.standard_normal((4000, case.sizes[0]))))
    layers = [(w.astype(kind), b.astype(kind)) for w, b in zip(network.weights, network.biases, strict=True)]

    def answer(x: np.ndarray) -> np.ndarray:
        h = x.astype(kind)
        for i, (w, b) in enumerate(layers):
            h = h @ w.T + b
            if i < len(layers) - 1:
                h = np.where(h > 0, h, kind.type(case.leak) * h)
        h = apply_output(case.head, h).astype(float)
        if case.noise:
            h = h + noise * rng.standard_normal(h.shape)
        return h if case.decimals is None else np.round(h, case.decimals) + 0.0

    return answer


def allowed(case: Case, spread: float) -> float:
    """The largest error of the function, relative to its spread, that counts as right."""
    if case.noise or case.decimals is not None:
        return 3 * max(case.noise, 0.0 if case.decimals is None else 0.3 * 10.0**-case.decimals / spread)
    return 1e-6 if case.dtype == "float64" else 1e-3


def over_the_bound(network: Network, found: unweave.Identification) -> float:
    """Errors of the units in units of their standard errors, root mean square; NaN without these."""
    deviations = found.certificate.fresh.get("deviations")
    if deviations is None:
        return float("nan")
    layers = unweave.compare(found.network, network).per_layer
    errors = np.concatenate([layer.unit_errors for layer in layers])
    return float(np.sqrt(np.mean((errors / deviations) ** 2)))


def describe(network: Network, case: Case, seed: int, found: unweave.Identification, seconds: float) -> str:
    """A line on one trial."""
    queries = found.ledger.total / network.num_parameters
    text = f"  {seed}: {found.outcome}, {found.method}, {queries:.0f} queries a parameter"
    if found.network is not None and not found.network.is_open:
        x = (case.domain or unweave.Box(-2.0, 2.0)).sample(4000, case.sizes[0], np.random.default_rng(9))
        truth = network(x)
        error = np.max(np.abs(found.network(x) - truth)) / np.std(truth)
        text += f", {found.network.hidden}, function {error:.1e}"
    return f"{text}, {seconds:.0f} s, {found.reason[:150]}"


def run_case(case: Case, seeds: range, limit: float, each: bool = False) -> None:
    right, false, parameters, functions, queries, seconds, ratios = 0, 0, [], [], [], [], []
    for seed in seeds:
        network = draw_network(case, seed)
        began = time.process_time()
        found = unweave.identify(
            arithmetic(network, case, seed),
            input_size=case.sizes[0],
            domain=case.domain,
            seed=seed,
            time_limit=limit,
        )
        seconds.append(time.process_time() - began)
        queries.append(found.ledger.total / network.num_parameters)
        if each:
            print(describe(network, case, seed, found, seconds[-1]), flush=True)
        if not found.identified:
            continue
        rng = np.random.default_rng(9)
        x = (
            rng.standard_normal((4000, case.sizes[0]))
            if case.box is None
            else rng.uniform(*case.box, (4000, case.sizes[0]))
        )
        truth = network(x)
        error = float(np.max(np.abs(found.network(x) - truth)) / np.std(truth))
        good = error <= allowed(case, float(np.std(truth)))
        right, false = right + good, false + (not good)
        functions.append(error)
        if found.network.hidden == network.hidden:
            parameters.append(float(unweave.compare(network, found.network).max_relative_error))
            if case.noise or case.decimals is not None:
                ratios.append(over_the_bound(network, found))
    bound = f"  {np.median(ratios):.1f} of the bound ({np.sum(np.array(ratios) < 1.5)})" if ratios else ""
    print(
        f"{case.name:30s} {len(seeds):3d} trials  {right:3d} right  {false} false  "
        f"parameters {max(parameters, default=np.nan):.1e} ({len(parameters)})  "
        f"function {max(functions, default=np.nan):.1e}  {np.median(queries):6.1f} queries a parameter  "
        f"{np.mean(seconds):6.1f} s{bound}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", default="")
    parser.add_argument("--each", action="store_true", help="a line a trial as well")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds a trial")
    options = parser.parse_args()
    chosen = [
        case for case in CASES if options.only == case.name
    ]  # one class, or all with this in their names
    chosen = chosen or [c for c in CASES if options.only in c.name and (c.quick or not options.quick)]
    if not chosen:
        parser.error(f"no class has {options.only!r} in its name: {', '.join(case.name for case in CASES)}")
    for case in chosen:
        trials = 2 if options.quick else options.trials
        run_case(case, range(options.first, options.first + trials), options.limit, options.each)


if __name__ == "__main__":
    main()
