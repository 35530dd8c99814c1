"""Symmetric tensor decomposition and Hermite moments, side by side with what a user would pick instead.

    python benchmarks/tensors.py --quick                  two trials a line, a million samples
    python benchmarks/tensors.py                          ten trials a line, ten million samples
    python benchmarks/tensors.py --spm FOLDER             also the published subspace power method (its Python code)

Sections (``--only``): decomposition (exact tensors, all components to 1e-8; TensorLy and the published code where they
are installed), noise (components of noisy tensors), moments (CPU time a million samples against a bare GEMM of the same
size, memory of one pass), recovery (relu units from exact tensors and from samples, as stated and improved).
Times are CPU seconds with one BLAS thread.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scenarios import open_parser

from unweave.algebra.symmetric import frobenius, multiplicities, powers, unpack
from unweave.algebra.tensor_decomposition import decompose
from unweave.core.engine import one_thread
from unweave.methods.general_relu.recover import recover_from_moments
from unweave.moments.accumulate import accumulate
from unweave.moments.hermite import HermiteMoments
from unweave.moments.population import ReluUnits, population_tensors
from unweave.moments.residual import accumulate_residual

FIRST_SEED = 7000


def random_components(size: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, size, count])
    vectors = rng.standard_normal((count, size))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, rng.uniform(0.5, 2.0, count)


def distances(truth: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Of each true vector from the nearest found one, up to sign."""
    if not len(found):
        return np.full(len(truth), np.inf)
    cosines = truth @ found.T
    nearest = np.argmax(np.abs(cosines), axis=1)
    signs = np.sign(cosines[np.arange(len(truth)), nearest])
    return np.linalg.norm(truth - signs[:, None] * found[nearest], axis=1)


def timed(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def show(name: str, size: int, count: int, order: int, runs: list[tuple[np.ndarray, float]]) -> None:
    complete = sum(bool(np.max(d) < 1e-8) for d, _ in runs)
    found, close = (np.mean([np.sum(d < limit) for d, _ in runs]) for limit in (1e-8, 1e-3))
    worst = max(float(np.max(d)) for d, _ in runs)
    seconds = np.median([s for _, s in runs])
    print(
        f"order {order}, d = {size:2d}, r = {count:3d}  {name:26s} {complete}/{len(runs)} tensors complete to 1e-8, "
        f"{found:5.1f} of {count} components ({close:.1f} to 1e-3), worst {worst:.0e}, {seconds:6.3f} s  "
        f"({len(runs)} trials)",
        flush=True,
    )


def bench_decomposition(trials: int, spm: Path | None) -> None:
    peers = tensorly_peers()
    published = load_spm(spm)
    for size, count, order in ((5, 5, 3), (10, 10, 3), (20, 20, 3), (20, 120, 4), (30, 200, 4)):
        entrants: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
            "unweave": lambda tensor, rank: decompose(tensor, tensor.ndim).vectors
        }
        entrants |= peers if order == 3 else published
        for name, solve in entrants.items():
            runs = []
            for trial in range(trials):
                vectors, coefficients = random_components(size, count, FIRST_SEED + trial)
                tensor = unpack(coefficients @ powers(vectors, order), size, order)
                found, seconds = timed(partial(solve, tensor, count))
                runs.append((distances(vectors, found), seconds))
            show(name, size, count, order, runs)


def tensorly_peers() -> dict[str, Callable[[np.ndarray, int], np.ndarray]]:
    try:
        from tensorly.decomposition import parafac, symmetric_parafac_power_iteration
    except ImportError:
        print("tensorly is not installed: no comparison at order 3 (pip install tensorly)")
        return {}

    def power_iteration(tensor: np.ndarray, rank: int) -> np.ndarray:
        factors = symmetric_parafac_power_iteration(tensor, rank)[1]
        return (factors / np.linalg.norm(factors, axis=0)).T

    def alternating(tensor: np.ndarray, rank: int) -> np.ndarray:
        factors = parafac(tensor, rank, n_iter_max=2000, tol=1e-14, init="random", random_state=0)[1][0]
        return (factors / np.linalg.norm(factors, axis=0)).T

    return {"TensorLy power iteration": power_iteration, "TensorLy CP-ALS": alternating}


