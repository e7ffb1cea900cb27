"""Backfills: runs of a job for a range of dates."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import msgspec

from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint, serves
from warren.admin_web.api.endpoints.jobs import job_id_of
from warren.admin_web.api.paging import Day, body_day, page, place_of
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.api.run_answers import KEY_HEADER, idempotent
from warren.admin_web.services import ApiServices
from warren.resources import backfills as operations
from warren.resources.backfills import Backfill, CancelledBackfill
from warren.resources.operation import Scope
from warren.scheduler.backfills.draft import MAX_AT_ONCE, BackfillRequest
from warren.scheduler.views.backfill_view import backfill_view, filled_ticks
from warren.scheduler.views.to_json import plain
from warren.sql.backfill_status import Selection
from warren.sql.listings import backfills
from warren.sql.listings.backfills import BackfillFilter, ListedBackfill

#: Skips that one backfill may be made for.
MAX_SKIPS = 500


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


class BackfillEndpoints:
    """The backfills of jobs that a token may see."""

    name = "backfills"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint(
        "POST",
        "/jobs/<app>/<name>/backfills",
        Scope.TRIGGER,
        Backfill,
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
        value = self._view(self._read(call, made.id), notices=[*map(str, made.notices)])
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

    @serves(operations.list_backfills)
    def index(self, call: Call) -> Any:
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
        kind = operations.list_backfills.endpoint.answer
        return page(kind, query, rows, self._view, lambda row: row.backfill.id)

    @serves(operations.show_backfill)
    def show(self, call: Call, backfill_id: int) -> Backfill:
        listed = self._read(call, backfill_id)
        ticks = self._services.database.read(lambda session: filled_ticks(session, listed.backfill))
        return backfill_view(listed, now_ms=self._services.now_ms(), ticks=ticks)

    @serves(operations.list_due_times)
    def due_times(self, call: Call, backfill_id: int) -> Any:
        query, listed = call.query, self._read(call, backfill_id)
        after = place_of(query, int) or 0
        ticks = self._services.database.read(
            lambda session: filled_ticks(
                session, listed.backfill, after=after, limit=query.limit + 1
            )
        )
        kind = operations.list_due_times.endpoint.answer
        return page(kind, query, ticks, lambda tick: tick, lambda tick: tick.number)

    @serves(operations.pause_backfill)
    def pause(self, call: Call, backfill_id: int) -> Backfill:
        self._services.commands(call.actor).backfills.pause(backfill_id)
        return self.show(call, backfill_id)

    @serves(operations.resume_backfill)
    def resume(self, call: Call, backfill_id: int) -> Backfill:
        self._services.commands(call.actor).backfills.resume(backfill_id)
        return self.show(call, backfill_id)

    @serves(operations.cancel_backfill)
    def cancel(self, call: Call, backfill_id: int) -> CancelledBackfill:
        kill = call.body.kill
        killed = self._services.commands(call.actor).backfills.cancel(backfill_id, kill=kill)
        now = self.show(call, backfill_id)
        return CancelledBackfill(**msgspec.structs.asdict(now), killed=killed)

    def _read(self, call: Call, backfill_id: int) -> ListedBackfill:
        actor = call.actor
        return self._services.database.read(
            lambda session: backfills.show(
                session, backfill_id, app_ids=actor.app_ids, job_ids=actor.job_ids
            )
        )

    def _view(self, listed: ListedBackfill, notices: Sequence[str] = ()) -> Backfill:
        return backfill_view(listed, now_ms=self._services.now_ms(), notices=notices)

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
