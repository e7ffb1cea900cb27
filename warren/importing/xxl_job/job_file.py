"""XXL-JOB's jobs as a job file, for jobs that are kept in a repository."""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.imports.items import ImportedJob, ImportItems
from warren.jobfile.export import job_file


def lines_of(items: ImportItems) -> Iterator[str]:
    """Yield the lines of a job file with every valid job; applying it starts none."""
    sound = {job.source_id: job for job in items.jobs if not job.stop_reasons}
    specs = [
        replace(
            job.spec,
            children=tuple(_name(sound[child], job) for child in job.child_ids if child in sound),
        )
        for job in sound.values()
    ]
    return job_file([app.spec for app in items.apps], specs)


def _name(child: ImportedJob, parent: ImportedJob) -> str:
    name = child.spec.name
    return name if child.spec.app == parent.spec.app else f"{child.spec.app}/{name}"
