"""The command that repeats a result."""

from __future__ import annotations

import numpy as np
import pytest

from unweave.cli.options import parse_domain
from unweave.core.domains import Ball, Box
from unweave.report.repeat import _domain_words


@pytest.mark.parametrize(
    "domain", [Ball(2.5), Box(-1.0, 1e-3), Box(np.array([0.0, -1.5]), np.array([40.0, 1e-7]))]
)
def test_the_command_line_reads_its_own_domain(domain):
    words = _domain_words(repr(domain))
    assert words is not None
    option, value = words
    again = parse_domain(float(value), None) if option == "--radius" else parse_domain(None, value)
    assert repr(again) == repr(domain)
