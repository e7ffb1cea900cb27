"""Imports apps and jobs, with one transaction for each app.

Children may be in other apps, so all links are made at the end, in a transaction of their own.
Until then jobs with children count as incomplete, so after a crash the next import makes the links.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why, to_json
from warren.scheduler.actor import Right
from warren.scheduler.commands.apps import app_record
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_changes import JobChanges
from warren.scheduler.commands.new_jobs import new_job
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.commands.scripts import apply_script
from warren.scheduler.imports.child_links import LinkImport, LinkReport
from warren.scheduler.imports.decisions import (
    AppStep,
    Decider,
    JobStep,
    app_fingerprint,
    incomplete,
    job_fingerprint,
    joined,
)
from warren.scheduler.imports.items import (
    ImportAction,
    ImportedApp,
    ImportedJob,
    ImportItems,
    Outcome,
)
from warren.scheduler.jobs.audit_records import record_of
from warren.scheduler.jobs.script_cache import script_type
from warren.sql.imports import origins
from warren.sql.imports.origins import APP, JOB, Origin
from warren.sql.jobs import child_links, jobs
from warren.sql.models import App, Job, ScriptVersion
from warren.sql.registry import apps

_REASON = 512

#: The steps for an app and its jobs.
_Part = tuple[AppStep, list[JobStep]]


class JobImport:
    """Imports apps and jobs on behalf of one actor; the source becomes the author of scripts."""

    def __init__(self, context: CommandContext, decider: Decider) -> None:
        self._context = context
        self._decider = decider
        self._changes = JobChanges(context)
        self._schedules = ScheduleChanges(context)
        self._links = LinkImport(context, decider.source)

    def preview(self, items: ImportItems) -> list[Outcome]:
        """Return what `write` would do, without writing anything."""
        by_app = _by_app(items.jobs)

        def unit(session: Session) -> list[Outcome]:
            parts = []
            for item in items.apps:
                step = self._decider.app(session, item)
                of_app = by_app.get(item.spec.name, [])
                parts.append((step, self._decider.jobs(session, step.target_id, of_app)))
            links = self._links.preview(session, _to_link(parts), items.others)
            return _outcomes(parts, links)

        return self._context.database.read(unit)

    def check(self, items: ImportItems) -> None:
        """Check that all apps can be imported, before anything is written.

        Raises:
            ValueError: the last import brought an app with the same id but another name.

        """

        def unit(session: Session) -> None:
            for item in items.apps:
                self._decider.app(session, item)

        self._context.database.read(unit)

    def write(self, items: ImportItems) -> list[Outcome]:
        """Import all apps and jobs, and link the jobs' children; return what was done."""
        by_app = _by_app(items.jobs)
        parts = [self._write_app(item, by_app.get(item.spec.name, [])) for item in items.apps]
        links = self._context.write(
            Right.ADMINISTER,
            lambda session: self._links.write(session, _to_link(parts), items.others),
        )
        return _outcomes(parts, links)

    def _write_app(self, item: ImportedApp, of_app: Sequence[ImportedJob]) -> _Part:
        def unit(session: Session) -> _Part:
            child_links.lock(session)
            step = self._decider.app(session, item)
            app = self._apply_app(session, step)
            steps = self._decider.jobs(session, app.id, of_app)
            self._apply_jobs(session, app, steps)
            return step, steps

        return self._context.write(Right.ADMINISTER, unit)

    def _apply_app(self, session: Session, step: AppStep) -> App:
        spec, now_ms = step.item.spec, self._context.now_ms()
        before = None
        if step.action is ImportAction.CREATE:
            app = App(id=step.target_id, name=spec.name, title=spec.title or spec.name)
            session.add(app)
            session.flush()
        app = session.get_one(App, step.target_id)
        if step.action is ImportAction.UPDATE:
            before = app_record(app)
        if step.action in (ImportAction.CREATE, ImportAction.UPDATE):
            apps.ensure(session, app.name, spec.title or spec.name)
            apps.list_addresses(session, app.id, spec.addresses)
            action = Action.APP_CREATE if step.action is ImportAction.CREATE else Action.APP_UPDATE
            values = {"before": before, "after": app_record(app)}
            self._context.note(session, action, app.name, app.id, now_ms, **values)
            self._remember_app(session, step, app_fingerprint(app), now_ms)
            return app
        known = origins.read(session, self._decider.source, APP).get(step.item.source_id)
        if known is None or known.target_id != app.id:
            # The app existed here before: imported users may see it, but this import does not
            # change it.
            self._remember_app(session, step, "", now_ms)
        return app

    def _remember_app(self, session: Session, step: AppStep, target: str, now_ms: int) -> None:
        imported = [
            Origin(source_id, step.target_id, step.item.fingerprint, target)
            for source_id in (step.item.source_id, *step.item.merged_ids)
        ]
        origins.write(session, self._decider.source, APP, imported, now_ms=now_ms)

    def _apply_jobs(self, session: Session, app: App, steps: Sequence[JobStep]) -> None:
        now_ms = self._context.now_ms()
        new = [step for step in steps if step.action is ImportAction.CREATE]
        changed = [step for step in steps if step.action is ImportAction.UPDATE]
        written = self._create(session, app, new, now_ms)
        written += [self._update(session, step, now_ms) for step in changed]
        session.flush()
        children = child_links.children(session, [job.id for job in written])
        imported = [
            Origin(
                step.item.source_id,
                job.id,
                (
                    incomplete(step.item.fingerprint)
                    if step.item.child_ids or job.id in children
                    else step.item.fingerprint
                ),
                job_fingerprint(job, app.name, children.get(job.id, ())),
            )
            for step, job in zip([*new, *changed], written, strict=True)
        ]
        origins.write(session, self._decider.source, JOB, imported, now_ms=now_ms)

    def _create(
        self, session: Session, app: App, steps: Sequence[JobStep], now_ms: int
    ) -> list[Job]:
        created = []
        for step in steps:
            job = new_job(app.id, step.spec, now_ms)
            job.id = step.target_id
            job.add_time = step.item.added_at or job.add_time
            job.update_time = step.item.updated_at or job.update_time
            job.script_source = job.script_remark = job.script_updated = None
            _set_stop_reason(job, step.item)
            created.append(job)
        session.add_all(created)
        session.flush()
        for step, job in zip(steps, created, strict=True):
            self._give_script(session, step, job, now_ms)
            record = record_of(session, job)
            self._context.note_job(session, Action.JOB_CREATE, job, now_ms, after=record)
        return created

    def _give_script(self, session: Session, step: JobStep, job: Job, now_ms: int) -> None:
        if not step.spec.script_language:
            return
        earlier = [
            ScriptVersion(
                job_id=job.id,
                script_type=script_type(version.language),
                source=version.source,
                remark=version.remark,
                author=self._decider.source,
                add_time=version.saved_at,
                update_time=version.saved_at,
            )
            for version in step.item.versions
        ]
        origins.add_versions(session, earlier)
        apply_script(session, job, step.spec, who=self._decider.source, now_ms=now_ms)

    def _update(self, session: Session, step: JobStep, now_ms: int) -> Job:
        job = jobs.lock(session, step.target_id)
        if step.item.stop_reasons:
            self._schedules.stop(session, job, now_ms)
        self._changes.edit(session, job, step.spec, now_ms)
        if job.is_enabled == 0:
            _set_stop_reason(job, step.item)
        return job


