"""Backfills: runs of a job for a range of dates."""

from dataclasses import asdict
from typing import Annotated, Any

import msgspec

from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint
from warren.admin_web.api.endpoints.jobs import job_id_of
from warren.admin_web.api.openapi import answer_type, to_answer
from warren.admin_web.api.paging import Cursor, Day, Limit, Word, body_day, page, place_of
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.api.run_answers import KEY_HEADER, idempotent
from warren.admin_web.services import ApiServices
from warren.resources.operation import DEFAULT_LIMIT, Scope, page_type
from warren.scheduler.backfills.draft import MAX_AT_ONCE, BackfillRequest
from warren.scheduler.views.backfill_view import (
    BackfillView,
    FilledTick,
    backfill_view,
    filled_ticks,
)
from warren.scheduler.views.to_json import plain
from warren.sql.backfill_status import Selection
from warren.sql.listings import backfills
from warren.sql.listings.backfills import BackfillFilter, ListedBackfill

#: Skips that one backfill may be made for.
MAX_SKIPS = 500

BackfillAnswer = answer_type("Backfill", BackfillView, more={"notices": list[str]})
BackfillPage = page_type(BackfillAnswer)
FilledTickAnswer = answer_type("BackfillDueTime", FilledTick)
FilledTickPage = page_type(FilledTickAnswer)


class BackfillBody(msgspec.Struct, kw_only=True):
    """A backfill to make: of the due times with run dates in a range, or of `skips`, by their ids.

    `dates`: one run for each date instead. `only`: due times for which nothing ran, that are failed
    now, or all. `key`: the same key of the same job makes no second backfill.
    """

    from_date: Day | None = msgspec.field(default=None, name="from")
    to_date: Day | None = msgspec.field(default=None, name="to")
    skips: Annotated[list[int], msgspec.Meta(max_length=MAX_SKIPS)] = []
    dates: bool = False
    at_once: Annotated[int, msgspec.Meta(ge=1, le=MAX_AT_ONCE)] = 1
    newest_first: bool = False
    only: Selection = Selection.MISSING
    stop_on_failure: bool = False
    children: bool = True
    instead: bool = False
    param: str | None = None
    key: str | None = None


class PreviewedTickAnswer(msgspec.Struct, kw_only=True):
    """A due time of a backfill that is not made: what became of it, and if it would run."""

    scheduled_at: str
    run_date: str
    state: str
    runs: bool


class PreviewAnswer(msgspec.Struct, kw_only=True):
    """What a backfill would do now."""

    due_times: list[PreviewedTickAnswer]
    notices: list[str]


class BackfillsQuery(msgspec.Struct, kw_only=True):
    """Which backfills to list; `job` is APP/NAME, and `going` those that are open or paused."""

    job: Word | None = None
    going: bool = False
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


