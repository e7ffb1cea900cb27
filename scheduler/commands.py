"""What people do with jobs and runs: the same for the command line and the console.

Every change of a job locks its row, decides what was still undecided, and leaves a line in the
history and an entry in the audit trail, all in one transaction. Nothing here talks to the broker: a
trigger and a kill are rows.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict

from sqlalchemy.orm import Session

from scheduler import lineage
from scheduler.aftermath import End
from scheduler.calendar_days import CalendarDays
from scheduler.clearing import Clearing, Wish, clear_all
from scheduler.completion import Completion
from scheduler.job_changes import JobChanges
from scheduler.job_file_changes import Change, JobFileChanges
from scheduler.job_spec import AppSpec, JobSpec
from scheduler.routing import planned_shards
from scheduler.schedule_changes import ScheduleChanges
from scheduler.trail import CLI, Action, Trail
from sql import apps, cluster, families, jobs, presence, runs
from sql.engine import Database
from sql.errors import Conflict, NotFound
from sql.ids import RunIds
from sql.models import App, Job
from sql.run_status import OPEN, Kind, RunStatus


class Commands:
    """Acts for one person or program.

    Args:
        database: where everything is.
        now_ms: the database's clock.
        timezone: for jobs that name none.
        who: recorded in the history and in the audit trail.
        origin: the address that it comes from, or `cli`; for the audit trail.
        app_ids: the apps whose jobs and runs it may touch, for it there are no others; None = all.

    """

    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], int],
        *,
        timezone: str,
        who: str,
        origin: str = CLI,
        app_ids: Collection[int] | None = None,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._who = who
        self._timezone = timezone
        self._app_ids = app_ids
        self._trail = Trail(who=who, origin=origin)
        self._ids = RunIds(database)
        self._completion = Completion(self._ids, now_ms)
        self._schedules = ScheduleChanges(timezone=timezone, who=who)
        self._changes = JobChanges(self._schedules, self._trail, who=who)
        self._file_changes = JobFileChanges(
            self._changes, self._trail, now_ms=now_ms, may_touch=self._may_touch
        )

    def apply(
        self,
        wanted_apps: Sequence[AppSpec],
        specs: Sequence[JobSpec],
        *,
        dry_run: bool,
        prune: bool,
    ) -> list[Change]:
        """Make apps and jobs as described, all or nothing; return what changed, in order.

        `prune` deletes the jobs of the named apps that `specs` leaves out. Applying twice changes
        nothing.

        Raises:
            ValueError: a job's schedule can never fire, its children are unknown or form a circle,
                or a job to be deleted is another's child, in one line that names the job.

        """

        def unit(session: Session) -> list[Change]:
            changes = self._file_changes.apply(session, wanted_apps, specs, prune=prune)
            if dry_run:
                session.rollback()
            return changes

        return self._database.write(unit)

    def start(self, name: str) -> bool:
        """Let a job's schedule fire from now on; False when it does already.

        Raises:
            NotFound: there is no such job.
            ValueError: it has no schedule, or one that can never fire.

        """

        def unit(session: Session) -> bool:
            job, now_ms = self._lock(session, name), self._now_ms()
            if not self._schedules.start(session, job, now_ms):
                return False
            self._note(session, Action.JOB_START, job, now_ms)
            return True

        return self._database.write(unit)

    def stop(self, name: str) -> bool:
        """Let a job's schedule rest: what is planned is cancelled; False when it rests already."""

        def unit(session: Session) -> bool:
            job, now_ms = self._lock(session, name), self._now_ms()
            if not self._schedules.stop(session, job, now_ms):
                return False
            self._note(session, Action.JOB_STOP, job, now_ms)
            return True

        return self._database.write(unit)

    def delete(self, name: str) -> None:
        """Remove a job: what is planned is cancelled, what runs goes on, its runs are kept.

        Raises:
            NotFound: there is no such job.
            ValueError: it is a child of others.

        """

        def unit(session: Session) -> None:
            families.lock(session)
            job = self._lock(session, name)
            lineage.refuse_orphans(session, {job.id})
            self._changes.delete(session, job, self._now_ms())

        self._database.write(unit)

    def trigger(self, name: str, *, param: str | None, addresses: Sequence[str]) -> int:
        """Plan a run of a job now; return its id. `param` None = the job's own.

        Raises:
            ValueError: an address is neither registered nor listed for the job's app.

        """
        # Taken before, so that a commit whose answer was lost is not planned a second time.
        run_id = self._ids.one()

        def unit(session: Session) -> None:
            job = self._find(session, name)
            for address in addresses:
                _check_address(session, job, address)
            now_ms = self._now_ms()
            run = runs.NewRun(
                job_group=job.job_group,
                job_id=job.id,
                handler=job.executor_handler or "",
                param=(job.executor_param or "") if param is None else param,
                kind=Kind.MANUAL,
                scheduled_at=now_ms,
                due_at=now_ms,
                retries_left=job.executor_fail_retry_count,
                shard_total=planned_shards(job.executor_route_strategy),
                origin_id=None,
                wanted_addresses=",".join(addresses) or None,
                glue_id=job.glue_id,
                run_id=run_id,
            )
            runs.plan(session, [run], self._ids)
            told = {"run": run_id, "param": run.param, "addresses": run.wanted_addresses or ""}
            self._note(session, Action.JOB_TRIGGER, job, now_ms, after=told)

        self._database.write(unit)
        return run_id

    def kill(self, run_id: int) -> str:
        """Stop a run wherever it is; return in words what was done.

        Raises:
            NotFound: there is no such run.
            Conflict: it is over already.

        """

        def unit(session: Session) -> str:
            found = runs.lock(session, [run_id])
            if not found or not self._may_touch(found[0].job_group):
                raise NotFound(f"no run with id {run_id}")
            status = RunStatus(found[0].status)
            if status not in OPEN:
                raise Conflict(f"run {run_id} is already {status}")
            self._trail.note(
                session,
                Action.RUN_KILL,
                str(run_id),
                object_id=run_id,
                now_ms=self._now_ms(),
                before={"status": status.value, "job": found[0].job_id},
            )
            if status is not RunStatus.PLANNED:
                runs.request_kill(session, run_id, now_ms=self._now_ms())
                return "kill requested"
            self._completion.end(session, [self._cancelled(run_id)])
            return "cancelled before it was sent"

        return self._database.write(unit)

    def pause(self) -> bool:
        """Stop dispatch everywhere; ticks are planned on. False when it is paused already."""
        return self._set_paused(self._now_ms())

    def resume(self) -> bool:
        """Let dispatch go on; False when it was not paused."""
        return self._set_paused(0)

    def clear_runs(
        self,
        wish: Wish,
        *,
        dry_run: bool = False,
        on_progress: Callable[[int], None] = lambda _count: None,
    ) -> int:
        """Delete runs that are over, a little at a time; return how many.

        `on_progress` is told after each step how many it is by now. With `dry_run` they are only
        counted.

        Raises:
            NotFound: it is about an app that is none of those it may touch.

        """
        self._database.write(lambda session: self._note_clearing(session, wish, dry_run=dry_run))
        days = CalendarDays(self._timezone)
        clearing = Clearing(self._database, wish, by=self._who, days=days, dry_run=dry_run)
        return clear_all(clearing, self._now_ms(), on_progress=on_progress)

    def _set_paused(self, at_ms: int) -> bool:
        action = Action.CLUSTER_PAUSE if at_ms else Action.CLUSTER_RESUME

        def unit(session: Session) -> bool:
            if not cluster.set_paused(session, at_ms=at_ms, by=self._who):
                return False
            self._trail.note(session, action, "dispatch", now_ms=at_ms or self._now_ms())
            return True

        return self._database.write(unit)

    def _note_clearing(self, session: Session, wish: Wish, *, dry_run: bool) -> None:
        app_id = wish.app_id
        if wish.job_id is not None:
            job = session.get(Job, wish.job_id)
            app_id = job.job_group if job else None
        if self._app_ids is not None and app_id not in self._app_ids:
            raise NotFound("no such job or app")
        if not dry_run:
            wanted = {name: value for name, value in asdict(wish).items() if value is not None}
            self._trail.note(session, Action.RUN_CLEAR, "runs", now_ms=self._now_ms(), after=wanted)

    def _find(self, session: Session, name: str) -> Job:
        job = jobs.find(session, name)
        if not self._may_touch(job.job_group):
            raise NotFound(f"no job named {name!r}")
        return job

    def _lock(self, session: Session, name: str) -> Job:
        return jobs.lock(session, self._find(session, name).id)

    def _may_touch(self, app_id: int) -> bool:
        return self._app_ids is None or app_id in self._app_ids

    def _note(
        self,
        session: Session,
        action: Action,
        job: Job,
        now_ms: int,
        after: dict[str, object] | None = None,
    ) -> None:
        name = f"{session.get_one(App, job.job_group).app_name}/{job.job_desc}"
        self._trail.note(session, action, name, object_id=job.id, now_ms=now_ms, after=after)

    def _cancelled(self, run_id: int) -> End:
        return End(
            run_id=run_id,
            status=RunStatus.CANCELLED,
            message=f"cancelled by {self._who} before it was sent",
            finished_at=self._now_ms(),
            never_started=True,
        )


def _check_address(session: Session, job: Job, address: str) -> None:
    app = session.get_one(App, job.job_group)
    if presence.holder(session, presence.EXECUTOR, app.app_name, address) is not None:
        return
    if address not in apps.split(app.address_list):
        raise ValueError(
            f"expected address to be a registered executor of app {app.app_name}, got: {address!r}"
        )
