"""The span of vectors each seen through a matrix of its own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from unweave.algebra.common_span import common_span


@pytest.mark.parametrize(("n", "d", "rank"), [(12, 10, 1), (12, 10, 2), (20, 6, 1), (12, 8, 3)])
def test_the_span_is_found_though_no_vector_is_seen_whole(n, d, rank):
    rng = np.random.default_rng([n, d, rank])
    num = 2 + 2 * n * rank // (d - rank)
    truth, maps = rng.standard_normal((n, rank)), rng.standard_normal((num, d, n))
    seen = np.einsum("mdn,nr,mr->md", maps, truth, rng.standard_normal((num, rank)))
    found = common_span(maps, seen, rank, rng)
    assert found.misfit < 1e-4
    assert np.max(subspace_angles(found.basis, truth)) < 1e-3


def test_vectors_that_share_no_span_leave_a_misfit():
    rng = np.random.default_rng(0)
    found = common_span(rng.standard_normal((12, 8, 10)), rng.standard_normal((12, 8)), 1, rng)
    assert found.misfit > 0.3
