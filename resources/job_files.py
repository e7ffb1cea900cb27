"""Job files: checking them, making jobs match them, and exporting jobs as one."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from warren.resources.operation import JSON, YAML, Scope, Word, operation

#: Bytes of job files that are applied together, at most: some 70,000 jobs.
JOB_FILE_BYTES = 5_000_000
#: Bytes of a request that has job files and values, at most: JSON needs more for them.
_REQUEST_BYTES = 2 * JOB_FILE_BYTES + 2_000_000


class JobFileText(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job file in YAML, and its name in messages.

    `places` are what its lines are called instead of NAME:LINE; empty = they are not.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    text: str
    places: Sequence[str] = []  # older APIs do not know it, so nobody sends it empty


class ValuesGiven(msgspec.Struct, kw_only=True, frozen=True):
    """The values of `${NAME}` as a command line was given them: `files`, then NAME=VALUE."""

    files: Sequence[JobFileText] = []
    texts: Sequence[str] = []


class ChangeAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """A change of an app, a calendar, a limit or a job; `action` is such as `create` or `update`.

    `cancelled` is how many planned runs it cancels; `details` say why.
    """

    action: str
    what: str
    name: str
    details: list[str]
    diff: list[str]
    cancelled: int = 0


class JobWarning(msgspec.Struct, kw_only=True, frozen=True):
    """What may be wrong with a job, which is given as APP/NAME."""

    job: str
    message: str


class Applied(msgspec.Struct, kw_only=True, frozen=True):
    """What was changed, or would be, without what stays; `warnings` are about all its jobs.

    `over` has a line for each calendar of the files whose days have all passed, or whose feed has
    events that are no days of it.
    """

    changes: list[ChangeAnswer]
    warnings: list[JobWarning]
    unchanged: int
    dry_run: bool
    over: list[str] = []


class ApplyQuery(msgspec.Struct, kw_only=True):
    """How to apply: only show what would change; delete what the file does not have.

    `module`: the jobs are declared in its handlers' code; then `prune` deletes those that it
    declared before, in all apps, or only in those of the jobs and in `app`. `take_over`: jobs that
    are declared elsewhere are declared here from now on; otherwise they are refused.
    """

    dry_run: bool = False
    prune: bool = False
    take_over: bool = False
    module: Word | None = None
    app: Word | None = None


class CheckBody(msgspec.Struct, kw_only=True):
    """Job files to check together.

    `handlers` are all that the jobs may name; null = any. `schemas` are the JSON Schemas of the
    params of those that have some.
    """

    files: list[JobFileText]
    given: ValuesGiven | None = None
    handlers: list[str] | None = None
    schemas: dict[str, str] | None = None


class Checked(msgspec.Struct, kw_only=True, frozen=True):
    """How many jobs there are, a line for each problem, and one for each thing that is doubtful."""

    jobs: int
    problems: list[str]
    warnings: list[str]


class ExportBody(msgspec.Struct, kw_only=True):
    """What to export: all jobs, those of an app, or some, as APP/NAME."""

    app: str | None = None
    jobs: list[str] = []


class ExportedFile(msgspec.Struct, kw_only=True, frozen=True):
    """A job file in YAML; applied as it is, it changes nothing.

    `left_out` has a line for each job or calendar that it cannot express, with the reason.
    """

    text: str
    left_out: list[str]


@operation(
    "POST",
    "/apply",
    Scope.WRITE,
    query=ApplyQuery,
    body_bytes=_REQUEST_BYTES,
    media=(JSON, YAML),
    is_heavy=True,
)
def apply_job_files() -> Applied:
    """Make apps, calendars, limits and jobs match a job file, or several, all or nothing."""


@operation("POST", "/check", Scope.WRITE, body=CheckBody, body_bytes=_REQUEST_BYTES, is_heavy=True)
def check_job_files(
    *,
    files: Sequence[JobFileText],
    given: ValuesGiven | None = None,
    handlers: Sequence[str] | None = None,
    schemas: Mapping[str, str] | None = None,
) -> Checked:
    """Say what applying job files together would say, were nothing stored."""


@operation("POST", "/export", Scope.WRITE, body=ExportBody, is_heavy=True)
def export_job_file(*, app: str | None = None, jobs: Sequence[str] = ()) -> ExportedFile:
    """Export jobs as a job file in YAML.

    Apps, with their webhooks, and the limits and calendars that the jobs name are included if the
    token may change them.
    """
