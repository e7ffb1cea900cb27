"""Applies and exports whole job files, for programs without access to the database."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec
from flask import request
from sqlalchemy.orm import Session

from warren.admin_web.api.bodies import FieldErrors, read_struct, refuse
from warren.admin_web.api.endpoint import Call, Reply, endpoint, serves
from warren.admin_web.api.endpoints.apps import app_spec_of, asked_app_ids
from warren.admin_web.api.endpoints.calendars import NamedCalendar, calendar_spec_of
from warren.admin_web.api.endpoints.jobs import job_named
from warren.admin_web.api.endpoints.limits import limit_spec_of, limit_value
from warren.admin_web.api.job_bodies import (
    BodyLocation,
    JobBody,
    add_rules,
    as_in_file,
    is_wrong,
    job_answer_body,
    spec_of,
)
from warren.admin_web.api.problem_answers import Refusal, at_pointer, error_detail
from warren.admin_web.services import ApiServices, ReadJobFile
from warren.resources import job_files as operations
from warren.resources.cluster import AppBody
from warren.resources.job_files import (
    JOB_FILE_BYTES,
    Applied,
    ApplyQuery,
    Checked,
    ExportedFile,
    JobFileText,
    ValuesGiven,
)
from warren.resources.limits import LimitBody
from warren.resources.operation import JSON, YAML, Scope, Word
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_files import FileParts, stored_parts
from warren.scheduler.jobs import rules
from warren.scheduler.jobs.places import IN_FILE, Origin, in_code
from warren.scheduler.jobs.records import job_spec
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.limits import LimitSpec
from warren.scheduler.problems import Refused, unknown_app
from warren.scheduler.views.job_view import applied_view
from warren.scheduler.views.job_warnings import file_warnings
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.instants import moment
from warren.sql.jobs import job_file_rows, job_links
from warren.sql.listings import job_search
from warren.sql.registry.apps import ids_by_name

T = TypeVar("T")


class JobFileBody(msgspec.Struct, kw_only=True):
    """A job file; or several `files`, of which later ones win field by field.

    `values` are those of `${NAME}` in the files; `given` are they as a command line was given them.
    `left_out`, of an export, is ignored.
    """

    apps: list[AppBody] = []
    calendars: list[NamedCalendar] = []
    limits: list[LimitBody] = []
    jobs: list[JobBody] = []
    left_out: list[str] = []
    files: list[JobFileText] = []
    values: dict[str, str] = {}
    given: ValuesGiven | None = None
    read_by_view: ClassVar[bool] = True


class ExportQuery(msgspec.Struct, kw_only=True):
    """What to export: all, or one app."""

    app: Word | None = None


class JobFileAnswer(msgspec.Struct, kw_only=True):
    """A job file; applied as it is, it changes nothing.

    `left_out` has a line for each job or calendar that a job file cannot express, with the reason.
    """

    apps: list[dict[str, Any]]
    calendars: list[NamedCalendar]
    limits: list[dict[str, Any]]
    jobs: list[dict[str, Any]]
    left_out: list[str]


class JobFileEndpoints:
    """Jobs as files, for jobs that are kept in a repository."""

    name = "job_files"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.apply_job_files, body=JobFileBody)
    def apply(self, call: Call) -> Applied:
        query, file = call.query, self._file(call)
        parts = file.parts
        hint = "; first: warren apps add NAME" if query.module else "; name it under 'apps'"
        database = self._services.database
        known = database.read(lambda session: ids_by_name(session, call.actor.app_ids))
        file.check_apps(known, hint)
        try:
            changes = self._services.commands(call.actor).job_files.apply(
                parts.apps,
                parts.specs,
                limits=parts.limits,
                dry_run=query.dry_run,
                prune=query.prune,
                origin=_origin(query),
                calendars=parts.calendars,
            )
        except Refused as refused:
            raise file.refused(refused) from refused
        now_ms = self._services.now_ms()
        changed = {each.name for each in changes if each.action is not ChangeAction.UNCHANGED}
        warnings = database.read(
            lambda session: file_warnings(session, parts.specs, changed, now_ms)
        )
        return applied_view(changes, warnings, dry_run=query.dry_run, over=file.over)

    @serves(operations.check_job_files)
    def check(self, call: Call) -> Checked:
        return self._services.job_files.check(call.body, self._services.timezone)

    @endpoint(
        "GET",
        "/export",
        Scope.WRITE,
        JobFileAnswer,
        query=ExportQuery,
        answer_media=(JSON, YAML),
        is_heavy=True,
    )
    def export(self, call: Call) -> Reply:
        """Export jobs as a job file, as YAML if that is accepted.

        Apps, with their webhooks, and the limits and calendars that the jobs name are included if
        the token may change them.
        """
        stored, specs, left_out = self._exported(call, call.query.app)
        if request.accept_mimetypes.best_match([JSON, YAML, "text/yaml"]) not in (JSON, None):
            remarks = [f"# {line}" for line in left_out]
            file = self._services.job_files.write(
                stored.apps, specs, stored.limits, stored.calendars
            )
            lines = "".join(f"{line}\n" for line in [*remarks, *file])
            return Reply(value=lines.encode(), media=YAML)
        return Reply(
            value=JobFileAnswer(
                apps=[_app(app) for app in stored.apps],
                calendars=[NamedCalendar.of(calendar) for calendar in stored.calendars],
                limits=[limit_value(limit) for limit in stored.limits],
                jobs=[job_answer_body(spec) for spec in specs],
                left_out=left_out,
            )
        )

    @serves(operations.export_job_file)
    def export_text(self, call: Call) -> ExportedFile:
        stored, specs, left_out = self._exported(call, call.body.app, call.body.jobs)
        file = self._services.job_files.write(stored.apps, specs, stored.limits, stored.calendars)
        return ExportedFile(text="".join(f"{line}\n" for line in file), left_out=left_out)

    def _exported(
        self, call: Call, app: str | None, jobs: Sequence[str] = ()
    ) -> tuple[FileParts, Sequence[JobSpec], list[str]]:
        """Return what to export, the jobs that a job file can express, and what is left out."""
        app_ids = asked_app_ids(self._services, call, app)
        job_ids: Collection[int] | None = call.actor.job_ids
        named = [job_named(self._services, call, job) for job in jobs]
        if foreign := [name for _, name in named if app not in (None, name.app)]:
            raise NotFound(LookupFailure.NO_JOB_NAMED, name=str(foreign[0]))
        if named:
            job_ids = {job_id for job_id, _ in named}
        stored, past = self._services.database.read(
            lambda session: self._read(session, call, app_ids, job_ids, are_named=bool(jobs))
        )
        specs, left_out = rules.sound_specs(
            stored.specs, now_ms=self._services.now_ms(), added_routes=self._services.added_routes
        )
        return stored, specs, left_out + past

    def _read(
        self,
        session: Session,
        call: Call,
        app_ids: Collection[int] | None,
        job_ids: Collection[int] | None,
        *,
        are_named: bool,
    ) -> tuple[FileParts, list[str]]:
        rows = job_file_rows.visible_jobs(session, app_ids, job_ids)
        children = job_links.children(session, [job.id for job, _ in rows])
        every = {child for ids in children.values() for child in ids}
        names = job_search.names(session, every, call.actor.app_ids)
        specs = [
            job_spec(
                job, app, [names[child] for child in children.get(job.id, ()) if child in names]
            )
            for job, app in rows
        ]
        # Apps contain secrets, and applying the others without the scope would be refused.
        if not call.may(Scope.ADMIN):
            return FileParts(specs=specs), []
        if are_named:
            app_ids = {job.app_id for job, _ in rows}
        apps, today = job_file_rows.apps(session, app_ids), moment(self._services.now_ms()).date()
        return stored_parts(session, apps, specs, today)

    def _file(self, call: Call) -> ReadJobFile:
        if request.mimetype == YAML:
            if len(call.raw) > JOB_FILE_BYTES:
                raise Refusal(413, f"expected a body of up to {JOB_FILE_BYTES} bytes")
            return self._services.job_files.read(call.raw, {})
        wrong = FieldErrors()
        value = call.body
        if isinstance(value, dict) and isinstance(value.get("jobs"), list):
            value = value | {"jobs": [*map(as_in_file, value["jobs"])]}
        body = read_struct(JobFileBody, value, "", wrong)
        if body is None or body.files or body.values:
            refuse(wrong)
        assert body is not None
        if not (body.files or body.values):
            parts = self._json(body, wrong)
            return ReadJobFile(
                parts=parts,
                check_apps=lambda known, _hint: _check_apps(parts, known),
                refused=lambda refused: refused,
            )
        if body.apps or body.calendars or body.limits or body.jobs:
            raise at_pointer(
                "/files", "expected either files or apps, calendars, limits and jobs, got: both"
            )
        values = body.values if body.given is None else body.given
        return self._services.job_files.read(body.files, values)

    def _json(self, body: JobFileBody, wrong: FieldErrors) -> FileParts:
        """Return what a job file in JSON says; `wrong` is what is wrong with its types.

        Raises:
            Refusal: with that, and with the rules that the rest breaks.

        """
        now_ms, added_routes = self._services.now_ms(), self._services.added_routes
        specs: dict[int, JobSpec] = {}
        for number, job in _read(body.jobs):
            location = BodyLocation(pointer=f"/jobs/{number}")
            specs[number] = spec = spec_of(job, location, wrong)
            problems = rules.problems(spec, now_ms=now_ms, added_routes=added_routes)
            add_rules(problems, location, wrong)
        apps: dict[int, AppSpec] = {}
        for number, said in _read(body.apps):
            location = BodyLocation(pointer=f"/apps/{number}")
            for group in ("alarm", "webhook"):
                if is_wrong(f"{location.pointer}/{group}", wrong):
                    setattr(said, group, None)
            apps[number] = app = app_spec_of(said.name or "", said)
            problems = rules.app_problems(app, added_routes=added_routes)
            add_rules(problems, location, wrong)
        limits = {
            number: limit_spec_of(limit, f"/limits/{number}", wrong)
            for number, limit in _read(body.limits)
        }
        calendars = {
            number: calendar_spec_of(calendar.name, calendar, f"/calendars/{number}", wrong)
            for number, calendar in _read(body.calendars)
        }
        for number, calendar in calendars.items():
            location = BodyLocation(pointer=f"/calendars/{number}")
            add_rules(calendar.problems(), location, wrong)
        wrong += _duplicates(apps, specs, limits)
        refuse(wrong)
        return FileParts(
            [*apps.values()], [*calendars.values()], [*limits.values()], [*specs.values()]
        )


def _check_apps(parts: FileParts, known: Collection[str]) -> None:
    """Refuse jobs of apps that are neither visible to this token nor in the file."""
    names = {*known, *(app.name for app in parts.apps)}
    errors = [
        error_detail(unknown_app(spec.app, names), f"/jobs/{number}")
        for number, spec in enumerate(parts.specs)
        if spec.app not in names
    ]
    if errors:
        raise Refusal(422, "the job file is invalid", errors=errors)


def _origin(query: ApplyQuery) -> Origin:
    place = in_code(query.module) if query.module else IN_FILE
    return Origin(place=place, take_over=query.take_over, app=query.app or "")


def _read(items: Iterable[T | None]) -> Iterator[tuple[int, T]]:
    """Yield the items that could be read, with their numbers."""
    for number, item in enumerate(items):
        if item is not None:
            yield number, item


def _duplicates(
    apps: Mapping[int, AppSpec], specs: Mapping[int, JobSpec], limits: Mapping[int, LimitSpec]
) -> list[dict[str, str]]:
    seen: set[tuple[str, ...]] = set()
    wrong = []
    keyed = [
        *((("app", app.name), f"/apps/{number}") for number, app in apps.items()),
        *((("limit", limit.name), f"/limits/{number}") for number, limit in limits.items()),
        *((("job", job.app, job.name), f"/jobs/{number}") for number, job in specs.items()),
    ]
    for key, pointer in keyed:
        if key in seen and key[-1]:
            words = f"duplicate {key[0]} {'/'.join(key[1:])[:200]!r}"
            wrong.append({"pointer": pointer, "detail": words})
        seen.add(key)
    return wrong


def _app(app: AppSpec) -> dict[str, Any]:
    values: dict[str, Any] = {"name": app.name}
    if app.title is not None:
        values["title"] = app.title
    if app.addresses:
        values["addresses"] = list(app.addresses)
    if app.route:
        values["route"] = app.route
    if app.alarm:
        alarm = {"emails": list(app.alarm.emails), "webhook": app.alarm.webhook}
        values["alarm"] = alarm | {"style": app.alarm.style}
    if app.webhook:
        values["webhook"] = {"url": app.webhook.url, "when": app.webhook.when}
    return values
