"""Backfills: runs of a job for a range of dates."""

from collections.abc import Sequence
from typing import Any

import msgspec

from warren.admin_web.api.bodies import FieldErrors, refuse_values
from warren.admin_web.api.endpoint import BASE, Call, Reply, serves
from warren.admin_web.api.endpoints.jobs import job_id_of
from warren.admin_web.api.paging import body_day, page, place_of
from warren.admin_web.api.problem_answers import at_parameter, error_detail
from warren.admin_web.api.run_answers import idempotent
from warren.admin_web.services import ApiServices
from warren.resources import backfills as operations
from warren.resources.backfills import (
    Backfill,
    BackfillBody,
    BackfillDueTime,
    BackfillPreview,
    CancelledBackfill,
    MadeBackfill,
    ShownBackfill,
)
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.views.backfill_view import backfill_view, filled_ticks
from warren.sql.models.job_tables import Selection
from warren.sql.runs import backfills
from warren.sql.runs.backfills import BackfillFilter, ListedBackfill


class BackfillEndpoints:
    """The backfills of jobs that a token may see."""

    name = "backfills"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.make_backfill)
    def make(self, call: Call, app: str, name: str) -> Reply:
        body = call.body
        once = idempotent(sorted(msgspec.to_builtins(body).items()), call)
        job_id = job_id_of(self._services, call, app, name)
        made = self._services.commands(call.actor).backfills.make(
            job_id, _request(body), skips=body.skips, once=once
        )
        headers = {"Location": f"{BASE}/backfills/{made.id}"}
        if not made.is_new:
            headers["Idempotent-Replayed"] = "true"
        now = self._view(self._read(call, made.id), notices=[*map(str, made.notices)])
        value = MadeBackfill(**msgspec.structs.asdict(now), is_new=made.is_new)
        return Reply(value=value, headers=headers)

    @serves(operations.preview_backfill)
    def preview(self, call: Call, app: str, name: str) -> BackfillPreview:
        job_id = job_id_of(self._services, call, app, name)
        commands = self._services.commands(call.actor).backfills
        preview = commands.preview(job_id, _request(call.body), skips=call.body.skips)
        return BackfillPreview(due_times=[*preview.ticks], notices=[*map(str, preview.notices)])

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
    def show(self, call: Call, backfill_id: int) -> ShownBackfill:
        shown, ticks = self._shown(call, backfill_id)
        return ShownBackfill(
            **msgspec.structs.asdict(shown), ticks=ticks if call.query.ticks else None
        )

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
        return self._shown(call, backfill_id)[0]

    @serves(operations.resume_backfill)
    def resume(self, call: Call, backfill_id: int) -> Backfill:
        self._services.commands(call.actor).backfills.resume(backfill_id)
        return self._shown(call, backfill_id)[0]

    @serves(operations.cancel_backfill)
    def cancel(self, call: Call, backfill_id: int) -> CancelledBackfill:
        kill = call.body.kill
        killed = self._services.commands(call.actor).backfills.cancel(backfill_id, kill=kill)
        now, _ = self._shown(call, backfill_id)
        return CancelledBackfill(**msgspec.structs.asdict(now), killed=killed)

    def _shown(self, call: Call, backfill_id: int) -> tuple[Backfill, list[BackfillDueTime]]:
        listed = self._read(call, backfill_id)
        ticks = self._services.database.read(lambda session: filled_ticks(session, listed.backfill))
        return backfill_view(listed, now_ms=self._services.now_ms(), ticks=ticks), ticks

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
    wrong = FieldErrors()
    from_date = body_day("/from", body.from_date, wrong)
    to_date = body_day("/to", body.to_date, wrong)
    request = BackfillRequest(
        from_date=from_date,
        to_date=to_date,
        dates=body.dates,
        at_once=body.at_once,
        newest_first=body.newest_first,
        selection=Selection(body.only),
        stop_on_failure=body.stop_on_failure,
        children=body.children,
        instead=body.instead,
        param=body.param,
        key=body.key,
    )
    if wrong:
        for problem in request.problems():
            wrong.append(error_detail(problem))
    refuse_values(wrong)
    return request
