"""Orthogonal matching pursuit: exact on sparse vectors, honest on dense ones."""

from __future__ import annotations

import numpy as np

from unweave.algebra.sparse import recover_sparse


def test_a_sparse_vector_from_few_rows():
    rng = np.random.default_rng(0)
    w = np.zeros(3000)
    w[rng.choice(3000, 12, replace=False)] = rng.standard_normal(12)
    rows = rng.choice([-1.0, 1.0], size=(120, 3000))
    found = recover_sparse(rows, rows @ w)
    assert found.residual < 1e-11
    assert np.allclose(found.dense(3000), w, atol=1e-12)


def test_a_dense_vector_leaves_a_residual():
    rng = np.random.default_rng(1)
    rows = rng.choice([-1.0, 1.0], size=(80, 500))
    found = recover_sparse(rows, rows @ rng.standard_normal(500), max_support=20)
    assert found.residual > 0.05
    assert len(found.support) == 20
