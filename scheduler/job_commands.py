"""What people do with one job by a form: make, change, copy, delete it, by its id.

Beside `commands`, which a job file and names go through; the rules and the traces are the same.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy.orm import Session

from scheduler import job_rules, lineage
from scheduler.job_changes import JobChanges
from scheduler.job_rules import Problem
from scheduler.job_spec import JobSpec
from scheduler.schedule_changes import ScheduleChanges
from scheduler.stored_spec import fingerprint, job_spec
from scheduler.trail import Trail
from sql import apps, families, jobs
from sql.engine import Database
from sql.errors import Conflict, NotFound
from sql.models import App, Job


class JobRefused(ValueError):
    """A job cannot be as described; `problems` says why, by field."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(problem.text for problem in problems))
        self.problems = tuple(problems)


class JobCommands:
    """Acts on jobs for one person.

    Args:
        database: where everything is.
        now_ms: the database's clock.
        timezone: for jobs that name none.
        who: recorded in the history and in the audit trail.
        origin: the address that it comes from.
        app_ids: the apps whose jobs exist for this person; None = all.
        added_routes: those that an installation has besides XXL-JOB's.

    """

    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], int],
        *,
        timezone: str,
        who: str,
        origin: str,
        app_ids: Collection[int] | None,
        added_routes: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._app_ids = app_ids
        self._added_routes = added_routes
        schedules = ScheduleChanges(timezone=timezone, who=who)
        self._changes = JobChanges(schedules, Trail(who=who, origin=origin), who=who)

    def create(self, spec: JobSpec) -> int:
        """Make a job; return its id.

        Raises:
            JobRefused: it cannot be so, or its app has a job of that name.

        """

        def unit(session: Session) -> int:
            families.lock(session)
            app_id = self._app_id(session, spec.app)
            self._check(session, spec, app_id, None)
            with _saying("schedule"):
                self._changes.apply(session, app_id, spec, self._now_ms())
            return self._link(session, app_id, spec)

        return self._database.write(unit)

    def update(self, job_id: int, spec: JobSpec, *, seen: str) -> tuple[str, ...]:
        """Change a job; return what changed, in words.

        It keeps its app, and whether it is enabled. `seen` is the `fingerprint` of what the person
        has seen. Children that do not exist for this person are kept.

        Raises:
            NotFound: there is no such job.
            JobRefused: it cannot be so.
            Conflict: somebody else changed it meanwhile.

        """

        def unit(session: Session) -> tuple[str, ...]:
            families.lock(session)
            job, stored, hidden = self.read(session, job_id, lock=True)
            if fingerprint(stored) != seen:
                raise Conflict(f"job {stored.app}/{stored.name} was changed meanwhile")
            wanted = replace(spec, app=stored.app, enabled=None)
            self._check(session, wanted, job.job_group, job)
            with _saying("schedule"):
                words = self._changes.edit(session, job, wanted, self._now_ms())
            before = job.child_jobid
            whole = replace(wanted, children=(*wanted.children, *hidden))
            self._link(session, job.job_group, whole)
            return (*words, "children") if before != job.child_jobid else words

        return self._database.write(unit)

    def delete(self, job_ids: Collection[int]) -> list[str]:
        """Remove jobs, all or none; return their names as APP/NAME.

        Raises:
            NotFound: one of them does not exist.
            ValueError: one is a child of a job that stays.

        """

        def unit(session: Session) -> list[str]:
            families.lock(session)
            doomed = [self._lock(session, job_id) for job_id in sorted(set(job_ids))]
            self._refuse_orphans(session, {job.id for job in doomed})
            names = [f"{self._app(session, job).app_name}/{job.job_desc}" for job in doomed]
            for job in doomed:
                self._changes.delete(session, job, self._now_ms())
            return names

        return self._database.write(unit)

    def read(
        self, session: Session, job_id: int, *, lock: bool = False
    ) -> tuple[Job, JobSpec, tuple[str, ...]]:
        """Return a job, how it is described, and its children that do not exist for this person.

        Raises:
            NotFound: there is no such job.

        """
        job = self._lock(session, job_id) if lock else self._find(session, job_id)
        app = self._app(session, job).app_name
        names = families.names(session, families.ids(job.child_jobid))
        seen: list[str] = []
        hidden: list[str] = []
        for child in families.ids(job.child_jobid):
            if child in names:
                listed = seen if self._may_touch_app(session, names[child][0]) else hidden
                listed.append("/".join(names[child]))
        return job, job_spec(job, app, seen), tuple(hidden)

    def _check(self, session: Session, spec: JobSpec, app_id: int, own: Job | None) -> None:
        found = job_rules.problems(spec, now_ms=self._now_ms(), added_routes=self._added_routes)
        namesake = jobs.find_in_app(session, app_id, spec.name)
        if namesake is not None and (own is None or namesake.id != own.id):
            found.append(Problem("name", f"app {spec.app} has a job named {spec.name!r} already"))
        found += [
            Problem("children", f"unknown child {child[:100]!r}")
            for child in spec.children
            if not self._is_child(session, app_id, child)
        ]
        if found:
            raise JobRefused(found)

    def _is_child(self, session: Session, app_id: int, child: str) -> bool:
        app, slash, name = child.rpartition("/")
        if slash:
            known = apps.ids_by_name(session)
            if app not in known or not self._may_touch(known[app]):
                return False
            app_id = known[app]
        return jobs.find_in_app(session, app_id, name) is not None

    def _link(self, session: Session, app_id: int, spec: JobSpec) -> int:
        with _saying("children", self._safe):
            job_id, words = self._changes.link(session, app_id, spec, self._now_ms())
            lineage.refuse_circles(session, [job_id] if words else [])
        return job_id

    def _safe(self, words: str) -> str:
        """Return words about a circle, which may lead through jobs that this person may not see."""
        head, circle, _ = words.partition(" circle: ")
        return words if self._app_ids is None or not circle else f"{head} circle"

    def _refuse_orphans(self, session: Session, job_ids: Collection[int]) -> None:
        try:
            lineage.refuse_orphans(session, job_ids)
        except ValueError:
            parents = families.parents(session, job_ids)
            if all(self._may_touch_app(session, row.app) for row in parents):
                raise
            raise ValueError(
                "cannot delete: still among the children of other apps' jobs"
            ) from None

    def _app_id(self, session: Session, name: str) -> int:
        found = apps.ids_by_name(session).get(name)
        if found is None or not self._may_touch(found):
            raise JobRefused([Problem("app", f"unknown app {name[:100]!r}")])
        return found

    def _find(self, session: Session, job_id: int) -> Job:
        job = session.get(Job, job_id)
        if job is None or not self._may_touch(job.job_group):
            raise NotFound(f"no job with id {job_id}")
        return job

    def _lock(self, session: Session, job_id: int) -> Job:
        return jobs.lock(session, self._find(session, job_id).id)

    def _app(self, session: Session, job: Job) -> App:
        return session.get_one(App, job.job_group)

    def _may_touch_app(self, session: Session, name: str) -> bool:
        return self._may_touch(apps.find(session, name).id)

    def _may_touch(self, app_id: int) -> bool:
        return self._app_ids is None or app_id in self._app_ids


@contextmanager
def _saying(field: str, shown: Callable[[str], str] = str) -> Iterator[None]:
    """Make of an objection a refusal of one field."""
    try:
        yield
    except ValueError as error:
        raise JobRefused([Problem(field, shown(str(error)))]) from error