def load_spm(folder: Path | None) -> dict[str, Callable[[np.ndarray, int], np.ndarray]]:
    if folder is None:
        return {}
    sys.path.insert(0, str(folder))
    from SPM import subspace_power_method  # pyright: ignore[reportMissingImports]

    def run(tensor: np.ndarray, rank: int) -> np.ndarray:
        np.random.seed(0)  # noqa: NPY002 (the published code draws from the global generator)
        return subspace_power_method(tensor)[0].T

    return {"published SPM": run}


def bench_noise(trials: int) -> None:
    for size, count, order in ((10, 10, 3), (10, 20, 4)):
        for relative in (1e-6, 1e-3, 1e-2):
            errors, counts = [], []
            for trial in range(trials):
                vectors, coefficients = random_components(size, count, FIRST_SEED + 100 + trial)
                packed = coefficients @ powers(vectors, order)
                rng = np.random.default_rng(FIRST_SEED + trial)
                noise = rng.standard_normal(len(packed)) / np.sqrt(multiplicities(size, order))
                wanted = relative * float(frobenius(packed, size, order))
                noisy = packed + noise * wanted / frobenius(noise, size, order)
                found = decompose(noisy, order, size=size, noise=wanted)
                counts.append(len(found))
                errors.append(float(np.max(distances(vectors, found.vectors))))
            right = sum(c == count for c in counts)
            print(
                f"order {order}, d = {size}, r = {count}, noise {relative:.0e}: number of components right in "
                f"{right}/{trials}, worst component {np.median(errors):.1e} (median of {trials} trials)",
                flush=True,
            )


