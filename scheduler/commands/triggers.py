"""Triggered runs of a job: now, or each at a given time.

A run at a given time is planned like any other: its row waits for that time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.broker.durations import whole_seconds
from warren.broker.reasons import Reason
from warren.scheduler.jobs.new_run import check_made, run_of
from warren.scheduler.jobs.param_schema import check_param
from warren.scheduler.jobs.typed_params import HandlerSchemas, TypedParams
from warren.scheduler.problems import Code, Problem, Refused, refusal
from warren.scheduler.schedules.working_days import Calendars
from warren.sql.instants import DAY_MS, iso
from warren.sql.jobs.job_rows import JobToTrigger
from warren.sql.models import App
from warren.sql.registry import apps, presence
from warren.sql.run_status import Kind
from warren.sql.runs import due_runs
from warren.sql.runs.planned_runs import NewRun

#: How far ahead a run may be planned: ten years.
FURTHEST_MS = 3_653 * DAY_MS
#: By how much the clocks of two hosts may differ, as each follows that of the database.
CLOCKS_DIFFER_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a run is due: now, `at_ms`, or a while from now, such as `after` 90m or 2d12h.

    With `late`, a run whose time has passed is due now; without, it is refused.
    """

    at_ms: int | None = None
    after: str | None = None
    late: bool = False

    def due_ms(self, now_ms: int, past: Code = Code.TRIGGER_PAST) -> int:
        """Return the due time; `past` is the text about one that has passed.

        Raises:
            Problem: it has passed, is over ten years ahead, or `after` is not a duration.

        """
        if self.at_ms is not None and self.after is not None:
            raise Problem(Code.TRIGGER_AT_AND_IN, "in")
        if self.after is not None:
            seconds, got = whole_seconds(self.after), self.after[:100]
            if not seconds:
                raise Problem(Code.EXPECT_DURATION, "in", what="in", got=got)
            if seconds * 1_000 > FURTHEST_MS:
                raise Problem(Code.TRIGGER_TOO_FAR, "in", what="in", got=got)
            return now_ms + seconds * 1_000
        if self.at_ms is None:
            return now_ms
        if self.at_ms - now_ms > FURTHEST_MS:
            raise Problem(Code.TRIGGER_TOO_FAR, "at", what="at", got=iso(self.at_ms))
        if self.at_ms > now_ms:
            return self.at_ms
        if not self.late:
            raise Problem(past, "at", got=iso(self.at_ms))
        return now_ms


NOW = When()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A triggered run.

    Attributes:
        param: the run's parameter; None = the job's own.
        addresses: the executors to choose from; empty = any of the app's.
        when: when it is due.
        run_date: the date that it is about; None = by the job's rule, from when it is due.
        kind: who asks for it, a person or a program.

    """

    param: str | None = None
    addresses: Sequence[str] = ()
    when: When = NOW
    run_date: date | None = None
    kind: Kind = Kind.MANUAL


#: The job with its own settings, now.
AS_IT_IS = Trigger()


class Triggered(NamedTuple):
    """What a trigger has planned.

    Attributes:
        run_id: the first run; the ids of the others follow it.
        is_new: whether this call planned it, not an earlier one with the same key.
        unchecked: why a param other than the job's own could not be checked; else None.

    """

    run_id: int
    is_new: bool
    unchecked: Reason | None


def schemas_for(session: Session, job: JobToTrigger, now_ms: int) -> HandlerSchemas | None:
    """Return what executors say about the params of a job's handler; None if it has none."""
    if not job.handler or job.script_version is not None:
        return None
    return TypedParams.read(session, [job.app], now_ms).of(job.app, job.handler)


def check(
    triggers: Sequence[Trigger], schemas: HandlerSchemas | None, now_ms: int, *, place: str = ""
) -> list[int]:
    """Return when each is due; `schemas` are those of the job's handler, None if it has none.

    Raises:
        Refused: something is wrong with some of them; `place`, if given, is the field of the list.

    """
    due: list[int] = []
    problems: list[Problem] = []
    for number, trigger in enumerate(triggers):
        wrong: list[Problem] = []
        try:
            due.append(trigger.when.due_ms(now_ms))
        except Problem as problem:
            wrong.append(problem)
        if trigger.param is not None:
            wrong += _param_problems(trigger.param, schemas)
        problems += [each.at(f"{place}/{number}/{each.field}") if place else each for each in wrong]
    if problems:
        raise refusal(problems)
    return due


