"""Plans the runs that other runs call, and reports refused calls.

A call is a report of the executor that runs the caller. It may come twice, and what repeats the
caller, or its flow, makes it again: it is kept under the caller's due time and shard, and its
number among the calls of a run, so that one run is planned. A refused call is not kept, and says so
in the caller's trigger message and by an alarm; the caller goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages import Called, CallEnd, CallName
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import from_json, to_json
from warren.scheduler.alarms.events import MESSAGE_LENGTH, AlarmTargets, RefusedCall
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.completion.end import identity_of, tick_end
from warren.scheduler.jobs.new_run import calendars_for_runs, run_of
from warren.scheduler.jobs.param_schema import check_param
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Problem
from warren.sql.alarms import alarms
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.jobs import job_rows
from warren.sql.jobs.job_rows import JobToTrigger
from warren.sql.listings import ledger, recent
from warren.sql.run_status import FINE, Kind, RunStatus
from warren.sql.runs import calls, planned_runs, queries
from warren.sql.runs.calls import NumberedCall
from warren.sql.runs.run_rows import RunFacts
from warren.sql.runs.ticks import tick_of
from warren.sql.runs.transitions import SentTo

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCall:
    """A call, and the boot that reports it; the calling run must have been sent to that boot."""

    report: Called
    sent_to: SentTo


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The outcome of calls: the new runs, and callers that are unknown or another executor's.

    `others` are other runs that had these ids.
    """

    runs: list[planned_runs.NewRun]
    unknown: set[int]
    not_theirs: set[int]
    others: set[int]


class CallPlanner:
    """Plans called runs in the caller's transaction.

    Args:
        ids: gives the ids of the runs.
        now_ms: the database's clock.
        alarm_defaults: targets of alarms, for jobs without their own.

    """

    def __init__(
        self, ids: RunIds, now_ms: Callable[[], int], alarm_defaults: AlarmTargets
    ) -> None:
        self._ids = ids
        self._now_ms = now_ms
        self._alarm_defaults = alarm_defaults

    def plan(self, session: Session, reported: Sequence[ReportedCall]) -> Planned:
        """Plan the runs that were called for the first time."""
        callers = queries.facts(session, [call.report.run_id for call in reported])
        unknown = {call.report.run_id for call in reported} - callers.keys()
        theirs = [
            (call.report, caller)
            for call in reported
            if (caller := callers.get(call.report.run_id)) is not None
            and _sent_to(caller) == call.sent_to
        ]
        not_theirs = callers.keys() - {caller.id for _, caller in theirs}
        others = {
            caller.id
            for call, caller in theirs
            if call.identity and call.identity != identity_of(caller)
        }
        theirs = [(call, caller) for call, caller in theirs if caller.id not in others]
        known = job_rows.to_call(session, {(caller.app_id, call.job) for call, caller in theirs})
        params = TypedParams.read(session, {job.app for job in known.values()}, self._now_ms())
        wanted: list[tuple[Called, RunFacts, JobToTrigger]] = []
        for call, caller in theirs:
            job = known.get((caller.app_id, call.job))
            why = _refusal(call, job, params)
            if job is None or why is not None:
                self.refuse(session, call, caller, why or Why.NOT_IN_APP())
            else:
                wanted.append((call, caller, job))
        return Planned(
            runs=self._plan(session, wanted),
            unknown=unknown,
            not_theirs=set(not_theirs),
            others=others,
        )

    def refuse(self, session: Session, call: Called, caller: RunFacts, why: Words) -> None:
        """Note a refused call on the caller's page and by an alarm, once per attempt."""
        refusal = Why.CALL_REFUSED(number=call.number, job=call.job, why=why)
        before = calls.lock_trigger_text(session, caller.id)
        if before is None or str(refusal) in before.text:
            return
        words = _noted(before, refusal)
        calls.note_refusal(session, caller.id, text=str(words), why=to_json(words) or None)
        log.warning(
            "call_refused", run_id=caller.id, number=call.number, job=call.job, why=str(why)
        )
        owner = alarms.job_targets(session, [caller.job_id]).get(caller.job_id)
        if owner is None:
            return
        news = RefusedCall(
            app=owner.app,
            job=owner.name,
            run_id=caller.id,
            called=call.job,
            number=call.number,
            message=str(why)[:MESSAGE_LENGTH],
        )
        tick = f"{caller.job_id}:{caller.scheduled_at}:{caller.origin_id}"
        new_alarms = alarms_to(
            job_targets(owner, self._alarm_defaults),
            news,
            f"call:{tick}:{caller.shard_index}:{call.number}",
            now_ms=self._now_ms(),
            app_id=caller.app_id,
            job_id=caller.job_id,
            run_id=caller.id,
        )
        alarms.add(session, new_alarms)

    def _plan(
        self, session: Session, wanted: Sequence[tuple[Called, RunFacts, JobToTrigger]]
    ) -> list[planned_runs.NewRun]:
        if not wanted:
            return []
        run_ids = self._ids.take(session, len(wanted))
        numbered = [
            NumberedCall(
                job_id=caller.job_id,
                scheduled_at=caller.scheduled_at,
                origin_id=calls.first_origin(session, caller),
                shard_index=caller.shard_index,
                number=call.number,
                called_by=caller.id,
                run_id=run_id,
            )
            for (call, caller, _), run_id in zip(wanted, run_ids, strict=True)
        ]
        new = calls.keep(session, numbered)
        runs = [
            _run(session, call, caller, job, run_id=run_id, now_ms=self._now_ms())
            for (call, caller, job), run_id in zip(wanted, run_ids, strict=True)
            if run_id in new
        ]
        planned_runs.plan_asked(session, runs, self._ids)
        return runs


