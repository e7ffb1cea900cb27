"""An executor's uploads with schedulers that answer at once, and a store."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from warren.broker.messages import (
    LogEnd,
    LogPlace,
    LogPlaces,
    LogsStored,
    Message,
    StoreLogs,
    Trigger,
)
from warren.broker.transport import Confirm
from warren.executor.log_uploads.sending import LogSender
from warren.executor.log_uploads.uploads import LogUploads, Pauses
from warren.executor.log_uploads.waiting_logs import WaitingLogs
from warren.executor.messaging.outbox import Identity
from warren.executor.run_logs import RunLogs
from warren.scheduler.log_store.store import LogStore, part_key

APP, DAY_MS = "demo", 1_790_000_000_000
#: Quick enough for tests.
BRIEF = Pauses(all=(0.02, 0.1), one=(0.02, 0.1), fault_seconds=0.0, part_seconds=0.05)


class Confirmed:
    """A batch that the broker has confirmed, or not."""

    def __init__(self, confirm: Confirm) -> None:
        self._confirm = confirm

    def wait(self, _seconds: float) -> list[Confirm]:
        return [self._confirm]


@dataclass
class Schedulers:
    """Answer an executor's questions from a store, and keep what it tells them.

    They stand for the executor's sender and its publisher.
    """

    store: LogStore
    identity: Identity
    uploads: LogUploads | None = None
    ends: list[LogEnd] = field(default_factory=list)
    confirm: Confirm = Confirm.CONFIRMED
    are_there: bool = True
    asked: list[StoreLogs] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def publisher(self) -> "Schedulers":
        return self

    def seal(self, message: Message, **_others: Any) -> Message:
        return message

    def publish(self, messages: list[Message]) -> Confirmed:
        for message in messages:
            assert isinstance(message, LogsStored)
            if self.confirm is Confirm.CONFIRMED:
                with self._lock:
                    self.ends += message.logs
        return Confirmed(self.confirm)

    def send(self, question: Message, **_others: Any) -> None:
        assert isinstance(question, StoreLogs)
        self.asked.append(question)
        if self.are_there and self.uploads is not None:
            places = tuple(self._place(log.run_id, log.identity, log) for log in question.logs)
            self.uploads.take(LogPlaces(places=places))

    def _place(self, run_id: int, identity: int, log: Any) -> LogPlace:
        key = part_key(key_of(run_id), log.part)
        url = self.store.address(key, log.packed)
        return LogPlace(run_id=run_id, identity=identity, part=log.part, key=key, url=url)

    @property
    def stored(self) -> list[int]:
        return [end.run_id for end in self.ends if not end.dropped and not end.part]

    def parts(self, run_id: int) -> int:
        """Return how many parts of a log are stored."""
        return max((end.part for end in self.ends if end.run_id == run_id), default=0)

    @property
    def dropped(self) -> dict[int, str]:
        return {end.run_id: end.dropped for end in self.ends if end.dropped}


def key_of(run_id: int) -> str:
    return f"{APP}/2026-09-21/{run_id}.log.gz"


@dataclass
class UploadCase:
    """Uploads of one executor, with its files in a folder."""

    folder: Path
    store: LogStore
    log_folder: Path | None = None
    most_bytes: int = 1_000_000_000
    pauses: Pauses = BRIEF
    is_busy: Callable[[], bool] = lambda: False
    schedulers: Schedulers = field(init=False)
    uploads: LogUploads = field(init=False)
    #: Runs whose logs are not complete yet, although they have ended.
    late: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        identity = Identity.checked(APP, "one")
        self.schedulers = Schedulers(self.store, identity)
        self.run_logs = RunLogs(self.folder / "logs")
        (self.folder / "state").mkdir(exist_ok=True)
        self.boot()

    def boot(self) -> None:
        """Begin as the next boot does: with the list on disk."""
        sender: Any = self.schedulers
        self.waiting = WaitingLogs(self.folder / "state", self.most_bytes)
        self.uploads = LogUploads(
            self.waiting,
            self.run_logs,
            sender,
            LogSender(APP, self.log_folder),
            folder=self.folder / "state",
            is_busy=self.is_busy,
            is_late=lambda run_id: run_id in self.late,
            log=structlog.get_logger(),
            pauses=self.pauses,
        )
        self.schedulers.uploads = self.uploads
        self.uploads.told()
        self.uploads._told_at = float("inf")  # as heartbeats' answers keep saying it

    def trigger(self, run_id: int) -> Trigger:
        return Trigger(
            run_id=run_id, job_id=1, boot_id="b", kind="API", handler="h", scheduled_at_ms=DAY_MS
        )

    def begin(self, run_id: int, text: bytes = b"") -> None:
        self.uploads.begin(self.trigger(run_id))
        path = Path(self.run_logs.path_of(DAY_MS, run_id))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text or f"log of {run_id}\n".encode())

    def write(self, run_id: int, text: bytes) -> None:
        """Let a running run write more."""
        with Path(self.run_logs.path_of(DAY_MS, run_id)).open("ab") as file:
            file.write(text)

    def run(self, *run_ids: int, text: bytes = b"") -> None:
        """Let runs begin and end."""
        for run_id in run_ids:
            self.begin(run_id, text)
            self.uploads.end(self.trigger(run_id), has_log=True)
