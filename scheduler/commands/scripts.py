"""Commands on the script of a job that has one: save it, restore a version."""

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.jobs.script_source import REMARK_LENGTH, check_source, normal_source
from warren.scheduler.one_line import is_line
from warren.scheduler.problems import Code, Problem, Word
from warren.sql.instants import at
from warren.sql.jobs import script_versions
from warren.sql.models import Job


class ScriptCommands:
    """Acts on scripts on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def save(self, job_id: int, source: str, *, remark: str, based_on: int) -> int | None:
        """Save a source as the current version; return its number, or None if nothing changed.

        Runs that are already planned keep their version.

        Raises:
            Problem: there is no such job, it has no script, source or remark are invalid, or the
                id of the current version is not `based_on`.

        """
        check_source(source)
        _check_remark(remark)

        def unit(session: Session) -> int | None:
            job = self._lock(session, job_id, based_on)
            return self._save(session, job, source, job.script_type, remark)

        return self._context.write(Right.EDIT_GLUE, unit)

    def restore(self, job_id: int, version: int, *, remark: str, based_on: int) -> int | None:
        """Save an earlier version again as the current one; otherwise like `save`.

        Raises:
            NotFound: the job has no such version.
            Problem: as for `save`.

        """
        _check_remark(remark)

        def unit(session: Session) -> int | None:
            job = self._lock(session, job_id, based_on)
            earlier = script_versions.version(session, job_id, version)
            kind = earlier.script_type or job.script_type
            return self._save(session, job, earlier.source or "", kind, remark)

        return self._context.write(Right.EDIT_GLUE, unit)

    def _lock(self, session: Session, job_id: int, based_on: int) -> Job:
        job = self._context.job(session, job_id, lock=True)
        if job.script_version is None:
            raise Problem(Code.NO_SCRIPT, id=job_id)
        if job.script_version != based_on:
            saved = script_versions.version(session, job_id, job.script_version)
            raise Problem(
                Code.SCRIPT_CHANGED,
                version=saved.number,
                version_id=saved.id,
                who=saved.author or "",
            )
        return job

    def _save(
        self, session: Session, job: Job, source: str, script_type: str, remark: str
    ) -> int | None:
        source = normal_source(language_of(script_type), source)
        if (script_type, source) == (job.script_type, job.script_source):
            return None
        now_ms, before = self._context.now_ms(), job.script_version or 0
        saved = script_versions.save(
            session,
            job,
            script_type=script_type,
            source=source,
            remark=remark,
            author=self._context.actor.who,
            now_ms=now_ms,
        )
        job.update_time = at(now_ms)
        number = script_versions.number(session, saved)
        self._context.note_job(
            session,
            Action.GLUE_SAVE,
            job,
            now_ms,
            before={"version": script_versions.number(session, before)},
            after={"version": number, "remark": remark, "bytes": len(source.encode())},
        )
        return number


def _check_remark(remark: str) -> None:
    if not remark.strip() or len(remark) > REMARK_LENGTH:
        raise Problem(Code.REMARK, "script/remark", most=REMARK_LENGTH)
    if not is_line(remark, REMARK_LENGTH):
        most = REMARK_LENGTH
        raise Problem(Code.LINE, "script/remark", what=Word.REMARK, most=most, got=remark[:100])