def draw(size: int, seed: int, num_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    for _ in range(0, num_rows, 50_000):
        x = rng.standard_normal((50_000, size))
        yield x, np.maximum(x[:, 0] + 0.3, 0.0) - np.maximum(x[:, 1] - x[:, 2], 0.0)


def bench_moments(trials: int, num_rows: int) -> None:
    for size in (10, 20):
        ours, bare = [], []
        width = (size + 1) * (size + 2) // 2
        rng = np.random.default_rng(FIRST_SEED)
        x, y = rng.standard_normal((200_000, size)), rng.standard_normal(200_000)
        a, b = rng.standard_normal((2, 200_000, width))
        for _ in range(max(trials, 3)):
            began = time.process_time()
            HermiteMoments(size).update(x, y)
            ours.append(5 * (time.process_time() - began))
            began = time.process_time()
            a.T @ b
            bare.append(5 * (time.process_time() - began))
        ratio = np.median(np.array(ours) / np.array(bare))
        print(
            f"T_0..T_4 at d = {size}: {np.median(ours):.2f} s a million samples; a bare GEMM of {width} x {width} "
            f"{np.median(bare):.2f} s; ratio {ratio:.2f}  (median of {len(ours)} trials)",
            flush=True,
        )
        del a, b
    # a process of its own, so that its peak memory is that of the pass
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        count, seconds, peak = pool.submit(one_pass, num_rows).result()
    print(
        f"one pass over {count:.0e} samples at d = 20, drawing them included: {seconds:.0f} s, "
        f"peak memory of the process {peak:.0f} MB  (1 trial)",
        flush=True,
    )


def one_pass(num_rows: int) -> tuple[int, float, float]:
    pieces = [partial(draw, 20, FIRST_SEED + i, num_rows // 10) for i in range(10)]
    began = time.process_time()
    moments = accumulate(pieces)
    seconds = time.process_time() - began
    return moments.count, seconds, peak_memory()


def peak_memory() -> float:
    """Megabytes; where the system tells, of this program alone and not of the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bench_recovery(trials: int) -> None:
    for size, count, order in ((5, 5, 1), (10, 10, 1), (6, 10, 2), (8, 20, 2)):
        for as_stated in (True, False):
            errors, seconds = [], []
            for trial in range(trials):
                truth = random_units(size, count, FIRST_SEED + 200 + trial)
                tensors = population_tensors(truth, 2 * order + 2)
                began = time.process_time()
                found = recover_from_moments(tensors, order=order, as_stated=as_stated)
                seconds.append(time.process_time() - began)
                errors.append(unit_error(truth, found.units))
            name = "as stated" if as_stated else "improved"
            print(
                f"exact tensors, d = {size}, m = {count}, l = {order}, {name:9s}: "
                f"{sum(e < 1e-8 for e in errors)}/{trials} to 1e-8, "
                f"signs included, worst {max(errors):.0e}, {np.median(seconds):.2f} s  ({trials} trials)",
                flush=True,
            )
    for size, count, num_rows in ((5, 5, 100_000), (5, 5, 1_000_000), (10, 10, 200_000), (5, 8, 200_000)):
        gains, stated, improved, widths, wrong = [], [], [], [], 0
        for trial in range(min(trials, 5)):
            truth = random_units(size, count, FIRST_SEED + 300 + trial)
            x = np.random.default_rng(FIRST_SEED + trial).standard_normal((num_rows, size))
            y = truth(x)
            moments, exact = accumulate_residual((x, y)), population_tensors(truth, 4)
            plain = HermiteMoments(size).update(x, y)
            gains.append(
                [
                    np.linalg.norm(plain.packed(k) - exact[k]) / np.linalg.norm(moments.packed(k) - exact[k])
                    for k in (3, 4)
                ]
            )
            if count <= size:
                units = recover_from_moments(moments, as_stated=True, num_units=count).units
                stated.append(float(np.max(distances(truth.directions, units.directions))))
            units = recover_from_moments(moments, num_units=count).units
            improved.append(float(np.max(distances(truth.directions, units.directions))))
            free = recover_from_moments(moments)
            widths.append(len(free.units))
            wrong += wrong_signs(truth, free.units, free.signs_determined)
        print(
            f"samples, d = {size}, m = {count}, N = {num_rows:.0e}: the residual pass divides the error of T_3, T_4 "
            f"by {np.median(gains, axis=0).round(1).tolist()}; worst direction "
            f"{f'as stated {np.median(stated):.2f}, ' if stated else ''}improved {np.median(improved):.3f}; "
            f"width found {sum(w == count for w in widths)}/{len(widths)}; signs stated and wrong {wrong}  "
            f"(medians of {len(improved)} trials)",
            flush=True,
        )


def random_units(size: int, count: int, seed: int) -> ReluUnits:
    vectors, weights = random_components(size, count, seed)
    rng = np.random.default_rng([seed, 1])
    return ReluUnits(vectors, rng.uniform(-1, 1, count), weights * rng.choice([-1, 1], count))


def unit_error(truth: ReluUnits, found: ReluUnits) -> float:
    if len(found) != len(truth):
        return np.inf
    nearest = np.argmax(truth.directions @ found.directions.T, axis=1)
    differences = [
        truth.directions - found.directions[nearest],
        (truth.biases - found.biases[nearest])[:, None],
        (truth.weights - found.weights[nearest])[:, None],
    ]
    return float(np.max(np.abs(np.hstack(differences))))


def wrong_signs(truth: ReluUnits, found: ReluUnits, determined: np.ndarray) -> int:
    """Units close to a true one whose sign was called determined and is wrong."""
    if not len(found):
        return 0
    cosines = truth.directions @ found.directions.T
    nearest = np.argmax(np.abs(cosines), axis=1)
    values = cosines[np.arange(len(truth)), nearest]
    return int(np.sum((values < -0.95) & determined[nearest]))


def main() -> None:
    parser = open_parser(__doc__)
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--only", choices=["decomposition", "noise", "moments", "recovery"], default=None)
    parser.add_argument("--spm", type=Path, default=None, help="folder with the published SPM.py")
    options = parser.parse_args()
    trials = options.trials or (2 if options.quick else 10)
    sections: dict[str, Callable[[], None]] = {
        "decomposition": partial(bench_decomposition, trials, options.spm),
        "noise": partial(bench_noise, trials),
        "moments": partial(bench_moments, trials, 1_000_000 if options.quick else 10_000_000),
        "recovery": partial(bench_recovery, trials),
    }
    with one_thread():
        for name, run in sections.items():
            if options.only in (None, name):
                run()


if __name__ == "__main__":
    main()
