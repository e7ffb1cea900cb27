"""Copies the logs of a remote executor's runs: while they are read, and after the end.

Each line is copied once: a copy continues after the lines that are here, so it can be repeated and
resumed. The line numbers that executors report are not used: versions differ.

What the gateway needs to continue after a restart is in a note for each registered executor: how to
call it, and which boot to continue.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from warren.broker.messages import Trigger
from warren.executor.disk import open_regular
from warren.executor.gateway import protocol
from warren.executor.gateway.protocol import BadRequest, CallFailed
from warren.executor.gateway.remote_client import RemoteClient
from warren.executor.run_logs import RunLogs
from warren.executor.state_folder import StateFolder

#: Shortest time between two copies of the same log, and the most calls of one copy.
AGAIN_SECONDS = 3.0
CALL_LIMIT = 200
_MISSING_MARK = "… [the rest of the log is not here: {}]\n"
_LONG_LINE_MARK = " … [line cut: its executor sends too much of it at once]\n"
T = TypeVar("T")


class RemoteLog:
    """The log of one remote run. Used from one event loop.

    A part of the log of a run that `is_resumed` may be here already.
    """

    def __init__(
        self, trigger: Trigger, client: RemoteClient, run_logs: RunLogs, *, is_resumed: bool
    ) -> None:
        self._trigger = trigger
        self._client = client
        self._run_logs = run_logs
        self._path = run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        self._next_line = None if is_resumed else 1
        self._copied_at = float("-inf")
        self._turn = asyncio.Lock()

    async def copy(self, *, is_over: bool) -> str:
        """Copy new lines, unless that was done a moment ago; raises no network error.

        Return why lines may be missing; empty if the executor has no more of them. While the run
        is running, an incomplete last line is left for later.
        """
        async with self._turn:
            loop = asyncio.get_running_loop()
            if not is_over and loop.time() - self._copied_at < AGAIN_SECONDS:
                return "it was copied a moment ago"
            self._copied_at = loop.time()
            try:
                for _ in range(CALL_LIMIT):
                    if not await self._copy_some(is_over=is_over):
                        return ""
            except CallFailed as error:
                return str(error)
            return "its executor has sent no end of it"

    def tail(self) -> str:
        """Return the end of the copy so far."""
        return self._run_logs.tail(self._path)

    def mark_missing(self, why: str) -> None:
        """Note at the end of the log that the rest is missing, if the disk has room."""
        if not self._run_logs.shortfall():
            _append(self._path, _MISSING_MARK.format(why))

    async def _copy_some(self, *, is_over: bool) -> bool:
        """Copy the lines of one answer; return whether there may be more.

        Raises:
            CallFailed: the executor has not answered, or there is no room for its answer.

        """
        if self._next_line is None:
            self._next_line = 1 + await asyncio.to_thread(_count_lines, self._path)
        answer = await self._client.log(protocol.log_request_of(self._trigger, self._next_line))
        content = answer.content if isinstance(answer.content, dict) else {}
        if not answer.is_ok:
            if self._next_line == 1:
                return False  # it keeps no logs
            raise CallFailed(answer.text or f"its executor answered code {answer.code}")
        text = _whole_lines(content.get("logContent"), is_over=is_over)
        is_cut = content.get("isCut") is True
        if is_cut and "\n" not in text:
            text = f"{content['logContent']}{_LONG_LINE_MARK}"
        if not text or not await asyncio.to_thread(self._store, text):
            return False
        self._next_line += text.count("\n")
        return is_cut or content.get("isEnd") is not True

    def _store(self, text: str) -> bool:
        """Add lines to the file; return False if it has its full size.

        Raises:
            CallFailed: the disk has no room.

        """
        if self._run_logs.size(self._path) > self._run_logs.cap_bytes:
            return False
        if self._run_logs.shortfall():
            raise CallFailed("the disk has no room for it")
        _append(self._path, text)
        return not self._run_logs.cut_to_cap(self._path)


def _append(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab", opener=open_regular) as file:
        file.write(text.encode(errors="replace"))


def _whole_lines(text: Any, *, is_over: bool) -> str:
    """Return the complete lines; after the end of a run, complete the last one.

    A single incomplete line is not a log but the executor's message that there is none.
    """
    if not isinstance(text, str):
        return ""
    lines = str(text).replace("\r\n", "\n")
    end = lines.rfind("\n") + 1
    if end in (0, len(lines)) or not is_over:
        return lines[:end]
    return f"{lines}\n"


def _count_lines(path: str) -> int:
    count = 0
    try:
        with open(path, "rb", opener=open_regular) as file:
            while data := file.read(1_048_576):
                count += data.count(b"\n")
    except OSError:
        return 0
    return count


class Note(msgspec.Struct, frozen=True):
    """A registered executor's URL, its `RemoteClient.appname`, and the boot that left runs.

    One that was drained has left nothing, and is not served until `drained_until` (epoch seconds).
    """

    url: str
    appname: str = ""
    boot_id: str = ""
    drained_until: float = 0.0


class RemoteFolder:
    """The state folder of one registered executor, locked while it is served.

    Raises:
        StateFolderInUse: another process serves it.
        OSError: it cannot be used.

    """

    def __init__(self, state_dir: Path, app: str, address: str) -> None:
        self.state = StateFolder(state_dir / app, address)
        self._path = _note_of(state_dir, app, address)

    def boot_id_of(self, url: str) -> str:
        """Return the boot that left runs at this URL; empty if none did."""
        note = _read(self._path)
        return note.boot_id if note is not None and note.url == url else ""

    def save(self, note: Note) -> None:
        """Save what the next start must know."""
        _write(self._path, note)

    def inherit(self, note: Note, journal: bytes) -> None:
        """Begin with what another gateway left.

        Raises:
            BadRequest: this one has left runs itself.
            OSError: it cannot be saved.

        """
        own = _read(self._path)
        if own is not None and own.boot_id not in ("", note.boot_id):
            raise BadRequest("this gateway has left runs of that executor itself")
        if journal:
            fresh = self.state.journal_path.with_suffix(".new")
            with fresh.open("wb") as file:
                file.write(journal)
                os.fsync(file.fileno())
            fresh.replace(self.state.journal_path)
        self.save(note)

    def forget(self) -> None:
        """Do not serve it at the next start."""
        self._path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete what an executor left that has reported everything; raises OSError.

        Its journal has disk space set aside, and addresses come and go.
        """
        self.state.discard()


