"""Random streams by name: every purpose draws from a generator of its own, which no other purpose disturbs."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The generator of a run with this ``seed`` for the purpose ``name``: ``stream(0, "circle", attempt)``."""
    text = "\x1f".join(map(str, name))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])


def fresh_entropy() -> int:
    """A seed that nobody could have known before: 48 bits of the system's entropy."""
    return secrets.randbits(48)
