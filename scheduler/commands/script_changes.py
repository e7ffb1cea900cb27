"""Gives a job a script, changes or removes it, in the caller's transaction."""

from sqlalchemy.orm import Session

from scheduler.jobs.script_cache import language_of, script_type
from scheduler.jobs.script_source import normal_source
from scheduler.jobs.spec import JobSpec
from sql.jobs import script_versions
from sql.models import Job


def has_script(job: Job, spec: JobSpec) -> bool:
    """Whether a job's script matches the spec, or neither has one."""
    if not spec.script_language or job.script_version is None:
        return not spec.script_language and job.script_version is None
    wanted = normal_source(spec.script_language, spec.script_source)
    stored = (job.script_type, job.script_remark, job.script_source)
    return stored == (script_type(spec.script_language), spec.script_remark, wanted)


def apply_script(
    session: Session, job: Job, spec: JobSpec, *, who: str, now_ms: int
) -> tuple[str, ...]:
    """Make a locked job's script match the spec; return a line if that changes it.

    A new source or language is saved as a version; runs that are already planned keep theirs. A new
    remark alone changes the remark of the current version.
    """
    if not spec.script_language:
        return _remove(job)
    wanted = script_type(spec.script_language)
    source = normal_source(spec.script_language, spec.script_source)
    if job.script_version is None or (job.script_type, job.script_source) != (wanted, source):
        before = _words(job)
        script_versions.save(
            session,
            job,
            script_type=wanted,
            source=source,
            remark=spec.script_remark,
            author=who,
            now_ms=now_ms,
        )
        return (f"script: {before} -> {_words(job)}",)
    if job.script_remark != spec.script_remark:
        words = f"script remark: {job.script_remark!r} -> {spec.script_remark!r}"
        script_versions.set_remark(session, job, spec.script_remark, now_ms=now_ms)
        return (words,)
    return ()


def _remove(job: Job) -> tuple[str, ...]:
    if job.script_version is None:
        return ()
    words = f"script: {_words(job)} -> none"
    script_versions.detach(job)
    return (words,)


def _words(job: Job) -> str:
    if job.script_version is None:
        return "none"
    return f"{language_of(job.script_type)}, {len((job.script_source or '').encode())} bytes"
