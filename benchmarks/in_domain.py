"""In-domain identification: success, samples per parameter, error and time, cell by cell, on fresh seeds.

    python benchmarks/in_domain.py --quick            # a few minutes: one or two trials a cell
    python benchmarks/in_domain.py --cells shallow two-layers --trials 20
    python benchmarks/in_domain.py --gpu              # the cells that want an accelerator
    python benchmarks/in_domain.py --cells sizes      # against the number of parameters

A trial counts as exact when the method claims its network and every parameter agrees to 1e-8 relative after
alignment, widths not given and the depth unknown up to the limit stated in the cell.
Times are CPU seconds (wall seconds with --gpu).
"""

from __future__ import annotations

import json
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scenarios import open_parser, paper_network, random_mlp

from unweave.comparison import compare
from unweave.core.domains import Ball, Domain, Normal
from unweave.core.network import Network
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Problem
from unweave.methods.hessian.pencil import HessianPencil
from unweave.methods.in_domain.method import InDomain

FIRST_SEED = 1000
SMOOTH = ("tanh", "sigmoid", "erf", "softplus", "gelu", "silu")


@dataclass(frozen=True)
class Trial:
    """One network to recover."""

    cell: str
    network: Network
    domain: Domain
    limit: float
    """Samples a parameter the cell allows."""
    noise: float = 0.0
    single: bool = False
    """Answers in float32."""
    max_depth: int = 2
    pencil: bool = False
    """By two Hessians, which as many units as inputs are few enough for."""


class Model:
    """A network as an oracle, in float64 or float32, with or without noise."""

    name, notes = "network", ()

    def __init__(self, trial: Trial, seed: int):
        self._trial = trial
        self._rng = np.random.default_rng(seed)
        self.input_size, self.output_size = trial.network.input_size, trial.network.output_size
        self.dtype = "float32" if trial.single else "float64"

    def __call__(self, x: np.ndarray) -> np.ndarray:
        y = self._trial.network(x)
        if self._trial.single:
            y = y.astype(np.float32).astype(np.float64)
        return y + self._trial.noise * self._rng.standard_normal(y.shape)


