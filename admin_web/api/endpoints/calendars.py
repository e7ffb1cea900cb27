"""Calendars of working days."""

from typing import Any

import msgspec

from warren.admin_web.api.bodies import FieldErrors, refuse_values
from warren.admin_web.api.endpoint import Call, endpoint, serves
from warren.admin_web.api.paging import body_day, page, place_of
from warren.admin_web.api.problem_answers import Refusal, error_detail
from warren.admin_web.services import ApiServices
from warren.resources import calendars as operations
from warren.resources.calendars import CalendarYear
from warren.resources.job_files import Applied, ValuesGiven
from warren.resources.operation import Scope
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.calendar_commands import CalendarChange
from warren.scheduler.commands.job_file_preview import foresee_calendars, store_calendars
from warren.scheduler.views.calendar_view import calendar_views, read_year, year_of
from warren.scheduler.views.job_view import applied_view
from warren.sql.instants import iso, moment


class CalendarBody(msgspec.Struct, kw_only=True):
    """What a calendar says.

    `from` is like `holidays:CN`, or empty; `weekend` has weekdays such as SAT, null = as `from`
    says. `days` are `work`, `off` or `off NAME` by date; `until` is the last day that is known.
    """

    from_: str = msgspec.field(default="", name="from")
    weekend: list[str] | None = None
    days: dict[str, str] = {}
    until: str | None = None


class NamedCalendar(CalendarBody, kw_only=True):
    """A calendar of a job file."""

    name: str

    @classmethod
    def of(cls, spec: CalendarSpec) -> "NamedCalendar":
        """Return what a calendar says."""
        return cls(
            name=spec.name,
            from_=spec.source,
            weekend=None if spec.weekend is None else list(spec.weekend),
            days={str(day): said for day, said in sorted(spec.days.items())},
            until=None if spec.until is None else str(spec.until),
        )


class CalendarApplyQuery(msgspec.Struct, kw_only=True):
    """With `dry_run`, nothing is stored."""

    dry_run: bool = False


class MovedAnswer(msgspec.Struct, kw_only=True):
    """A job whose next due time changes; null = it has none."""

    job: str
    before_at: str | None
    after_at: str | None


class LostAnswer(msgspec.Struct, kw_only=True):
    """A due time that is moved into the past, and skipped."""

    job: str
    due_at: str


class CalendarApplied(msgspec.Struct, kw_only=True):
    """What a new version changes; `version` 0 = the calendar says this already."""

    name: str
    version: int
    until: str
    effective_at: str | None
    moved: list[MovedAnswer]
    lost: list[LostAnswer]


class CalendarEndpoints:
    """The calendars of the cluster."""

    name = "calendars"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.list_calendars)
    def index(self, call: Call) -> Any:
        after = place_of(call.query, str) or ""
        found = self._services.database.read(
            lambda session: calendar_views(session, call.actor.app_ids)
        )
        rest = [one for one in found if one.name > after][: call.query.limit + 1]
        kind = operations.list_calendars.endpoint.answer
        return page(kind, call.query, rest, lambda one: one, lambda one: one.name)

    @serves(operations.show_calendar)
    def show(self, call: Call, name: str) -> CalendarYear:
        year = call.query.year or moment(self._services.now_ms()).year
        return year_of(
            self._services.database.read(
                lambda session: read_year(
                    session, name, year, version=call.query.version, app_ids=call.actor.app_ids
                )
            )
        )

    @endpoint(
        "PUT",
        "/calendars/<name>",
        Scope.ADMIN,
        CalendarApplied,
        query=CalendarApplyQuery,
        body=CalendarBody,
    )
    def apply(self, call: Call, name: str) -> CalendarApplied:
        """Store a new version of a calendar, unless the newest says the same.

        It counts from ten seconds after it is stored.
        """
        commands = self._services.commands(call.actor).calendars
        wrong = FieldErrors()
        spec = calendar_spec_of(name, call.body, "", wrong)
        if wrong:
            wrong += map(error_detail, spec.problems())
        refuse_values(wrong)
        days = commands.resolved(spec)
        act = commands.foresee if call.query.dry_run else commands.apply
        return _applied(act(name, days))

    @serves(operations.apply_calendars)
    def apply_files(self, call: Call) -> Applied:
        file = self._services.job_files.read(call.body.files, ValuesGiven())
        if file.over:
            errors = [
                {"file": place, "detail": words}
                for place, _, words in (line.partition(": ") for line in file.over)
            ]
            raise Refusal(422, "; ".join(file.over), errors=errors)
        context, dry_run = self._services.context(call.actor), call.body.dry_run
        foreseen = foresee_calendars(context, file.parts.calendars)
        not_taken = [
            f"calendar {change.name}: {change.not_taken}"
            for change in foreseen.of
            if change.not_taken and not change.number  # of one that changes, its change says so
        ]
        changes = foreseen.changes if dry_run else store_calendars(context, foreseen)
        return applied_view(changes, dry_run=dry_run, over=not_taken)


def calendar_spec_of(
    name: str, body: CalendarBody, pointer: str, wrong: FieldErrors
) -> CalendarSpec:
    """Return the calendar that a body describes, at a JSON pointer.

    Dates that are none are added to `wrong`, and left out.
    """
    days = {body_day(f"{pointer}/days/{day}", day, wrong): said for day, said in body.days.items()}
    return CalendarSpec(
        name=name,
        source=body.from_,
        weekend=None if body.weekend is None else tuple(body.weekend),
        days={day: said for day, said in days.items() if day is not None},
        until=body_day(f"{pointer}/until", body.until, wrong),
    )


def _applied(change: CalendarChange) -> CalendarApplied:
    return CalendarApplied(
        name=change.name,
        version=change.number,
        until=change.until,
        effective_at=iso(change.effective_ms) if change.number else None,
        moved=[
            MovedAnswer(
                job=f"{moved.app}/{moved.job}",
                before_at=iso(moved.before_ms),
                after_at=iso(moved.after_ms),
            )
            for moved in change.moved
        ],
        lost=[
            LostAnswer(job=f"{lost.app}/{lost.job}", due_at=iso(lost.tick_ms) or "")
            for lost in change.lost
        ],
    )
