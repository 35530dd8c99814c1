"""The journal: every paid answer on disk before it is used, so that none is paid for twice.

One SQLite file in write-ahead mode, flushed after every request: it survives a killed process and a power cut.
Questions are functions of the seed and of earlier answers, so a run repeated with the same seed and settings asks
them again; the file keeps a 128-bit fingerprint of each question and its answer, never the question itself, and
neither addresses with keys nor headers. A repeated run is given the stored answers. One run uses a journal at a
time, and a journal of other settings is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from unweave.core.domains import Domain
from unweave.core.errors import InputError, JournalError, OracleError, UnweaveError
from unweave.core.oracle import Oracle

_APPLICATION = 0x756E7776
_VERSION = 1
_DIGEST = 16
_TABLES = """
create table facts (key text primary key, value text not null);
create table batches (id integer primary key, stage text not null, fingerprints blob not null,
                      answers blob not null);
create table extras (id integer primary key, purpose text not null, num_queries integer not null);
"""
_REMEDY = "name another journal, or delete it to begin anew"


class Journal:
    """The stored answers of one run and of its repetitions.

    ``facts`` are what the run depends on: seed, sizes, settings. Use it as a context manager.
    """

    path: Path
    model: str

    def __init__(self, path: str | os.PathLike[str], facts: dict[str, Any]):
        self.path = Path(path)
        self.model = str(facts.get("model", ""))
        """The model the stored answers came from, by the name it had then."""
        self._database = _open(self.path)
        self._index: dict[bytes, np.ndarray] = {}
        try:
            self._prepare({key: json.dumps(value) for key, value in facts.items()})
            self._load(int(facts["output_size"]))
        except sqlite3.DatabaseError as error:
            self.close()
            raise _unusable(self.path, error) from error
        except BaseException:  # an interrupted session may open it again
            self.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many answers are stored."""
        return len(self._index)

    @property
    def num_extras(self) -> int:
        """Questions paid for by earlier runs that belong to no run alone: sizes, spot checks."""
        return int(self._database.execute("select coalesce(sum(num_queries), 0) from extras").fetchone()[0])

    def recall(self, rows: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """The stored answers to those questions that have one."""
        found = {row: self._index.get(fingerprint(row)) for row in rows} if self._index else {}
        return {row: answer for row, answer in found.items() if answer is not None}

    def record(self, stage: str, rows: Sequence[bytes], answers: np.ndarray) -> None:
        """Store answers; they are on disk when this returns."""
        prints = [fingerprint(row) for row in rows]
        values = np.ascontiguousarray(answers, dtype="<f8")
        self._write(
            "insert into batches (stage, fingerprints, answers) values (?, ?, ?)",
            (stage, b"".join(prints), values.tobytes()),
        )
        self._index.update(zip(prints, values, strict=True))

    def charge(self, purpose: str, num_queries: int) -> None:
        """Note questions that were paid for beside the stored answers."""
        self._write("insert into extras (purpose, num_queries) values (?, ?)", (purpose, num_queries))

    def keep(self, key: str, value: Any) -> Any:
        """What an earlier run has noted under ``key``, or ``value``, which is noted now."""
        row = self._database.execute("select value from facts where key = ?", (key,)).fetchone()
        if row is not None:
            return json.loads(row[0])
        self._write("insert into facts values (?, ?)", (key, json.dumps(value)))
        return value

    def kept(self) -> str:
        """What a stopped run leaves behind, and how to go on."""
        return f"{len(self):,} answers are kept in {self.path}: run the same again to resume"

    def close(self) -> None:
        self._database.close()

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            self._database.execute(statement, values)
        except sqlite3.Error as error:
            raise JournalError(
                f"{self.path} cannot be written ({error}); free some space, then {self.kept()}"
            ) from error

    def _prepare(self, facts: dict[str, str]) -> None:
        """Begin an empty journal, or check that a begun one belongs to this run."""
        database = self._database
        database.execute("begin immediate")
        if not database.execute("select count(*) from sqlite_master").fetchone()[0]:
            for statement in _TABLES.split(";"):
                database.execute(statement)
            database.execute(f"pragma application_id = {_APPLICATION}")
            database.execute(f"pragma user_version = {_VERSION}")
            database.executemany("insert into facts values (?, ?)", facts.items())
        database.execute("commit")
        version = database.execute("pragma user_version").fetchone()[0]
        if version != _VERSION:
            raise InputError(f"{self.path} was written by another version of unweave; {_REMEDY}")
        stored = dict(database.execute("select key, value from facts"))
        self.model = json.loads(stored.get("model", '""'))
        for key, value in facts.items():
            if key != "model" and stored.get(key) != value:
                raise InputError(
                    f"{self.path} belongs to a run with {key.replace('_', ' ')} {stored.get(key)}, and this one "
                    f"has {value}; repeat that run, {_REMEDY}"
                )

    def _load(self, output_size: int) -> None:
        for prints, answers in self._database.execute(
            "select fingerprints, answers from batches order by id"
        ):
            values = np.frombuffer(answers, dtype="<f8").reshape(-1, output_size)
            keys = (prints[i : i + _DIGEST] for i in range(0, len(prints), _DIGEST))
            self._index.update(zip(keys, values, strict=True))


@contextmanager
def open_journal(path: str | os.PathLike[str] | None, facts: dict[str, Any]) -> Iterator[Journal | None]:
    """The journal of a run, or None without a path; a run that stops early says what is kept and how to go on."""
    if path is None:
        yield None
        return
    with Journal(path, facts) as journal:
        try:
            yield journal
        except OracleError as error:
            raise OracleError(f"{error}; {journal.kept()}") from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {journal.kept()}") from None


def run_facts(oracle: Oracle, domain: Domain | None, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """What the questions of a run depend on; ``model`` is kept for messages, its answers are what is checked."""
    return {
        "model": oracle.name,
        "input_size": int(oracle.input_size),
        "output_size": int(oracle.output_size),
        "dtype": oracle.dtype,
        "seed": int(seed),
        "domain": _describe(domain),
        **settings,
    }


def fingerprint(row: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=_DIGEST).digest()


def _describe(domain: Domain | None) -> str:
    """A domain in words, with arrays shortened to a fingerprint."""
    if domain is None:
        return "everywhere"
    parts = []
    for key, value in vars(domain).items():
        if isinstance(value, np.ndarray) and value.size > 1:
            value = fingerprint(np.ascontiguousarray(value, dtype=np.float64).tobytes()).hex()[:12]
        parts.append(f"{key}={value}")
    return f"{type(domain).__name__}({', '.join(parts)})"


def _open(path: Path) -> sqlite3.Connection:
    """The database, locked for this run alone."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"the journal {path} must be a file in a folder that exists; name another place")
    try:
        database = sqlite3.connect(path, timeout=0.2, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    try:
        # Exclusive locking keeps the index of the log in this process, so that it works on shared disks too.
        database.execute("pragma locking_mode = exclusive")
        tables = database.execute("select count(*) from sqlite_master").fetchone()[0]
        if tables and database.execute("pragma application_id").fetchone()[0] != _APPLICATION:
            raise InputError(f"{path} is the database of another program; name another journal")
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = full")
    except sqlite3.Error as error:
        database.close()
        raise _unusable(path, error) from error
    except BaseException:
        database.close()
        raise
    return database


def _unusable(path: Path, error: sqlite3.Error) -> UnweaveError:
    if "locked" in str(error):
        return JournalError(f"{path} is in use by another run; wait for its end, or name another journal")
    if "not a database" in str(error):
        return InputError(f"{path} is no journal; name another file")
    return InputError(f"the journal {path} cannot be used ({error}); {_REMEDY}")