def trained_network(hidden: tuple[int, ...], activation: str, data: str, solver: str, seed: int) -> Network:
    """A scikit-learn regressor trained on standardised inputs."""
    from sklearn.datasets import load_diabetes, load_digits, make_friedman1
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    if data == "diabetes":
        x, y = load_diabetes(return_X_y=True)
    elif data == "friedman":
        x, y = make_friedman1(500, n_features=10, noise=0.1, random_state=seed)
    else:
        x, y = load_digits(return_X_y=True)
        x = x[:, np.argsort(-x.std(axis=0))[:16]]
    x, y = StandardScaler().fit_transform(x), (y - np.mean(y)) / np.std(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPRegressor(
            hidden_layer_sizes=hidden, activation=activation, solver=solver, random_state=seed, max_iter=300
        ).fit(x, y)
    name = "sigmoid" if activation == "logistic" else activation
    return Network([w.T for w in model.coefs_], model.intercepts_, [name] * len(hidden) + ["identity"])


def in_ball(d: int) -> Ball:
    return Ball(2 * np.sqrt(d))


def shallow(num_trials: int, quick: bool) -> list[Trial]:
    sizes = [(10, 10), (20, 8)] if quick else [(10, 10), (10, 30), (20, 20), (20, 8)]
    return [
        Trial(f"shallow {a} {d}-{m}", random_mlp((d, m, 1), a, s), in_ball(d) if s % 2 else Normal(), 5)
        for d, m in sizes
        for a in SMOOTH
        for s in range(FIRST_SEED, FIRST_SEED + num_trials)
    ]


def two_layers(num_trials: int, quick: bool) -> list[Trial]:
    sizes = [(10, 10, 3)] if quick else [(10, 10, 3), (8, 16, 4), (10, 16, 8)]
    return [
        Trial(
            f"two layers {a} {d}-{m0}-{m1}",
            random_mlp((d, m0, m1, 1), a, s),
            in_ball(d) if s % 2 else Normal(),
            12 if a in ("tanh", "sigmoid", "erf") else 20,
        )
        for d, m0, m1 in sizes
        for a in SMOOTH
        for s in range(FIRST_SEED, FIRST_SEED + num_trials)
    ]


def three_layers(num_trials: int, quick: bool) -> list[Trial]:
    sizes = [(10, 10, 6, 3, 1)] if quick else [(10, 10, 6, 3, 1), (10, 16, 8, 4, 1), (10, 12, 8, 6, 3, 1)]
    return [
        Trial(f"{len(s) - 2} layers {a} {s}", random_mlp(s, a, k), in_ball(10), 15, max_depth=len(s) - 2)
        for s in sizes
        for a in ("tanh", "sigmoid")
        for k in range(FIRST_SEED, FIRST_SEED + num_trials)
    ]


def scenarios(num_trials: int, quick: bool, sizes: tuple[tuple[int, int], ...] = ((20, 3),)) -> list[Trial]:
    return [
        Trial(
            f"scenario {kind}/{a} ({m0},{m1})",
            paper_network(m0, m1, kind.lower(), a, k),
            in_ball(m0),
            13 if m0 < 45 else 15,
        )
        for m0, m1 in sizes
        for kind in ("POD", "sphere")
        for a in ("tanh", "sigmoid")
        for k in range(FIRST_SEED, FIRST_SEED + num_trials)
    ]


def trained(num_trials: int, quick: bool) -> list[Trial]:
    hidden = [(16,)] if quick else [(16,), (30,), (16, 8), (30, 10)]
    return [
        Trial(f"trained {h} {a}", trained_network(h, a, data, solver, k), Normal(), np.inf)
        for h in hidden
        for a in ("tanh", "logistic")
        for data in ("diabetes", "friedman", "digits")
        for solver in ("adam", "lbfgs")
        for k in range(max(num_trials // 5, 1))
    ]


def inexact(num_trials: int, quick: bool) -> list[Trial]:
    trials = []
    for d, m in [(10, 10)] if quick else [(10, 10), (20, 8)]:
        for noise in (0.0, 1e-6, 1e-4, 1e-2):
            for k in range(FIRST_SEED, FIRST_SEED + num_trials):
                network = random_mlp((d, m, 1), "tanh", k)
                name = f"noise {noise:g} tanh {d}-{m}" if noise else f"float32 tanh {d}-{m}"
                trials.append(Trial(name, network, in_ball(d), np.inf, noise, single=noise == 0))
    return trials


def large(num_trials: int, quick: bool) -> list[Trial]:
    sizes = [(30, 3), (30, 9), (30, 15), (45, 14), (45, 23)]
    trials = [t for s in sizes for t in scenarios(num_trials, quick, (s,))]
    shallow_sizes = [(30, 60), (50, 100), (100, 100)]
    return trials + [
        Trial(
            f"shallow tanh {d}-{m}",
            random_mlp((d, m, 1), "tanh", FIRST_SEED),
            in_ball(d),
            np.inf,
            max_depth=1,
            pencil=d >= 100,
        )
        for d, m in shallow_sizes
    ]


def sizes(num_trials: int, quick: bool) -> list[Trial]:
    """Two layers of growing size: time, memory and success against the number of parameters."""
    trials = []
    for d in (8, 12) if quick else (8, 12, 18, 25, 36, 45, 57):
        networks = [
            random_mlp((d, d, d // 2, 1), "tanh", k) for k in range(FIRST_SEED, FIRST_SEED + num_trials)
        ]
        name = f"size {networks[0].num_parameters:5d} {d}-{d}-{d // 2}"
        trials += [Trial(name, network, in_ball(d), 15) for network in networks]
    return trials


CELLS: dict[str, Callable[[int, bool], list[Trial]]] = {
    "shallow": shallow,
    "two-layers": two_layers,
    "three-layers": three_layers,
    "scenarios": scenarios,
    "trained": trained,
    "inexact": inexact,
    "large": large,
    "sizes": sizes,
}
SLOW = ("large", "sizes")
"""Only when asked for."""


def run(trial: Trial, seed: int, time_limit: float) -> dict:
    """Recover one network, knowing its activation only."""
    meter = Meter(Model(trial, seed), domain=trial.domain)
    spread = float(
        np.std(trial.network(trial.domain.sample(500, trial.network.input_size, np.random.default_rng(0))))
    )
    noise = max(trial.noise, 3e-8 * spread if trial.single else 0.0)
    kind = "noisy" if trial.noise else "float32" if trial.single else "float64"
    depth = max(trial.max_depth, len(trial.network.hidden))
    problem = Problem((trial.network.activations[0],), None, Precision(noise, spread, kind), seed, depth)
    cpu, wall = time.process_time(), time.monotonic()
    method = HessianPencil(time_limit) if trial.pencil else InDomain(time_limit)
    finding = method.recover(meter, problem)
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    error = np.inf
    if finding.network is not None:
        error = compare(trial.network, finding.network).max_relative_error
    samples = meter.ledger.total * trial.network.output_size / trial.network.num_parameters
    claimed = finding.network is not None and not finding.undetermined
    bound = None
    if finding.network is not None and trial.noise:
        bound = _times_cramer_rao(trial, meter, finding.network)
    return {
        "cell": trial.cell,
        "exact": claimed and error <= (1e-8 if kind == "float64" else 1e-5 if kind == "float32" else np.inf),
        "claimed": claimed,
        "error": float(error),
        "samples": float(samples),
        "within": bool(samples <= trial.limit),
        "cpu": cpu,
        "wall": wall,
        "times_bound": bound,
        "gigabytes": peak_gigabytes(),
        "reason": finding.reason,
        "hidden": None if finding.network is None else finding.network.hidden,
    }


def peak_gigabytes() -> float:
    """The most memory this process has held: on the accelerator where there is one, else at all."""
    import jax

    from unweave.solve.devices import has_accelerator

    if has_accelerator():
        statistics = jax.devices()[0].memory_stats() or {}
        return statistics.get("peak_bytes_in_use", 0) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _times_cramer_rao(trial: Trial, meter: Meter, found: Network) -> float | None:
    """Root mean square error of the parameters over the Cramer-Rao bound at the truth."""
    from unweave.solve.polish import polish

    pair = compare(trial.network, found)
    if not pair.same_architecture:
        return None
    x, _ = meter.transcript("points in the domain")
    used = polish(pair.reference, x, trial.network(x), noise=trial.noise)
    error = pair.aligned.flat() - pair.reference.flat()
    return float(np.sqrt(np.mean((error / used.standard_errors) ** 2)))


def time_steps(sizes: tuple[int, ...], devices: list[str]) -> None:
    """Milliseconds of one Levenberg-Marquardt step against the number of parameters, CPU and accelerator."""
    from unweave.solve.accelerated import AcceleratedProblem
    from unweave.solve.descend import Settings, descend
    from unweave.solve.devices import has_accelerator
    from unweave.solve.fit import LEAST_INEXACT
    from unweave.solve.inexact import InexactProblem
    from unweave.solve.layout import Layout
    from unweave.solve.step import DenseProblem
    from unweave.solve.together import MOST, fit_together

    rng = np.random.default_rng(0)
    settings = Settings(target=0.0, max_steps=4, stall_steps=0, patience=1000)
    logs: dict[str, list[tuple[float, float]]] = {}
    for width in sizes:
        network = random_mlp((30, width, width // 2, 1), "tanh", 1)
        layout, p = Layout.of(network), network.num_parameters
        x = rng.standard_normal((5 * p, 30))
        y = network(x)
        start = network.flat() * (1 + 0.3 * rng.standard_normal(p))

        def residual(theta, layout=layout, x=x, y=y):
            return (layout.forward(theta, x) - y).ravel()

        def linearise(theta, layout=layout, x=x, y=y):
            outputs, jacobian = layout.linearise(theta, x)
            return (outputs - y).ravel(), jacobian

        problems = {}
        if "accelerator" in devices and has_accelerator():
            problem = AcceleratedProblem(layout, x, y)
            problems["accelerator"] = problem, problem.inside(start)
        if "CPU" in devices and p < 5500:
            problems["CPU"] = DenseProblem(residual, linearise, y.size), start
        if "CPU" in devices:
            problems["CPU, inexact"] = InexactProblem(layout, x, y), start
        for name, (problem, point) in problems.items():
            if name == "accelerator":
                descend(problem, point, 1.0, settings)  # compiles
            began = time.monotonic()
            least = LEAST_INEXACT if name == "CPU, inexact" else settings.least_damping
            num_steps = descend(problem, point, 1.0, replace(settings, least_damping=least)).num_steps
            seconds = (time.monotonic() - began) / num_steps
            logs.setdefault(name, []).append((np.log(p), np.log(seconds)))
            gigabytes = 8e-9 * (5 * p * p + 3 * p * p if name != "CPU, inexact" else 5 * p * 9 * width)
            line = f"{p:6d} parameters  {name:12s} {1e3 * seconds:9.1f} ms a step  about {gigabytes:.2f} GB"
            if name == "accelerator" and y.size * p**2 <= MOST:
                starts = [network.flat() * (1 + 0.3 * rng.standard_normal(p)) for _ in range(8)]
                longer = replace(settings, max_steps=40)  # its start is counted too
                list(fit_together(layout, starts, x, y, longer))  # compiles
                began = time.monotonic()
                list(fit_together(layout, starts, x, y, longer))
                at_once = (time.monotonic() - began) / longer.max_steps
                ratio = len(starts) * seconds / at_once
                line += f"  eight starts at once {1e3 * at_once:.1f} ms, {ratio:.1f} times as fast as in turn"
            print(line, flush=True)
    for name, points in logs.items():
        if len(points) > 2:
            slope = np.polyfit(*np.array(points[-3:]).T, 1)[0]
            print(f"{name}: time grows like parameters^{slope:.2f} over the last three sizes", flush=True)


def report(cell: str, rows: list[dict]) -> str:
    exact = sum(r["exact"] and r["within"] for r in rows)
    false = sum(r["claimed"] and not r["exact"] for r in rows)
    samples = [r["samples"] for r in rows]
    bounds = [r["times_bound"] for r in rows if r["times_bound"] is not None]
    line = (
        f"{cell:42s} {exact:3d}/{len(rows):<3d} false {false}  samples/parameter {np.median(samples):5.2f} "
        f"(max {max(samples):5.2f})  worst exact {max([r['error'] for r in rows if r['exact']], default=np.nan):7.1e}"
        f"  cpu {np.median([r['cpu'] for r in rows]):6.2f} s  wall {np.median([r['wall'] for r in rows]):6.2f} s"
        f"  peak {max(r['gigabytes'] for r in rows):5.2f} GB"
    )
    return line + (f"  error / Cramer-Rao {np.median(bounds):.2f}" if bounds else "")


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--cells", nargs="+", choices=sorted(CELLS), default=None)
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--gpu", action="store_true", help="the large cells, which want an accelerator")
    parser.add_argument(
        "--steps", action="store_true", help="time of one step against the number of parameters"
    )
    parser.add_argument("--devices", nargs="+", default=["CPU", "accelerator"], help="of --steps")
    parser.add_argument("--time-limit", type=float, default=240.0)
    parser.add_argument("--match", default="", help="only cells whose name contains this")
    parser.add_argument("--out", type=Path, default=None, help="write every trial as JSON lines")
    arguments = parser.parse_args()
    if arguments.steps:
        sizes = (10, 20, 30, 44) if arguments.quick else (10, 20, 30, 44, 53, 60, 80, 110)
        time_steps(sizes, arguments.devices)
        return
    cells = arguments.cells or (["large"] if arguments.gpu else [c for c in CELLS if c not in SLOW])
    num_trials = arguments.trials or (1 if arguments.quick or arguments.gpu else 5)
    for name in cells:
        rows: dict[str, list[dict]] = {}
        trials = [t for t in CELLS[name](num_trials, arguments.quick) if arguments.match in t.cell]
        for i, trial in enumerate(trials):
            # numbered within its cell, so that what else is asked for does not change it
            row = run(trial, len(rows.get(trial.cell, [])), arguments.time_limit)
            rows.setdefault(trial.cell, []).append(row)
            if arguments.out is not None:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            if i + 1 == len(trials) or trials[i + 1].cell != trial.cell:
                print(report(trial.cell, rows[trial.cell]), flush=True)


if __name__ == "__main__":
    main()
