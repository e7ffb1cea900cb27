"""Slots with a test's own handlers, on an event loop that the test runs."""

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import structlog

from tests.support.moved_loop import MovedLoop
from tests.support.processes import Process, descendants, every_process, identify
from warren.broker.messages import CallEnd, Finished, NotStarted, Progress, Trigger
from warren.executor.fork_server.frames import Call
from warren.executor.handlers.hooks import JobCode
from warren.executor.processes.interface import SlotEvents, SlotOptions
from warren.executor.processes.slots import Slots
from warren.executor.run_life import Event
from warren.executor.run_logs import RunLogs

T = TypeVar("T")

#: The due time of every run here: 2023-11-14T22:13:20.500Z.
SCHEDULED_AT_MS = 1_700_000_000_500
DAY = "2023-11-14"
#: So that a busy machine does not look like a process that ignores SIGTERM.
PATIENCE_SECONDS = 10
#: The first line of every file of handlers. The process that imports it is the zygote.
_HEAD = (
    "from warren import job, JobContext, JobStopped; import os as _os, pathlib as _pathlib; "
    "_pathlib.Path(__file__).with_name('zygote').write_text(str(_os.getpid()))\n"
)


class SlotHarness:
    """An executor's job processes without the rest of the executor."""

    def __init__(
        self,
        folder: Path,
        source: str,
        *,
        cap_bytes: int = 50_000_000,
        log_folder: Path | None = None,
        **options: Any,
    ) -> None:
        self.folder = folder
        self.file = folder / "handlers_of_test.py"
        self.file.write_text(_HEAD + source)
        noted = folder / "zygote"
        noted.touch()
        noted.chmod(0o666)  # it may be of another user
        self.loop = MovedLoop()
        self.log_folder = log_folder or folder / "logs"
        self.logs = RunLogs(self.log_folder, cap_bytes)
        #: Whether each run that has started was assigned early, in the order of their starts.
        self.started: dict[int, bool] = {}
        self.finished: dict[int, Finished] = {}
        self.returned: list[int] = []
        self.handed_back: list[int] = []
        self.progress: dict[int, list[Progress]] = defaultdict(list)
        self.called: list[Call] = []
        #: How the runs of called jobs have ended.
        self.ends: dict[str, CallEnd] = {}
        #: Whether calls are kept at once; otherwise `keep_all` does that.
        self.then_kept = True
        self._unkept: list[Callable[[], None]] = []
        self.ready_count = 0
        self.at_finish: Callable[[], object] = lambda: None
        self._ids = itertools.count(1)
        names = {each.name for each in fields(JobCode)}
        of_code = {name: options.pop(name) for name in names & options.keys()}
        script_folder = options.pop("script_folder", None)
        chosen: dict[str, Any] = {"count": 2, "grace_seconds": PATIENCE_SECONDS} | options
        self.slots = Slots(
            JobCode(**({"sources": (str(self.file),)} | of_code)),
            self.logs,
            SlotOptions(**chosen),
            loop=self.loop,
            events=SlotEvents(
                self._on_started,
                self._on_finished,
                self._on_ready,
                self._on_moved,
                lambda run_id, told: self.progress[run_id].append(told),
                self._on_called,
                lambda call: self.ends.get(call.job),
            ),
            script_folder=script_folder,
            notes_folder=folder / "begin-notes" / "boot",
        )

    def open(self) -> "SlotHarness":
        logging.getLogger("asyncio").setLevel(logging.WARNING)
        with structlog.testing.capture_logs() as self.events:
            self.slots.open()
        return self

    def close(self, grace_seconds: float = 0.5) -> None:
        closed = self.slots.close(grace_seconds)
        self.turn(closed.done, 20)
        self.loop.close()

    def _on_called(self, call: Call, then: Callable[[], None]) -> None:
        self.called.append(call)
        self._unkept.append(then)
        if self.then_kept:
            self.keep_all()

    def keep_all(self) -> None:
        """Tell runs that what they have called is kept."""
        unkept, self._unkept = self._unkept, []
        for then in unkept:
            then()

    # -- runs ---------------------------------------------------------------------------------

    def start(self, handler: str, param: str = "", **fields: Any) -> int:
        trigger = self.trigger(handler, param, **fields)
        self.slots.start(trigger)
        return trigger.run_id

    def start_batch(self, handler: str, params: Sequence[str], **fields: Any) -> list[int]:
        """Start a run with all others assigned early; the job must have an idle process."""
        head, *followers = [self.trigger(handler, param, **fields) for param in params]
        self.slots.start(head, *followers)
        return [trigger.run_id for trigger in (head, *followers)]

    def trigger(self, handler: str, param: str = "", **fields: Any) -> Trigger:
        """Return a run of a number of its own."""
        return Trigger(
            run_id=next(self._ids),
            handler=handler,
            param=param,
            scheduled_at_ms=SCHEDULED_AT_MS,
            **({"job_id": 7, "boot_id": "boot", "kind": "CRON"} | fields),
        )

    def run(self, handler: str, param: str = "", seconds: float = 45, **fields: Any) -> Finished:
        return self.wait(self.start(handler, param, **fields), seconds)

    def time_out(self, handler: str, sign: str = "begun", **fields: Any) -> Finished:
        """Run a handler, and let its minute pass once it has noted that it is at work."""
        run_id = self.start(handler, timeout_seconds=60, **fields)
        self.turn(lambda: self.note(sign))
        self.loop.skip(60)
        return self.wait(run_id)

    def wait(self, run_id: int, seconds: float = 45) -> Finished:
        self.turn(lambda: run_id in self.finished, seconds)
        return self.finished[run_id]

    def turn(self, check: Callable[[], T], seconds: float = 30.0) -> T:
        """Run the loop until `check` returns something true; return that."""
        deadline = time.monotonic() + seconds
        while not (value := check()):
            assert time.monotonic() < deadline, f"not true within {seconds} s: {value!r}"
            self.loop.run_until_complete(_a_moment())
        return value

    def turn_for(self, seconds: float) -> None:
        """Run the loop for some time, to see that something does not happen."""
        deadline = time.monotonic() + seconds
        self.turn(lambda: time.monotonic() > deadline, seconds + 5)

    # -- what can be seen ---------------------------------------------------------------------

    def log_path(self, run_id: int) -> Path:
        return self.log_folder / DAY / f"{run_id}.log"

    def log_of(self, run_id: int) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self.log_path(run_id).read_text(errors="replace")
        return ""

    def note(self, name: str) -> str:
        """Return what a handler wrote into a file in this folder."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / name).read_text()
        return ""

    @property
    def zygote(self) -> Process:
        """The one that has imported the handlers last."""
        return identify(int(self.note("zygote")))

    def job_processes(self) -> list[Process]:
        return [p for p in descendants(self.zygote.pid) if p.name == "warren-job"]

    def _on_started(self, run_id: int, *, was_ahead: bool = False) -> None:
        assert run_id not in self.started, f"run {run_id} started twice"
        assert run_id not in self.finished, f"run {run_id} started after its end"
        self.started[run_id] = was_ahead

    def _on_finished(
        self,
        end: Finished | NotStarted,
        on_recorded: object = None,  # noqa: ARG002 - the interface's
    ) -> None:
        assert isinstance(end, Finished)
        assert end.run_id not in self.finished, f"run {end.run_id} finished twice"
        self.finished[end.run_id] = end
        self.at_finish()

    def _on_moved(self, run_id: int, event: Event) -> None:
        if event is Event.REACHED:
            self._on_started(run_id, was_ahead=True)
        elif event is Event.HANDED_BACK:
            assert run_id not in self.started
            self.handed_back.append(run_id)
        else:
            assert event is Event.NOT_BEGUN
            assert self.started.pop(run_id), f"run {run_id} was not assigned early"
            self.returned.append(run_id)

    def _on_ready(self) -> None:
        self.ready_count += 1


def processes_holding(path: Path) -> list[Process]:
    """Return the live processes that have a file open, which marks a run's tree."""
    return [p for p in every_process() if p.state not in "ZX" and _holds(p.pid, str(path))]


def _holds(pid: int, path: str) -> bool:
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if str(Path(entry.path).readlink()) == path:
                    return True
    return False


async def _a_moment() -> None:
    await asyncio.sleep(0.003)
