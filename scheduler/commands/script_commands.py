"""Commands on a job's script: add, change or remove it, and restore a version."""

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.jobs.script_cache import (
    REMARK_LENGTH,
    check_source,
    language_of,
    normal_source,
    script_type,
)
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.names import is_line
from warren.scheduler.problems import Code, Problem, Word
from warren.sql.instants import at
from warren.sql.jobs import script_versions
from warren.sql.models import Job
from warren.sql.models.job_tables import FLOW_TYPE


def has_script(job: Job, spec: JobSpec) -> bool:
    """Whether a job's script matches the spec, or neither has one."""
    if not spec.script_language or not job.has_script:
        return not spec.script_language and not job.has_script
    wanted = normal_source(spec.script_language, spec.script_source)
    stored = (job.script_type, job.script_remark, job.script_source)
    return stored == (script_type(spec.script_language), spec.script_remark, wanted)


def script_change(job: Job, spec: JobSpec) -> tuple[str, ...]:
    """Return a line on how the spec changes a job's script; none if it does not."""
    if has_script(job, spec):
        return ()
    if not spec.script_language:
        return (f"script: {_words(job)} -> none",)
    source = normal_source(spec.script_language, spec.script_source)
    if _is_same_version(job, spec, source):
        return (f"script remark: {job.script_remark!r} -> {spec.script_remark!r}",)
    return (f"script: {_words(job)} -> {_words_of(spec.script_language, source)}",)


def apply_script(session: Session, job: Job, spec: JobSpec, *, who: str, now_ms: int) -> None:
    """Make a locked job's script match the spec.

    A new source or language is saved as a version; runs that are already planned keep theirs. A new
    remark alone changes the remark of the current version.
    """
    if spec.flow is not None:
        apply_flow(session, job, spec.flow.to_json(), who=who, now_ms=now_ms)
        return
    if job.script_type == FLOW_TYPE and not spec.script_language:
        script_versions.detach(job)
    if has_script(job, spec):
        return
    if not spec.script_language:
        script_versions.detach(job)
        return
    source = normal_source(spec.script_language, spec.script_source)
    if _is_same_version(job, spec, source):
        script_versions.set_remark(session, job, spec.script_remark, now_ms=now_ms)
        return
    script_versions.save(
        session,
        job,
        script_type=script_type(spec.script_language),
        source=source,
        remark=spec.script_remark,
        author=who,
        now_ms=now_ms,
    )


def apply_flow(session: Session, job: Job, source: str, *, who: str, now_ms: int) -> None:
    """Save the graph of a flow as a version, unless it is the current one."""
    if (job.script_type, job.flow) != (FLOW_TYPE, source) or job.script_version is None:
        script_versions.save(
            session,
            job,
            script_type=FLOW_TYPE,
            source=source,
            remark="",
            author=who,
            now_ms=now_ms,
        )


def _is_same_version(job: Job, spec: JobSpec, source: str) -> bool:
    stored = (job.script_type, job.script_source)
    return job.has_script and stored == (script_type(spec.script_language), source)


def _words(job: Job) -> str:
    if not job.has_script:
        return "none"
    return _words_of(language_of(job.script_type), job.script_source or "")


def _words_of(language: str, source: str) -> str:
    return f"{language}, {len(source.encode())} bytes"


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
        if job.script_version is None or not job.has_script:
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
