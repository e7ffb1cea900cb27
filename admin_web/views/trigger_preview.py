"""Previews: what a trigger would do now, and when a schedule that is being typed would fire.

Nothing is sent or stored. Other runs may start and end before the run is sent.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from flask_babel import gettext
from sqlalchemy.orm import Session

from warren.admin_web.language import job_labels
from warren.admin_web.language.catalogues import language
from warren.admin_web.language.labels import problem_text
from warren.broker.messages.values import Block
from warren.broker.reasons.codes import Reason
from warren.scheduler.cron.wall_clock import load_zone
from warren.scheduler.jobs.param import check_param
from warren.scheduler.jobs.typed_params import TypedParams
from warren.scheduler.problems import Code, Problem, Refused
from warren.scheduler.schedules.clock_changes import clock_notes
from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.reading import first_fires
from warren.scheduler.schedules.registry import has_schedule, hint
from warren.scheduler.schedules.working_days import NO_CALENDARS, Calendars
from warren.scheduler.views.process_view import ExecutorView, executor_views
from warren.sql.instants import moment
from warren.sql.listings import dashboard
from warren.sql.listings.job_search import ListedJob
from warren.sql.models import App
from warren.sql.registry import apps
from warren.sql.registry.presence import ProcessState
from warren.sql.runs import queries

#: The most times that are shown.
FIRES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A schedule in words and its first times, or what is wrong with it.

    `hint` says which part is easily misread, `clock_notes` what the next clock changes do,
    `cancelled` how many planned runs saving cancels.
    """

    words: str = ""
    hint: str = ""
    clock_notes: Sequence[Reason] = ()
    fires: tuple[int, ...] = ()
    zone: str = ""
    wrong: str = ""
    cancelled: int = 0

    @property
    def shifts(self) -> dict[int, str]:
        """The first time after each clock change of the job's zone, with its new UTC offset."""
        offsets = {at: moment(at, ZoneInfo(self.zone)).isoformat()[-6:] for at in self.fires}
        return {
            after: offsets[after]
            for before, after in pairwise(self.fires)
            if offsets[before] != offsets[after]
        }


def preview(
    facts: ScheduleFacts, *, now_ms: int, calendars: Calendars = NO_CALENDARS
) -> Preview | None:
    """Return the preview of a schedule; None if nothing is typed."""
    kind, value, zone = facts.kind, facts.value, facts.timezone
    if not value and has_schedule(kind):
        return None
    try:
        load_zone(zone)
        cut = replace(facts, value=value[:1_000])
        fires = first_fires(cut, now_ms=now_ms, count=FIRES, calendars=calendars)
        notes = clock_notes(cut, now_ms=now_ms, calendars=calendars)
    except Problem as problem:
        return Preview(wrong=problem_text(problem))
    if not fires and has_schedule(kind):
        return Preview(wrong=gettext("It will not run again."))
    words = job_labels.schedule_words(kind, value)
    return Preview(
        words=words,
        hint=hint(kind, value, language()),
        clock_notes=notes,
        fires=tuple(fires),
        zone=zone,
    )


class Effect(StrEnum):
    """What would happen to a run at an executor."""

    START = "START"
    QUEUE = "QUEUE"
    SKIP = "SKIP"
    REPLACE = "REPLACE"


_WHEN_BUSY: Mapping[str, Effect] = {
    Block.SERIAL_EXECUTION: Effect.QUEUE,
    Block.DISCARD_LATER: Effect.SKIP,
    Block.COVER_EARLY: Effect.REPLACE,
}


class Candidate(NamedTuple):
    """An executor that the run may go to, and how many open runs of the job it has."""

    address: str
    open_runs: int
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerPreview:
    """What would be sent, and where.

    Attributes:
        unchecked: why a parameter other than the job's own could not be checked; else None.
        json: a message about the parameter as JSON, if any.

    """

    param: str
    unchecked: Reason | None
    json: str
    is_json_wrong: bool
    candidates: Sequence[Candidate]


def read(
    session: Session, job: ListedJob, param: str, wanted: Collection[str], *, now_ms: int
) -> TriggerPreview:
    """Return what a trigger would do; `wanted` limits it to these executors.

    Raises:
        Problem: the parameter is too long, or an address is neither registered nor listed.
        Refused: no executor that is online accepts the parameter.

    """
    check_param(param)
    typed = TypedParams.read(session, [job.app], now_ms).of(job.app, job.handler or "")
    if job.handler and (problems := typed.problems(param)):
        raise Refused(problems)
    listed = apps.split(session.get_one(App, job.app_id).address_list)
    lists = {job.app: tuple(listed)} if listed else {}
    views = executor_views(dashboard.executors(session, [job.app_id]), lists, now_ms)
    known = {view.address for view in views}
    for address in wanted:
        if address not in known:
            raise Problem(Code.WANTED_ADDRESS, "addresses", app=job.app, got=address)
    open_runs = queries.in_flight_of_job(session, job.app_id, job.id)
    wrong = _json_fault(param)
    is_json_expected = _is_json(job.stored.param or "") or param.lstrip()[:1] in ("{", "[")
    return TriggerPreview(
        param=param,
        unchecked=typed.unchecked if job.handler and param != (job.stored.param or "") else None,
        json=(wrong or str(gettext("Valid JSON."))) if is_json_expected else "",
        is_json_wrong=bool(is_json_expected and wrong),
        candidates=[
            _candidate(view.address, open_runs.get(view.address, 0), job)
            for view in _routable(views, wanted)
        ],
    )


def _routable(views: Sequence[ExecutorView], wanted: Collection[str]) -> list[ExecutorView]:
    """Return the executors that the run may go to: those with problems only if all have some."""
    live = [
        view
        for view in views
        if view.state is ProcessState.ALIVE
        and (view.address in wanted if wanted else view.listed is not False)
    ]
    return [view for view in live if not view.ailments] or live


def _candidate(address: str, open_runs: int, job: ListedJob) -> Candidate:
    is_free = open_runs < max(1, job.stored.concurrency)
    return Candidate(address, open_runs, Effect.START if is_free else _WHEN_BUSY[job.stored.block])


def _is_json(param: str) -> bool:
    return param.lstrip()[:1] in ("{", "[") and not _json_fault(param)


def _json_fault(param: str) -> str:
    """Return why a parameter is not JSON; empty if it is."""
    try:
        json.loads(param, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        place = {"line": error.lineno, "column": error.colno}
        return str(gettext("Not valid JSON: line %(line)s, column %(column)s.", **place))
    except (ValueError, RecursionError):
        return str(gettext("Not valid JSON."))
    return ""


def _refuse(constant: str) -> Any:
    """Refuse NaN and infinities, which Python accepts although JSON has none."""
    raise ValueError(constant)
