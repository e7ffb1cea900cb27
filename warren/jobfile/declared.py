"""Reads the jobs that handlers declare in code: as a job file with one job a line.

The handlers are imported by a process of their own, which gets no settings. Nothing here
understands YAML, so that the base installation can send declared jobs to an API.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warren.errors import CommandError, JobFileError
from warren.executor.handlers.handler_registry import HandlersError
from warren.jobfile.sources import Source, escape_places, escape_unseen
from warren.scheduler.jobs.places import Origin, in_code
from warren.settings.settings import environment_without_settings

#: The first line of a job file of declared jobs, and the last one.
_HEAD, _FOOT = '{"jobs": [', "]}"
_PROGRAM = "warren.executor.handlers.declared_jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJob:
    """A job as a mapping of a job file, with its handler and the `file:line` of that."""

    handler: str
    where: str
    job: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJobs:
    """The jobs that modules declare; `app` is that of jobs that name none, "" = they must.

    `handlers` are all their handlers, each with the JSON Schema of its params, "" = it has none.
    """

    source: str
    handlers: Mapping[str, str]
    jobs: Sequence[DeclaredJob]
    app: str = ""

    def origin(self, *, take_over: bool = False) -> Origin:
        """Return where these jobs are declared, for applying them."""
        return Origin(place=in_code(self.source), take_over=take_over, app=self.app)

    def job_file(self) -> Source:
        """Return the jobs as a job file, whose lines are called after their handlers.

        Raises:
            JobFileError: a job has no app, or is declared twice; a line for each names the handler.

        """
        if wrong := [*self._without_app(), *self._twice()]:
            raise JobFileError(wrong)
        lines = [_line({"app": self.app} | dict(declared.job)) for declared in self.jobs]
        commas = [f"{line}," for line in lines[:-1]] + lines[-1:]
        return Source(
            name=self.source,
            text="\n".join([_HEAD, *commas, _FOOT]),
            places=[self.source, *map(_place, self.jobs), self.source],
        )

    def _without_app(self) -> Iterator[str]:
        for declared in self.jobs:
            if not (self.app or declared.job.get("app")):
                yield f"{_place(declared)}: missing field 'app'; or give --app"

    def _twice(self) -> Iterator[str]:
        first: dict[tuple[Any, Any], DeclaredJob] = {}
        for declared in self.jobs:
            name = declared.job["name"]
            other = first.setdefault((declared.job.get("app", self.app), name), declared)
            if other is not declared:
                words = f"is declared twice, first by handler {other.handler!r}"
                yield f"{_place(declared)}: its job {name!r} {words}"


def declared_in(sources: Sequence[str], *, app: str = "") -> DeclaredJobs:
    """Return the jobs that the handlers of modules or files declare.

    Raises:
        HandlersError: they cannot be imported.

    """
    names = [source for source in sources if source]
    # What a test has put on the path of its process counts too.
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", _PROGRAM, *names],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment_without_settings() | path,
        check=False,
    )
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        shown = ", ".join(names)
        raise CommandError(f"cannot load handlers from {shown}: exit {ran.returncode}") from None
    if "fault" in report:
        raise HandlersError(report["fault"], report["traceback"])
    return DeclaredJobs(
        source=", ".join(map(os.path.normpath, names)),
        handlers=report["handlers"],
        jobs=[DeclaredJob(**job) for job in report["jobs"]],
        app=app,
    )


def _line(job: Mapping[str, Any]) -> str:
    return escape_unseen(escape_places(json.dumps(job, ensure_ascii=False)))


def _place(declared: DeclaredJob) -> str:
    return f"{_near(declared.where)}: handler {declared.handler!r}"


def _near(where: str) -> str:
    """Return a place with a path below the current folder, if it is there."""
    path, _, line = where.rpartition(":")
    try:
        return f"{Path(path).relative_to(Path.cwd())}:{line}"
    except ValueError:
        return where
