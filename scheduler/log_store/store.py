"""A log store: what schedulers and consoles do with it, whatever kind it is.

Its files have keys: app, day of the due time, and run with its identity. No two runs have the same.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from warren.broker.log_blocks import PackedLog


class StoreUnavailable(OSError):
    """The log store does not answer, or refuses its user; what is in it is not known."""


#: Kinds of stores, as executors are told.
FOLDER, S3 = "folder", "s3"
#: How long an executor may use a place that it was given.
PLACE_SECONDS = 900


class LogStore(Protocol):
    """Stored logs, by key. Thread-safe; every method may raise StoreUnavailable."""

    kind: str

    def prepare(self) -> None:
        """Make what can be made of it before anything is stored."""

    def address(self, key: str, size: int) -> str:
        """Return the URL to which an executor sends a file of `size` bytes; "" = it needs none."""

    def size(self, key: str) -> int | None:
        """Return how many bytes a file has; None if there is none."""

    def fetch(self, key: str, offset: int, length: int) -> bytes:
        """Return a part of a file; empty if it is gone."""

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        """Delete files, also those that are not there; return why others could not be deleted."""

    def check(self) -> str:
        """Write, read and delete a file, and return a line about the store."""


def log_key(app: str, scheduled_at_ms: int, run_id: int, identity: int) -> str:
    """Return the key of a run's log."""
    day = datetime.fromtimestamp(scheduled_at_ms / 1000, UTC).date().isoformat()
    return f"{app}/{day}/{run_id}-{identity:08x}.log.gz"


def part_key(key: str, part: int) -> str:
    """Return the key of a part of a log; 0 = the whole log."""
    return f"{key}.{part}" if part else key


def all_keys(key: str, parts: int) -> list[str]:
    """Return the keys of everything that may be stored of a log."""
    return [part_key(key, part) for part in range(parts + 1)]


#: How many opened logs are remembered: each has its index, and up to 64 kB of its end.
REMEMBERED = 32
#: The most parts that are read of a log: its executor stores all of it anew more often.
MOST_PARTS = 100


class StoredLogs:
    """Opens logs of a store, which is opened for the first, and remembers the last ones."""

    def __init__(self, open_store: Callable[[], LogStore]) -> None:
        self._open_store = open_store
        self._store: LogStore | None = None
        self._opened: dict[tuple[str, int], PackedLog] = {}
        self._lock = threading.Lock()

    def open(self, key: str, parts: int = 0) -> PackedLog | None:
        """Return a log, or what is there of one of which so many parts were stored.

        None if nothing is there.

        Raises:
            StoreUnavailable: it cannot be read now.
            Malformed: what is there is no log.

        """
        with self._lock:
            opened = self._opened.get((key, parts))
        if opened is not None:
            return opened
        store = self._store = self._store or self._open_store()
        opened = _open_parts(store, key, parts) if parts else _open(store, key)
        if opened is None:
            return None
        with self._lock:
            self._opened[key, parts] = opened
            while len(self._opened) > REMEMBERED:
                del self._opened[next(iter(self._opened))]
        return opened


def _open(store: LogStore, key: str) -> PackedLog | None:
    size = store.size(key)
    return None if size is None else PackedLog.open(partial(store.fetch, key), size)


def _open_parts(store: LogStore, key: str, parts: int) -> PackedLog | None:
    """Return what is there of a log: all of it up to some time, and the parts from then on."""
    whole = _open(store, key)
    begin = whole.index.size if whole is not None else 0
    later: list[PackedLog] = []
    for part in range(parts, max(0, parts - MOST_PARTS), -1):
        opened = _open(store, part_key(key, part))
        is_next = opened is not None and (
            not later or opened.index.begins_at + opened.index.size == later[0].index.begins_at
        )
        if opened is None or not is_next or opened.index.begins_at < begin:
            break
        later.insert(0, opened)
    if later and later[0].index.begins_at != begin:
        later = []  # something between is missing
    logs = [log for log in (whole, *later) if log is not None]
    return PackedLog.joined(logs) if logs else None
