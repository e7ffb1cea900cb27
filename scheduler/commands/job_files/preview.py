"""What applying a job file does, found out by reading: it locks nothing and writes nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.child_changes import ChildChanges
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_changes import CREATED, UNCHANGED, Applied, JobChanges
from warren.scheduler.commands.job_edits import is_as_described
from warren.scheduler.commands.job_files.app_settings import app_changes
from warren.scheduler.commands.job_files.file_changes import (
    Change,
    JobFile,
    app_change,
    deletion,
    job_change,
    parts,
)
from warren.scheduler.commands.new_jobs import NewJob, NewJobs, as_if_stored
from warren.scheduler.jobs.dependencies import Family, KnownJobs, Name
from warren.scheduler.jobs.rules import check_new_app_name
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.sql.jobs import child_links, exports, job_names, jobs
from warren.sql.models import Job


@dataclass(frozen=True, slots=True)
class Preview:
    """What applying a job file does; jobs are given by the numbers of their specs.

    Attributes:
        app_ids: by name; negative for apps that are to be created.
        changes: in order, unchanged jobs included.
        applied: what is done to jobs, apart from their children.
        new: the jobs that are to be created.
        linked: the jobs whose children change.

    """

    app_ids: Mapping[str, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    applied: dict[int, Applied] = field(default_factory=dict)
    new: dict[int, NewJob] = field(default_factory=dict)
    linked: set[int] = field(default_factory=set)


class JobFilePreview:
    """Compares job files with what is stored, on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._new_jobs = NewJobs(context)
        self._changes = JobChanges(context)
        self._children = ChildChanges(context)

    def of(self, session: Session, file: JobFile) -> Preview:
        """Return what applying a file does.

        Raises:
            Problem: as for `JobFileCommands.apply`.

        """
        preview = self._apps(session, file)
        job_ids = self._jobs(session, file, preview)
        known = KnownJobs(
            session,
            new_apps={app: app_id for app, app_id in preview.app_ids.items() if app_id < 0},
            new_jobs={
                job_ids[number]: (job.spec.app, job.spec.name)
                for number, job in preview.new.items()
            },
        )
        children = self._link(session, file, preview, job_ids, known)
        preview.changes.extend(
            job_change(spec, preview.applied[number], children.get(number))
            for number, spec in enumerate(file.specs)
        )
        if left_out := file.left_out(session, preview.app_ids):
            self._children.refuse_orphans(known, left_out)
            preview.changes.extend(deletion(*name) for name in left_out.values())
        return preview

    def _apps(self, session: Session, file: JobFile) -> Preview:
        """Return a preview of the apps alone."""
        actor = self._context.actor
        known = {app.name: app for app in exports.apps(session)}
        app_ids, changes = {}, []
        for number, (name, wanted) in enumerate(file.by_app().items(), 1):
            app = known.get(name)
            if app is None:
                check_new_app_name(name)
            app_ids[name] = -number if app is None else app.id
            if not actor.knows(app_ids[name]):
                raise Problem(Code.UNKNOWN_APP, got=name)
            words = () if app is None else app_changes(app, wanted)
            if app is None or words:
                actor.demand(Right.ADMINISTER)
                changes.append(app_change(name, is_new=app is None, words=words))
        return Preview(app_ids, changes)

    def _jobs(self, session: Session, file: JobFile, preview: Preview) -> list[int]:
        """Add what is done to jobs, apart from their children; return their ids by number.

        Jobs that are to be created have negative ids.
        """
        named = Counter((spec.app, spec.name) for spec in file.specs)
        again: dict[Name, Job] = {}
        job_ids: list[int] = []
        for part in parts(enumerate(file.specs)):
            now_ms = self._context.now_ms()
            stored = self._stored(session, preview.app_ids, [spec for _, spec in part]) | again
            differing: dict[int, tuple[Job, JobSpec]] = {}
            for number, spec in part:
                job = stored.get((spec.app, spec.name))
                job_ids.append(-1 - number if job is None else job.id)
                if job is None:
                    preview.new[number] = self._new_jobs.prepare(session, spec, now_ms)
                    preview.applied[number] = CREATED
                elif is_as_described(job, spec):
                    preview.applied[number] = UNCHANGED
                else:
                    differing[number] = job, spec
                if named[spec.app, spec.name] > 1:
                    again[spec.app, spec.name] = as_if_stored(job_ids[-1], spec, job, now_ms)
            foreseen = self._changes.foresee(session, list(differing.values()), now_ms)
            preview.applied.update(zip(differing, foreseen, strict=True))
        return job_ids

    def _stored(
        self, session: Session, app_ids: Mapping[str, int], specs: Sequence[JobSpec]
    ) -> dict[Name, Job]:
        keys = {(app_ids[spec.app], spec.name): spec for spec in specs if app_ids[spec.app] > 0}
        found = job_names.find_many(session, keys)
        jobs.read_sources(session, [job for key, job in found.items() if keys[key].script_language])
        return {(keys[key].app, keys[key].name): job for key, job in found.items()}

    def _link(
        self,
        session: Session,
        file: JobFile,
        preview: Preview,
        job_ids: Sequence[int],
        known: KnownJobs,
    ) -> dict[int, str]:
        """Add the jobs whose children change; return a sentence about each."""
        parents = child_links.with_children(session)
        numbers = {
            job_ids[number]: number
            for number, spec in enumerate(file.specs)
            if spec.children or job_ids[number] in parents
        }
        families = [
            family_of(file.specs[number], job_id, preview.app_ids)
            for job_id, number in numbers.items()
        ]
        links = self._children.changes(known, families)
        preview.linked.update(numbers[one.job_id] for one in links)
        return {numbers[one.job_id]: one.words for one in links if one.words}


def family_of(spec: JobSpec, job_id: int, app_ids: Mapping[str, int]) -> Family:
    """Return the children that a job is to have."""
    return Family(job_id, app_ids[spec.app], spec.app, spec.name, spec.children)
