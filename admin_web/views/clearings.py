"""Clears runs in the background, one clearing at a time, and tracks the progress."""

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

import structlog

from scheduler.commands.runs import RunCommands
from scheduler.retention.clearing_criteria import ClearingCriteria, ClearingPreset
from sql.errors import DatabaseUnavailable

log = structlog.get_logger()


class ClearingState(StrEnum):
    """The state of a clearing."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A clearing: its criteria, who started it, how many runs it has cleared.

    `app_id` None = all apps; `job` is the name as it was typed.
    """

    choice: ClearingPreset
    who: str
    began_at: int
    app_id: int | None = None
    app: str = ""
    job: str = ""
    count: int = 0
    state: ClearingState = ClearingState.RUNNING

    def concerns(self, name: str, app_ids: Collection[int] | None) -> bool:
        """Return whether a user with this name and these apps may see it."""
        return app_ids is None or self.who == name or self.app_id in app_ids


class Clearings:
    """The running or last clearing of this console process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._is_to_stop = threading.Event()

    @property
    def progress(self) -> Progress | None:
        """Its progress; None before the first one."""
        return self._progress

    def start(self, commands: RunCommands, criteria: ClearingCriteria, progress: Progress) -> bool:
        """Start a clearing; return False if one is running."""
        with self._lock:
            if self._progress is not None and self._progress.state is ClearingState.RUNNING:
                return False
            self._progress = progress
            self._is_to_stop.clear()
        # A daemon thread: the console may stop in between, as each step is complete in itself.
        threading.Thread(
            target=self._clear, args=(commands, criteria), name="clearing", daemon=True
        ).start()
        return True

    def stop(self) -> None:
        """Stop it after the current step."""
        self._is_to_stop.set()

    def _clear(self, commands: RunCommands, criteria: ClearingCriteria) -> None:
        try:
            count = commands.clear(criteria, on_progress=self._note)
        except _StopAsked:
            self._set(state=ClearingState.STOPPED)
        except DatabaseUnavailable as error:
            log.warning("clearing_interrupted", error=str(error))
            self._set(state=ClearingState.FAILED)
        except Exception:
            log.exception("clearing_failed")
            self._set(state=ClearingState.FAILED)
        else:
            self._set(state=ClearingState.DONE, count=count)

    def _note(self, count: int) -> None:
        self._set(count=count)
        if self._is_to_stop.is_set():
            raise _StopAsked

    def _set(self, **changes: object) -> None:
        with self._lock:
            assert self._progress is not None, "a clearing has begun"
            self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]


class _StopAsked(Exception):
    """The clearing was asked to stop."""
