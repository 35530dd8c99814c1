"""Two hidden layers as stated by Fornasier, Klock and Rauchensteiner, written as plain NumPy loops: the reference.

    python benchmarks/stated_reference.py --quick      (30,3) in one scenario, 200 Hessians and starts, 5000 steps
    python benchmarks/stated_reference.py              the paper's numbers: 1000 Hessians, 1000 starts, 500 000 steps

One evaluation of f at a time, one singular value decomposition of the vectorised Hessians, one start of the ascent
after the other with a full eigendecomposition a step, k-means++ point by point; the descent is written on matrices of
samples, as anybody would. ``unweave.experiments.two_layer_stated`` must give the same results to rounding, at least ten
times faster. *Given the same Hessians* and the same random numbers the vectors agree to rounding; the Hessians
themselves, second differences of step 1e-5, agree to the rounding of the answers over 1e-10. Seconds are CPU time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from unweave.algebra.matrix_span import half_vectorise
from unweave.core import activations as act
from unweave.core.engine import one_thread
from unweave.evidence.meter import Meter
from unweave.experiments.scenarios import SCENARIOS, Truth
from unweave.experiments.two_layer_stated import (
    BLOCK,
    StatedOptions,
    descend,
    draw_start,
    find_vectors,
    gradient_energy,
)
from unweave.methods.hessian.span_layers import Deparametrised
from unweave.probes.derivatives import Differences, estimate_hessians

Function = Callable[[np.ndarray], float]


def plain_function(truth: Truth) -> Function:
    """``f`` of one point, as a line of NumPy."""
    (a, b, _), theta, tau = truth.network.weights, truth.theta, truth.tau
    if truth.activation == "tanh":
        return lambda x: float(np.sum(np.tanh(b @ np.tanh(a @ x + theta) + tau)))
    return lambda x: float(np.sum(_sigmoid(b @ (_sigmoid(a @ x + theta) - 0.5) + tau) - 0.5))


def draw_points(count: int, m0: int, rng: np.random.Generator) -> np.ndarray:
    points = rng.standard_normal((count, m0))
    return points * np.sqrt(m0) / np.linalg.norm(points, axis=1, keepdims=True)


def loop_hessians(f: Function, points: np.ndarray, step: float) -> np.ndarray:
    """(25): forward differences, one value at a time."""
    count, d = points.shape
    hessians = np.zeros((count, d, d))
    for n, x in enumerate(points):
        centre, single = f(x), np.zeros(d)
        for i in range(d):
            e = np.zeros(d)
            e[i] = step
            single[i] = f(x + e)
        for i in range(d):
            for j in range(i, d):
                e = np.zeros(d)
                e[i] += step
                e[j] += step
                value = (f(x + e) - single[i] - single[j] + centre) / step**2
                hessians[n, i, j] = hessians[n, j, i] = value
    return hessians


def loop_vectors(
    hessians: np.ndarray, count: int, rng: np.random.Generator, options: StatedOptions
) -> np.ndarray:
    """Algorithms 2 and 3 and k-means++."""
    d = hessians.shape[1]
    columns = hessians.reshape(len(hessians), d * d).T
    basis = np.linalg.svd(columns, full_matrices=False)[0][:, :count]
    for k in range(count):
        half = half_vectorise(basis[:, k].reshape(d, d))
        basis[:, k] *= np.sign(half[np.argmax(np.abs(half))])
    limits = []
    for start in rng.standard_normal((options.num_starts, count)):
        m = (basis @ start).reshape(d, d)
        m /= np.linalg.norm(m)
        values, vectors = np.linalg.eigh(m)
        if -values[0] > values[-1]:
            m, values, vectors = -m, -values[::-1], vectors[:, ::-1]
        u, top = vectors[:, -1], values[-1]
        for _ in range(200):
            moved = m + options.gamma * np.outer(u, u)
            m = (basis @ (basis.T @ moved.ravel())).reshape(d, d)
            m /= np.linalg.norm(m)
            values, vectors = np.linalg.eigh(m)
            u, gain, top = vectors[:, -1], values[-1] - top, values[-1]
            if gain < 1e-5:
                break
        limits.append(u)
    return loop_clusters(np.array(limits), count, rng)


def loop_clusters(vectors: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """k-means++ as scikit-learn has it, ten runs, on vectors whose largest entry is made positive."""
    data = np.array([u * np.sign(u[np.argmax(np.abs(u))]) for u in vectors])
    best, least = data[:count], np.inf
    for _ in range(10):
        chosen = [int(rng.integers(len(data)))]
        nearest = np.array([_square(u - data[chosen[0]]) for u in data])
        for _ in range(1, count):
            left = {}
            for i in rng.choice(len(data), 2 + int(np.log(count)), p=nearest / nearest.sum()):
                left[int(i)] = np.array(
                    [min(a, _square(u - data[i])) for a, u in zip(nearest, data, strict=True)]
                )
            chosen.append(min(left, key=lambda i: left[i].sum()))
            nearest = left[chosen[-1]]
        centres = data[chosen].copy()
        for _ in range(300):
            labels = np.array([int(np.argmin(np.sum((centres - u) ** 2, axis=1))) for u in data])
            moved = centres.copy()
            for k in range(count):
                if np.any(labels == k):
                    moved[k] = data[labels == k].mean(axis=0)
            if np.allclose(moved, centres, atol=1e-10):
                break
            centres = moved
        inertia = sum(float(np.min(np.sum((centres - u) ** 2, axis=1))) for u in data)
        if inertia < least:
            best, least = centres, inertia
    return best / np.linalg.norm(best, axis=1, keepdims=True)


def loop_energy(f: Function, vectors: np.ndarray, step: float) -> np.ndarray:
    """``I(w)`` of sec. 6.1."""
    energy = np.zeros(len(vectors))
    for k, w in enumerate(vectors):
        for t in range(-19, 21):
            centre = f(t * w)
            for i in range(len(w)):
                e = np.zeros(len(w))
                e[i] = step
                energy[k] += ((f(t * w + e) - centre) / step) ** 2
    return energy


def loop_descent(model: Deparametrised, start: np.ndarray, x, y, rate: float, num_steps: int) -> np.ndarray:
    """(66) by gradient descent, on matrices of samples."""
    p = start.copy()
    d1, d2, d3, w, z, *_ = model.split(p)
    phi, centre = model.phi, model.centre
    for _ in range(num_steps):
        s = (x @ model.rows.T) * d3 + w
        g = phi(s) - centre
        q = (g * d2) @ model.profiles.T
        u = q * d1 + z
        r = np.sum(phi(u) - centre, axis=1) - y
        e = 2 * r[:, None] * phi.first(u, np) / len(y)
        back = (e * d1) @ model.profiles
        outer = back * d2 * phi.first(s, np)
        steps = np.sum(e * q, axis=0), np.sum(back * g, axis=0), np.sum(outer * (x @ model.rows.T), axis=0)
        for part, change in zip((d1, d2, d3), steps, strict=True):
            part -= rate * change
        w -= rate * outer.sum(axis=0)
        z -= rate * e.sum(axis=0)
    return p


@dataclass
class Clock:
    """CPU seconds by stage, the median of so many repeats: short times are noisy on a busy machine."""

    repeats: int
    seconds: dict[str, float] = field(default_factory=dict)

    def time(self, stage: str, work: Callable[[], np.ndarray]) -> np.ndarray:
        times, value = [], np.zeros(0)
        for _ in range(self.repeats):
            began = time.process_time()
            value = work()
            times.append(time.process_time() - began)
        self.seconds[stage] = float(np.median(times))
        return value


def compare(scenario: str, m0: int, m1: int, seed: int, options: StatedOptions) -> None:
    """Each stage by both, from the same inputs and random numbers."""
    truth = Truth.draw(scenario, m0, m1, seed)
    f, meter = plain_function(truth), Meter(truth.oracle(), remember=False)
    differences = Differences("forward", options.step, options.step)
    points = draw_points(options.num_hessians, m0, np.random.default_rng(seed))
    slow, fast = Clock(1), Clock(3)
    plain = slow.time("Hessians", lambda: loop_hessians(f, points, options.step))
    blocks = np.array_split(points, max(len(points) // BLOCK, 1))
    ours = fast.time(
        "Hessians",
        lambda: np.concatenate([estimate_hessians(meter, b, differences)[:, 0] for b in blocks]),
    )
    away = {"Hessians": np.max(np.abs(plain - ours)) / np.max(np.abs(ours))}
    count = m0 + m1
    vectors = slow.time(
        "vectors", lambda: loop_vectors(ours, count, np.random.default_rng([seed, 1]), options)
    )
    found = fast.time(
        "vectors", lambda: find_vectors(ours, count, np.random.default_rng([seed, 1]), options)[1]
    )
    away["vectors"] = np.max(np.abs(vectors - found))
    energy = slow.time("attribution", lambda: loop_energy(f, found, options.step))
    quick = fast.time("attribution", lambda: gradient_energy(meter, found, differences))
    away["attribution"] = np.max(np.abs(energy - quick)) / np.max(quick)
    rng = np.random.default_rng([seed, 2])
    x = rng.standard_normal((10 * count, m0))
    y = truth.network(x)[:, 0]
    profiles = np.linalg.lstsq(truth.rows.T, truth.entangled.T, rcond=1e-10)[0].T
    model = Deparametrised(truth.rows, profiles, act.get(truth.activation), free_outputs=False)
    start, rate = draw_start(model, rng), 0.5 if truth.activation == "sigmoid" else 0.025
    steps = options.descent_steps
    p = slow.time("descent", lambda: loop_descent(model, start, x, y, rate, steps))
    q = fast.time("descent", lambda: descend(model, start, x, y, rate=rate, num_steps=steps)[0])
    away["descent"] = np.max(np.abs(p - q))
    print(
        f"{scenario} ({m0},{m1}), {options.num_hessians} Hessians, {options.num_starts} starts, {steps} steps, 1 trial:"
    )
    for stage in slow.seconds:
        ratio = slow.seconds[stage] / max(fast.seconds[stage], 1e-9)
        print(
            f"  {stage:12s} loops {slow.seconds[stage]:8.2f} s  unweave {fast.seconds[stage]:7.3f} s  "
            f"{ratio:6.1f} times  apart {away[stage]:.1e}"
        )
    weights = ("Hessians", "vectors", "attribution")
    for name, stages in (("weights", weights), ("whole", (*weights, "descent"))):
        a, b = sum(slow.seconds[s] for s in stages), sum(fast.seconds[s] for s in stages)
        print(f"  {name:12s} loops {a:8.2f} s  unweave {b:7.3f} s  {a / b:6.1f} times", flush=True)


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def _square(v: np.ndarray) -> float:
    return float(v @ v)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", default="30,3", help="for instance 30,9")
    parser.add_argument("--scenarios", default="", help="separated by commas; all four by default")
    parser.add_argument("--seed", type=int, default=3100)
    options = parser.parse_args()
    m0, m1 = map(int, options.sizes.split(","))
    settings = StatedOptions()
    scenarios = SCENARIOS
    if options.quick:
        settings, scenarios = StatedOptions(200, num_starts=200, descent_steps=5000), ("POD/tanh",)
    if options.scenarios:
        scenarios = options.scenarios.split(",")
    with one_thread():
        for scenario in scenarios:
            compare(scenario, m0, m1, options.seed, settings)


if __name__ == "__main__":
    main()
