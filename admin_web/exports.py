"""Exports lists as CSV and JSON: what the page shows with the same filter, up to a limit.

A file is written while the list is read page by page, so that long lists take no memory.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from flask import Response, request
from sqlalchemy.orm import Session

from warren.admin_web.downloads import FORMAT, FORMATS
from warren.admin_web.services import ConsoleServices
from warren.resources.accounts import User
from warren.resources.instant import to_builtins
from warren.scheduler.jobs.records import job_spec
from warren.scheduler.jobs.spec import FIELDS
from warren.scheduler.schedules.reading import calendars_for
from warren.scheduler.views.account_view import user_view
from warren.scheduler.views.job_view import job_overview
from warren.sql.accounts import identities, users
from warren.sql.accounts.users import UserFilter
from warren.sql.instants import iso
from warren.sql.listings import app_listing, job_search, run_search
from warren.sql.listings.job_search import JobFilter
from warren.sql.listings.run_search import RunSearch
from warren.sql.registry import apps

#: Rows of a file at most, rows read before the first is sent, and rows read at a time after that.
MAX_ROWS, FIRST_CHUNK, CHUNK = 10_000, 100, 500
#: Spreadsheets treat a text that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]


def is_asked() -> bool:
    """Return whether the request asks for a list as a file."""
    return request.args.get(FORMAT) in FORMATS


def answer(name: str, columns: Sequence[str], rows: Iterable[Row]) -> Response:
    """Return a list as a file in the requested format; `rows` are read while it is sent.

    The view has returned by then, so reading them must not depend on the request.
    """
    lines = ({column: _plain(column, row[column]) for column in columns} for row in rows)
    first_lines = islice(lines, MAX_ROWS)
    is_csv = request.args.get(FORMAT) == "csv"
    text = _csv(columns, first_lines) if is_csv else _json(first_lines)
    kind, mimetype = ("csv", "text/csv") if is_csv else ("json", "application/json")
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
    return Response(text, mimetype=mimetype, headers=headers)


def pages(read: Callable[[Any, int], tuple[Sequence[Row], Any]]) -> Iterator[Row]:
    """Yield all rows.

    `read` gets the position of a page, None for the first, and its length; it returns the page and
    the position of the next, None at the end.
    """
    place, limit = None, FIRST_CHUNK
    while True:
        rows, place = read(place, limit)
        yield from rows
        if place is None:
            return
        limit = CHUNK


def _plain(name: str, value: Any) -> Any:
    """Return a value as in JSON: of a field `at` or `…_at`, epoch milliseconds become ISO 8601."""
    if isinstance(value, str):
        return value
    if name == "at" or name.endswith("_at"):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def _csv(columns: Sequence[str], lines: Iterable[Row]) -> Iterator[str]:
    # Without a byte order mark, spreadsheets assume a legacy encoding.
    yield "\ufeff" + _line(columns)
    for line in lines:
        yield _line([_cell(line[column]) for column in columns])


def _line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _json(lines: Iterable[Row]) -> Iterator[str]:
    start = "[\n"
    for line in lines:
        yield start + json.dumps(line, ensure_ascii=False)
        start = ",\n"
    yield "[]\n" if start == "[\n" else "\n]\n"


#: The first columns of a job; then come its other fields.
_FIRST_OF_JOB = (
    *("id", "app", "name", "author", "tags", "enabled", "schedule", "timezone", "handler"),
    *("script_language", "param", "route", "block", "misfire", "late_limit"),
    *("catch_up_within", "catch_up_most", "delivery"),
    *(
        "concurrency",
        "timeout",
        "retries",
        "retry_delay",
        "retry_backoff",
        "retry_most",
        "retry_jitter",
        "run_date_days",
        "run_date_months",
        "next_fire_at",
        "stop_reason",
        "last_status",
    ),
    "last_due_at",
)
#: Fields without a column: `schedule` says three, and the source of a script may be long.
_UNLISTED = frozenset({"schedule_kind", "schedule_value", "schedule_options", "script_source"})
_OPEN = (name for name, field in FIELDS.items() if not field.kind.is_secret)
_JOB = tuple(
    dict.fromkeys(
        (*_FIRST_OF_JOB, *(name for name in _OPEN if name not in _UNLISTED), "declared_in")
    )
)
_RUN = (
    *("id", "job_id", "app", "job", "kind", "status", "due_at"),
    *("run_date", "started_at", "finished_at"),
    *("lasted_ms", "address", "shard_index", "shard_total", "attempt", "starts", "message"),
)
_APP = (
    *("id", "name", "title", "jobs", "addresses", "route", "alarm_emails", "alarm_style"),
    "webhook_when",
)
_USER = ("id", *User.__struct_fields__, "last_seen_at")
#: The most rounds of a search that matches few runs; each scans a limited number of them.
_ROUNDS = 40


class ListFiles:
    """Exports the lists of jobs, runs, apps and users."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    def jobs(self, wanted: JobFilter) -> Response:
        """Export jobs in the order of their page, without fields that are secret."""
        now_ms, zone = self._services.now_ms(), self._services.timezone

        def read(
            session: Session, place: str | None, limit: int
        ) -> tuple[Sequence[Row], str | None]:
            asked = replace(wanted, after=place, limit=limit)
            page = job_search.search(session, asked, now_ms=now_ms)
            known = calendars_for(session, page)
            children = job_search.children(session, [job.id for job in page], wanted)
            rows = [
                job_overview(
                    job,
                    job_spec(job.stored, job.app, children.get(job.id, ()), with_source=False),
                    now_ms=now_ms,
                    timezone=zone,
                    children=children.get(job.id, ()),
                    calendars=known,
                ).flat()
                for job in page
            ]
            last = job_search.place(page[-1], wanted.order) if len(page) == limit else None
            return rows, last

        return answer("jobs", _JOB, self._pages(read))

    def runs(self, wanted: RunSearch) -> Response:
        """Export runs, newest first."""

        def read(session: Session, place: Any, limit: int) -> tuple[Sequence[Row], Any]:
            rounds, before = place or (0, None)
            page = run_search.page(session, replace(wanted, before=before, limit=limit))
            rows = [run._asdict() | {"lasted_ms": run.lasted_ms} for run in page.runs]
            is_over = page.older is None or rounds >= _ROUNDS
            return rows, None if is_over else (rounds + 1, page.older)

        return answer("runs", _RUN, self._pages(read))

    def apps(self, app_ids: frozenset[int] | None) -> Response:
        def read(
            session: Session, place: str | None, limit: int
        ) -> tuple[Sequence[Row], str | None]:
            page = app_listing.listing(session, app_ids, after=place or "", limit=limit)
            rows = [
                {
                    "id": app.id,
                    "name": app.name,
                    "title": app.title,
                    "jobs": jobs,
                    "addresses": apps.split(app.address_list),
                    "route": app.route or "",
                    "alarm_emails": apps.split(app.alarm_email),
                    "alarm_style": app.alarm_style or "",
                    "webhook_when": app.webhook_when or "",
                }
                for app, jobs in page
            ]
            return rows, page[-1][0].name if len(page) == limit else None

        return answer("apps", _APP, self._pages(read))

    def users(self, wanted: UserFilter) -> Response:
        names = {
            app_id: name for name, app_id in self._services.database.read(apps.ids_by_name).items()
        }

        def read(
            session: Session, place: str | None, limit: int
        ) -> tuple[Sequence[Row], str | None]:
            asked = replace(wanted, after=place or "", limit=limit)
            page = users.filtered(session, asked)
            linked = identities.subjects(session, (user.id for user, _ in page))
            rows = [
                {
                    "id": user.id,
                    **to_builtins(user_view(user, names, linked)),
                    "last_seen_at": seen_at,
                }
                for user, seen_at in page
            ]
            return rows, page[-1].user.name if len(page) == limit else None

        return answer("users", _USER, self._pages(read))

    def _pages(self, read: Any) -> Iterator[Row]:
        database = self._services.database
        return pages(
            lambda place, limit: database.read(lambda session: read(session, place, limit))
        )


def views(name: str, kind: type[NamedTuple], rows: Sequence[NamedTuple]) -> Response:
    """Export a list of views; its columns have the names of their fields."""
    return answer(name, kind._fields, (run._asdict() for run in rows))


def resources(name: str, kind: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> Response:
    """Export a list of resources, as the API answers them."""
    return answer(name, kind.__struct_fields__, map(to_builtins, rows))
