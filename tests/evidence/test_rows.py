"""Splits: held-out rows are kept from the fit, bad rows are counted, large sources are sampled and streamed."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.core.errors import InputError
from unweave.evidence import rows as module
from unweave.evidence.rows import Samples, split_rows
from unweave.evidence.sources import ArraySource
from unweave.evidence.whitening import Whitening


def _source(num_rows: int = 300) -> ArraySource:
    rng = np.random.default_rng(1)
    return ArraySource(rng.standard_normal((num_rows, 3)), rng.standard_normal((num_rows, 1)))


def test_fitting_and_held_out_rows_are_a_partition():
    source = _source()
    split = split_rows(source, np.random.default_rng(0))
    assert len(split.held_x) == 30
    both = np.concatenate([split.x, split.held_x])
    assert np.array_equal(np.sort(both[:, 0]), np.sort(source.x[:, 0]))
    again = split_rows(source, np.random.default_rng(0))
    assert np.array_equal(again.held_x, split.held_x)


def test_rows_with_nan_are_left_out_and_counted():
    source = _source()
    source.x[7, 1], source.y[9, 0] = np.nan, np.inf
    split = split_rows(source, np.random.default_rng(0))
    assert len(split.x) + len(split.held_x) == 298
    assert "2 of 300 rows contain NaN" in split.warnings[0]


def test_rows_that_repeat_a_held_out_input_are_not_fitted():
    source = _source(50)
    twice = ArraySource(np.vstack([source.x, source.x]), np.vstack([source.y, source.y]))
    split = split_rows(twice, np.random.default_rng(0))
    held = {row.tobytes() for row in split.held_x}
    assert not any(row.tobytes() in held for row in split.x)
    assert any("repeat" in warning for warning in split.warnings)


def test_a_source_larger_than_memory_is_sampled_and_streamed(monkeypatch):
    monkeypatch.setattr(module, "MOST_NUMBERS", 400)
    source = _source(1000)
    split = split_rows(source, np.random.default_rng(0))
    assert 50 < len(split.x) < 170
    assert split.num_rows == 900
    samples = Samples(split.x, split.y, split.num_rows, Whitening.none(3), source=split.rows)
    streamed = np.concatenate([x for x, _ in samples.batches(64)])
    assert len(streamed) == 900
    assert not set(streamed[:, 0]) & set(split.held_x[:, 0])


@pytest.mark.parametrize(
    ("num_rows", "held_out", "words"), [(0, None, "no rows"), (2, None, "too few"), (20, 20, "held_out=20")]
)
def test_unusable_numbers_of_rows_are_refused(num_rows, held_out, words):
    with pytest.raises(InputError, match=words):
        split_rows(_source(num_rows), np.random.default_rng(0), num_held_out=held_out)


def test_data_of_mostly_nan_is_refused():
    source = _source(40)
    source.x[:30] = np.nan
    with pytest.raises(InputError, match="30 of 40 rows contain NaN"):
        split_rows(source, np.random.default_rng(0))
