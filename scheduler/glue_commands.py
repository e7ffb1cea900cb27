"""What people do with the script of a job that has one: save it, restore a version of it."""

from collections.abc import Callable, Collection

from sqlalchemy.orm import Session

from scheduler.script_source import REMARK_LENGTH, check_source, normal_source
from scheduler.scripts import language_of
from scheduler.trail import Action, Trail
from sql import glue, jobs, scripts
from sql.engine import Database
from sql.errors import Conflict, NotFound
from sql.instants import at
from sql.models import Job


class SavedMeanwhile(Conflict):
    """Somebody saved another version: `glue_id` is the current one, `who` its author."""

    def __init__(self, glue_id: int, who: str) -> None:
        super().__init__(f"version {glue_id} was saved by {who} meanwhile")
        self.glue_id = glue_id
        self.who = who


class GlueCommands:
    """Acts on scripts for one person.

    Args:
        database: where they are.
        now_ms: the database's clock.
        who: the author of new versions; recorded in the audit trail.
        origin: the address that it comes from.
        app_ids: the apps whose jobs it may touch, for it there are no others; None = all.

    """

    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], int],
        *,
        who: str,
        origin: str,
        app_ids: Collection[int] | None = None,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._who = who
        self._app_ids = app_ids
        self._trail = Trail(who=who, origin=origin)

    def save(self, job_id: int, source: str, *, remark: str, based_on: int) -> int | None:
        """Make a source the current version; return its id, None when nothing is different.

        Runs that are planned already keep the version that they were planned with.

        Raises:
            ValueError: the source or the remark is not acceptable, in one line.
            NotFound: there is no such job, or it has no script.
            SavedMeanwhile: the current version is not `based_on`.

        """
        check_source(source)
        _check_remark(remark)

        def unit(session: Session) -> int | None:
            job = self._lock(session, job_id, based_on)
            return self._save(session, job, source, job.glue_type, remark)

        return self._database.write(unit)

    def restore(self, job_id: int, glue_id: int, *, remark: str, based_on: int) -> int | None:
        """Make an earlier version the current one again, as a new version; as `save` otherwise.

        Raises:
            NotFound: the job has no such version.

        """
        _check_remark(remark)

        def unit(session: Session) -> int | None:
            job = self._lock(session, job_id, based_on)
            found = glue.version(session, job_id, glue_id)
            kind = found.glue_type or job.glue_type
            return self._save(session, job, found.glue_source or "", kind, remark)

        return self._database.write(unit)

    def _lock(self, session: Session, job_id: int, based_on: int) -> Job:
        job = jobs.lock(session, job_id)
        if job.glue_id is None or (
            self._app_ids is not None and job.job_group not in self._app_ids
        ):
            raise NotFound(f"job {job_id} has no script")
        if job.glue_id != based_on:
            author = glue.version(session, job_id, job.glue_id).author
            raise SavedMeanwhile(job.glue_id, author or "")
        return job

    def _save(
        self, session: Session, job: Job, source: str, glue_type: str, remark: str
    ) -> int | None:
        source = normal_source(language_of(glue_type), source)
        if (glue_type, source) == (job.glue_type, job.glue_source):
            return None
        now_ms, before = self._now_ms(), job.glue_id
        saved = glue.save(
            session,
            job,
            glue_type=glue_type,
            source=source,
            remark=remark,
            author=self._who,
            now_ms=now_ms,
        )
        job.update_time = at(now_ms)
        name = f"{scripts.of_job(session, job.id).app}/{job.job_desc}"
        self._trail.note(
            session,
            Action.GLUE_SAVE,
            name,
            object_id=job.id,
            now_ms=now_ms,
            before={"version": before},
            after={"version": saved, "remark": remark, "bytes": len(source.encode())},
        )
        return saved


def _check_remark(remark: str) -> None:
    if not remark.strip() or len(remark) > REMARK_LENGTH:
        raise ValueError(f"expected remark to be 1 to {REMARK_LENGTH} characters")
