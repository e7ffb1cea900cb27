"""Stores finished logs in the background, and tells schedulers what became of them.

    run ends ──> list ──> packed ──StoreLogs──> place ──PUT──> LogsStored ──> off the list

Schedulers say where to store a log, as only they have the keys of the store. Whatever fails is
tried again later; the list is on disk, so that also the next boot does it. One thread does this,
with a few others while there are no runs waiting; it takes only a part of the processor's time, so
that runs are not held up.

Of a run that lasts, what it has written is stored every few seconds as a part, so that not all is
lost with the host. Now and then all of it so far is stored under the log's own key; what is there
at the end is replaced by the whole log.
"""

import contextlib
import errno
import io
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import structlog

from warren.broker.log_blocks import pack
from warren.broker.messages import (
    LOG_FAULT_LIMIT,
    LOG_PARTS_LIMIT,
    LOGS_LIMIT,
    LogEnd,
    LogPlace,
    LogPlaces,
    LogsStored,
    LogToStore,
    StoreLogs,
    Trigger,
)
from warren.broker.topology import CALLBACK_KEY
from warren.broker.transport import Confirm
from warren.executor.disk import open_regular
from warren.executor.log_uploads.sending import LogSender, NotSent
from warren.executor.log_uploads.waiting_logs import WaitingLog, WaitingLogs
from warren.executor.messaging.outbox import CONFIRM_SECONDS, VALID_SECONDS, Sender
from warren.executor.run_logs import RunLogs, read_notes

