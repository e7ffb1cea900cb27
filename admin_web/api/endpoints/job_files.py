"""Applies and exports whole job files, for programs without access to the database."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import msgspec
from flask import request
from sqlalchemy.orm import Session

from warren.admin_web.api.bodies import FieldErrors, refuse
from warren.admin_web.api.endpoint import Call, Reply, endpoint
from warren.admin_web.api.endpoints.apps import app_spec_of, asked_app_ids
from warren.admin_web.api.endpoints.calendars import NamedCalendar, calendar_spec_of
from warren.admin_web.api.endpoints.limits import limit_spec_of, limit_value
from warren.admin_web.api.job_bodies import BodyLocation, JobBody, job_answer_body, spec_of
from warren.admin_web.api.problem_answers import Refusal, at_pointer, error_detail
from warren.admin_web.services import ApiServices
from warren.resources.cluster import AppBody
from warren.resources.limits import LimitBody
from warren.resources.operation import JSON, YAML, Scope, Word
from warren.scheduler.alarms.targets import target_problems, webhook_problems
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_files.job_file import FileParts, stored_parts
from warren.scheduler.jobs import rules
from warren.scheduler.jobs.past_spec import job_spec
from warren.scheduler.jobs.places import IN_FILE, JOB_FILE_BYTES, Origin, in_code
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.limits.specs import LimitSpec
from warren.scheduler.problems import Code, Problem, found
from warren.scheduler.views.job_warnings import file_warnings
from warren.sql.instants import moment
from warren.sql.jobs import child_links, job_file_rows
from warren.sql.listings import job_search
from warren.sql.registry.apps import ids_by_name

#: What the body of a request is called in messages.
_UPLOAD = "job file"


class ApplyQuery(msgspec.Struct, kw_only=True):
    """How to apply: only show what would change; delete what the file does not have.

    `module`: the jobs are declared in its handlers' code; then `prune` deletes those that it
    declared before, in all apps, or only in those of the jobs and in `app`. `take_over`: jobs that
    are declared elsewhere are declared here from now on; otherwise they are refused.
    """

    dry_run: bool = False
    prune: bool = False
    take_over: bool = False
    module: Word | None = None
    app: Word | None = None


class JobFileText(msgspec.Struct, kw_only=True):
    """A job file in YAML, and its name in messages."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    text: str


class JobFileBody(msgspec.Struct, kw_only=True):
    """A job file; or several `files`, of which later ones win field by field.

    `values` are those of `${NAME}` in the files. `left_out`, of an export, is ignored.
    """

    apps: list[AppBody] = []
    calendars: list[NamedCalendar] = []
    limits: list[LimitBody] = []
    jobs: list[JobBody] = []
    left_out: list[str] = []
    files: list[JobFileText] = []
    values: dict[str, str] = {}


class ChangeAnswer(msgspec.Struct, kw_only=True):
    """A change of an app, a calendar, a limit or a job; unchanged ones are left out.

    `cancelled` is how many planned runs it cancels; `details` say why.
    """

    action: ChangeAction
    what: str
    name: str
    details: list[str]
    diff: list[str]
    cancelled: int


class JobWarning(msgspec.Struct, kw_only=True):
    """What may be wrong with a job, which is given as APP/NAME."""

    job: str
    message: str


