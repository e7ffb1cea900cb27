"""One check of one job: reads its runs and judges all its expectations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.expectations.expectations import Expectations, Rule
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import has_schedule
from warren.scheduler.watch import judgement
from warren.scheduler.watch.judgement import DueTime, Span, Verdict
from warren.sql.alarms import watches
from warren.sql.alarms.incidents import ClosedBy, OpenIncident
from warren.sql.alarms.watches import WatchedJob
from warren.sql.instants import DAY_MS, MINUTE_MS
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.registry.pauses import PauseRow

#: The longest time between two checks: usually; while something is broken; while the usual duration
#: is not known.
LATEST_MS, BROKEN_MS, UNUSUAL_MS = DAY_MS, 1_000, 10 * MINUTE_MS


@dataclass(slots=True)
class Findings:
    """The findings of a check.

    Attributes:
        opening: the due times that broke a rule, by rule.
        closing: open incidents that are over, and why.
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
        """Return what is broken, what is over, and when to check next."""
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
