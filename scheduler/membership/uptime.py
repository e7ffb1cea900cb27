"""Records while this scheduler can send, and reads the downtimes in which no scheduler could.

A schedule's planned run that no scheduler could send for over 5 s after it was due is late. It is
not sent before it is decided whether it still runs (`scheduler/dispatch/missed_runs.py`). A run
that was due over 5 s before the downtime began was waiting for a full or absent executor, and keeps
waiting.

         due        + 5 s                            due + 5 s
    ──────┼───────────┼───[ nobody can send ]────        ┼──────>
          └ waits for its executor      └ decided about  └ sent late
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import structlog
from sqlalchemy.orm import Session

from warren.sql.engine import Database
from warren.sql.pending import Pending
from warren.sql.registry import uptimes
from warren.sql.registry.uptimes import Downtime
from warren.sql.run_status import LATE_MS
from warren.sql.runs.due_runs import DueSpan

#: A scheduler records that it can send when the last record of any scheduler is this old.
RECORD_MS = 1_000
#: How long after its own record a scheduler may claim runs. Later, if no other scheduler could send
#: either, one of them may have detected a downtime and begun to decide about missed runs.
VALID_SECONDS = (LATE_MS - RECORD_MS) / 1000
#: How long the dispatcher's last `note` is valid; its rounds are shorter unless something is wrong.
ABLE_SECONDS = 2.0

log = structlog.get_logger()


def due_times(downtimes: Iterable[Downtime]) -> list[DueSpan]:
    """Return the spans of due times whose scheduled runs could not be sent.

    Downtimes with at most 5 s between them are merged: runs not sent in between were not waiting
    for their executor.
    """
    spans: list[DueSpan] = []
    for downtime in sorted(downtimes, key=lambda each: (each.app_id, each.from_ms)):
        last = spans[-1] if spans else None
        if last and last.app_id == downtime.app_id and downtime.from_ms - last.over_ms <= LATE_MS:
            end_ms = max(last.over_ms, downtime.to_ms)
            spans[-1] = last._replace(to_ms=end_ms - LATE_MS, over_ms=end_ms)
        else:
            spans.append(
                DueSpan(
                    downtime.from_ms - LATE_MS,
                    downtime.to_ms - LATE_MS,
                    downtime.to_ms,
                    downtime.app_id,
                )
            )
    return spans


class SendingUptime:
    """Records and reads uptimes for one scheduler; thread-safe.

    The dispatcher notes whether it can send; another role records it in the database, so that due
    runs do not wait for a commit. `clock` is monotonic seconds.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._keeping = threading.Lock()
        self._learning = threading.Lock()
        self._able_at = float("-inf")
        self._kept_at = float("-inf")
        self._recorded_at = float("-inf")
        self._downtimes: list[Downtime] = []

    @property
    def downtimes(self) -> Sequence[Downtime]:
        """The downtimes with due runs that may still be undecided, as last read."""
        return self._downtimes

    @property
    def missed(self) -> list[DueSpan]:
        """The spans of due times whose runs, planned by a schedule, must not be sent."""
        return due_times(self._downtimes)

    @property
    def is_valid(self) -> bool:
        """Whether `missed` is complete; false at first, and after a freeze."""
        return self._clock() - self._kept_at <= VALID_SECONDS

    @property
    def is_able(self) -> bool:
        """Whether the dispatcher could send within the last ABLE_SECONDS."""
        return self._clock() - self._able_at <= ABLE_SECONDS

    def note(self, *, able: bool) -> None:
        """Record whether the dispatcher can send now."""
        self._able_at = self._clock() if able else float("-inf")

    def keep(self, now_ms: Callable[[], int]) -> None:
        """Record that this scheduler can send now, unless that was recorded within RECORD_MS.

        `now_ms` is the database's clock. It is read while the locks are held: an earlier reading
        would hide how long there was no scheduler.
        """
        with self._keeping:
            began_at = self._clock()
            is_known = began_at - self._kept_at < RECORD_MS / 1000
            if is_known and began_at - self._recorded_at < RECORD_MS / 1000:
                return
            known = self._extend(now_ms) if is_known else self._read_and_record(now_ms)
            self._recorded_at = began_at
            if known is not None:
                self._learn(began_at, known)

    def hear(self, pending: Pending, began_at: float, now_ms: int) -> None:
        """Take over what pending work read at `began_at`, so that `keep` need not read."""
        age_ms = now_ms - pending.uptime_until
        if not 0 <= age_ms < LATE_MS:
            return
        uptime_until = began_at - age_ms / 1000
        self._recorded_at = max(self._recorded_at, uptime_until)
        if not pending.has_downtimes:
            # Others detect a downtime 5 s after the last record, not after this read.
            self._learn(min(began_at, uptime_until + RECORD_MS / 1000), [])

    def _extend(self, now_ms: Callable[[], int]) -> list[Downtime] | None:
        """Extend the uptime; return the unsettled downtimes, None = no new ones."""
        instants = uptimes.extension_values(now_ms=now_ms(), gap_ms=LATE_MS)
        if self._database.update_autocommit(uptimes.EXTENSION, instants):
            return None
        return self._database.write(lambda session: _record(session, now_ms, is_known=True))

    def _read_and_record(self, now_ms: Callable[[], int]) -> list[Downtime]:
        """Return the unsettled downtimes, after recording the uptime if it is time."""
        known = self._database.read(lambda session: _known(session, now_ms()))
        if known is None:
            known = self._database.write(lambda session: _record(session, now_ms, is_known=False))
        return known or []

    def _learn(self, at: float, downtimes: list[Downtime]) -> None:
        with self._learning:
            if at > self._kept_at:
                self._downtimes, self._kept_at = downtimes, at


def _known(session: Session, now_ms: int) -> list[Downtime] | None:
    """Return the unsettled downtimes; None if it is time to record the uptime again."""
    is_recorded = 0 <= now_ms - uptimes.newest(session) < RECORD_MS
    return uptimes.unsettled(session) if is_recorded else None


def _record(
    session: Session, now_ms: Callable[[], int], *, is_known: bool
) -> list[Downtime] | None:
    """Record that this scheduler can send; return the unsettled downtimes, None = no new ones."""
    down_ms = uptimes.extend(session, now_ms=now_ms, gap_ms=LATE_MS)
    if down_ms:
        log.warning("sending_resumed", after_seconds=down_ms / 1000)
    elif is_known:
        return None
    session.flush()
    return uptimes.unsettled(session)