class Applied(msgspec.Struct, kw_only=True):
    """What was changed, or would be; `warnings` include those about unchanged jobs."""

    changes: list[ChangeAnswer]
    warnings: list[JobWarning]
    unchanged: int
    dry_run: bool


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

    @endpoint(
        "POST",
        "/apply",
        Scope.WRITE,
        Applied,
        query=ApplyQuery,
        body=JobFileBody,
        body_bytes=JOB_FILE_BYTES,
        media=(JSON, YAML),
        is_heavy=True,
    )
    def apply(self, call: Call) -> Applied:
        """Make apps, calendars, limits and jobs match a job file, or several, all or nothing."""
        parts = self._parts(call)
        apps, specs = parts.apps, parts.specs
        self._refuse_foreign(call, apps, specs)
        query = call.query
        changes = self._services.commands(call.actor).job_files.apply(
            apps,
            specs,
            limits=parts.limits,
            dry_run=query.dry_run,
            prune=query.prune,
            origin=_origin(query),
            calendars=parts.calendars,
        )
        shown = [
            ChangeAnswer(
                action=change.action,
                what=change.what,
                name=change.name,
                details=list(change.details),
                diff=list(change.diff),
                cancelled=change.cancelled,
            )
            for change in changes
            if change.action is not ChangeAction.UNCHANGED
        ]
        now_ms, changed = self._services.now_ms(), {change.name for change in shown}
        warnings = self._services.database.read(
            lambda session: file_warnings(session, specs, changed, now_ms)
        )
        return Applied(
            changes=shown,
            warnings=[JobWarning(job=job, message=words) for job, words in warnings],
            unchanged=len(changes) - len(shown),
            dry_run=query.dry_run,
        )

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
        app_ids = asked_app_ids(self._services, call, call.query.app)
        stored, past = self._services.database.read(
            lambda session: self._read(session, call, app_ids)
        )
        specs, left_out = rules.sound_specs(
            stored.specs, now_ms=self._services.now_ms(), added_routes=self._services.added_routes
        )
        left_out += past
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

    def _read(
        self, session: Session, call: Call, app_ids: Collection[int] | None
    ) -> tuple[FileParts, list[str]]:
        rows = job_file_rows.visible_jobs(session, app_ids, call.actor.job_ids)
        children = child_links.children(session, [job.id for job, _ in rows])
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
        apps, today = job_file_rows.apps(session, app_ids), moment(self._services.now_ms()).date()
        return stored_parts(session, apps, specs, today)

    def _parts(self, call: Call) -> FileParts:
        body: JobFileBody | None = call.body
        if body is None:
            return self._services.job_files.read([(_UPLOAD, call.raw)], {})
        if not (body.files or body.values):
            return self._json(body)
        if body.apps or body.calendars or body.limits or body.jobs:
            raise at_pointer(
                "/files", "expected either files or apps, calendars, limits and jobs, got: both"
            )
        files = [(file.name, file.text.encode(errors="replace")) for file in body.files]
        return self._services.job_files.read(files, body.values)

    def _json(self, body: JobFileBody) -> FileParts:
        wrong = FieldErrors()
        apps = [app_spec_of(app.name or "", app) for app in body.apps]
        specs = []
        for number, job in enumerate(body.jobs):
            pointer = f"/jobs/{number}"
            spec = spec_of(job, BodyLocation(pointer=pointer), wrong)
            if spec is None:
                continue
            specs.append(spec)
            wrong += [
                error_detail(problem, pointer)
                for problem in rules.problems(
                    spec, now_ms=self._services.now_ms(), added_routes=self._services.added_routes
                )
            ]
        for number, app in enumerate(apps):
            found_wrong = rules_of_app(app, self._services.added_routes)
            wrong += [error_detail(problem, f"/apps/{number}") for problem in found_wrong]
        limits = [
            limit_spec_of(limit, f"/limits/{n}", wrong) for n, limit in enumerate(body.limits)
        ]
        wrong += _duplicates(apps, specs, limits)
        refuse(wrong)
        calendars = [
            calendar_spec_of(calendar.name, calendar, f"/calendars/{number}")
            for number, calendar in enumerate(body.calendars)
        ]
        return FileParts(apps, calendars, limits, specs)

    def _refuse_foreign(
        self, call: Call, apps: Sequence[AppSpec], specs: Sequence[JobSpec]
    ) -> None:
        """Refuse jobs of apps that are neither visible to this token nor in the file."""
        known = self._services.database.read(
            lambda session: set(ids_by_name(session, call.actor.app_ids))
        )
        known |= {app.name for app in apps}
        errors = [
            error_detail(Problem(Code.UNKNOWN_APP, "app", got=spec.app[:100]), f"/jobs/{number}")
            for number, spec in enumerate(specs)
            if spec.app not in known
        ]
        if errors:
            raise Refusal(422, "the job file is invalid", errors=errors)


def _origin(query: ApplyQuery) -> Origin:
    place = in_code(query.module) if query.module else IN_FILE
    return Origin(place=place, take_over=query.take_over, app=query.app or "")


def rules_of_app(app: AppSpec, added_routes: Sequence[str]) -> list[Problem]:
    """Return everything that is wrong with an app."""
    return [
        *found(lambda: rules.check_app_name(app.name), "name"),
        *found(lambda: rules.check_title(app.title or "")),
        *found(lambda: rules.check_addresses(app.addresses)),
        *found(lambda: rules.check_app_route(app.route, added_routes)),
        *target_problems(app.alarm),
        *webhook_problems(app.webhook),
    ]


def _duplicates(
    apps: Sequence[AppSpec], specs: Sequence[JobSpec], limits: Sequence[LimitSpec]
) -> list[dict[str, str]]:
    seen: set[tuple[str, ...]] = set()
    wrong = []
    keyed = [
        *((("app", app.name), f"/apps/{number}") for number, app in enumerate(apps)),
        *((("limit", limit.name), f"/limits/{number}") for number, limit in enumerate(limits)),
        *((("job", job.app, job.name), f"/jobs/{number}") for number, job in enumerate(specs)),
    ]
    for key, pointer in keyed:
        if key in seen:
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
