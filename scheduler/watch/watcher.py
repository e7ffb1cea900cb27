"""Checks jobs when their watch is due, and opens and closes incidents and sends reminders of them.

One scheduler at a time does this, under a lease. An incident is a row before it is an alarm, and
both are stored in one transaction. All due times are kept in the database, so a scheduler that
takes over, or comes back, reports what happened in the meantime.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from warren.broker import durations
from warren.scheduler.alarms.events import AlarmTargets, IncidentNews
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.expectations import Expectations, Rule
from warren.scheduler.membership.roster import Roster
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import has_schedule
from warren.scheduler.watch import judgement
from warren.scheduler.watch.judgement import DueTime, Span, Verdict
from warren.sql.alarms import alarms, incidents, watches
from warren.sql.alarms.alarms import JobRecipients
from warren.sql.alarms.incidents import ClosedBy, OpenIncident
from warren.sql.alarms.watches import Backlog, LongRun, WatchedJob
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS, MINUTE_MS
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.registry import pauses
from warren.sql.registry.cluster import LeaseHolder
from warren.sql.registry.pauses import EVERY_APP, PauseRow

#: The longest time between two checks: usually; while something is broken; while the usual duration
#: is not known.
LATEST_MS, BROKEN_MS, UNUSUAL_MS = DAY_MS, 1_000, 10 * MINUTE_MS


@dataclass(slots=True)
class Findings:
    """The findings of a check.

    Attributes:
        opening: the due times that broke a rule, by rule.
        closing: open incidents that have ended, and why.
        columns: the new values of the job's watch.
        forget: whether the job has no expectations.

    """

    opening: dict[Rule, int] = field(default_factory=dict)
    closing: dict[OpenIncident, ClosedBy] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    forget: bool = False


class Look:
    """A check of one job.

    Args:
        session: reads its runs.
        job: the watched job.
        open_incidents: its incidents that are open.
        pauses: the pauses that may have held it back.
        timezone: the zone of jobs that name none.
        now_ms: the time of the check.

    """

    def __init__(
        self,
        session: Session,
        job: WatchedJob,
        open_incidents: Iterable[OpenIncident],
        *,
        pauses: Sequence[PauseRow],
        timezone: str,
        now_ms: int,
    ) -> None:
        self._session = session
        self._job = job
        self._open = {Rule(open_incident.rule): open_incident for open_incident in open_incidents}
        self._pauses = pauses
        self._timezone = timezone
        self._now_ms = now_ms
        self._expect = Expectations.from_json(job.expect)
        self._found = Findings()
        self._nexts: list[int] = []

    def findings(self) -> Findings:
        """Return which rules are broken, which incidents have ended, and when to check next."""
        job, findings = self._job, self._found
        if not self._expect or job.app_id is None:
            self._close_all(ClosedBy.DELETED if job.app_id is None else ClosedBy.DROPPED)
            findings.forget = True
            return findings
        if has_schedule(job.schedule_kind or "") and job.is_enabled != 1:
            self._close_all(ClosedBy.STOPPED)
            findings.columns = {"next_look_at": PARKED_MS, "longest_ms": 0}
            return findings
        for rule, incident in self._open.items():
            if rule is not Rule.WAITING and not getattr(self._expect, rule):
                findings.closing[incident] = ClosedBy.DROPPED
        self._due_times()
        self._success()
        self._longest()
        findings.columns["next_look_at"] = self._next_look()
        return findings

    def _close_all(self, why: ClosedBy) -> None:
        for rule, incident in self._open.items():
            if rule is not Rule.WAITING:
                self._found.closing[incident] = why

    def _due_times(self) -> None:
        job, expect, now_ms = self._job, self._expect, self._now_ms
        if not (expect.start_within or expect.finish_by):
            return
        until = {
            Rule.START_WITHIN: max(job.started_until, job.since_at),
            Rule.FINISH_BY: max(job.finished_until, job.since_at),
        }
        broken = [item.due_at - 1 for rule, item in self._open.items() if rule in until]
        watched = [until[rule] for rule in until if getattr(expect, rule)]
        after_ms = min([*watched, *broken])
        times = judgement.due_times(
            watches.runs_after(self._session, job.job_id, after_ms, now_ms=now_ms),
            watches.skips_after(self._session, job.job_id, after_ms),
            after_ms=after_ms,
            next_tick_ms=job.next_tick_at or 0,
        )
        if within_ms := expect.start_within_ms:
            verdict = judgement.judge(
                times,
                deadline=lambda due_at: due_at + within_ms,
                done_at=_started,
                judged_until=until[Rule.START_WITHIN],
                pauses=self._pauses,
                now_ms=now_ms,
            )
            self._note(Rule.START_WITHIN, verdict, times)
            self._found.columns["started_until"] = verdict.judged_until
        if at := expect.finish_by_time:
            zone = self._zone()
            verdict = judgement.judge(
                times,
                deadline=lambda due_at: judgement.next_time(due_at, at, zone),
                done_at=_succeeded,
                judged_until=until[Rule.FINISH_BY],
                pauses=self._pauses,
                now_ms=now_ms,
            )
            self._note(Rule.FINISH_BY, verdict, times)
            self._found.columns["finished_until"] = verdict.judged_until

    def _note(self, rule: Rule, verdict: Verdict, times: Sequence[DueTime]) -> None:
        incident = self._open.get(rule)
        is_open = incident is not None
        if incident and judgement.is_made_up(times, incident.due_at, _DONE[rule]):
            self._found.closing[incident] = ClosedBy.KEPT
            is_open = False
        if verdict.broken_at is not None and not is_open:
            self._found.opening[rule] = verdict.broken_at
        if verdict.next_look_at is not None:
            self._nexts.append(verdict.next_look_at)

    def _success(self) -> None:
        every_ms, job, now_ms = self._expect.success_every_ms, self._job, self._now_ms
        if not every_ms:
            return
        known = watches.last_success(self._session, job.job_id, now_ms=now_ms)
        last_ms = max(job.last_success_at, min(known, now_ms))
        self._found.columns["last_success_at"] = last_ms
        since_ms = max(last_ms, job.since_at)
        if since_ms + every_ms <= now_ms:
            since_ms = judgement.since_success(
                last_ms, job.since_at, self._pauses, now_ms, has_held=self._has_held
            )
        incident = self._open.get(Rule.SUCCESS_EVERY)
        if incident and last_ms > incident.due_at:
            self._found.closing[incident] = ClosedBy.KEPT
        if since_ms + every_ms > now_ms:
            self._nexts.append(since_ms + every_ms)
        elif incident is None and not self._is_paused():
            self._found.opening[Rule.SUCCESS_EVERY] = since_ms

    def _longest(self) -> None:
        usual_ms = 0
        if self._expect.needs_usual:
            usual_ms = watches.usual_ms(self._session, self._job.job_id, now_ms=self._now_ms)
            self._nexts.append(self._now_ms + UNUSUAL_MS)
        self._found.columns |= {
            "usual_ms": usual_ms,
            "longest_ms": self._expect.longest_ms(usual_ms),
        }

    def _next_look(self) -> int:
        now_ms = self._now_ms
        latest_ms = LATEST_MS
        is_broken = {*self._open.values()} - {*self._found.closing}
        if self._found.opening or any(incident.rule != Rule.LONGEST for incident in is_broken):
            latest_ms = BROKEN_MS
        elif self._is_paused():
            latest_ms = MINUTE_MS
        return max(now_ms + 1, min([now_ms + latest_ms, *self._nexts]))

    def _is_paused(self) -> bool:
        return any(pause.is_in_force(self._now_ms) for pause in self._pauses)

    def _has_held(self, span: Span) -> bool:
        until_ms = span.until_at or self._now_ms
        return watches.was_held(self._session, self._job.job_id, span.since_at, until_ms)

    def _zone(self) -> ZoneInfo:
        try:
            return load_zone(self._job.timezone or self._timezone)
        except Problem:  # changed in the database; the planner stops such a job
            return load_zone("UTC")


def _started(due_time: DueTime) -> int | None:
    return due_time.started_at


def _succeeded(due_time: DueTime) -> int | None:
    return due_time.succeeded_at


#: For each rule of due times, what meets it.
_DONE: Mapping[Rule, Callable[[DueTime], int | None]] = {
    Rule.START_WITHIN: _started,
    Rule.FINISH_BY: _succeeded,
}


LEASE = "watch"
#: Seconds between two rounds, and the most jobs that a round checks.
ROUND_SECONDS = 2.0
LOOKS = 50
#: Time between two reminders of an unacknowledged incident.
REMIND_MS = 30 * MINUTE_MS
#: When a backlog is an incident: this many runs over MINUTE_MS late, or one over OLDEST_MS late. It
#: ends once less than half of either is left, so that it does not flap.
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
    """Return why an incident ended that no check of a job closes; None if it has not."""
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
