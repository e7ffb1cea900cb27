"""Whether any scheduler can send: this one says so while it can, and knows the downtimes.

A schedule's planned run that no scheduler could send for over 5 s after it was due has misfired. It
is not sent any more, but left to its job's policy (`scheduler/dispatch/missed_runs.py`). One that
was due over 5 s before such a downtime began waits for a full or absent executor, and goes on
waiting.

         due        + 5 s                            due + 5 s
    ──────┼───────────┼───[ nobody can send ]────        ┼──────>
          └ waits for its executor      └ misfired       └ sent late
"""

import threading
import time
from collections.abc import Iterable, Sequence

import structlog
from sqlalchemy.orm import Session

from scheduler.schedules.misfire import LATE_MS
from sql.engine import Database
from sql.pending import Pending
from sql.registry import uptimes
from sql.registry.uptimes import Downtime
from sql.runs.queries import DueSpan

#: How old the last word of any scheduler that it can send may get before this one says it too.
SAY_MS = 1_000
#: How long after its own word a scheduler may claim runs. Had nobody else been able to send either,
#: another could by then have found that out, and have begun to settle what was missed.
VALID_SECONDS = (LATE_MS - SAY_MS) / 1000
#: How long a note of the dispatcher holds; its rounds are shorter, unless something is wrong.
ABLE_SECONDS = 2.0

log = structlog.get_logger()


def due_times(downtimes: Iterable[Downtime]) -> list[DueSpan]:
    """Return in which spans of due times a schedule's run has misfired."""
    return [DueSpan(one.from_ms - LATE_MS, one.to_ms - LATE_MS, one.app_id) for one in downtimes]


class SendingUptime:
    """What one scheduler says and knows; thread-safe.

    The dispatcher notes whether it can send; another role says so to the other schedulers, so that
    nothing that is due waits for a commit.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._keeping = threading.Lock()
        self._learning = threading.Lock()
        self._able_at = float("-inf")
        self._kept_at = float("-inf")
        self._said_at = float("-inf")
        self._downtimes: list[Downtime] = []

    @property
    def downtimes(self) -> Sequence[Downtime]:
        """Downtimes of which planned runs may be left, as this scheduler read them last."""
        return self._downtimes

    @property
    def missed(self) -> list[DueSpan]:
        """Spans of due times of which nothing may be sent that a schedule planned."""
        return due_times(self._downtimes)

    @property
    def is_valid(self) -> bool:
        """Whether `missed` is complete; false at first, and after a freeze."""
        return time.monotonic() - self._kept_at <= VALID_SECONDS

    @property
    def is_able(self) -> bool:
        """Whether the dispatcher could send a moment ago."""
        return time.monotonic() - self._able_at <= ABLE_SECONDS

    def note(self, *, able: bool) -> None:
        """Note whether the dispatcher can send now."""
        self._able_at = time.monotonic() if able else float("-inf")

    def keep(self, now_ms: int) -> None:
        """Say that this scheduler can send now, unless that was said a moment ago."""
        with self._keeping:
            began_at = time.monotonic()
            is_known = began_at - self._kept_at < SAY_MS / 1000
            if is_known and began_at - self._said_at < SAY_MS / 1000:
                return
            known = self._say_more(now_ms) if is_known else self._ask_and_say(now_ms)
            self._said_at = began_at
            if known is not None:
                self._learn(began_at, known)

    def hear(self, pending: Pending, began_at: float, now_ms: int) -> None:
        """Learn from a look that began at `began_at`, which saves `keep` its own."""
        age_ms = now_ms - pending.uptime_until
        if not 0 <= age_ms < LATE_MS:
            return
        uptime_until = began_at - age_ms / 1000
        self._said_at = max(self._said_at, uptime_until)
        if not pending.has_downtimes:
            # Others find out about a silence 5 s after the last word, not after this look.
            self._learn(min(began_at, uptime_until + SAY_MS / 1000), [])

    def _say_more(self, now_ms: int) -> list[Downtime] | None:
        """Say so again; return unsettled downtimes, None = none but the known."""
        instants = uptimes.extension_values(now_ms=now_ms, gap_ms=LATE_MS)
        if self._database.update_autocommit(uptimes.EXTENSION, instants):
            return None
        return self._database.write(lambda session: _say(session, now_ms, is_known=True))

    def _ask_and_say(self, now_ms: int) -> list[Downtime]:
        """Return the unsettled downtimes, having said so if it is time."""
        known = self._database.read(lambda session: _known(session, now_ms))
        if known is None:
            known = self._database.write(lambda session: _say(session, now_ms, is_known=False))
        return known or []

    def _learn(self, at: float, downtimes: list[Downtime]) -> None:
        with self._learning:
            if at > self._kept_at:
                self._downtimes, self._kept_at = downtimes, at


def _known(session: Session, now_ms: int) -> list[Downtime] | None:
    """Return the unsettled downtimes; None when it is time to say so again."""
    is_said = 0 <= now_ms - uptimes.newest(session) < SAY_MS
    return uptimes.unsettled(session) if is_said else None


def _say(session: Session, now_ms: int, *, is_known: bool) -> list[Downtime] | None:
    """Say that this scheduler can send; return unsettled downtimes, None = none but the known."""
    down_ms = uptimes.extend(session, now_ms=now_ms, gap_ms=LATE_MS)
    if down_ms:
        log.warning("sending_resumed", after_seconds=down_ms / 1000)
    elif is_known:
        return None
    session.flush()
    return uptimes.unsettled(session)
