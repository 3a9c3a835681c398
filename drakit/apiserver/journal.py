"""The store's log: one SQLite file in WAL mode, written by one thread, many writers sharing one commit.

While a commit is on its way to the disk the next changes gather; each commit takes all that have come. `synchronous=FULL`
makes SQLite sync the log before a commit returns, so what is acknowledged survives `kill -9` and a power cut.
The file holds the newest state of each object (not its history): starting again reads every row once.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

__all__ = ["Change", "Journal", "JournalError", "Row"]

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
"""
_PUT = "INSERT OR REPLACE INTO objects (resource, key, version, value) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM objects WHERE resource = ? AND key = ?"
_SET_VERSION = "INSERT OR REPLACE INTO meta (name, value) VALUES ('resourceVersion', ?)"
# Pages between checkpoints: each checkpoint syncs the database file too, so few of them.
_CHECKPOINT_PAGES = 4000


class JournalError(Exception):
    """The file cannot be opened, read or written; the text says what to do."""


class Change(NamedTuple):
    resource: str
    key: str
    version: int
    value: bytes | None  # None deletes


class Row(NamedTuple):
    resource: str
    key: str
    version: int
    value: bytes


class Journal:
    """Open it, `rows()` once, then `start` and `write` batches. Callbacks come from the writer's thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            existed = self.path.exists()
            if not existed:
                # Create it ourselves: SQLite would use the umask, and the file holds Secrets.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0)
            # One server per file: the lock is kept until the process ends, however it ends.
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            db.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            found = db.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
            if found is None:
                db.execute("INSERT INTO meta VALUES ('format', ?)", (FORMAT,))
            db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise JournalError(_explain(self.path, error)) from error
        if found is not None and found[0] != FORMAT:
            raise JournalError(
                f"{self.path} has format {found[0]}, this drakit reads {FORMAT}: use the drakit that wrote it"
            )
        return db

    def resource_version(self) -> int:
        found = self._db.execute("SELECT value FROM meta WHERE name = 'resourceVersion'").fetchone()
        return int(found[0]) if found else 0

    def rows(self) -> Iterator[Row]:
        """Every stored object. Reads the whole file, so damage anywhere in it shows here."""
        try:
            problem = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if problem != "ok":
                raise sqlite3.DatabaseError(problem)
            for row in self._db.execute("SELECT resource, key, version, value FROM objects ORDER BY resource, key"):
                yield Row(*row)
        except sqlite3.Error as error:
            raise JournalError(_explain(self.path, error)) from error

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="drakit-journal", daemon=True)
        self._thread.start()

    def write(self, changes: list[Change], version: int, done: Callable[[Exception | None], None]) -> None:
        """Commit `changes` together; `done` is called in the writer's thread, with the error if nothing was stored."""

        def job() -> None:
            try:
                self._commit(changes, version)
            except Exception as error:  # whatever it is, the writers waiting for this commit must hear of it
                done(JournalError(_explain(self.path, error)))
            else:
                done(None)

        self._queue.put(job)

    def _commit(self, changes: list[Change], version: int) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            # In order, because a key may occur twice; runs of the same statement go down together.
            start = 0
            while start < len(changes):
                deleting = changes[start].value is None
                end = start
                while end < len(changes) and (changes[end].value is None) is deleting:
                    end += 1
                if deleting:
                    db.executemany(_DELETE, [(change.resource, change.key) for change in changes[start:end]])
                else:
                    db.executemany(_PUT, changes[start:end])
                start = end
            db.execute(_SET_VERSION, (version,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def backup(self, target: Path, done: Callable[[Exception | None], None]) -> None:
        """A consistent copy: it runs between two commits, so it is the state after one of them."""

        def job() -> None:
            partial = target.with_name(target.name + ".partial")
            try:
                partial.unlink(missing_ok=True)
                os.close(os.open(partial, os.O_CREAT | os.O_RDWR, 0o600))
                copy = sqlite3.connect(partial)
                try:
                    self._db.backup(copy)
                finally:
                    copy.close()
                os.replace(partial, target)
            except Exception as error:
                partial.unlink(missing_ok=True)
                done(JournalError(f"backup to {target} failed: {error}"))
            else:
                done(None)

        self._queue.put(job)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            job()

    def close(self) -> None:
        """Finish what was handed in, then fold the log into the file."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._db.close()


def _explain(path: Path, error: Exception) -> str:
    text = str(error)
    if isinstance(error, PermissionError) or "readonly" in text or "unable to open" in text:
        return f"cannot write {path}: {text}; the folder and the file must be writable by this user"
    if isinstance(error, FileNotFoundError):
        return f"cannot open {path}: {text}; create the folder first"
    if "disk is full" in text or getattr(error, "errno", None) == 28:
        return f"cannot store in {path}: {text}; nothing of this write was kept; free space and try again"
    if "locked" in text:
        return f"{path} is in use by another process; stop it or choose another data folder"
    if (
        "malformed" in text
        or "not a database" in text
        or "corrupt" in text
        or (isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError))
    ):
        return f"{path} is damaged ({text}); restore a backup, or move the file away to start empty"
    return f"{path}: {text}"
