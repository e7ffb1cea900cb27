"""Giving a job a script, another one, or none, inside the caller's transaction."""

from sqlalchemy.orm import Session

from scheduler.job_spec import JobSpec
from scheduler.script_source import normal_source
from scheduler.scripts import glue_type, language_of
from sql import glue
from sql.models import Job


def apply_script(
    session: Session, job: Job, spec: JobSpec, *, who: str, now_ms: int
) -> tuple[str, ...]:
    """Make a locked job's script as described; return what changed, in words.

    A change of source or language saves a version; what is planned keeps the one it was planned
    with. Another remark is given to the current version.
    """
    if not spec.script_language:
        return _take_away(job)
    wanted = glue_type(spec.script_language)
    source = normal_source(spec.script_language, spec.script_source)
    if job.glue_id is None or (job.glue_type, job.glue_source) != (wanted, source):
        before = _words(job)
        glue.save(
            session,
            job,
            glue_type=wanted,
            source=source,
            remark=spec.script_remark,
            author=who,
            now_ms=now_ms,
        )
        return (f"script: {before} -> {_words(job)}",)
    if job.glue_remark != spec.script_remark:
        words = f"script remark: {job.glue_remark!r} -> {spec.script_remark!r}"
        glue.retitle(session, job, spec.script_remark, now_ms=now_ms)
        return (words,)
    return ()


def _take_away(job: Job) -> tuple[str, ...]:
    if job.glue_id is None:
        return ()
    words = f"script: {_words(job)} -> none"
    glue.leave(job)
    return (words,)


def _words(job: Job) -> str:
    if job.glue_id is None:
        return "none"
    return f"{language_of(job.glue_type)}, {len((job.glue_source or '').encode())} bytes"