class DueTimesQuery(msgspec.Struct, kw_only=True):
    """A page of the due times of a backfill."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = None


class CancelBody(msgspec.Struct, kw_only=True):
    """Whether the open runs are ended, too."""

    kill: bool = False


class BackfillEndpoints:
    """The backfills of jobs that a token may see."""

    name = "backfills"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint(
        "POST",
        "/jobs/<app>/<name>/backfills",
        Scope.TRIGGER,
        BackfillAnswer,
        status=201,
        body=BackfillBody,
        headers=KEY_HEADER,
    )
    def make(self, call: Call, app: str, name: str) -> Reply:
        """Run a job for a range of dates, a limited number at once."""
        body = call.body
        once = idempotent(sorted(msgspec.to_builtins(body).items()), call)
        job_id = job_id_of(self._services, call, app, name)
        made = self._services.commands(call.actor).backfills.make(
            job_id, _request(body), skips=body.skips, once=once
        )
        headers = {"Location": f"{BASE}/backfills/{made.id}"}
        if not made.is_new:
            headers["Idempotent-Replayed"] = "true"
        value = self._answer(self._read(call, made.id), notices=[*map(str, made.notices)])
        return Reply(value=value, headers=headers)

    @endpoint(
        "POST",
        "/jobs/<app>/<name>/backfills:preview",
        Scope.TRIGGER,
        PreviewAnswer,
        body=BackfillBody,
        is_heavy=True,
    )
    def preview(self, call: Call, app: str, name: str) -> PreviewAnswer:
        """Show what a backfill would do now, without making it."""
        job_id = job_id_of(self._services, call, app, name)
        commands = self._services.commands(call.actor).backfills
        preview = commands.preview(job_id, _request(call.body), skips=call.body.skips)
        ticks = [
            PreviewedTickAnswer(**{key: plain(key, value) for key, value in asdict(tick).items()})
            for tick in preview.ticks
        ]
        return PreviewAnswer(due_times=ticks, notices=[*map(str, preview.notices)])

    @endpoint("GET", "/backfills", Scope.READ, BackfillPage, query=BackfillsQuery)
    def index(self, call: Call) -> Any:
        """List backfills, newest first. They count how runs ended at first, before re-runs."""
        query, actor = call.query, call.actor
        wanted = BackfillFilter(
            app_ids=actor.app_ids,
            job_ids=actor.job_ids,
            job_id=self._job_id(call, query.job),
            is_going=query.going,
            before_id=place_of(query, int),
            limit=query.limit + 1,
        )
        rows = self._services.database.read(lambda session: backfills.listing(session, wanted))
        return page(BackfillPage, query, rows, self._answer, lambda row: row.backfill.id)

    @endpoint("GET", "/backfills/<id:backfill_id>", Scope.READ, BackfillAnswer)
    def show(self, call: Call, backfill_id: int) -> Any:
        """Show a backfill."""
        listed = self._read(call, backfill_id)
        ticks = self._services.database.read(lambda session: filled_ticks(session, listed.backfill))
        view = backfill_view(listed, now_ms=self._services.now_ms(), ticks=ticks)
        return to_answer(BackfillAnswer, view, notices=[])

    @endpoint(
        "GET",
        "/backfills/<id:backfill_id>/due_times",
        Scope.READ,
        FilledTickPage,
        query=DueTimesQuery,
    )
    def due_times(self, call: Call, backfill_id: int) -> Any:
        """List the due times of a backfill in its order, and what became of each."""
        query, listed = call.query, self._read(call, backfill_id)
        after = place_of(query, int) or 0
        ticks = self._services.database.read(
            lambda session: filled_ticks(
                session, listed.backfill, after=after, limit=query.limit + 1
            )
        )
        return page(
            FilledTickPage,
            query,
            ticks,
            lambda tick: to_answer(FilledTickAnswer, tick),
            lambda tick: tick.number,
        )

    @endpoint("POST", "/backfills/<id:backfill_id>/pause", Scope.OPERATE, BackfillAnswer)
    def pause(self, call: Call, backfill_id: int) -> Any:
        """Plan no more runs of a backfill until it is resumed; open ones continue."""
        self._services.commands(call.actor).backfills.pause(backfill_id)
        return self.show(call, backfill_id)

    @endpoint("POST", "/backfills/<id:backfill_id>/resume", Scope.OPERATE, BackfillAnswer)
    def resume(self, call: Call, backfill_id: int) -> Any:
        """Let a paused backfill go on, also one that a failure has stopped."""
        self._services.commands(call.actor).backfills.resume(backfill_id)
        return self.show(call, backfill_id)

    @endpoint(
        "POST",
        "/backfills/<id:backfill_id>/cancel",
        Scope.OPERATE,
        BackfillAnswer,
        body=CancelBody,
    )
    def cancel(self, call: Call, backfill_id: int) -> Any:
        """Plan no more runs of a backfill; open ones continue unless they are killed."""
        self._services.commands(call.actor).backfills.cancel(backfill_id, kill=call.body.kill)
        return self.show(call, backfill_id)

    def _read(self, call: Call, backfill_id: int) -> ListedBackfill:
        actor = call.actor
        return self._services.database.read(
            lambda session: backfills.show(
                session, backfill_id, app_ids=actor.app_ids, job_ids=actor.job_ids
            )
        )

    def _answer(self, listed: ListedBackfill, notices: list[str] | None = None) -> Any:
        view = backfill_view(listed, now_ms=self._services.now_ms())
        return to_answer(BackfillAnswer, view, notices=notices or [])

    def _job_id(self, call: Call, job: str | None) -> int | None:
        if job is None:
            return None
        app, slash, name = job.partition("/")
        if not slash:
            raise at_parameter("job", "expected APP/NAME")
        return job_id_of(self._services, call, app, name)


def _request(body: BackfillBody) -> BackfillRequest:
    return BackfillRequest(
        from_date=body_day("/from", body.from_date),
        to_date=body_day("/to", body.to_date),
        dates=body.dates,
        at_once=body.at_once,
        newest_first=body.newest_first,
        selection=body.only,
        stop_on_failure=body.stop_on_failure,
        children=body.children,
        instead=body.instead,
        param=body.param,
        key=body.key,
    )
