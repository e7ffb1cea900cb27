"""Checks jobs when their watch is due, and opens and closes incidents and sends reminders of them.

One scheduler at a time does this, under a lease. An incident is a row before it is an alarm, and
both are stored in one transaction. All due times are kept in the database, so a scheduler that
takes over, or comes back, reports what happened in the meantime.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker import durations
from warren.scheduler.alarms.events import AlarmTargets, IncidentNews
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.expectations.expectations import Expectations, Rule
from warren.scheduler.membership.roster import Roster
from warren.scheduler.watch.looks import Findings, Look
from warren.sql.alarms import alarms, incidents, watches
from warren.sql.alarms.alarms import JobRecipients
from warren.sql.alarms.incidents import ClosedBy, OpenIncident
from warren.sql.alarms.watches import Backlog, LongRun, WatchedJob
from warren.sql.engine import Database
from warren.sql.instants import MINUTE_MS
from warren.sql.registry import pauses
from warren.sql.registry.cluster import LeaseHolder
from warren.sql.registry.pauses import EVERY_APP, PauseRow

LEASE = "watch"
#: Seconds between two rounds, and the most jobs that a round checks.
ROUND_SECONDS = 2.0
LOOKS = 50
#: Time between two reminders of an incident that nobody has acknowledged.
REMIND_MS = 30 * MINUTE_MS
#: When a backlog is an incident: this many runs over MINUTE_MS late, or one over OLDEST_MS late. It
#: is over once less than half of either is left, so that it does not come and go.
BACKLOG, OLDEST_MS = 100, 15 * MINUTE_MS
#: Seconds between two searches for backlogs, at least; and times as long as one takes.
BACKLOG_SECONDS, BACKLOG_FACTOR = 2.0, 20

_NOTES = {
    ClosedBy.KEPT: "",
    ClosedBy.STOPPED: "The job was stopped.",
    ClosedBy.DROPPED: "It is no longer expected.",
    ClosedBy.DELETED: "The job was deleted.",
}


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a job has broken, at a due time."""

    job_id: int
    app_id: int
    rule: Rule
    due_at: int
    expected: str


