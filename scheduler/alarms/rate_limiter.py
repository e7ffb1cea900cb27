"""Decides which alarms are sent: a limited number per hour, then a summary of the rest.

All schedulers do this, one at a time: a row serves as the lock.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import (
    Failure,
    IncidentNews,
    Missed,
    Overdue,
    RefusedCall,
    Summary,
    bare,
    from_text,
    to_text,
)
from warren.scheduler.board.folding import error_keys
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import RUN_END, AlarmStatus, Group, NewAlarm, RunAlarm
from warren.sql.board import job_states
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS, HOUR_MS, iso
from warren.sql.models import Alarm
from warren.sql.runs.reruns import DueTime

#: An alarm that cannot be sent for this long is given up.
GIVE_UP_MS = DAY_MS
#: How long finished alarms are kept.
KEEP_MS = 30 * DAY_MS
BATCH = 500
GROUPS = 50
#: Seconds between two rounds for new alarms, and between two clean-ups of old ones.
ROUND_SECONDS = 1.0
TIDY_MS = 600_000
#: Runs that a summary names.
NAMED_RUNS = 10

#: The events that name a job.
_OF_JOB = (Failure, Overdue, Missed, RefusedCall, IncidentNews)

log = structlog.get_logger()


class AlarmRateLimiter:
    """The role that lets a limited number of alarms through each hour.

    Args:
        per_hour: most alarms of one job to one target in any hour.
        on_ready: called when there is something to send.

    """

    def __init__(
        self, *, database: Database, per_hour: int, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self._database = database
        self._per_hour = per_hour
        self._on_ready = on_ready
        self._is_made = False
        self._tidied_at = 0

    def run_round(self, now_ms: int) -> float:
        """Decide about a batch; return the seconds until the next round, 0 when there is more."""
        if not self._is_made:
            self._database.write(alarms.make_lock_row)
            self._is_made = True
        is_untidy = now_ms - self._tidied_at > TIDY_MS
        if is_untidy and self._database.write(lambda session: _tidy(session, now_ms)) < BATCH:
            self._tidied_at = now_ms
        if not self._database.read(lambda session: alarms.is_decision_needed(session, now_ms)):
            return ROUND_SECONDS
        decided = self._database.write(lambda session: self._decide(session, now_ms))
        if decided:
            self._on_ready()
        return 0.0 if decided >= BATCH else ROUND_SECONDS

    def _decide(self, session: Session, now_ms: int) -> int:
        if not alarms.hold_lock_row(session):
            return 0  # another scheduler is doing it
        undecided = alarms.undecided(session, BATCH)
        muted = _hold_back_muted(session, undecided, now_ms)
        fresh = [alarm for alarm in undecided if alarm.id not in muted]
        groups: dict[tuple[Group, bool], list[Alarm]] = defaultdict(list)
        for alarm in fresh:
            groups[Group.of(alarm), alarms.is_about_absence(alarm)].append(alarm)
        for (group, about_absence), members in groups.items():
            before = alarms.let_through_since(
                session, group, now_ms - HOUR_MS, about_absence=about_absence
            )
            self._split(session, before, members, now_ms)
        overdue = alarms.overdue_groups(session, now_ms, GROUPS)
        for group in overdue:
            _sum_up(session, group, now_ms)
        return len(undecided) + len(overdue)

    def _split(
        self, session: Session, before: Sequence[int], members: Sequence[Alarm], now_ms: int
    ) -> None:
        """Let as many new alarms through as there is room for after those from `before`."""
        room = max(0, self._per_hour - len(before))
        ready, held = members[:room], members[room:]
        alarms.change(session, [alarm.id for alarm in ready], {"status": AlarmStatus.READY})
        if held:
            first = min([*before, *(alarm.created_at for alarm in ready)], default=now_ms)
            columns = {
                "status": AlarmStatus.HELD,
                "next_try_at": first + HOUR_MS,
                "content": _shortened(held[0].content),
            }
            alarms.change(session, [alarm.id for alarm in held], columns)


def _hold_back_muted(session: Session, fresh: Iterable[Alarm], now_ms: int) -> set[int]:
    """Dismiss new alarms about failures of jobs that somebody has muted; return their ids.

    A mute ends when its job fails with another error, which is sent. What alarms say of an error
    may be cut, or be about a node of a flow, so the board's errors are compared.
    """
    about = [(alarm, from_text(alarm.content)) for alarm in fresh if alarm.job_id and alarm.run_id]
    failures = [(alarm, news) for alarm, news in about if isinstance(news, Failure)]
    known = job_states.silencing_mutes(
        session, {alarm.job_id for alarm, _ in failures}, now_ms=now_ms
    )
    times = {
        alarm.id: DueTime(alarm.job_id, news.scheduled_at)
        for alarm, news in failures
        if alarm.job_id in known
    }
    errors = error_keys(session, times.values()) if times else {}
    held: set[int] = set()
    for alarm, _ in failures:
        mute = known.get(alarm.job_id)
        if mute is None:
            continue
        # Nobody knows the error of a flow or a broadcast before all of it is over.
        if errors.get(times[alarm.id], mute.error_key) != mute.error_key:
            job_states.end_mutes(session, [alarm.job_id])
            del known[alarm.job_id]
            continue
        until = iso(mute.until_at)
        error = f"muted by {mute.made_by} until {until}: {mute.reason}".rstrip(": ")
        alarms.change(session, [alarm.id], {"status": AlarmStatus.DISMISSED, "error": error})
        held.add(alarm.id)
    alarms.mark_runs(
        session,
        [alarm.run_id for alarm, _ in failures if alarm.id in held],
        RunAlarm.NOBODY_TO_TELL,
    )
    return held


def run_ids_of(session: Session, alarm: Alarm) -> list[int]:
    """Return the runs that an alarm is about: those of all alarms in it if it is a summary."""
    if not alarm.subject_key.startswith(alarms.SUMMARY):
        return [alarm.run_id] if alarm.run_id else []
    news = from_text(alarm.content)
    if not isinstance(news, Summary):
        return []
    return alarms.runs_in_summary(session, Group.of(alarm), news.first_at, news.last_at)


def _shortened(content: str) -> str:
    """Return only what a summary needs of an alarm, as a storm of alarms must not fill the disk."""
    news = from_text(content)
    return to_text(bare(news)) if isinstance(news, Failure) else content


def _sum_up(session: Session, group: Group, now_ms: int) -> None:
    """Replace the alarms held back of a group by one summary."""
    held = alarms.held_of(session, group)
    newest = session.get_one(Alarm, held.newest_id)
    news = from_text(newest.content)
    summary = Summary(
        app=news.app,
        job=news.job if isinstance(news, _OF_JOB) else "",
        count=held.number,
        first_at=held.first_at,
        last_at=held.last_at,
        run_ids=tuple(alarms.last_runs(session, group, NAMED_RUNS)),
    )
    alarms.mark_summarized(session, group)
    alarm = NewAlarm(
        subject_key=f"{alarms.SUMMARY}{newest.id}",
        channel=newest.channel,
        target=newest.target,
        content=to_text(summary),
        created_at=now_ms,
        job_id=group.job_id,
        app_id=group.app_id,
        status=AlarmStatus.READY,
    )
    alarms.add(session, [alarm])


def _tidy(session: Session, now_ms: int) -> int:
    """Give up alarms unsent for a day, and delete old finished ones; return how many."""
    stale = alarms.expired(session, before_ms=now_ms - GIVE_UP_MS, limit=BATCH)
    # If another scheduler claims one meanwhile, it decides.
    given_up = [alarm for alarm in stale if _give_up(session, alarm)]
    if given_up:
        about_runs = [alarm for alarm in given_up if alarm.channel != RUN_END]
        run_ids = [run_id for alarm in about_runs for run_id in run_ids_of(session, alarm)]
        alarms.mark_runs(session, run_ids, RunAlarm.GIVEN_UP)
        log.error("alarms_withheld", count=len(given_up))
    return alarms.purge(session, before_ms=now_ms - KEEP_MS, limit=BATCH)


def _give_up(session: Session, alarm: Alarm) -> bool:
    reason = alarm.error or "no scheduler could send it; is WARREN_SMTP_URL set?"
    return alarms.settle(session, alarm, status=AlarmStatus.GIVEN_UP, error=reason)
