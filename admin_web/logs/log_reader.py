"""Reads run logs from the executors that have them, and makes their lines safe to show.

A request occupies a thread of the console until its answer arrives. So only few run at a time,
fewer to one executor, and an executor that did not answer is not asked again for a while: a slow
one cannot block the whole console.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.orm import Session

from warren.broker.messages.to_executor import ReadLog
from warren.broker.messages.to_scheduler import LogChunk
from warren.broker.messages.values import Boot
from warren.broker.rpc import AddressedQuestion, Requester
from warren.sql.instants import moment
from warren.sql.listings.recent import DetailedRun
from warren.sql.registry import presence


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which log to read and where it is; an empty `boot_id` = no executor has it.

    `heard_at_ms` is the executor's last heartbeat, in epoch milliseconds; 0 = it is not registered.
    """

    run_id: int
    app: str
    address: str
    boot_id: str
    scheduled_at_ms: int
    heard_at_ms: int


def log_source(session: Session, run: DetailedRun) -> Source:
    """Return where a run's log is.

    After a restart, the new boot at the same address serves the old logs.
    """
    app, address = run.app or "", run.address or ""
    boot_id, heard_at_ms = "", 0
    if app and address:
        last = presence.last_beat(session, presence.EXECUTOR, app, address)
        boot_id, heard_at_ms = last or (run.boot_id or "", 0)
    return Source(
        run_id=run.id,
        app=app,
        address=address,
        boot_id=boot_id,
        scheduled_at_ms=run.scheduled_at,
        heard_at_ms=heard_at_ms,
    )


#: How many of the console's six threads may wait for executors, and for one executor.
AT_A_TIME, OF_ONE = 3, 2
ANSWER_SECONDS = 1.5
#: Seconds until an executor that did not answer is asked again.
PAUSE_SECONDS = 2.0


class ReadStatus(StrEnum):
    """The outcome of asking for a log."""

    #: The executor answered, perhaps without lines.
    LINES = "LINES"
    #: The executor no longer has the log.
    MISSING = "MISSING"
    #: The executor is gone, or did not answer in time.
    SILENT = "SILENT"
    #: Too many requests are running.
    BUSY = "BUSY"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Lines of a log from `from_line` (1-based) on; `is_end`: there are currently no more.

    `times` are pairs of a line number and the epoch milliseconds from that line on, 0 = unknown.
    """

    status: ReadStatus
    from_line: int = 1
    lines: tuple[str, ...] = ()
    is_end: bool = False
    times: tuple[tuple[int, int], ...] = ()

    @property
    def line_times(self) -> list[int]:
        """When each line was written, in epoch milliseconds; 0 = unknown."""
        since = dict(self.times)
        times: list[int] = []
        for line in range(self.from_line, self.next_line):
            times.append(since.get(line, times[-1] if times else 0))
        return times

    @property
    def next_line(self) -> int:
        """The number of the line after these."""
        return self.from_line + len(self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatches:
    """The numbers of the lines up to `to_line` that contain the words."""

    status: ReadStatus
    lines: tuple[int, ...] = ()
    to_line: int = 0
    is_end: bool = False


class LogReader:
    """Reads run logs from the executors that have them.

    Args:
        requester: None = without a broker; then no executor answers.
        clock: monotonic seconds.

    """

    def __init__(
        self, requester: Requester | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._requester = requester
        self._clock = clock
        self._changed = threading.Condition()
        self._asking: Counter[tuple[str, str]] = Counter()
        self._silent_until: dict[tuple[str, str], float] = {}

    def read(
        self,
        source: Source,
        from_line: int,
        *,
        limit: int,
        at_end: bool = False,
        wait_seconds: float = 0.0,
    ) -> LogPart:
        """Return up to `limit` lines from a line on, or the last ones.

        Wait up to `wait_seconds` for a place if too many requests are running.
        """
        question = _question(source, from_line, limit, at_end=at_end)
        chunk = self._ask(source, question, wait_seconds)
        if isinstance(chunk, ReadStatus):
            return LogPart(status=chunk, from_line=from_line)
        if chunk.missing:
            return LogPart(status=ReadStatus.MISSING, from_line=chunk.from_line, is_end=True)
        lines = chunk.text.split("\n") if chunk.to_line >= chunk.from_line else []
        # No executor returns more, but whoever else has its key might.
        return LogPart(
            status=ReadStatus.LINES,
            from_line=chunk.from_line,
            lines=tuple(lines[:limit]),
            is_end=chunk.is_end and len(lines) <= limit,
            times=chunk.times[:limit],
        )

    def search(self, source: Source, words: str, from_line: int) -> LogMatches:
        """Return the lines that contain the words, as far as one request searches."""
        question = _question(source, from_line, 1, find=words)
        chunk = self._ask(source, question, 0.0)
        if isinstance(chunk, ReadStatus):
            return LogMatches(status=chunk)
        if chunk.found is None:  # an executor of an older version
            return LogMatches(status=ReadStatus.MISSING)
        return LogMatches(
            status=ReadStatus.LINES, lines=chunk.found, to_line=chunk.to_line, is_end=chunk.is_end
        )

    def _ask(
        self, source: Source, question: AddressedQuestion, wait_seconds: float
    ) -> LogChunk | ReadStatus:
        """Return the executor's answer, or why there is none."""
        if self._requester is None or not source.boot_id:
            return ReadStatus.SILENT
        with self._place(source, wait_seconds) as obstacle:
            if obstacle is not None:
                return obstacle
            try:
                chunk = self._requester.ask([question], ANSWER_SECONDS)[0]
            except ValueError:  # the address is a URL of XXL-JOB's, which has no queue
                chunk = None
            if isinstance(chunk, LogChunk) and chunk.run_id == source.run_id:
                return chunk
            with self._changed:
                self._silent_until[_key(source)] = self._clock() + PAUSE_SECONDS
            return ReadStatus.SILENT

    @contextmanager
    def _place(self, source: Source, wait_seconds: float) -> Iterator[ReadStatus | None]:
        """Take one of the places, or yield why there is none."""
        key = _key(source)
        with self._changed:
            self._changed.wait_for(
                lambda: self._obstacle(key) is not ReadStatus.BUSY, timeout=wait_seconds
            )
            obstacle = self._obstacle(key)
            if obstacle is None:
                self._asking[key] += 1
        try:
            yield obstacle
        finally:
            if obstacle is None:
                with self._changed:
                    self._asking[key] -= 1
                    self._asking += Counter()  # drops zero counts
                    self._changed.notify_all()

    def _obstacle(self, key: tuple[str, str]) -> ReadStatus | None:
        now = self._clock()
        self._silent_until = {item: at for item, at in self._silent_until.items() if at > now}
        if key in self._silent_until:
            return ReadStatus.SILENT
        if self._asking[key] >= OF_ONE or self._asking.total() >= AT_A_TIME:
            return ReadStatus.BUSY
        return None


def _key(source: Source) -> tuple[str, str]:
    return (source.app, source.address)


def _question(
    source: Source, from_line: int, limit: int, *, at_end: bool = False, find: str = ""
) -> AddressedQuestion:
    day = moment(source.scheduled_at_ms).date().isoformat()

    def build(question_id: str, reply_to: str) -> ReadLog:
        return ReadLog(
            question_id=question_id,
            reply_to=reply_to,
            run_id=source.run_id,
            scheduled_day=day,
            from_line=from_line,
            limit=limit,
            at_end=at_end,
            find=find,
        )

    return AddressedQuestion(Boot(source.app, source.address, source.boot_id), build)
