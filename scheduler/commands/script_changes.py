"""Gives a job a script, changes or removes it, in the caller's transaction."""

from sqlalchemy.orm import Session

from warren.scheduler.jobs.script_cache import language_of, script_type
from warren.scheduler.jobs.script_source import normal_source
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.jobs import script_versions
from warren.sql.models import Job


def has_script(job: Job, spec: JobSpec) -> bool:
    """Whether a job's script matches the spec, or neither has one."""
    if not spec.script_language or job.script_version is None:
        return not spec.script_language and job.script_version is None
    wanted = normal_source(spec.script_language, spec.script_source)
    stored = (job.script_type, job.script_remark, job.script_source)
    return stored == (script_type(spec.script_language), spec.script_remark, wanted)


def script_change(job: Job, spec: JobSpec) -> tuple[str, ...]:
    """Return a line about what the spec changes about a job's script; none if nothing."""
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


def _is_same_version(job: Job, spec: JobSpec, source: str) -> bool:
    stored = (job.script_type, job.script_source)
    return job.script_version is not None and stored == (script_type(spec.script_language), source)


def _words(job: Job) -> str:
    if job.script_version is None:
        return "none"
    return _words_of(language_of(job.script_type), job.script_source or "")


def _words_of(language: str, source: str) -> str:
    return f"{language}, {len(source.encode())} bytes"
