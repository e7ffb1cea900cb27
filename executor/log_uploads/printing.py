"""Prints what runs write to their logs as lines of JSON, for a program that ships them elsewhere.

It follows the logs of running runs, and reads the rest of one whose run has ended. A reader that
does not keep up holds up nothing else: what it has not taken is in the logs.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from warren.broker.messages import Trigger
from warren.executor.disk import open_regular
from warren.executor.messaging.outbox import Identity
from warren.executor.run_logs import RunLogs

#: Seconds between two looks at the logs.
LOOK_SECONDS = 0.25
#: The most bytes of a log that are read at once; a longer line is printed in pieces.
_READ_BYTES = 262_144
#: The most runs that are followed, and for how long the end waits for what is left.
MOST_RUNS = 100_000
END_SECONDS = 2.0


@dataclass(slots=True)
class _Followed:
    """A log: what each of its lines says besides, and up to which byte it is printed."""

    facts: dict[str, Any]
    path: str
    offset: int = 0
    has_ended: bool = False


class LogPrinter:
    """Follows logs in a thread of its own.

    Args:
        identity: the executor's.
        run_logs: has the logs.
        is_late: whether something may still be added to the log of a run that has ended.
        write: takes lines; it may block.
        log: where it is logged that nobody takes them.

    """

    def __init__(
        self,
        identity: Identity,
        run_logs: RunLogs,
        is_late: Callable[[int], bool],
        write: Callable[[bytes], object],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._identity = identity
        self._run_logs = run_logs
        self._is_late = is_late
        self._write = write
        self._log = log
        self._followed: dict[int, _Followed] = {}
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log lines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin(self, trigger: Trigger) -> None:
        """Follow the log of a run that starts; once more changes nothing."""
        facts = {
            "app": self._identity.app,
            "address": self._identity.address,
            "job": trigger.job_id,
            "handler": trigger.handler,
            "run": trigger.run_id,
            "attempt": trigger.attempt,
            "shard": f"{trigger.shard_index}/{trigger.shard_total}",
        }
        path = self._run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        with self._lock:
            if len(self._followed) < MOST_RUNS:
                self._followed.setdefault(trigger.run_id, _Followed(facts, path))

    def end(self, trigger: Trigger) -> None:
        """Print what is left of the log of a run that has ended."""
        with self._lock:
            if (followed := self._followed.get(trigger.run_id)) is not None:
                followed.has_ended = True

    def close(self) -> None:
        """Print what is left, for a moment."""
        self._is_closed.set()
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        try:
            while not self._is_closed.wait(LOOK_SECONDS):
                self._look()
            self._look()
        except OSError as error:
            self._log.error("log_lines_not_printed", why=error.strerror or str(error))
            with self._lock:
                self._followed.clear()

    def _look(self) -> None:
        """Print what is new, and forget the runs that have ended."""
        with self._lock:
            followed = list(self._followed.items())
        for run_id, log in followed:
            has_ended = log.has_ended and not self._is_late(run_id)
            while self._print(log, has_ended=has_ended):
                pass
            if has_ended:
                with self._lock:
                    del self._followed[run_id]

    def _print(self, log: _Followed, *, has_ended: bool) -> bool:
        """Print the lines that are complete; return whether there may be more."""
        text = b""
        with contextlib.suppress(OSError), open(log.path, "rb", opener=open_regular) as file:
            size = os.fstat(file.fileno()).st_size
            log.offset = min(log.offset, size)  # it may have been cut
            file.seek(log.offset)
            text = file.read(_READ_BYTES)
        is_last = has_ended and len(text) < _READ_BYTES
        is_piece = len(text) == _READ_BYTES and b"\n" not in text
        if not (is_last or is_piece):
            text = text[: text.rfind(b"\n") + 1]
        if not text:
            return False
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = text.removesuffix(b"\n").split(b"\n")
        self._write(b"".join(_line(log.facts, now, line) for line in lines))
        log.offset += len(text)
        return True


def _line(facts: dict[str, Any], now: str, line: bytes) -> bytes:
    words = line.removesuffix(b"\r").decode(errors="replace")
    return msgspec.json.encode({"at": now, **facts, "line": words}) + b"\n"


def to_stdout(lines: bytes) -> None:
    """Write lines to standard output, all of them."""
    while lines:
        lines = lines[os.write(1, lines) :]