#: Logs that are stored together, and their bytes: while runs wait for slots, and otherwise.
BUSY_LOGS, IDLE_LOGS = 20, 100
BATCH_BYTES = 8_000_000
#: The part of a processor's time that this takes: while runs wait for slots, and otherwise.
BUSY_SHARE, IDLE_SHARE = 0.02, 0.5
#: Logs that are sent at the same time while no runs wait.
AT_A_TIME = 4
#: Logs up to this size are packed in memory.
IN_MEMORY_BYTES = 4_000_000
#: How long schedulers may take to say where to store logs.
PLACE_SECONDS = 10.0
#: A fault is told when one log has failed this often.
FAULT_TRIES = 5
#: For how long it is told that logs were dropped.
DROPPED_SECONDS = 3_600.0
#: Schedulers have a store if one of them said so no longer ago than this.
TOLD_SECONDS = 60.0
_LONGEST_WAIT = 1.0
#: The most bytes of a part, and after how many parts all of the log is stored anew.
PART_BYTES, PARTS_IN_A_ROW = 4_000_000, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The first and the longest pause after everything failed, and of a single log that fails.

    A fault is told when it has lasted `fault_seconds`. The logs of running runs are looked at every
    `part_seconds`, and for the first time when they have lasted that long; 0 = never.
    """

    all: tuple[float, float] = (1.0, 60.0)
    one: tuple[float, float] = (5.0, 600.0)
    fault_seconds: float = 15.0
    part_seconds: float = 5.0


@dataclass(slots=True)
class _Packed:
    """A log ready to be sent: its file, of `packed` bytes, and the log's size.

    It may be a `part`, up to the byte `end` of the log.
    """

    log: WaitingLog
    file: BinaryIO
    size: int
    packed: int
    part: int = 0
    end: int = 0


#: What the system says if there is no room for a packed log now.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
#: A run and a part of its log.
_Key = tuple[int, int]


def _key(item: _Packed) -> _Key:
    return (item.log.run_id, item.part)


def _end(item: _Packed) -> LogEnd:
    """Return that a log is stored."""
    return LogEnd(
        run_id=item.log.run_id,
        identity=item.log.identity,
        part=item.part,
        size=item.size,
        packed=item.packed,
    )


def _close(file: BinaryIO) -> None:
    """Close a file, also one whose last bytes found no room on the disk."""
    with contextlib.suppress(OSError):
        file.close()


class LogUploads:
    """Stores the logs of one boot's runs, and those that earlier boots left.

    Args:
        waiting: the list.
        run_logs: has the logs.
        sender: of messages to schedulers.
        log_sender: sends logs to the store.
        folder: for files of logs that are too large for memory.
        is_busy: whether runs wait for slots.
        is_late: whether something may still be added to the log of a run that has ended.
        log: where faults are logged.
        pauses: after failures.

    """

    def __init__(
        self,
        waiting: WaitingLogs,
        run_logs: RunLogs,
        sender: Sender,
        log_sender: LogSender,
        *,
        folder: Path,
        is_busy: Callable[[], bool],
        is_late: Callable[[int], bool],
        log: structlog.typing.FilteringBoundLogger,
        pauses: Pauses = Pauses(),
    ) -> None:
        self._pauses = pauses
        self._waiting = waiting
        self._run_logs = run_logs
        self._sender = sender
        self._log_sender = log_sender
        self._folder = folder
        self._is_busy = is_busy
        self._is_late = is_late
        self._log = log
        self._told_at = self._heard_at = float("-inf")
        self._places: dict[_Key, LogPlace] = {}
        self._placed = threading.Condition()
        self._unreported: list[LogEnd] = []
        self._cpu_seconds = 0.0
        self._pause_until = 0.0
        self._failures = 0
        self._parts_at = 0.0
        self._failing_since: float | None = None
        self._error = ""
        #: Why logs fail again and again.
        self._stuck: dict[int, str] = {}
        self._dropped_at = float("-inf")
        self._dropped_count = 0
        self._is_told = False
        self._is_closed = False
        self._pool = ThreadPoolExecutor(AT_A_TIME, "log upload")
        self._thread = threading.Thread(target=self._run, name="log uploads", daemon=True)

    # -- from the core's thread ---------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether schedulers have a log store."""
        return time.monotonic() - self._told_at < TOLD_SECONDS

    @property
    def is_wanted(self) -> bool:
        """Whether schedulers had a log store when one of them was last heard."""
        return self._heard_at - self._told_at < TOLD_SECONDS

    def told(self, *, has_store: bool = True) -> None:
        """Note whether a scheduler has a log store; the first that has one begins the work."""
        self._heard_at = time.monotonic()
        if has_store:
            self._told_at = self._heard_at
            if self._thread.ident is None:
                self._thread.start()

    def begin(self, trigger: Trigger) -> None:
        """Note that a run starts, also after a silence: its log is wanted once that is over."""
        if self.is_wanted:
            self._waiting.begin(trigger.run_id, trigger.identity, trigger.scheduled_at_ms)

    def end(self, trigger: Trigger, *, has_log: bool) -> None:
        """Note that a run has ended."""
        size = 0
        if has_log:
            path = self._run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
            size = self._run_logs.size(path)
        self._waiting.end(trigger.run_id, size, is_late=self._is_late(trigger.run_id))

    def take(self, message: LogPlaces) -> None:
        """Take the schedulers' answer."""
        with self._placed:
            self._places |= {(place.run_id, place.part): place for place in message.places}
            self._placed.notify_all()

    def close(self) -> None:
        """Leave the rest to the next boot, and log how much that is."""
        self._is_closed = True
        if self.count:
            self._log.warning("logs_left", waiting=self.count)
        self._waiting.wake()
        with self._placed:
            self._placed.notify_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._log_sender.close()

    # -- what is told -------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many logs wait."""
        return len(self._waiting)

    @property
    def is_storing(self) -> bool:
        """Whether logs wait, and are being stored at present."""
        return self.is_on and self.count > 0 and not self._failures

    @property
    def fault(self) -> str:
        """Why logs do not get into the store; "" if they do, or have only just begun not to."""
        now = time.monotonic()
        faults = []
        since = self._failing_since
        if self.count and since is not None and now - since >= self._pauses.fault_seconds:
            faults.append(self._error)
        else:
            faults += [f"the log of run {run_id}: {why}" for run_id, why in [*self._stuck.items()]]
        if now - self._dropped_at < DROPPED_SECONDS:
            faults.append(f"logs dropped in the last hour: {self._dropped_count}")
        return "; ".join(faults)[:LOG_FAULT_LIMIT]

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_closed:
            try:
                self._round()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next round may succeed
                self._log.exception("log_upload_failed")
                self._fail(str(error))

    def _round(self) -> None:
        now = time.monotonic()
        self._tell_dropped()
        if now < self._pause_until or not self.is_on:
            self._waiting.wait(min(_LONGEST_WAIT, max(0.05, self._pause_until - now)))
            return
        if self._unreported and not self._report():
            return
        began_at, self._cpu_seconds = now, -time.thread_time()
        if self._pauses.part_seconds and now >= self._parts_at:
            self._parts_at = now + self._pauses.part_seconds
            self._store_parts(now)
        batch = self._waiting.take(BUSY_LOGS if self._is_busy() else IDLE_LOGS, BATCH_BYTES, now)
        if not batch:
            self._waiting.wait(min(_LONGEST_WAIT, self._pauses.part_seconds or _LONGEST_WAIT))
            return
        try:
            self._store(batch)
        finally:
            told_of = {end.run_id for end in self._unreported}
            self._waiting.put_back(log for log in batch if log.run_id not in told_of)
        self._cpu_seconds += time.thread_time()
        self._rest(time.monotonic() - began_at)

    def _rest(self, took_seconds: float) -> None:
        share = BUSY_SHARE if self._is_busy() else IDLE_SHARE
        pause = self._cpu_seconds / share - took_seconds
        if pause > 0 and not self._is_closed:
            time.sleep(min(pause, _LONGEST_WAIT))

    def _store(self, batch: Sequence[WaitingLog]) -> None:
        with contextlib.ExitStack() as opened:
            packed = [item for log in batch if (item := self._pack(log, opened)) is not None]
            if not packed:
                return
            placed, faults = self._place(packed)
        self._settle(placed, faults)

    def _place(
        self, packed: Sequence[_Packed]
    ) -> tuple[list[tuple[_Packed, LogPlace]], dict[_Key, str]]:
        """Send files where schedulers say; return the answers, and what kept files from it."""
        places = self._ask(packed)
        if not places:
            self._fail("no scheduler says where to store logs")
        placed = [(item, place) for item in packed if (place := places.get(_key(item)))]
        return placed, self._send_all([(item, place) for item, place in placed if not place.why])

    def _store_parts(self, now: float) -> None:
        """Store what running runs have written since the last time."""
        with contextlib.ExitStack() as opened:
            packed: list[_Packed] = []
            most = BUSY_LOGS if self._is_busy() else IDLE_LOGS
            for log in sorted(self._waiting.running(), key=lambda log: log.not_before):
                is_new = not log.not_before
                if now >= log.not_before and len(packed) < most:
                    log.not_before = now + self._pauses.part_seconds
                    packed += [] if is_new else self._pack_part(log, opened)
            if not packed:
                return
            placed, faults = self._place(packed)
        stored = [item for item, place in placed if not place.why and _key(item) not in faults]
        for item in stored:
            log = item.log
            if item.part:
                log.parts, log.offset = item.part, item.end
            else:
                log.whole_since = log.parts
        self._tell([_end(item) for item in stored if item.part])
        if faults:
            self._fail(next(iter(faults.values())))

    def _pack_part(self, log: WaitingLog, opened: contextlib.ExitStack) -> list[_Packed]:
        """Return what is new in a log, if anything is; now and then all that is stored too."""
        path = self._run_logs.path_of(log.scheduled_at_ms, log.run_id)
        spans = [(log.parts + 1, log.offset, PART_BYTES)] if log.parts < LOG_PARTS_LIMIT else []
        if log.parts - log.whole_since >= PARTS_IN_A_ROW:
            spans.append((0, 0, log.offset))
        packed: list[_Packed] = []
        try:
            with open(path, "rb", opener=open_regular) as file:
                status = os.fstat(file.fileno())
                for part, begin, most in spans:
                    size = min(most, status.st_size - begin)
                    if size > 0:
                        into = self._room_for(size, opened)
                        file.seek(begin)
                        length = pack(
                            file,
                            into.write,
                            size=size,
                            notes=read_notes(path),
                            changed_ms=status.st_mtime_ns // 1_000_000,
                            begins_at=begin,
                            between=self._breathe,
                        )
                        into.flush()
                        packed.append(_Packed(log, into, size, length, part, begin + size))
        except OSError:
            return []  # it has written none yet, or the end of the run will say more
        return packed

    def _settle(self, placed: Sequence[tuple[_Packed, LogPlace]], faults: dict[_Key, str]) -> None:
        """Note what became of a batch."""
        refused = [place for _, place in placed if place.why]
        if refused:
            self._log.info(
                "logs_not_wanted", run_ids=[place.run_id for place in refused], why=refused[0].why
            )
            self._forget([place.run_id for place in refused])
        stored = [item for item, place in placed if not place.why and _key(item) not in faults]
        self._unreported += [_end(item) for item in stored]
        self._report()
        failed = [item.log for item, _ in placed if _key(item) in faults]
        if failed and not stored and not all(log.tries for log in failed):
            self._fail(faults[failed[0].run_id, 0])
            return
        # The store takes others: these have a problem of their own.
        for log in failed:
            self._put_off(log, faults[log.run_id, 0])

    def _put_off(self, log: WaitingLog, why: str) -> None:
        first, longest = self._pauses.one
        log.tries += 1
        log.not_before = time.monotonic() + min(longest, first * 2 ** min(log.tries, 10))
        if log.tries >= FAULT_TRIES:
            self._stuck[log.run_id] = why

    def _forget(self, run_ids: Sequence[int]) -> None:
        self._waiting.forget(run_ids)
        for run_id in run_ids:
            self._stuck.pop(run_id, None)

    def _pack(self, log: WaitingLog, opened: contextlib.ExitStack) -> _Packed | None:
        """Return a log packed; None if there is none, which is noted."""
        path = self._run_logs.path_of(log.scheduled_at_ms, log.run_id)
        if self._is_late(log.run_id):
            log.not_before = time.monotonic() + self._pauses.one[0]
            return None
        try:
            with open(path, "rb", opener=open_regular) as file:
                status = os.fstat(file.fileno())
                into = self._room_for(status.st_size, opened)
                packed = pack(
                    file,
                    into.write,
                    size=status.st_size,
                    notes=read_notes(path),
                    changed_ms=status.st_mtime_ns // 1_000_000,
                    between=self._breathe,
                )
                into.flush()
        except FileNotFoundError:
            why = "it was deleted before it could be stored" if log.size else ""
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._put_off(log, f"it cannot be packed: {error.strerror}")
                return None
            why = f"it cannot be read: {error.strerror or error}"
        else:
            self._waiting.measure(log, status.st_size)
            if status.st_size:
                return _Packed(log, into, status.st_size, packed)
            why = ""
        self._forget([log.run_id])
        if why:
            self._drop([log], why)
        return None

    def _room_for(self, size: int, opened: contextlib.ExitStack) -> BinaryIO:
        """Return a file for a packed log: in memory, unless it is large."""
        if size <= IN_MEMORY_BYTES:
            return io.BytesIO()
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - `opened` closes it
        opened.callback(_close, file)
        return file

    def _breathe(self) -> None:
        """Let others have the processor between two blocks of a large log."""
        if self._is_busy():
            time.sleep(0.05)

    def _ask(self, packed: Sequence[_Packed]) -> dict[_Key, LogPlace]:
        """Return the places for these logs, as far as schedulers give them in time."""
        who = self._sender.identity
        wanted = set(map(_key, packed))
        question = StoreLogs(
            app=who.app,
            address=who.address,
            boot_id=who.boot_id,
            logs=tuple(
                LogToStore(
                    run_id=item.log.run_id,
                    identity=item.log.identity,
                    packed=item.packed,
                    part=item.part,
                )
                for item in packed
            ),
        )
        with self._placed:
            self._places.clear()
        self._sender.send(question, valid_seconds=PLACE_SECONDS)
        with self._placed:
            self._placed.wait_for(
                lambda: self._is_closed or wanted <= self._places.keys(), timeout=PLACE_SECONDS
            )
            return {key: place for key, place in self._places.items() if key in wanted}

    def _send_all(self, items: Sequence[tuple[_Packed, LogPlace]]) -> dict[_Key, str]:
        """Send logs; return why some could not be."""
        faults: dict[_Key, str] = {}
        send = self._send if self._is_busy() or len(items) <= 1 else self._pool_send
        for (item, _), why in zip(items, send(items), strict=True):
            if why:
                faults[_key(item)] = why
        return faults

    def _send(self, items: Sequence[tuple[_Packed, LogPlace]]) -> Iterator[str]:
        for item, place in items:
            yield self._send_one(item, place)

    def _pool_send(self, items: Sequence[tuple[_Packed, LogPlace]]) -> Iterator[str]:
        def send(pair: tuple[_Packed, LogPlace]) -> tuple[str, float]:
            began = time.thread_time()
            return self._send_one(*pair), time.thread_time() - began

        for why, seconds in self._pool.map(send, items):
            self._cpu_seconds += seconds
            yield why

    def _send_one(self, item: _Packed, place: LogPlace) -> str:
        """Send a log; return why that failed."""
        if place.identity != item.log.identity:
            return "a scheduler takes it for another run's"
        try:
            self._log_sender.send(item.file, item.packed, place)
        except NotSent as error:
            return str(error)[:LOG_FAULT_LIMIT]
        return ""

    # -- telling ------------------------------------------------------------------------------

    def _report(self) -> bool:
        """Tell what became of logs; return whether the broker has all of it."""
        while self._unreported and not self._is_closed:
            ends = self._unreported[:LOGS_LIMIT]
            if not self._tell(ends):
                return False
            del self._unreported[: len(ends)]
            self._forget([end.run_id for end in ends])
            if not all(end.dropped for end in ends):
                self._succeed()
        return True

    def _tell(self, ends: Sequence[LogEnd]) -> bool:
        """Tell what became of some logs; return whether the broker has it."""
        if not ends:
            return True
        who = self._sender.identity
        message = LogsStored(
            app=who.app, address=who.address, boot_id=who.boot_id, logs=tuple(ends)
        )
        sealed = self._sender.seal(
            message, valid_seconds=VALID_SECONDS, key=CALLBACK_KEY, durable=True
        )
        confirms = self._sender.publisher.publish([sealed]).wait(CONFIRM_SECONDS)
        if confirms[0] is Confirm.CONFIRMED:
            return True
        self._fail("the broker does not confirm that logs are stored")
        return False

    def _tell_dropped(self) -> None:
        dropped = self._waiting.take_dropped(LOGS_LIMIT)
        if dropped:
            self._drop(dropped, "more logs waited than WARREN_LOG_SPOOL allows")

    def _drop(self, logs: Sequence[WaitingLog], why: str) -> None:
        now = time.monotonic()
        if now - self._dropped_at >= DROPPED_SECONDS:
            self._dropped_count = 0
        self._dropped_at = now
        self._dropped_count += len(logs)
        for log in logs:
            self._stuck.pop(log.run_id, None)
        self._log.error(
            "logs_dropped", count=len(logs), run_ids=[log.run_id for log in logs[:20]], why=why
        )
        self._unreported += [
            LogEnd(run_id=log.run_id, identity=log.identity, size=log.size, dropped=why)
            for log in logs
        ]

    def _succeed(self) -> None:
        self._failures, self._failing_since, self._error = 0, None, ""
        if self._is_told:
            self._is_told = False
            self._log.info("log_store_reached")

    def _fail(self, why: str) -> None:
        """Pause, longer after each failure."""
        now = time.monotonic()
        first, longest = self._pauses.all
        pause = min(longest, first * 2 ** min(self._failures, 10))
        self._pause_until = now + pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._failures += 1
        self._failing_since = now if self._failing_since is None else self._failing_since
        self._error = why
        if not self._is_told:
            self._is_told = True
            self._log.error("log_store_not_reached", waiting=self.count, why=why)