class Watcher:
    """The role that watches; `run_round` is a round.

    Args:
        node: this scheduler's name.
        database: where watches and incidents are stored.
        roster: knows which apps have executors.
        defaults: targets of jobs and apps without their own.
        timezone: the zone of jobs that name none.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        *,
        node: str,
        database: Database,
        roster: Roster,
        defaults: AlarmTargets,
        timezone: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._roster = roster
        self._defaults = defaults
        self._timezone = timezone
        self._clock = clock
        self._lease = LeaseHolder(LEASE, node=node, database=database)
        self._backlog_at = 0.0
        self._backlogs: Sequence[Backlog] = ()
        #: Whether this scheduler watches.
        self.holds_lease = False

    def run_round(self, now_ms: int) -> float:
        """Check the due jobs; return the seconds until the next round, 0 if there are more."""
        self.holds_lease = self._lease.take(now_ms)
        if not self.holds_lease:
            return ROUND_SECONDS
        due = self._database.read(lambda session: watches.due(session, now_ms, LOOKS))
        if due:
            self._database.write(lambda session: self._look(session, due, now_ms))
        self._watch_all(now_ms)
        return 0.0 if len(due) == LOOKS else ROUND_SECONDS

    def leave(self) -> None:
        """Release the lease, so that another scheduler continues at once."""
        self._lease.release()

    def _look(self, session: Session, due: Sequence[WatchedJob], now_ms: int) -> None:
        known = pauses.recent(session, now_ms)
        still_open: dict[int, list[OpenIncident]] = defaultdict(list)
        for incident in incidents.all_open(session):
            still_open[incident.job_id].append(incident)
        broken: list[Broken] = []
        closing: dict[OpenIncident, ClosedBy] = {}
        for job in due:
            look = Look(
                session,
                job,
                still_open[job.job_id],
                pauses=_held(known, job.app_id or EVERY_APP),
                timezone=self._timezone,
                now_ms=now_ms,
            )
            findings = look.findings()
            broken += _broken(job, findings)
            closing |= findings.closing
            if findings.forget:
                watches.forget(session, job.job_id)
            else:
                watches.settle(session, job, **findings.columns)
        self._record(session, broken, closing, now_ms)

    def _watch_all(self, now_ms: int) -> None:
        """Watch what no check of a job covers: long runs, backlogs, reminders, deleted jobs."""
        is_judge = self._roster.is_healthy
        long, still_open, known = self._database.read(
            lambda session: (
                watches.long_runs(session, now_ms),
                incidents.all_open(session),
                pauses.recent(session, now_ms),
            )
        )
        if is_judge:
            self._search_backlogs(now_ms)
        online = (
            incident
            for incident in self._backlogs
            if (incident.number >= BACKLOG or incident.oldest_at <= now_ms - OLDEST_MS)
            and self._roster.routable(incident.app)
        )
        broken = [*map(_too_long, long), *map(_waiting, online)]
        is_open = {(incident.job_id, incident.rule) for incident in still_open}
        news = {
            (incident.job_id, incident.rule): incident
            for incident in reversed(broken)
            if (incident.job_id, incident.rule) not in is_open
            and not _is_paused(known, incident.app_id, now_ms)
        }
        lasting = {(incident.job_id, Rule.LONGEST) for incident in long}
        lasting |= {(incident.job_id, Rule.WAITING) for incident in self._backlogs}
        closing = {
            incident: why
            for incident in still_open
            if (why := _over(incident, lasting, is_judge=is_judge)) is not None
        }
        recalled = [
            incident
            for incident in still_open
            if incident.remind_at <= now_ms and incident not in closing
        ]
        if not (news or closing or recalled):
            return

        def write(session: Session) -> None:
            self._record(session, news.values(), closing, now_ms)
            self._remind(session, recalled, known, now_ms)

        self._database.write(write)

    def _search_backlogs(self, now_ms: int) -> None:
        began = self._clock()
        if began < self._backlog_at:
            return
        self._backlogs = self._database.read(
            lambda session: watches.backlogs(
                session,
                overdue_before_ms=now_ms - MINUTE_MS,
                most=BACKLOG // 2,
                oldest_before_ms=now_ms - OLDEST_MS // 2,
            )
        )
        took = self._clock() - began
        self._backlog_at = began + max(BACKLOG_SECONDS, BACKLOG_FACTOR * took)

    def _record(
        self,
        session: Session,
        broken: Iterable[Broken],
        closing: Mapping[OpenIncident, ClosedBy],
        now_ms: int,
    ) -> None:
        """Open and close incidents, with an alarm for each."""
        broken = list(broken)
        ids = {incident.job_id for incident in broken} | {incident.job_id for incident in closing}
        who = alarms.job_targets(session, ids) if ids else {}
        for promise in broken:
            incident_id = incidents.open_one(
                session,
                job_id=promise.job_id,
                app_id=promise.app_id,
                rule=promise.rule,
                due_at=promise.due_at,
                expected=promise.expected,
                now_ms=now_ms,
                remind_ms=now_ms + REMIND_MS,
            )
            job = who.get(promise.job_id)
            if incident_id is not None and job is not None:
                news = _news(job, promise, incident_id, now_ms)
                self._alarm(session, job, news, "opened", now_ms)
        for incident, why in closing.items():
            job = who.get(incident.job_id)
            if incidents.close(session, incident.id, why, now_ms) and job is not None:
                news = _news_of(job, incident, state="closed", closed_at=now_ms, note=_NOTES[why])
                self._alarm(session, job, news, "closed", now_ms)

    def _remind(
        self,
        session: Session,
        recalled: Sequence[OpenIncident],
        known: Sequence[PauseRow],
        now_ms: int,
    ) -> None:
        who = (
            alarms.job_targets(session, {incident.job_id for incident in recalled})
            if recalled
            else {}
        )
        for incident in recalled:
            incidents.remind_later(session, incident.id, now_ms + REMIND_MS)
            job = who.get(incident.job_id)
            is_quiet = incident.is_silent(now_ms) or _is_paused(known, incident.app_id, now_ms)
            if job is not None and not is_quiet:
                news = _news_of(job, incident, state="reminder")
                self._alarm(session, job, news, f"reminder:{now_ms}", now_ms)

    def _alarm(
        self, session: Session, job: JobRecipients, news: IncidentNews, key: str, now_ms: int
    ) -> None:
        new_alarms = alarms_to(
            job_targets(job, self._defaults),
            news,
            f"incident:{news.incident_id}:{key}",
            now_ms=now_ms,
            app_id=job.app_id,
            job_id=job.id,
        )
        alarms.add(session, new_alarms)


def _held(known: Iterable[PauseRow], app_id: int) -> list[PauseRow]:
    return [downtime for downtime in known if downtime.app_id in (EVERY_APP, app_id)]


def _is_paused(known: Iterable[PauseRow], app_id: int, now_ms: int) -> bool:
    return any(downtime.is_in_force(now_ms) for downtime in _held(known, app_id))


def _broken(job: WatchedJob, findings: Findings) -> list[Broken]:
    rules = Expectations.from_json(job.expect).rules()
    return [
        Broken(job.job_id, job.app_id or 0, rule, due_at, rules[rule])
        for rule, due_at in findings.opening.items()
    ]


def _too_long(run: LongRun) -> Broken:
    expect = Expectations.from_json(run.expect)
    shown = durations.shown(max(1, run.longest_ms // 1_000))
    expected = f"{expect.longest} ({shown})" if expect.needs_usual else shown
    return Broken(run.job_id, run.app_id, Rule.LONGEST, run.scheduled_at, expected)


def _waiting(backlog: Backlog) -> Broken:
    expected = "15m" if backlog.number < BACKLOG else f"under {BACKLOG} runs"
    return Broken(backlog.job_id, backlog.app_id, Rule.WAITING, backlog.oldest_at, expected)


def _over(
    incident: OpenIncident, lasting: set[tuple[int, Rule]], *, is_judge: bool
) -> ClosedBy | None:
    """Return why an incident is over that no check of a job closes; None if it is not over."""
    if incident.job is None:
        return ClosedBy.DELETED
    is_ours = incident.rule == Rule.LONGEST or (incident.rule == Rule.WAITING and is_judge)
    if is_ours and (incident.job_id, Rule(incident.rule)) not in lasting:
        return ClosedBy.KEPT
    return None


def _news(job: JobRecipients, broken: Broken, incident_id: int, now_ms: int) -> IncidentNews:
    return IncidentNews(
        app=job.app,
        job=job.name,
        timezone=job.timezone or "",
        incident_id=incident_id,
        rule=broken.rule,
        expected=broken.expected,
        state="opened",
        due_at=broken.due_at,
        opened_at=now_ms,
    )


def _news_of(
    job: JobRecipients,
    incident: OpenIncident,
    *,
    state: str,
    closed_at: int = 0,
    note: str = "",
) -> IncidentNews:
    return IncidentNews(
        app=job.app,
        job=job.name,
        timezone=job.timezone or "",
        incident_id=incident.id,
        rule=incident.rule,
        expected=incident.expected,
        state=state,
        due_at=incident.due_at,
        opened_at=incident.opened_at,
        closed_at=closed_at,
        note=note,
    )
