"""Moments of rows that no single machine holds, on a Dask cluster: seeds travel out, sums come back.

Two local worker processes stand for a cluster; with a real one, give the address of its scheduler as ``engine``. The
moments give the width and approximate units of a hidden relu network; ``learn`` then makes them exact from a few
thousand rows.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from distributed import Client, LocalCluster

from unweave import Network, compare, learn
from unweave.methods.general_relu.recover import recover_from_moments
from unweave.moments.residual import accumulate_residual


def hidden_network() -> Network:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Network(
        [rows, rng.uniform(0.5, 1.5, (1, 5))], [rng.uniform(-1, 1, 5), [0.0]], ["relu", "identity"]
    )


def draw_rows(seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What one worker sees of the data: 50 000 rows in chunks."""
    rng, truth = np.random.default_rng([1, seed]), hidden_network()
    for _ in range(5):
        x = rng.standard_normal((10_000, 6))
        yield x, truth(x)[:, 0]


def main() -> None:
    pieces = [partial(draw_rows, seed) for seed in range(8)]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        moments = accumulate_residual(pieces, engine=client.get_executor())
    print(f"{moments.count:,} rows summed up by two workers")
    rough = recover_from_moments(moments)
    print(f"units found from the moments: {len(rough.units)}")
    x, y = next(draw_rows(99))
    found = learn(x[:2000], y[:2000], activation="relu")
    print(found.verdict())
    if found.network is not None:
        print(f"worst parameter error: {compare(hidden_network(), found.network).max_relative_error:.1e}")


if __name__ == "__main__":
    main()
