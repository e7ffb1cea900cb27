"""XXL-JOB's jobs as a job file, for jobs that are kept in a repository."""

from collections.abc import Iterator
from dataclasses import replace

from warren.importing.xxl_job.source_tables import INFO
from warren.jobfile.export import job_file
from warren.scheduler.imports.findings import Finding, Verdict
from warren.scheduler.imports.items import ImportedJob, ImportItems


def lines_of(items: ImportItems) -> Iterator[str]:
    """Yield the lines of a job file with every valid job; applying it starts none."""
    sound = _sound(items)
    specs = [
        replace(
            job.spec,
            children=tuple(_name(sound[child], job) for child in job.child_ids if child in sound),
        )
        for job in sound.values()
    ]
    return job_file([app.spec for app in items.apps], specs)


def findings_about(items: ImportItems) -> Iterator[Finding]:
    """Yield the findings as they hold for the file: what would be stopped is not in it."""
    for finding in items.findings:
        if finding.verdict is Verdict.STOPPED:
            words = f"{finding.words}; the job is not in the file"
            yield replace(finding, verdict=Verdict.LEFT_OUT, words=words)
        else:
            yield finding
    sound = _sound(items)
    absent = {job.source_id for job in items.jobs} - sound.keys()
    for job in sound.values():
        for child in job.child_ids:
            if child in absent:
                yield Finding(
                    verdict=Verdict.DIFFERS,
                    table=INFO,
                    id=job.source_id,
                    column="child_jobid",
                    value=str(child),
                    words=f"job {child} is not in the file; dropped",
                )


def _sound(items: ImportItems) -> dict[int, ImportedJob]:
    return {job.source_id: job for job in items.jobs if not job.stop_reasons}


def _name(child: ImportedJob, parent: ImportedJob) -> str:
    name = child.spec.name
    return name if child.spec.app == parent.spec.app else f"{child.spec.app}/{name}"