def note_drained(state_dir: Path, app: str, address: str, note: Note) -> None:
    """Save what the next start must know about one that is not served; raises OSError."""
    _write(_note_of(state_dir, app, address), note)


def forget_drained(state_dir: Path, app: str, address: str) -> None:
    """Let the next start serve one that was drained."""
    _note_of(state_dir, app, address).unlink(missing_ok=True)


def remembered(state_dir: Path) -> Iterator[tuple[str, Note]]:
    """Yield the app and note of each executor that the last gateway served."""
    for path in sorted(state_dir.glob("*/*/remote.json")):
        note = _read(path)
        if note is not None:
            yield path.parts[-3], note


def _note_of(state_dir: Path, app: str, address: str) -> Path:
    return state_dir / app / address / "remote.json"


def _write(path: Path, note: Note) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(note))
    fresh.replace(path)


def _read(path: Path) -> Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        log.warning("remote_note_skipped", path=str(path), error=str(error))
        return None


#: How long a reader waits for new lines.
READER_SECONDS = 1.0
#: How long the last copies may take when the executor is closed.
CLOSE_SECONDS = 3.0
#: The most logs that are copied at a time.
COPIES = 8
#: Pauses between the attempts to copy the rest of a log, until its executor has given it all.
RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
log = structlog.get_logger()


class RemoteLogs:
    """The logs of runs that are running or have just ended. Used from one event loop's thread.

    `end_seconds` after the end of a run, the rest of its log is copied, and again after each of
    `retry_seconds` while its executor has not given it all. `close` waits for up to
    `close_seconds`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client: RemoteClient,
        run_logs: RunLogs,
        *,
        end_seconds: float,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        self._end_seconds = end_seconds
        self._retry_seconds = retry_seconds
        self._close_seconds = close_seconds
        self._loop = loop
        self._client = client
        self._run_logs = run_logs
        self._logs: dict[int, RemoteLog] = {}
        #: The last copies of those that have ended, by run.
        self._ended: dict[int, asyncio.Task[None]] = {}
        self._copying: dict[int, asyncio.Task[str]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._room = asyncio.Semaphore(COPIES)

    def begin(self, trigger: Trigger, *, is_resumed: bool) -> None:
        """Add the log of a run; nothing is copied yet, unless it `is_resumed`."""
        remote_log = RemoteLog(trigger, self._client, self._run_logs, is_resumed=is_resumed)
        self._logs[trigger.run_id] = remote_log

    def tail(self, run_id: int) -> str:
        """Return the end of the copied part of a log."""
        return self._logs[run_id].tail()

    def refresh(self, run_id: int) -> None:
        """Start copying new lines of a log, unless a copy is in progress."""
        if run_id in self._logs:
            self._copy(run_id)

    def read(self, run_id: int, then: Callable[[], None]) -> None:
        """Copy new lines of a log, then call `then`, or earlier if that takes too long."""
        if run_id in self._logs:
            self._start(self._wait(self._copy(run_id), then))
        else:
            then()

    def finish(self, run_id: int) -> None:
        """Copy the rest of the log of a run that has ended, soon."""
        if not self._is_closed:
            self._ended[run_id] = self._start(self._copy_rest(run_id))

    def is_late(self, run_id: int) -> bool:
        """Whether the rest of the log of a run that has ended is still to be copied."""
        return run_id in self._ended

    async def close(self) -> None:
        """Copy the rest of the logs of runs that have ended, if that is quick, and stop copying."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._close_seconds):
                while self._ended:
                    await asyncio.wait(self._ended.values())
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy_rest(self, run_id: int) -> None:
        """Copy until the executor says that there is no more; the log says what is missing."""
        missing = "the gateway ended"
        try:
            for seconds in (self._end_seconds, *self._retry_seconds):
                await asyncio.sleep(seconds)
                if (copying := self._copying.get(run_id)) is not None:
                    await asyncio.wait({copying})
                if not (missing := await self._copy(run_id)):
                    return
            log.warning("remote_log_missed", run_id=run_id, why=missing)
        finally:
            if missing:
                self._logs[run_id].mark_missing(missing)
            del self._ended[run_id], self._logs[run_id]

    def _copy(self, run_id: int) -> "asyncio.Task[str]":
        """Return the task that copies a log; there is one at a time."""
        copying = self._copying.get(run_id)
        if copying is None:
            copying = self._copying[run_id] = self._start(self._copy_in_turn(run_id))
        return copying

    async def _copy_in_turn(self, run_id: int) -> str:
        try:
            async with self._room:
                return await self._logs[run_id].copy(is_over=run_id in self._ended)
        except Exception as error:
            log.exception("remote_log_failed", run_id=run_id)
            return str(error) or repr(error)
        finally:
            del self._copying[run_id]

    async def _wait(self, copying: "asyncio.Task[str]", then: Callable[[], None]) -> None:
        await asyncio.wait({copying}, timeout=READER_SECONDS)
        then()

    def _start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
