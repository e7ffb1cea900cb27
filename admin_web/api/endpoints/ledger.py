"""Compares due times with runs."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import Call, endpoint
from warren.admin_web.api.endpoints.apps import asked_app_ids
from warren.admin_web.api.endpoints.job_lookup import job_id_of
from warren.admin_web.api.openapi import page_type
from warren.admin_web.api.paging import Cursor, Instant, Limit, Word, instant_ms, page, place_of
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.services import ApiServices
from warren.scheduler.audit.integrity_check import audit_job
from warren.scheduler.audit.tally import JobTally
from warren.scheduler.commands.tokens.scopes import Scope
from warren.sql.instants import DAY_MS, HOUR_MS, moment
from warren.sql.listings import ledger
from warren.sql.listings.ledger import LedgerFilter

#: Limits of one page or request, whose cost grows with jobs times days.
LEDGER_JOBS = 20
LEDGER_MS = 31 * DAY_MS
#: How much time one transaction covers, and how long one request may take.
STRETCH_MS = 6 * HOUR_MS
LEDGER_SECONDS = 10.0


class LedgerQuery(msgspec.Struct, kw_only=True):
    """Which due times: in (since, until], 31 days at most. Default: the last day.

    A page has 20 jobs at most, whatever its limit. `q` is a part of the jobs' names, in any case.
    """

    app: Word | None = None
    q: Word | None = None
    since: Instant | None = None
    until: Instant | None = None
    limit: Limit = LEDGER_JOBS
    cursor: Cursor = None


class StretchQuery(msgspec.Struct, kw_only=True):
    """Which due times: in (since, until], 31 days at most. Default: the last day."""

    since: Instant | None = None
    until: Instant | None = None


class LedgerAnswer(msgspec.Struct, kw_only=True):
    """What happened at a job's due times; `lost`, `doubled` and `late` list the first of them."""

    app: str
    job: str
    since: str
    until: str
    due: int
    fired: int
    skipped: int
    cancelled: int
    purged: int
    lost: list[str]
    lost_count: int
    doubled: list[str]
    doubled_count: int
    late: list[str]
    late_count: int
    is_sound: bool


LedgerPage = page_type(LedgerAnswer)


class LedgerEndpoints:
    """The comparison of due times and runs."""

    name = "records"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @endpoint("GET", "/ledger", Scope.READ, LedgerPage, query=LedgerQuery, is_heavy=True)
    def ledger(self, call: Call) -> Any:
        """Show for each job what happened at every due time."""
        query, bounds = call.query, self._bounds(call.query)
        query.limit = min(query.limit, LEDGER_JOBS)
        give_up_at = time.monotonic() + LEDGER_SECONDS
        wanted = LedgerFilter(
            app_ids=asked_app_ids(self._services, call, query.app),
            job_ids=call.actor.job_ids,
            name=query.q,
            after_id=place_of(query, int) or 0,
            limit=query.limit + 1,
        )
        rows = self._services.database.read(lambda session: ledger.jobs(session, wanted))
        return page(
            LedgerPage,
            query,
            rows,
            lambda job: self._tally(job.id, job.app, job.name, bounds, give_up_at),
            lambda job: job.id,
        )

    @endpoint(
        "GET", "/ledger/<app>/<job>", Scope.READ, LedgerAnswer, query=StretchQuery, is_heavy=True
    )
    def ledger_of_job(self, call: Call, app: str, job: str) -> LedgerAnswer:
        """Show what happened at every due time of one job."""
        job_id = job_id_of(self._services, call, app, job)
        give_up_at = time.monotonic() + LEDGER_SECONDS
        return self._tally(job_id, app, job, self._bounds(call.query), give_up_at)

    def _bounds(self, query: LedgerQuery | StretchQuery) -> tuple[int, int]:
        now_ms = self._services.now_ms()
        until = instant_ms("until", query.until)
        until = now_ms if until is None else min(until, now_ms)
        since = instant_ms("since", query.since)
        since = until - DAY_MS if since is None else since
        if not 0 <= until - since <= LEDGER_MS:
            raise at_parameter("since", "expected up to 31 days before until")
        return since, until

    def _stretch(self, job_id: int, bounds: tuple[int, int], session: Session) -> JobTally | None:
        return audit_job(session, job_id, bounds, self._services.timezone)

    def _tally(
        self, job_id: int, app: str, name: str, bounds: tuple[int, int], give_up_at: float
    ) -> LedgerAnswer:
        tally = JobTally(job_id=job_id, name=name)
        for stretch in _stretches(bounds):
            if time.monotonic() > give_up_at:
                raise at_parameter("since", "it takes too long; ask for fewer jobs or days")
            part = self._services.database.read(partial(self._stretch, job_id, stretch))
            if part is not None:
                tally.merge(part)
        return LedgerAnswer(
            app=app,
            job=name,
            since=_text_of(bounds[0]),
            until=_text_of(bounds[1]),
            due=tally.due,
            fired=tally.fired,
            skipped=tally.skipped,
            cancelled=tally.cancelled,
            purged=tally.purged,
            lost=[_text_of(fault.tick) for fault in tally.lost],
            lost_count=tally.lost_count,
            doubled=[_text_of(fault.tick) for fault in tally.doubled],
            doubled_count=tally.doubled_count,
            late=[_text_of(fault.tick) for fault in tally.late],
            late_count=tally.late_count,
            is_sound=tally.is_sound,
        )


def _stretches(bounds: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield (after, until] in parts that are short enough for one transaction each."""
    for start in range(bounds[0], bounds[1], STRETCH_MS):
        yield start, min(start + STRETCH_MS, bounds[1])


def _text_of(instant_ms: int) -> str:
    return moment(instant_ms).isoformat(timespec="milliseconds")