def _param_problems(param: str, schemas: HandlerSchemas | None) -> list[Problem]:
    try:
        check_param(param)
    except Problem as problem:
        return [problem]
    return schemas.problems(param) if schemas else []


def runs_of(
    job: JobToTrigger,
    triggers: Sequence[Trigger],
    due: Sequence[int],
    *,
    first_id: int,
    traceparent: str | None,
    zone: str,
    calendars: Calendars,
) -> list[NewRun]:
    """Return the runs of a job, with ids from `first_id` on; `zone` is the job's."""
    return [
        replace(
            usual,
            param=usual.param if trigger.param is None else trigger.param,
            origin_id=None,
            wanted_addresses=",".join(trigger.addresses) or None,
            run_id=first_id + number,
            traceparent=traceparent,
        )
        for number, (trigger, due_ms) in enumerate(zip(triggers, due, strict=True))
        for usual in [
            run_of(
                job if trigger.param is None else job._replace(param_template=None),
                kind=trigger.kind,
                scheduled_at=due_ms,
                due_at=due_ms,
                zone=zone,
                app=job.app,
                run_date=trigger.run_date,
                calendars=calendars,
            )
        ]
    ]


def check_addresses(
    session: Session, job: JobToTrigger, asked: Sequence[Trigger], place: str
) -> None:
    """Raise Problem, with its place in the list, for the first address that is not the app's."""
    known: set[str] = set()
    for number, trigger in enumerate(asked):
        for address in trigger.addresses:
            if address in known:
                continue
            if not _is_known(session, job, address):
                field = f"{place}/{number}/addresses" if place else "addresses"
                raise Problem(Code.WANTED_ADDRESS, field, app=job.app, got=address)
            known.add(address)


def check_waiting(
    session: Session, job: JobToTrigger, asked: Sequence[Trigger], now_ms: int
) -> None:
    """Raise Problem if more runs of a job, which is locked, would wait than may.

    Those that are due later do not count.
    """
    due_now = sum(trigger.when == NOW for trigger in asked)
    if not job.max_waiting or not due_now:
        return
    concurrency = {job.id: job.concurrency}
    of_job = due_runs.waiting_of_jobs(
        session, job.app_id, concurrency, until_ms=now_ms + CLOCKS_DIFFER_MS
    )
    if (count := of_job[job.id].count) + due_now > job.max_waiting:
        raise Problem(Code.TOO_MANY_WAITING, job=f"{job.app}/{job.name}", n=count)


def check_own_params(
    asked: Sequence[Trigger], runs: Sequence[NewRun], schemas: HandlerSchemas | None, place: str
) -> None:
    """Check the params that are the job's own, as `check` does those that the triggers give.

    Raises:
        Problem: the template of the job's param has no value for one of the runs.
        Refused: no executor accepts some of them.

    """
    for run in runs:
        check_made(run)
    problems = [
        problem.at(f"{place}/{number}/{problem.field}") if place else problem
        for number, (trigger, run) in enumerate(zip(asked, runs, strict=True))
        if trigger.param is None and schemas
        for problem in schemas.problems_of_own(run.param)
    ]
    if problems:
        raise Refused(problems)


def unchecked(
    job: JobToTrigger, asked: Sequence[Trigger], schemas: HandlerSchemas | None
) -> Reason | None:
    """Return why a param other than the job's own could not be checked; None if all were."""
    has_others = any(trigger.param not in (None, job.param or "") for trigger in asked)
    return schemas.unchecked if schemas and has_others else None


def _is_known(session: Session, job: JobToTrigger, address: str) -> bool:
    if presence.holder(session, presence.EXECUTOR, job.app, address) is not None:
        return True
    return address in apps.split(session.get_one(App, job.app_id).address_list)
