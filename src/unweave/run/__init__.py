"""One run over evidence, queries or rows; ``identify`` and ``learn`` are signatures on it."""

from unweave.run.signatures import identify, learn

__all__ = ["identify", "learn"]
