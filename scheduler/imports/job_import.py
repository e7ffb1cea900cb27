"""Imports apps and jobs, with one transaction for each app.

Children may be in other apps, so all links are made at the end, in a transaction of their own.
Until then jobs with children count as incomplete, so after a crash the next import makes the links.
"""

import json
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.broker.stored_reasons import to_json
from warren.scheduler.actor import Right
from warren.scheduler.commands.cluster_commands import app_record
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_changes import ChildChanges, JobChanges, new_job
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.commands.script_commands import apply_script
from warren.scheduler.imports.items import (
    AppStep,
    Decider,
    ImportAction,
    ImportedApp,
    ImportedJob,
    ImportItems,
    JobStep,
    Outcome,
    app_fingerprint,
    incomplete,
    job_fingerprint,
    joined,
)
from warren.scheduler.jobs.dependencies import Link, find_circle
from warren.scheduler.jobs.records import CHILDREN, record_of
from warren.scheduler.jobs.script_cache import script_type
from warren.sql.accounts import audit_log
from warren.sql.imports import origins
from warren.sql.imports.origins import APP, JOB, Origin
from warren.sql.jobs import job_links, job_rows
from warren.sql.models import App, Job, ScriptVersion
from warren.sql.registry import apps

#: How many of a job's entries in the audit log are searched for its earlier children.
MAX_UPDATES = 10_000


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What linking did, or would do.

    Attributes:
        words: what to report with a job's outcome, by the job's id at the source.
        further: jobs of other apps that get children, and jobs that get other children than at the
            source.

    """

    words: Mapping[int, str]
    further: Sequence[Outcome]


class LinkImport:
    """Links the jobs of one source, in the caller's transaction."""

    def __init__(self, context: CommandContext, source: str) -> None:
        self._context = context
        self._source = source
        self._children = ChildChanges(context)

    def preview(
        self, session: Session, steps: Sequence[JobStep], others: Sequence[ImportedJob]
    ) -> LinkReport:
        """Return what `write` would do after these steps, without writing anything."""
        known = origins.read(session, self._source, JOB) if steps or others else {}
        new = {
            step.item.source_id: Origin(
                step.item.source_id, step.target_id, incomplete(step.item.fingerprint), ""
            )
            for step in steps
            if step.is_written
        }
        links = self._links(session, [*steps, *_steps_of(others, known)], known | new, new)
        return _report(links, steps)

    def write(
        self, session: Session, steps: Sequence[JobStep], others: Sequence[ImportedJob]
    ) -> LinkReport:
        """Set the children of imported jobs, and record that these are completely imported.

        A child that is not imported yet is linked by the import that creates it, even if its parent
        is among the `others`, the jobs of other apps. A job that was edited here since only gets
        children that it never had here. Those of a job whose children would make a circle with
        links made here stay as they are, and deleted children are left out.
        """
        job_links.lock(session)
        known = origins.read(session, self._source, JOB) if steps or others else {}
        # A session drops unreferenced objects, and every job's audit log entry needs its app.
        held = origins.apps(session)
        links = self._links(session, [*steps, *_steps_of(others, known)], known, {})
        sound = [link for link in links if link.job is not None and not link.circle]
        changed = [
            Link(link.job.id, link.before, link.wanted, words="linked")
            for link in sound
            if link.job is not None and link.changes
        ]
        self._children.write(session, changed, self._context.now_ms())
        completed = [
            known[link.step.item.source_id]._replace(
                source_fingerprint=link.children.fingerprint, target_fingerprint=link.fingerprint
            )
            for link in sound
        ]
        origins.write(session, self._source, JOB, completed, now_ms=self._context.now_ms())
        del held
        return _report(links, steps)

    def _links(
        self,
        session: Session,
        steps: Sequence[JobStep],
        known: Mapping[int, Origin],
        new: Mapping[int, Origin],
    ) -> list["_Link"]:
        """Decide about the children of jobs that are not completely imported.

        `known` are the origins of all jobs, `new` those of jobs that are not written yet.
        """
        unlinked = [step for step in steps if _is_unlinked(step, known.get(step.item.source_id))]
        stored = origins.jobs(session, [step.target_id for step in unlinked])
        child_ids = {child for step in unlinked for child in step.item.child_ids}
        targets = {known[child].target_id for child in child_ids if child in known}
        existing = {*origins.app_ids(session, targets), *(link.target_id for link in new.values())}
        graph = job_links.children(session, job_links.with_children(session))
        links = []
        for step in unlinked:
            job, origin = stored.get(step.target_id), known[step.item.source_id]
            is_new = step.item.source_id in new
            if job is None and not is_new:
                continue  # somebody has just deleted it
            children, before = (
                _children_of(step.item, known, existing),
                graph.get(origin.target_id, ()),
            )
            wanted, fingerprint = children.ids, ""
            if job is not None and not is_new:
                fingerprint = job_fingerprint(job, step.spec.app, before)
                if fingerprint != origin.target_fingerprint:
                    once = _had_once(session, job.id)
                    wanted = (*before, *(c for c in wanted if c not in before and c not in once))
                    fingerprint = origin.target_fingerprint
                else:
                    fingerprint = job_fingerprint(job, step.spec.app, wanted)
            circle = _circle_with(graph, origin.target_id, wanted)
            links.append(
                _Link(step, job, children, before, wanted, tuple(circle or ()), fingerprint)
            )
        return links


