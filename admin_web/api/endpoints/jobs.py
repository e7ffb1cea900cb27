"""Jobs: list, read, create, change (by entity tags), delete, start, stop, and next due times."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec
from flask import request
from sqlalchemy.orm import Session
from werkzeug.datastructures import ETags

from warren.admin_web.api.bodies import FieldErrors, read_struct, refuse
from warren.admin_web.api.endpoint import BASE, Call, Reply, endpoint, serves
from warren.admin_web.api.endpoints.apps import app_id_of, asked_app_ids
from warren.admin_web.api.job_bodies import (
    BodyLocation,
    JobAnswer,
    JobBody,
    add_rules,
    as_in_file,
    is_wrong,
    job_answer,
    merged,
    spec_of,
    without_replaced,
)
from warren.admin_web.api.paging import page, place_of
from warren.admin_web.api.problem_answers import (
    PreconditionFailed,
    Refusal,
    at_parameter,
    at_pointer,
)
from warren.admin_web.services import ApiServices
from warren.resources import jobs as operations
from warren.resources.cluster import Blocker
from warren.resources.instant import Instant, encode, to_builtins
from warren.resources.jobs import (
    CANCELLED_HEADER,
    CHANGE_HEADERS,
    JOB,
    READ_HEADERS,
    EditedJob,
    EditedJobs,
    EditJobsBody,
    FollowedRules,
    JobName,
    JobOverview,
    JobsQuery,
    JobState,
    LeftJob,
    NextAnswer,
    NextTime,
    OldRuleJob,
    ScriptsAnswer,
    ScriptVersion,
    ShownJob,
    Switched,
    UndoneEdit,
)
from warren.resources.operation import JSON, MERGE_PATCH, Scope, page_type
from warren.scheduler.commands.field_edits import MAX_EDITED, Edited, FieldEdit, JobEdit
from warren.scheduler.jobs.records import fingerprint, job_spec
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.names import Resolver, nearest_name
from warren.scheduler.problems import Code, Problem, Refused, lookup_problem
from warren.scheduler.schedules import registry
from warren.scheduler.schedules.explained import Fate, clock_notes, fates
from warren.scheduler.schedules.reading import calendars_for, next_fire, next_fires, waits_for
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import Calendars
from warren.scheduler.views import blockers
from warren.scheduler.views.blockers import Blockers, blocker_json
from warren.scheduler.views.board_view import jobs_state
from warren.scheduler.views.job_view import facts_in_words, job_overview, without_secrets
from warren.scheduler.views.job_warnings import OLD_RULE, job_warnings
from warren.sql.board.listing import is_in_state
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.instants import epoch_ms
from warren.sql.jobs import job_names, script_versions
from warren.sql.jobs.script_versions import StoredVersion
from warren.sql.listings import job_search
from warren.sql.listings.job_search import JobFilter, ListedJob, Order
from warren.sql.registry import apps
from warren.sql.runs import backfills
from warren.sql.runs.backfills import BackfillFilter

#: Characters of an entity tag after the fingerprint of the job's declaration.
_HASH_LENGTH = 16


def etag(spec: JobSpec, answer: msgspec.Struct) -> str:
    """Return the entity tag of an answer about a job: its version, and a hash of the rest."""
    digest = hashlib.sha256(encode(answer)).hexdigest()[:_HASH_LENGTH]
    return f"{fingerprint(spec)}-{digest}"


def must_exist() -> bool:
    """Return whether the request requires the job to exist; False = it must not.

    Raises:
        Refusal: 428, the request has neither header.

    """
    if request.if_none_match.star_tag:
        return False
    if "If-Match" in request.headers:
        return True
    raise Refusal(428, 'expected the header `If-Match: "…"`, or `If-None-Match: *` to make it')


def check_version(spec: JobSpec) -> str | None:
    """Check that the client has seen this version of a job; return the version, None = any.

    Only the version in the tag counts: the rest changes whenever the job runs, starts or stops.

    Raises:
        Problem: the job has another version.

    """
    wanted: ETags = request.if_match
    if wanted.star_tag:
        return None
    current = fingerprint(spec)
    if current not in {tag.partition("-")[0] for tag in wanted.as_set()}:
        raise Problem(Code.JOB_CHANGED, job=f"{spec.app}/{spec.name}")
    return current


def is_not_modified(tag: str) -> bool:
    """Return whether the client already has the answer with this tag."""
    return request.if_none_match.contains_weak(tag)


def job_id_of(services: ApiServices, call: Call, app: str, name: str) -> int:
    """Return the id of a job that a token may see.

    Raises:
        NotFound: there is no such job.

    """
    job_id = services.database.read_autocommit(lambda session: job_names.named(session, app, name))
    if job_id is None or not call.actor.knows_job(*job_id):
        with missing_app_first(services, call, app):
            raise NotFound(LookupFailure.NO_JOB_IN_APP, app=app[:100], name=name[:100])
    return job_id[1]


def job_named(services: ApiServices, call: Call, name: str) -> tuple[int, JobName]:
    """Return the id and the whole name of a job that a token may see, given as NAME or APP/NAME.

    Raises:
        Problem: there is no such job, but one of a similar name.
        LookupFailed: there is no such job, or there are several.

    """
    actor = call.actor

    def read(session: Session) -> tuple[int, JobName]:
        job = job_names.find(session, name, actor.app_ids)
        if not actor.knows_job(job.app_id, job.id):
            raise NotFound(LookupFailure.NO_JOB_NAMED, name=name)
        app = apps.names(session, [job.app_id])[job.app_id]
        return job.id, JobName(app=app, name=job.name)

    try:
        return services.database.read(read)
    except NotFound as error:
        # A token for single jobs learns no other names.
        near = "" if actor.job_ids else nearest_name(services.database, error, actor.app_ids)
        if near:
            raise Problem(Code.NO_JOB_NAMED_NEAR, name=name, near=near) from error
        raise


@contextmanager
def missing_app_first(services: ApiServices, call: Call, app: str) -> Iterator[None]:
    """If a job is not found in this block, raise that its app does not exist if that is so.

    Raises:
        NotFound: there is no such app or job.

    """
    try:
        yield
    except NotFound:
        app_id_of(services, call, app)
        raise


def job_id_to_match(services: ApiServices, call: Call, app: str, name: str) -> int:
    """Return the id of a job that, according to If-Match, the client has seen.

    Raises:
        PreconditionFailed: there is no such job.

    """
    try:
        return job_id_of(services, call, app, name)
    except NotFound as error:
        raise PreconditionFailed([lookup_problem(error)]) from error


def read_job(services: ApiServices, call: Call, job_id: int) -> tuple[ListedJob, JobSpec]:
    """Return a job as it is listed, and as it is declared.

    Raises:
        NotFound: there is none that the token may see.

    """
    commands, now_ms = services.commands(call.actor).jobs, services.now_ms()

    def read(session: Session) -> tuple[ListedJob, JobSpec]:
        _, spec, _ = commands.read(session, job_id)
        return job_search.show(session, job_id, call.actor.app_ids, now_ms=now_ms), spec

    return services.database.read(read)


class JobSwitchEndpoints:
    """Whether jobs fire on their schedules."""

    name = "jobs"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.find_job)
    def find(self, call: Call) -> JobName:
        if not call.query.name:
            raise at_parameter("name", "expected NAME or APP/NAME")
        return job_named(self._services, call, call.query.name)[1]

    @serves(operations.start_job)
    def start(self, call: Call, app: str, name: str) -> Switched:
        job_id = job_id_of(self._services, call, app, name)
        return Switched(changed=self._services.commands(call.actor).jobs.start(job_id))

    @serves(operations.stop_job)
    def stop(self, call: Call, app: str, name: str) -> Switched:
        job_id = job_id_of(self._services, call, app, name)
        stopped = self._services.commands(call.actor).jobs.stop(job_id)
        going = BackfillFilter(app_ids=call.actor.app_ids, job_id=job_id, is_going=True)
        rows = self._services.database.read(lambda session: backfills.listing(session, going))
        return Switched(
            changed=bool(stopped),
            cancelled=stopped.cancelled if stopped else 0,
            backfills=[row.backfill.id for row in rows],
        )

    @serves(operations.follow_rules)
    def follow_rules(self, call: Call) -> FollowedRules:
        body, commands = call.body, self._services.commands(call.actor).jobs
        ids = Resolver(self._services.database, call.actor.app_ids)
        wanted = {ids.job(name) for name in body.jobs}
        old = [job for job in commands.with_old_rules(body.app) if not wanted or job.id in wanted]
        moved = None if body.dry_run else commands.follow_rules([job.id for job in old])
        return FollowedRules(
            jobs=[
                OldRuleJob(
                    job=job.name,
                    app=job.app,
                    schedule=job.schedule,
                    timezone=job.timezone,
                    no_longer_due=[*map(Instant.of, job.changed.before)],
                    newly_due=[*map(Instant.of, job.changed.after)],
                )
                for job in old
            ],
            moved=moved,
        )

    @serves(operations.edit_jobs)
    def edit(self, call: Call) -> EditedJobs:
        body, commands = call.body, self._services.commands(call.actor).field_edits
        edit = FieldEdit.read(body.field, body.value, body.mode)
        job_ids = self._to_edit(call)
        if body.dry_run:
            return edited_jobs(Edited(0, commands.preview(job_ids, edit)))
        seen = None
        if body.seen is not None:
            ids = Resolver(self._services.database, call.actor.app_ids)
            seen = {ids.job(name): version for name, version in body.seen.items()}
        return edited_jobs(commands.apply(job_ids, edit, seen=seen))

    @serves(operations.undo_edit)
    def undo_edit(self, call: Call) -> UndoneEdit:
        undone = self._services.commands(call.actor).field_edits.undo(call.body.edit)
        return UndoneEdit(
            edit=undone.id or None,
            jobs=[edited_job(each) for each in undone.jobs],
            left=[LeftJob(job=name, message=str(why)) for name, why in undone.left],
        )

    def _to_edit(self, call: Call) -> Sequence[int]:
        body = call.body
        asked = (
            *(body.app, body.q, body.handler, body.tag, body.author),
            *(body.enabled, body.state),
        )
        is_filtered = body.everything or any(each is not None for each in asked)
        if body.jobs and is_filtered:
            raise at_pointer("/jobs", "expected jobs or a filter, got both")
        if body.jobs:
            ids = Resolver(self._services.database, call.actor.app_ids)
            return [*dict.fromkeys(ids.job(name) for name in body.jobs)]
        if not is_filtered:
            raise at_pointer("", "expected jobs, a filter, or all")
        wanted = _filter_of(self._services, call, body)
        return self._services.database.read(
            lambda session: job_search.ids(session, wanted, most=MAX_EDITED + 1)
        )

    @serves(operations.next_times)
    def next(self, call: Call, app: str, name: str) -> NextAnswer:
        query, now_ms, zone = call.query, self._services.now_ms(), self._services.timezone
        job, _ = read_job(self._services, call, job_id_of(self._services, call, app, name))
        known = self._services.database.read(lambda session: calendars_for(session, [job]))
        fires = next_fires(job, now_ms=now_ms, count=query.count, timezone=zone, calendars=known)
        facts = ScheduleFacts.of(job, job.timezone or zone)
        times = None
        if query.why:
            anchor = (job.next_tick_at if job.is_enabled else 0) or now_ms
            told = fates(facts, known, now_ms=now_ms, anchor_ms=anchor, count=query.count)
            times = [*map(_time, told)]
        return NextAnswer(
            fires_at=[*map(Instant.of, fires)],
            enabled=bool(job.is_enabled),
            clock_changes=[*map(str, clock_notes(facts, now_ms=now_ms, calendars=known))],
            hint=registry.hint(job.schedule_kind, job.schedule_value),
            waits_for=waits_for(job),
            timezone=facts.timezone,
            times=times,
        )


def _filter_of(services: ApiServices, call: Call, asked: JobsQuery | EditJobsBody) -> JobFilter:
    state = None if asked.state is None else jobs_state(asked.state, services.now_ms())
    return JobFilter(
        app_ids=asked_app_ids(services, call, asked.app),
        job_ids=call.actor.job_ids,
        name=asked.q,
        handler=asked.handler,
        tag=asked.tag,
        author=asked.author,
        is_enabled=asked.enabled,
        among=None if state is None else is_in_state(state),
    )


def edited_jobs(edited: Edited) -> EditedJobs:
    changing = [edited_job(each) for each in edited.jobs if each.words]
    return EditedJobs(
        edit=edited.id or None, jobs=changing, unchanged=len(edited.jobs) - len(changing)
    )


def edited_job(edit: JobEdit) -> EditedJob:
    return EditedJob(
        job=edit.name,
        version=edit.version,
        changes=[*edit.words],
        can_be_undone=edit.can_be_undone,
    )


def _time(fate: Fate) -> NextTime:
    why = fate.why
    return NextTime(
        nominal_at=Instant.of(fate.nominal_ms),
        fires_at=Instant.if_any(fate.tick_ms),
        why=Blocker(code=why.code.name.lower(), message=str(why)) if why else None,
    )


JobPage = page_type(JobAnswer)


class JobEndpoints:
    """The jobs that a token may see."""

    name = "jobs"

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    @serves(operations.list_jobs, answer=JobPage)
    def index(self, call: Call) -> Any:
        query, now_ms = call.query, self._services.now_ms()
        wanted = replace(
            _filter_of(self._services, call, query),
            after=place_of(query, str),
            limit=query.limit + 1,
        )

        rows, children, _ = self._listed(wanted, now_ms)

        def answer(row: ListedJob) -> Any:
            spec = job_spec(row.stored, row.app, children.get(row.id, ()), with_source=False)
            return self._answer(call, row, spec, now_ms)

        return page(JobPage, query, rows, answer, lambda row: job_search.place(row, Order.NAME))

    @serves(operations.list_overviews)
    def overviews(self, call: Call) -> Any:
        query, now_ms, zone = call.query, self._services.now_ms(), self._services.timezone
        wanted = JobFilter(
            app_ids=asked_app_ids(self._services, call, query.app),
            job_ids=call.actor.job_ids,
            after=place_of(query, str),
            limit=query.limit + 1,
        )
        rows, children, known = self._listed(wanted, now_ms)

        def overview(row: ListedJob) -> JobOverview:
            spec = self._spec(call, row, children.get(row.id, ()))
            return job_overview(
                row,
                spec,
                now_ms=now_ms,
                timezone=zone,
                children=children.get(row.id, ()),
                calendars=known,
            )

        kind = operations.list_overviews.endpoint.answer
        return page(kind, query, rows, overview, lambda row: job_search.place(row, Order.NAME))

    @serves(operations.show_overview)
    def overview(self, call: Call, app: str, name: str) -> ShownJob:
        now_ms, zone = self._services.now_ms(), self._services.timezone
        job_id = job_id_of(self._services, call, app, name)
        visible = JobFilter(app_ids=call.actor.app_ids, job_ids=call.actor.job_ids)

        def read(session: Session) -> tuple[ListedJob, Sequence[str], Calendars, Blockers]:
            row = job_search.show(session, job_id, call.actor.app_ids, now_ms=now_ms)
            children = job_search.children(session, [job_id], visible).get(job_id, ())
            why = blockers.read(session, [row.app_id], now_ms=now_ms)
            return row, children, calendars_for(session, [row]), why

        row, children, known, why = self._services.database.read(read)
        spec = self._spec(call, row, children)
        listed = job_overview(
            row, spec, now_ms=now_ms, timezone=zone, children=children, calendars=known
        )
        return ShownJob(
            **msgspec.structs.asdict(listed),
            words=facts_in_words(spec),
            rule=OLD_RULE if spec.follows_old_rule else "",
            waits_for=waits_for(row),
            blocked_by=[Blocker(**reason) for reason in blocker_json(why.of_spec(spec))],
        )

    def _listed(
        self, wanted: JobFilter, now_ms: int
    ) -> tuple[Sequence[ListedJob], dict[int, Sequence[str]], Calendars]:
        """Return jobs, their children by id, and the calendars that they use."""

        def read(
            session: Session,
        ) -> tuple[Sequence[ListedJob], dict[int, Sequence[str]], Calendars]:
            rows = job_search.search(session, wanted, now_ms=now_ms)
            children = job_search.children(session, [row.id for row in rows], wanted)
            return rows, children, calendars_for(session, rows)

        return self._services.database.read(read)

    def _spec(self, call: Call, row: ListedJob, children: Sequence[str]) -> JobSpec:
        """Return a job as the caller may see it, without the source of its script."""
        spec = job_spec(row.stored, row.app, children, with_source=False)
        return spec if call.may(Scope.WRITE) else without_secrets(spec)

    @serves(operations.show_job, answer=JobAnswer)
    def show(self, call: Call, app: str, name: str) -> Reply:
        return self._shown(call, job_id_of(self._services, call, app, name))

    @endpoint(
        "GET",
        "/jobs/by-id/<id:job_id>",
        Scope.READ,
        JobAnswer,
        other_answers={304: "not modified"},
        headers=READ_HEADERS,
    )
    def show_by_id(self, call: Call, job_id: int) -> Reply:
        """Show a job, by its id."""
        return self._shown(call, job_id)

    @endpoint(
        "PUT",
        JOB,
        Scope.WRITE,
        JobAnswer,
        body=JobBody,
        other_answers={201: "created"},
        headers=CHANGE_HEADERS,
        is_conditional=True,
    )
    def put(self, call: Call, app: str, name: str) -> Reply:
        """Create a job, or replace it; fields that are left out get their defaults."""
        location = BodyLocation(app=app, name=name)
        spec = self._read_spec(call, call.body, location, is_new=request.if_none_match.star_tag)
        if must_exist():
            return self._change(call, job_id_to_match(self._services, call, app, name), spec)
        try:
            job_id = self._services.commands(call.actor).jobs.create(spec)
        except Refused as refused:
            if [problem.code for problem in refused.problems] == [Code.JOB_NAME_TAKEN]:
                raise PreconditionFailed(refused.problems) from refused
            raise
        headers = {"Location": _path(app, name)}
        return self._shown(call, job_id, status=201, headers=headers, is_saved=True)

    @endpoint(
        "PATCH",
        JOB,
        Scope.WRITE,
        JobAnswer,
        body=JobBody,
        media=(MERGE_PATCH, JSON),
        headers={"If-Match": CHANGE_HEADERS["If-Match"]},
        is_conditional=True,
    )
    def patch(self, call: Call, app: str, name: str) -> Reply:
        """Change some fields of a job; null resets one to its default (RFC 7396)."""
        must_exist()
        job_id = job_id_to_match(self._services, call, app, name)
        listed, spec = read_job(self._services, call, job_id)
        answer = self._answer(call, listed, spec, self._services.now_ms(), with_secrets=True)
        before = to_builtins(answer)
        # A patch that does not name `enabled` leaves it as it is, even if it has just changed.
        del before["state"], before["enabled"]
        whole = merged(without_replaced(before, call.body), call.body)
        patched = self._read_spec(call, whole, BodyLocation(app=app, name=name))
        return self._change(call, job_id, patched, spec)

    @serves(operations.delete_job)
    def delete(self, call: Call, app: str, name: str) -> Reply:
        must_exist()
        job_id = job_id_of(self._services, call, app, name)
        _, spec = read_job(self._services, call, job_id)
        seen = check_version(spec)
        done = self._services.commands(call.actor).jobs.delete([job_id], seen=seen)
        cancelled = sum(done.values())
        return Reply(headers={CANCELLED_HEADER: str(cancelled)} if cancelled else {})

    @serves(operations.list_scripts)
    def scripts(self, call: Call, app: str, name: str) -> ScriptsAnswer:
        job_id = job_id_of(self._services, call, app, name)
        listed, _ = read_job(self._services, call, job_id)
        rows = self._services.database.read(
            lambda session: script_versions.versions(session, job_id)
        )
        return ScriptsAnswer(items=[_version(row, listed.script_version) for row in rows])

    def _read_spec(
        self, call: Call, value: Any, location: BodyLocation, *, is_new: bool = False
    ) -> JobSpec:
        """Return the job that a body describes; a new one has the name in the path.

        Raises:
            Refusal: it has unknown fields or wrong types; with the rules that its other fields
                break.

        """
        wrong = FieldErrors()
        body = read_struct(JobBody, as_in_file(value), "", wrong)
        if body is None:  # it is no object
            refuse(wrong)
        spec = spec_of(body, location, wrong)
        if is_new and spec.name != location.name and not is_wrong("/name", wrong):
            wrong.add("/name", f"expected {location.name!r} as in the path")
        if wrong:
            try:
                job_id = job_id_of(self._services, call, location.app, location.name)
            except NotFound:
                job_id = 0
            commands = self._services.commands(call.actor).jobs
            add_rules(commands.problems(spec, job_id), location, wrong)
        refuse(wrong)
        return spec

    def _change(self, call: Call, job_id: int, spec: JobSpec, base: JobSpec | None = None) -> Reply:
        """Change a job; with `base`, only if it still is as described there."""
        _, stored = read_job(self._services, call, job_id)
        seen = check_version(stored)
        if base is not None:
            seen = fingerprint(base)
        done = self._services.commands(call.actor).jobs.update(
            job_id, spec, seen=seen, enabled=spec.enabled
        )
        return self._shown(call, job_id, is_saved=True, cancelled=done.cancelled)

    def _shown(
        self,
        call: Call,
        job_id: int,
        *,
        status: int | None = None,
        headers: dict[str, str] | None = None,
        is_saved: bool = False,
        cancelled: int = 0,
    ) -> Reply:
        listed, spec = read_job(self._services, call, job_id)
        answer = self._answer(call, listed, spec, self._services.now_ms())
        tag = etag(spec, answer)
        if is_saved:
            now_ms = self._services.now_ms()
            answer.warnings = self._services.database.read(
                lambda session: job_warnings(session, spec, now_ms)
            )
            answer.cancelled = cancelled or msgspec.UNSET
        all_headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"} | (headers or {})
        if not is_saved and is_not_modified(tag):
            return Reply(status=304, headers=all_headers)
        return Reply(value=answer, status=status, headers=all_headers)

    def _answer(
        self,
        call: Call,
        listed: ListedJob,
        spec: JobSpec,
        now_ms: int,
        *,
        with_secrets: bool = False,
    ) -> Any:
        calendars = self._services.database.read(lambda s: calendars_for(s, [listed]))
        fire = next_fire(
            listed, now_ms=now_ms, timezone=self._services.timezone, calendars=calendars
        )
        state = JobState(
            id=listed.id,
            next_fire_at=Instant.if_any(fire),
            last_status=listed.last_status,
            last_due_at=Instant.if_any(listed.last_due_at),
            script_version=listed.script_version,
            script_number=listed.script_number,
            stop_reason=listed.stop_reason or "",
            declared_in=listed.stored.declared_in,
        )
        return job_answer(
            spec,
            state,
            enabled=bool(listed.is_enabled),
            with_secrets=with_secrets or call.may(Scope.WRITE),
        )


def _version(row: StoredVersion, current: int | None) -> ScriptVersion:
    return ScriptVersion(
        id=row.id,
        number=row.number,
        remark=row.remark,
        author=row.author or "",
        saved_at=Instant.of(epoch_ms(row.add_time)) if row.add_time else None,
        bytes=row.size,
        is_current=row.id == current,
    )


def _path(app: str, name: str) -> str:
    return f"{BASE}/jobs/{quote(app, safe='')}/{quote(name, safe='')}"
