"""Clears runs in the background, one clearing at a time, and tracks the progress."""

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

import structlog

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.visitors import has_rights_of
from warren.scheduler.actor import Actor
from warren.scheduler.retention.clearing_criteria import ClearingCriteria, ClearingPreset
from warren.sql.errors import DatabaseUnavailable

log = structlog.get_logger()


class ClearingState(StrEnum):
    """The state of a clearing."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    #: The user was disabled or has other rights than at the start.
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A clearing: its criteria, the user who started it, how many runs it has cleared.

    `app_id` None = all apps; `job` is the name as it was typed.
    """

    choice: ClearingPreset
    user_id: int
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

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._is_to_stop = threading.Event()

    @property
    def progress(self) -> Progress | None:
        """Its progress; None before the first one."""
        return self._progress

    def start(self, actor: Actor, criteria: ClearingCriteria, progress: Progress) -> bool:
        """Start a clearing; return False if one is running."""
        with self._lock:
            if self._progress is not None and self._progress.state is ClearingState.RUNNING:
                return False
            self._progress = progress
            self._is_to_stop.clear()
        # A daemon thread: the console may stop in between, as each step is complete in itself.
        threading.Thread(
            target=self._clear, args=(actor, criteria), name="clearing", daemon=True
        ).start()
        return True

    def stop(self) -> None:
        """Stop it after the current step."""
        self._is_to_stop.set()

    def _clear(self, actor: Actor, criteria: ClearingCriteria) -> None:
        commands = self._services.commands(actor).runs
        try:
            count = commands.clear(criteria, on_progress=lambda count: self._note(count, actor))
        except _Ended as ended:
            self._set(state=ended.state)
        except DatabaseUnavailable as error:
            log.warning("clearing_interrupted", error=str(error))
            self._set(state=ClearingState.FAILED)
        except Exception:
            log.exception("clearing_failed")
            self._set(state=ClearingState.FAILED)
        else:
            self._set(state=ClearingState.DONE, count=count)

    def _note(self, count: int, actor: Actor) -> None:
        """Note a step; end the clearing there if it is to stop or its user may not go on."""
        user_id = self._set(count=count).user_id
        if self._is_to_stop.is_set():
            raise _Ended(ClearingState.STOPPED)
        if not self._services.database.read(lambda session: has_rights_of(session, user_id, actor)):
            raise _Ended(ClearingState.REVOKED)

    def _set(self, **changes: object) -> Progress:
        with self._lock:
            assert self._progress is not None, "a clearing has begun"
            self._progress = replace(self._progress, **changes)  # type: ignore[arg-type]
            return self._progress


class _Ended(Exception):
    """The clearing ends between two steps."""

    def __init__(self, state: ClearingState) -> None:
        super().__init__(state)
        self.state = state