@dataclass(frozen=True, slots=True)
class _Link:
    """The decision about the children of one job.

    Attributes:
        job: None in a preview, while the job is not here.
        before: the ids of its current children here.
        wanted: the ids of those that it is to have.
        circle: the jobs of the circle that these would make; then they stay as they are.
        fingerprint: of the job here after its import.

    """

    step: JobStep
    job: Job | None
    children: "_Children"
    before: tuple[int, ...]
    wanted: tuple[int, ...]
    circle: tuple[int, ...]
    fingerprint: str

    @property
    def changes(self) -> bool:
        """Whether the job gets other children."""
        return self.before != self.wanted and not self.circle


@dataclass(frozen=True, slots=True)
class _Children:
    """The state here of the children that an item has at the source.

    Attributes:
        ids: of those that exist here.
        deleted: the ids there of those that were deleted here.
        missing: the ids there of those that were not imported yet.
        fingerprint: of the item; incomplete if a child was not imported yet.

    """

    ids: tuple[int, ...]
    deleted: tuple[int, ...]
    missing: tuple[int, ...]
    fingerprint: str


def _children_of(
    item: ImportedJob, known: Mapping[int, Origin], existing: Container[int]
) -> _Children:
    imported = [known[child] for child in item.child_ids if child in known]
    return _Children(
        ids=tuple(child.target_id for child in imported if child.target_id in existing),
        deleted=tuple(child.source_id for child in imported if child.target_id not in existing),
        missing=tuple(child for child in item.child_ids if child not in known),
        fingerprint=item.fingerprint
        if len(imported) == len(item.child_ids)
        else incomplete(item.fingerprint),
    )


def _had_once(session: Session, job_id: int) -> set[int]:
    """Return the ids of all children that a job has had here, as the audit log knows."""
    entries = audit_log.of_job(session, job_id, (Action.JOB_UPDATE,), limit=MAX_UPDATES)
    texts = (
        str(json.loads(values or "{}").get(CHILDREN) or "")
        for entry in entries
        for values in (entry.before, entry.after)
    )
    return {int(child_id) for text in texts for child_id in text.split(",") if child_id.isdecimal()}


def _steps_of(others: Iterable[ImportedJob], known: Mapping[int, Origin]) -> list[JobStep]:
    """Return the steps that leave jobs as they are but for children still to come."""
    return [
        JobStep(
            action=ImportAction.UNCHANGED,
            item=item,
            target_id=known[item.source_id].target_id,
            spec=item.spec,
        )
        for item in others
        if item.source_id in known
    ]


def _report(links: Iterable[_Link], steps: Iterable[JobStep]) -> LinkReport:
    of_this_import = {step.item.source_id for step in steps}
    words, further = {}, []
    for link in links:
        if link.circle:
            path = " -> ".join(map(str, link.circle))
            said = f"its children stay as they are; with the new ones: {path}"
            further.append(_outcome(link.step, said))
            continue
        parts = []
        if link.changes:
            parts.append(f"its children: {', '.join(map(str, link.wanted)) or 'none'}")
        if link.children.missing:
            missing = ", ".join(map(str, link.children.missing))
            parts.append(f"linked once they are imported: {missing}")
        words[link.step.item.source_id] = "; ".join(parts)
        if link.changes and link.step.item.source_id not in of_this_import:
            further.append(_outcome(link.step, "; ".join(parts), ImportAction.UPDATE))
        further += [
            _outcome(link.step, f"its child {child} was deleted here and is not linked")
            for child in link.children.deleted
        ]
    return LinkReport(words, further)


def _circle_with(
    graph: dict[int, tuple[int, ...]], job_id: int, children: tuple[int, ...]
) -> Sequence[int] | None:
    """Give a job these children in the graph, unless they make a circle, which is returned."""
    before = graph.get(job_id, ())
    if before == children:
        return None
    graph[job_id] = children
    circle = find_circle(job_id, graph)
    if circle:
        graph[job_id] = before
    return circle


def _is_unlinked(step: JobStep, origin: Origin | None) -> bool:
    return origin is not None and origin.source_fingerprint == incomplete(step.item.fingerprint)


def _outcome(step: JobStep, words: str, action: ImportAction = ImportAction.CONFLICT) -> Outcome:
    return Outcome(
        action=action,
        what=JOB,
        source_id=step.item.source_id,
        target_id=step.target_id,
        name=f"{step.spec.app}/{step.spec.name}",
        words=words,
    )


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
            job_links.lock(session)
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
        children = job_links.children(session, [job.id for job in written])
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
        job = job_rows.lock(session, step.target_id)
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
