"""What a run returns: the result, its verdict in words, and the file that keeps it."""

from unweave.result.files import load
from unweave.result.identification import Identification

__all__ = ["Identification", "load"]
