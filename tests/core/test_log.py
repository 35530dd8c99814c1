"""The logger ``unweave`` and ``progress=True``: what a notebook or a service hears of a run."""

from __future__ import annotations

import logging

import pytest

import unweave
from truth import random_network
from unweave.core.errors import InputError
from unweave.core.progress import StageProgress

NETWORK = random_network((3, 4, 1))


def test_the_logger_tells_stages_methods_and_the_outcome(caplog):
    caplog.set_level(logging.INFO, logger="unweave")
    unweave.identify(NETWORK)
    said = [record.getMessage() for record in caplog.records if record.name == "unweave"]
    assert any(text.startswith("precision: ") for text in said)
    assert any(text.startswith("method far-field: ") for text in said)
    assert "identified 3-4-1" in said[-1]
    assert len(said) == len(set(said)) or len(said) < 60  # stages, not batches


def test_nothing_is_printed_unasked(capfd):
    unweave.identify(NETWORK)
    assert capfd.readouterr() == ("", "")


def test_progress_is_a_line_a_stage_with_elapsed_and_remaining_time(capfd):
    unweave.identify(NETWORK, progress=True, budget=5_000, time_limit=50)
    out, lines = capfd.readouterr()
    assert out == ""
    stages = [line.split(":")[1].strip() for line in lines.splitlines()]
    assert {"precision", "growth", "certificate"} <= set(stages)
    assert " of 5,000 queries, " in lines
    assert " s, at most " in lines
    with pytest.raises(InputError, match="progress=3: give True"):
        unweave.identify(NETWORK, progress=3)


@pytest.mark.parametrize(
    ("limit", "spent", "budget", "words"),
    [
        (None, 100, None, "lines: 100 queries, 0 s"),
        (90.0, 0, None, "lines: 0 queries, 0 s, at most 1:30 min left"),
        (9000.0, 0, 10, "lines: 0 of 10 queries, 0 s, at most 2:30 h left"),
    ],
)
def test_what_the_line_says(limit, spent, budget, words):
    progress = StageProgress(quiet=True, time_limit=limit)
    assert progress._text("lines", spent, budget) == words
