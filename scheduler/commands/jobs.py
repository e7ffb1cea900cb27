"""What people do with jobs: make, change, delete, start and stop them, by their ids."""

from collections.abc import Callable, Collection
from dataclasses import replace

from sqlalchemy.orm import Session

from scheduler.actor import Right
from scheduler.commands.audit_log import Action
from scheduler.commands.child_changes import ChildChanges
from scheduler.commands.command_context import CommandContext
from scheduler.commands.job_changes import JobChanges
from scheduler.commands.schedule_changes import ScheduleChanges
from scheduler.jobs import dependencies, rules
from scheduler.jobs.spec import JobSpec
from scheduler.jobs.stored_spec import fingerprint, job_spec
from scheduler.problems import Code, Problem, Refused
from sql.jobs import child_links, history, jobs
from sql.models import App, Job
from sql.registry import apps


class JobCommands:
    """Acts on jobs for one person or program."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._changes = JobChanges(context)
        self._schedules = ScheduleChanges(context)
        self._children = ChildChanges(context)

    def create(self, spec: JobSpec) -> int:
        """Make a job; return its id.

        Raises:
            Refused: it cannot be so, or its app has a job of that name.

        """

        def unit(session: Session) -> int:
            child_links.lock(session)
            app_id = self._app_id(session, spec.app)
            self._check(session, spec, app_id, None)
            self._changes.apply(session, [(app_id, spec)], self._context.now_ms())
            return self._link(session, app_id, spec)[0]

        return self._context.write(Right.OPERATE, unit)

    def update(
        self, job_id: int, spec: JobSpec, *, seen: str | None, enabled: bool | None = None
    ) -> tuple[str, ...]:
        """Change a job; return what changed, in words.

        It keeps its app, and whether it is enabled where `enabled` does not say. `seen` is the
        `fingerprint` of what the person has seen, None = whatever it is. Children that do not
        exist for this person are kept.

        Raises:
            Refused: there is no such job, it cannot be so, or somebody else changed it meanwhile.

        """

        def unit(session: Session) -> tuple[str, ...]:
            child_links.lock(session)
            job, stored, _ = self.read(session, job_id, lock=True)
            _check_seen(stored, seen)
            wanted = replace(spec, app=stored.app, enabled=enabled)
            self._check(session, wanted, job.app_id, job)
            now_ms = self._context.now_ms()
            words = self._changes.edit(session, job, wanted, now_ms)
            words += self._changes.switch(session, job, wanted, now_ms)
            _, kin = self._link(session, job.app_id, wanted)
            return (*words, "children") if kin else words

        return self._context.write(Right.OPERATE, unit)

    def delete(self, job_ids: Collection[int], *, seen: str | None = None) -> list[str]:
        """Remove jobs, all or none; return their names as APP/NAME.

        `seen` is the `fingerprint` that each must still have, None = whatever it is.

        Raises:
            Problem: one does not exist, is a child of a job that stays, or has just changed.

        """

        def unit(session: Session) -> list[str]:
            child_links.lock(session)
            doomed = [
                self._context.job(session, job_id, lock=True) for job_id in sorted(set(job_ids))
            ]
            if seen is not None:
                for job in doomed:
                    _check_seen(self.read(session, job.id)[1], seen)
            self._children.refuse_orphans(session, {job.id for job in doomed})
            names = [f"{self._app(session, job).name}/{job.name}" for job in doomed]
            for job in doomed:
                self._changes.delete(session, job, self._context.now_ms())
            return names

        return self._context.write(Right.OPERATE, unit)

    def start(self, job_id: int) -> bool:
        """Start a job's schedule; False when it is started already.

        Raises:
            Problem: there is no such job, it has no schedule, or one that can never fire.

        """
        return self._switch(job_id, Action.JOB_START, self._schedules.start)

    def stop(self, job_id: int) -> bool:
        """Stop a job's schedule and cancel what is planned; False when it is stopped already."""
        return self._switch(job_id, Action.JOB_STOP, self._schedules.stop)

    def undo_stop(self, job_id: int, *, stopped: range) -> bool:
        """Start a job's schedule that this person stopped in these milliseconds.

        False when something else was the last to change the schedule.

        Raises:
            Problem: as `start`.

        """

        def act(session: Session, job: Job, now_ms: int) -> bool:
            last = history.last_change(session, job.id)
            if last is None or last.enabled or last.changed_at not in stopped:
                return False
            is_own = last.changed_by == self._context.actor.who[:64]
            return is_own and self._schedules.start(session, job, now_ms)

        return self._switch(job_id, Action.JOB_START, act)

    def read(
        self, session: Session, job_id: int, *, lock: bool = False
    ) -> tuple[Job, JobSpec, tuple[str, ...]]:
        """Return a job, how it is described, and its children that do not exist for this person.

        Raises:
            Problem: there is no such job.

        """
        job = self._context.job(session, job_id, lock=lock)
        app = self._app(session, job).name
        children = child_links.children_of(session, job.id)
        names = child_links.names(session, children)
        own = apps.ids_by_name(session, self._context.actor.app_ids)
        seen: list[str] = []
        hidden: list[str] = []
        for child in children:
            if child in names:
                app_id = own.get(names[child][0])
                is_seen = app_id is not None and self._context.actor.knows_job(app_id, child)
                listed = seen if is_seen else hidden
                listed.append("/".join(names[child]))
        return job, job_spec(job, app, seen), tuple(hidden)

    def _switch(
        self, job_id: int, action: Action, act: Callable[[Session, Job, int], bool]
    ) -> bool:
        def unit(session: Session) -> bool:
            job, now_ms = self._context.job(session, job_id, lock=True), self._context.now_ms()
            if not act(session, job, now_ms):
                return False
            self._context.note_job(session, action, job, now_ms)
            return True

        return self._context.write(Right.OPERATE, unit)

    def _check(self, session: Session, spec: JobSpec, app_id: int, own: Job | None) -> None:
        found = rules.problems(
            spec, now_ms=self._context.now_ms(), added_routes=self._context.added_routes
        )
        namesake = jobs.find_in_app(session, app_id, spec.name)
        if namesake is not None and (own is None or namesake.id != own.id):
            facts = {"app": spec.app, "name": spec.name}
            found.append(Problem(Code.JOB_NAME_TAKEN, "name", **facts))
        own_apps = apps.ids_by_name(session, self._context.actor.app_ids)
        children = dependencies.find(session, app_id, spec.children, own_apps)
        found += [
            Problem(Code.UNKNOWN_CHILD, "children", got=child[:100])
            for child, child_id in zip(spec.children, children, strict=True)
            if child_id is None
        ]
        if found:
            raise Refused(found)

    def _link(self, session: Session, app_id: int, spec: JobSpec) -> tuple[int, str | None]:
        job_id, words = self._children.link(session, app_id, spec, self._context.now_ms())
        self._children.refuse_circles(session, [job_id] if words else [])
        return job_id, words

    def _app_id(self, session: Session, name: str) -> int:
        found = apps.ids_by_name(session).get(name)
        if found is None or not self._context.actor.knows(found):
            raise Problem(Code.UNKNOWN_APP, "app", got=name[:100])
        return found

    def _app(self, session: Session, job: Job) -> App:
        return session.get_one(App, job.app_id)


def _check_seen(stored: JobSpec, seen: str | None) -> None:
    if seen is not None and fingerprint(stored) != seen:
        raise Problem(Code.JOB_CHANGED, job=f"{stored.app}/{stored.name}")
