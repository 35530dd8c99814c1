"""Arrays of an .npz file, each looked at before it is read.

The header of an array says how large it is. One that says more than the file holds is refused, as is one that would not
fit into memory: a file of a few kilobytes may unpack to terabytes. Pickled arrays are refused.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from unweave.core.errors import InputError
from unweave.core.memory import available_memory, spell_bytes


@contextmanager
def open_npz(path: Path) -> Iterator[ArrayFile]:
    """The arrays of ``path`` by name; whatever is wrong with the file is an ``InputError``."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield ArrayFile(path, archive)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise _damaged(path, error) from error
    except (zipfile.BadZipFile, zipfile.LargeZipFile, MemoryError, NotImplementedError) as error:
        raise _damaged(path, error) from error


class ArrayFile:
    """The arrays of one file."""

    def __init__(self, path: Path, archive: zipfile.ZipFile):
        self._path, self._archive = path, archive
        self._members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> np.ndarray:
        """The array ``name``."""
        entry = self._members[name]
        with self._archive.open(entry) as stream:
            shape, dtype = _read_header(stream)
            promised = math.prod(shape) * dtype.itemsize
            if dtype.hasobject:
                raise InputError(
                    f"{self._path}: {name} is pickled, and unpickling can run any code; save plain arrays"
                )
            if promised > entry.file_size:
                raise InputError(
                    f"{self._path}: {name} says it holds {spell_bytes(promised)} but there are "
                    f"{spell_bytes(entry.file_size)} in the file; write it again"
                )
            if 3 * promised > available_memory():
                raise InputError(
                    f"{self._path}: {name} takes {spell_bytes(promised)}, more than a third of the memory there is; "
                    f"give fewer rows, or a folder of smaller files"
                )
        with self._archive.open(entry) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)


def _read_header(stream) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"an array of version {version}")
    shape, _, dtype = read[version](stream)
    return shape, dtype


def _damaged(path: Path, error: BaseException) -> InputError:
    short = f"{type(error).__name__}: {error}".splitlines()[0][:160]
    return InputError(f"{path} is not a readable npz file ({short}); write it again")
