"""Learn a relu network from logged predictions in a folder of parquet shards, label noise and all.

The inputs are correlated and not centred; neither their distribution, the noise nor the width is given.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from unweave import Network, compare, learn

rng = np.random.default_rng(0)
rows = rng.standard_normal((6, 5))
truth = Network([rows, rng.standard_normal((1, 6))], [rng.uniform(-1, 1, 6), [0.5]], ["relu", "identity"])

with tempfile.TemporaryDirectory() as folder:
    mixing = np.eye(5) + 0.3 * rng.standard_normal((5, 5))
    for shard in range(4):
        x = rng.standard_normal((3000, 5)) @ mixing + 0.2
        y = truth(x)[:, 0] + 0.02 * rng.standard_normal(len(x))
        table = pa.table({**{f"x{i}": x[:, i] for i in range(5)}, "y": y})
        pa.parquet.write_table(table, Path(folder) / f"part-{shard}.parquet", row_group_size=1000)
    found = learn(folder, activation="relu")

print(found.verdict())
if found.network is not None:
    error = compare(truth, found.network).max_relative_error
    print(f"largest relative error of a parameter: {error:.1e}")
