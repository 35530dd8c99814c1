"""The first layer under high thresholds and intersections of halfspaces, against their figures.

    python benchmarks/high_threshold.py --quick            small sizes, two trials each, about a minute
    python benchmarks/high_threshold.py                    every figure, 10 trials each, intersections 20
    python benchmarks/high_threshold.py --only relu,step   some parts of: relu, top, step, flips, stated, starts,
                                                           halfspaces, queries

Directions are orthogonal with a perturbation of condition number at most 3. Errors are the largest distance of a
unit's recovered direction from its true one (lengths one); medians and worst over the trials. Seconds are CPU seconds
of one trial. ``d/(N n(t))`` is the scale on which labels of N rows resolve a halfspace at distance t.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from sys import path

import numpy as np

path.insert(0, str(Path(__file__).parents[1] / "tests"))

from scenarios import open_parser

import unweave
from truth import separate_normals
from unweave.experiments.high_threshold_stated import refine_estimate
from unweave.methods.high_threshold.labels import fit_labels
from unweave.methods.high_threshold.landscape import landscape_starts
from unweave.methods.high_threshold.starts import find_starts, label_moments

RELU = [(10, 1.5, 30_000), (20, 2.5, 100_000), (50, 2.5, 1_000_000)]
TOP = [(10, 2.0, 30_000), (20, 2.5, 100_000)]
STEP = [(5, 2.0, 100_000), (10, 2.0, 1_000_000), (20, 2.5, 1_000_000)]
FLIPS = [(5, 2.0, 200_000), (10, 2.0, 1_000_000)]
STATED = [(5, 2.0, 200_000)]
STARTS = [(10, 2.5, 400_000), (20, 2.5, 1_000_000)]
HALFSPACES = [(8, 5, 400_000), (10, 20, 400_000), (15, 10, 400_000)]
QUERIES = [(5, 5), (10, 10), (20, 20), (8, 5), (10, 20), (15, 10)]


def directions(d: int, rng: np.random.Generator) -> np.ndarray:
    """Orthogonal rows with a perturbation of condition number at most 3."""
    orthogonal, noise = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.standard_normal((d, d)) / np.sqrt(d)
    size = 0.5
    while True:
        rows = orthogonal + size * noise
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        if np.linalg.cond(rows) <= 3:
            return rows
        size *= 0.9


def worst(truth: np.ndarray, found: np.ndarray) -> float:
    if not len(found):
        return float("inf")
    return float(np.linalg.norm(truth[:, None] - found[None], axis=2).min(axis=1).max())


def report(title: str, errors: list[float], seconds: list[float], extra: str = "") -> None:
    print(
        f"{title:46s} {len(errors):3d} trials  median {np.median(errors):.1e}  worst {np.max(errors):.1e}  "
        f"{np.median(seconds):6.1f} s{extra}",
        flush=True,
    )


def timed(call: Callable):
    began = time.process_time()
    value = call()
    return value, time.process_time() - began


def first_layer(y, x, unit: str, truth: np.ndarray) -> tuple[float, float, bool]:
    found, seconds = timed(lambda: unweave.learn(x, y, method=unweave.HighThreshold(unit=unit)))
    error = float("inf") if found.network is None else worst(truth, found.network.weights[0])
    return error, seconds, found.identified


def relu(sizes, trials: int, *, top: bool) -> None:
    for d, t, n in sizes:
        results = []
        for seed in range(trials):
            rng = np.random.default_rng([seed, d, n, 950 + top])
            w, x = directions(d, rng), rng.standard_normal((n, d))
            units = np.maximum(x @ w.T - t, 0)
            if top:
                y = 1 / (1 + np.exp(1 - units @ rng.uniform(0.5, 1.5, d)))
            else:
                pairs = [rng.choice(d, 2, replace=False) for _ in range(d)]
                y = units.sum(axis=1) + sum(rng.uniform(-1, 1) * units[:, i] * units[:, j] for i, j in pairs)
            results.append(first_layer(y, x, "relu", w))
        errors, seconds, claimed = zip(*results, strict=True)
        name = "relu, unknown sigmoid on top" if top else "relu, sum + random pairs"
        report(f"{name} d={d} t={t} N={n:.0e}", list(errors), list(seconds), f"  identified {sum(claimed)}")


def step(sizes, trials: int) -> None:
    for d, t, n in sizes:
        errors, means, seconds, claimed = [], [], [], 0
        scale = d / (n * np.exp(-t * t / 2) / np.sqrt(2 * np.pi))
        for seed in range(trials):
            rng = np.random.default_rng([seed, d, n, 952])
            w, x = directions(d, rng), rng.standard_normal((n, d))
            y = np.any(x @ w.T > t, axis=1).astype(float)
            found, spent = timed(
                lambda x=x, y=y: unweave.learn(x, y, method=unweave.HighThreshold(unit="step"))
            )
            rows = np.zeros((0, d)) if found.network is None else found.network.weights[0]
            errors.append(worst(w, rows))
            means.append(float(np.mean([worst(w[i : i + 1], rows) for i in range(d)])))
            seconds.append(spent)
            claimed += found.identified
        ratio = (
            f"  = {np.median(errors) / scale:.2f} d/(N n(t)), mean over units {np.median(means) / scale:.2f}, "
            f"identified {claimed}"
        )
        report(f"step units (OR) d={d} t={t} N={n:.0e}", errors, seconds, ratio)


def flips(sizes, trials: int) -> None:
    for d, t, n in sizes:
        for share in (0.001, 0.01):
            errors, seconds, claimed = [], [], 0
            for seed in range(trials):
                rng = np.random.default_rng([seed, d, n, 953])
                w, x = directions(d, rng), rng.standard_normal((n, d))
                labels = np.any(x @ w.T > t, axis=1) ^ (rng.uniform(size=n) < share)
                error, spent, ok = first_layer(labels.astype(float), x, "step", w)
                errors.append(error)
                seconds.append(spent)
                claimed += ok
            title = f"step units, {share:.1%} flipped d={d} t={t} N={n:.0e}"
            report(title, errors, seconds, f"  identified {claimed}")


def stated(sizes, trials: int) -> None:
    for d, t, n in sizes:
        ours, theirs, our_time, their_time = [], [], [], []
        for seed in range(trials):
            rng = np.random.default_rng([seed, d, n, 954])
            w, x = directions(d, rng), rng.standard_normal((n, d))
            labels = np.any(x @ w.T > t, axis=1)
            fit, spent = timed(lambda x=x, labels=labels, rng=rng: fit_labels(x, labels, rng, flip_rate=0.0))
            start = find_starts(label_moments([(x, labels)], d), d, rng)[0]
            refined, longer = timed(
                lambda x=x, labels=labels, start=start, rng=rng, rounds=100 * d: refine_estimate(
                    x, labels, start, rng, epsilon=0.05, max_rounds=rounds
                )
            )
            unit = int(np.argmax(w @ start))
            ours.append(worst(w[unit : unit + 1], fit.union.normals))
            theirs.append(float(np.linalg.norm(refined.direction - w[unit])))
            our_time.append(spent)
            their_time.append(longer)
        report(f"one unit, ours d={d} t={t} N={n:.0e}", ours, our_time)
        ratio = np.median(theirs) / np.median(ours)
        report(
            "one unit, refinement as stated, same rows", theirs, their_time, f"  ratio of medians {ratio:.0f}"
        )


def starts(sizes, trials: int) -> None:
    for d, t, n in sizes:
        for kind in ("moments", "landscape", "simultaneous"):
            errors, seconds, complete = [], [], 0
            for seed in range(trials):
                rng = np.random.default_rng([seed, d, n, 957])
                w, x = directions(d, rng), rng.standard_normal((n, d))
                labels = np.any(x @ w.T > t, axis=1)
                found, spent = timed(
                    lambda x=x, labels=labels, d=d, kind=kind, rng=rng: (
                        find_starts(label_moments([(x, labels)], d), d, rng)
                        if kind == "moments"
                        else landscape_starts([(x, labels)], d, kind, d, rng)
                    )
                )
                errors.append(worst(w, found))
                complete += errors[-1] < 0.5
                seconds.append(spent)
            title = f"starts, {kind} d={d} t={t} N={n:.0e}"
            report(title, errors, seconds, f"  all directions in {complete}")


def halfspaces(sizes, trials: int) -> None:
    for k, d, n in sizes:
        errors, seconds, complete, claimed = [], [], 0, 0
        for seed in range(trials):
            rng = np.random.default_rng([seed, d, n, 955])
            normals, offsets = separate_normals(k, d, rng), rng.uniform(1.5, 2.5, k)
            x = rng.standard_normal((n, d))
            inside = np.all(x @ normals.T <= offsets, axis=1)
            found, spent = timed(lambda x=x, inside=inside: unweave.Halfspaces.learn(x, inside))
            errors.append(worst(normals, found.normals))
            complete += len(found) == k and errors[-1] < 0.1
            claimed += found.agrees
            seconds.append(spent)
        extra = f"  all normals in {complete}, identified {claimed}"
        report(f"intersection k={k} d={d} N={n:.0e}, offsets 1.5-2.5", errors, seconds, extra)


def queries(sizes, trials: int) -> None:
    for k, d in sizes:
        errors, seconds, asked = [], [], []
        for seed in range(trials):
            rng = np.random.default_rng([seed, d, k, 958])
            normals = directions(d, rng) if k == d else separate_normals(k, d, rng)
            offsets = np.full(k, 2.0) if k == d else rng.uniform(1.5, 2.5, k)
            found, spent = timed(
                lambda normals=normals, offsets=offsets, d=d: unweave.identify(
                    lambda x: np.any(x @ normals.T > offsets, axis=1).astype(float), input_size=d
                )
            )
            errors.append(float("inf") if found.network is None else worst(normals, found.network.weights[0]))
            asked.append(found.ledger.total)
            seconds.append(spent)
        extra = f"  queries at most {max(asked):,} (2,000 d = {2000 * d:,})"
        report(f"queries k={k} d={d}", errors, seconds, extra)


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--only", default="relu,top,step,flips,stated,starts,halfspaces,queries")
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--largest", type=int, default=50, help="leave out sizes with more inputs")
    chosen = parser.parse_args()
    trials = chosen.trials or (2 if chosen.quick else 10)
    count = 1 if chosen.quick else None

    def sizes(table, place: int = 0):
        return [row for row in table if row[place] <= chosen.largest][:count]

    parts = {
        "relu": lambda: relu(sizes(RELU), trials, top=False),
        "top": lambda: relu(sizes(TOP), trials, top=True),
        "step": lambda: step(sizes(STEP), trials),
        "flips": lambda: flips(sizes(FLIPS), trials),
        "stated": lambda: stated(sizes(STATED), trials),
        "starts": lambda: starts(sizes(STARTS), trials),
        "halfspaces": lambda: halfspaces(
            sizes(HALFSPACES, 1), trials if chosen.quick or chosen.trials else 2 * trials
        ),
        "queries": lambda: queries(sizes(QUERIES, 1), trials),
    }
    for name in chosen.only.split(","):
        if name not in parts:
            parser.error(f"unknown part {name!r}; known: {', '.join(parts)}")
        parts[name]()


if __name__ == "__main__":
    main()