def _set_stop_reason(job: Job, item: ImportedJob) -> None:
    """Store why a job must stay stopped, or clear the reason if it may be started."""
    job.stop_reason = job.stop_why = None
    if item.stop_reasons:
        reason = Why.IMPORTED_IN_PART(why=item.stop_reasons)
        job.stop_reason, job.stop_why = str(reason)[:_REASON], to_json(reason) or None


def _by_app(items: Sequence[ImportedJob]) -> Mapping[str, list[ImportedJob]]:
    by_app: dict[str, list[ImportedJob]] = defaultdict(list)
    for item in items:
        by_app[item.spec.app].append(item)
    return by_app


def _to_link(parts: Iterable[_Part]) -> list[JobStep]:
    return [step for _, steps in parts for step in steps if step.is_linked]


def _outcomes(parts: Iterable[_Part], links: LinkReport) -> list[Outcome]:
    outcomes = []
    for app, steps in parts:
        outcomes.append(_app_outcome(app))
        outcomes += [_job_outcome(step, links.words.get(step.item.source_id, "")) for step in steps]
    return [*outcomes, *links.further]


def _app_outcome(step: AppStep) -> Outcome:
    return Outcome(
        action=step.action,
        what=APP,
        source_id=step.item.source_id,
        target_id=step.target_id,
        name=step.item.spec.name,
        words=step.words,
    )


def _job_outcome(step: JobStep, of_links: str) -> Outcome:
    return Outcome(
        action=step.action,
        what=JOB,
        source_id=step.item.source_id,
        target_id=step.target_id,
        name=f"{step.spec.app}/{step.spec.name}",
        words=joined(step.words, of_links),
    )