def _sent_to(caller: RunFacts) -> SentTo:
    return SentTo(caller.app_id, caller.address or "", caller.boot_id or "")


def _refusal(call: Called, job: JobToTrigger | None, params: TypedParams) -> Reason | None:
    if job is None:
        return Why.NOT_IN_APP()
    if job.is_stopped:
        return Why.CALLED_IS_STOPPED()
    problems = [] if call.param is None else _problems(call.param, job, params)
    return Why.CALL_MISFIT(why="; ".join(map(str, problems))) if problems else None


def _problems(param: str, job: JobToTrigger, params: TypedParams) -> list[Problem]:
    try:
        check_param(param)
    except Problem as problem:
        return [problem]
    is_script = job.script_version is not None
    return [] if is_script else params.problems(job.app, job.handler or "", param)


def _noted(before: Explanation, refusal: Reason) -> Words:
    """Return the trigger message with a note added; one that is not a reason stays as it is."""
    words = from_json(before.why) or before.text
    if isinstance(words, Reason) and words.code is Why.NOTED:
        notes = words.facts["notes"]
        assert isinstance(notes, tuple)
        return Why.NOTED(words=words.facts["words"], notes=(*notes, refusal))
    return Why.NOTED(words=words, notes=(refusal,)) if words else refusal


def _run(
    session: Session, call: Called, caller: RunFacts, job: JobToTrigger, *, run_id: int, now_ms: int
) -> planned_runs.NewRun:
    """Return the run of a called job; it has the caller's date, and belongs to its trace."""
    usual = run_of(
        job if call.param is None else job._replace(param_template=None),
        kind=Kind.API,
        scheduled_at=now_ms,
        due_at=now_ms,
        zone=job.timezone or cluster_zone(session, "UTC"),
        app=job.app,
        run_date=caller.run_date,
        calendars=calendars_for_runs(session, [job]),
    )
    return replace(
        usual,
        param=usual.param if call.param is None else call.param,
        origin_id=None,
        run_id=run_id,
        called_by=caller.id,
        traceparent=caller.traceparent,
    )


def end_of_call(session: Session, call: CallName, asking: SentTo) -> CallEnd | None:
    """Return how the called run ended, or why there is none.

    None: it is open, the call was not reported yet, or the caller was not sent to the asking boot.
    """
    caller = queries.facts(session, [call.run_id]).get(call.run_id)
    if caller is None or _sent_to(caller) != asking:
        return None
    if call.identity and call.identity != identity_of(caller):
        return None
    called_id = calls.run_called(session, caller, call.number)
    if called_id is None:
        return _refused(session, call)
    runs = ledger.of_run(session, called_id)
    if not runs:
        words = "it was deleted before its caller was told"
        return CallEnd(run_id=called_id, status=RunStatus.LOST, message=words)
    end = tick_end(tick_of(recent.run(session, called_id)), runs)
    if end is None:
        return None
    decided = recent.run(session, end.deciding_id)
    return CallEnd(
        run_id=decided.id,
        status=end.status,
        is_fine=end.status in FINE,
        message=decided.message.partition("\n")[0],
        result=decided.result or "",
    )


def _refused(session: Session, call: CallName) -> CallEnd | None:
    """Return that a call was refused, if its caller's trigger message says so."""
    told = from_json(calls.trigger_why(session, call.run_id))
    notes = told.facts["notes"] if told is not None and told.code is Why.NOTED else (told,)
    assert isinstance(notes, tuple)
    for note in notes:
        if isinstance(note, Reason) and note.code is Why.CALL_REFUSED:
            facts = note.facts
            if (facts["number"], facts["job"]) == (call.number, call.job):
                return CallEnd(status=RunStatus.REFUSED, message=str(facts["why"]))
    return None
