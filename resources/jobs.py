"""Jobs: how they are named and listed, whether they fire on their schedules, and when."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from warren.resources.cluster import Blocker
from warren.resources.instant import to_builtins
from warren.resources.operation import (
    DEFAULT_LIMIT,
    LARGEST_ID,
    OpenAccess,
    PageQuery,
    Scope,
    Word,
    operation,
)

#: The path of a job.
JOB = "/jobs/<app>/<name>"
CHANGE_HEADERS = {
    "If-Match": "The `ETag` that it must still have; `*` = any.",
    "If-None-Match": "`*`: it must not exist yet.",
}
#: The header of reads.
READ_HEADERS = {"If-None-Match": "The `ETag` that the caller has; 304 if it is still the same."}
#: The header that says how many planned runs of a deleted job were cancelled, if any.
CANCELLED_HEADER = "Warren-Cancelled"


class JobName(msgspec.Struct, kw_only=True, frozen=True):
    """The name of a job: APP/NAME."""

    app: str
    name: str

    def __str__(self) -> str:
        """Return APP/NAME."""
        return f"{self.app}/{self.name}"


class JobState(msgspec.Struct, kw_only=True, frozen=True):
    """The current state of a job; returned, but ignored when it is sent.

    `declared_in` is where the job is declared: `file`, `code:MODULE`, or null for nowhere else.
    """

    id: int
    next_fire_at: datetime | None
    last_status: str | None
    last_due_at: datetime | None
    script_version: int | None = None
    script_number: int | None = None
    stop_reason: str
    declared_in: str | None = None


class Job(msgspec.Struct, kw_only=True, frozen=True):
    """A job; `schedule` is as in a job file. An API answers its other fields, too."""

    app: str
    name: str
    handler: str
    param: str
    schedule: dict[str, Any] | str | None
    enabled: bool | None
    tags: list[str]
    children: list[str]
    route: str
    timeout: int
    retries: int
    state: JobState


class JobOverview(msgspec.Struct, kw_only=True, frozen=True):
    """A job as the command line lists it: `fields` are those of its declaration, side by side.

    `schedule` is in the words of a job file, and `timezone` the zone that it is in. `next_fire_at`
    is null if it is stopped, or has no due time. `script_version` is the id of the script's
    version, `script_number` the number that users see.
    """

    id: int
    fields: dict[str, Any]
    enabled: bool
    schedule: str
    timezone: str
    next_fire_at: datetime | None
    script_version: int | None
    script_number: int | None
    children: list[str]
    stop_reason: str
    last_status: str | None
    last_due_at: datetime | None
    declared_in: str | None

    @property
    def app(self) -> str:
        """The name of its app."""
        return str(self.fields["app"])

    @property
    def name(self) -> str:
        """Its name in its app."""
        return str(self.fields["name"])

    @property
    def state(self) -> str:
        """Whether it is enabled, stopped, or runs on demand."""
        if self.enabled:
            return "enabled"
        return "on demand" if self.schedule == "none" and not self.stop_reason else "stopped"

    def flat(self) -> dict[str, Any]:
        """Return it as JSON, with the declared fields among the others."""
        said = to_builtins(self)
        fields: dict[str, Any] = said.pop("fields")
        return {"id": said.pop("id")} | fields | said


class ShownJob(JobOverview, kw_only=True, frozen=True):
    """A job with what people are told besides: its `fields` in `words`, by their titles.

    `rule` says that its schedule follows an older rule, `waits_for` what must end before it is due
    again; both may be empty. `blocked_by` says why it gets no new runs.
    """

    words: dict[str, str]
    rule: str
    waits_for: str
    blocked_by: list[Blocker]

    def flat(self) -> dict[str, Any]:
        """Return what is not for people only, as JSON."""
        said = super().flat()
        for name in ("words", "rule", "waits_for"):
            del said[name]
        return said


class JobsState(StrEnum):
    """Which jobs to list by how they are doing."""

    FAILING = "failing"
    RECOVERED = "recovered"
    TROUBLE = "trouble"
    FINE = "fine"


class JobsQuery(PageQuery, kw_only=True):
    """Which jobs to list.

    `q`, `handler` and `author` are parts of names, `tag` is one of their tags, all in any case.
    `state` is failing, recovered (failed in the last 24 hours, and no longer), trouble or fine.
    """

    app: Word | None = None
    q: Word | None = None
    handler: Word | None = None
    tag: Word | None = None
    author: Word | None = None
    enabled: bool | None = None
    state: JobsState | None = None


class OverviewQuery(PageQuery, kw_only=True):
    """Which jobs to list: all, or those of an app."""

    app: Word | None = None


class ScriptVersion(msgspec.Struct, kw_only=True, frozen=True):
    """A saved version of a script; the source of the current one is in its job.

    Jobs and runs refer to its id as `script_version` and to its number as `script_number`.
    """

    id: int
    number: int
    remark: str
    author: str
    saved_at: datetime | None
    bytes: int
    is_current: bool


class ScriptsAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """The versions of a job's script, newest first."""

    items: list[ScriptVersion]


class NameQuery(msgspec.Struct, kw_only=True):
    """A job's NAME, or APP/NAME."""

    name: Annotated[str, msgspec.Meta(max_length=512)] = ""


class Switched(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Whether anything changed, and how many planned runs a stop has cancelled.

    `backfills` are the ids of the job's backfills that a stop lets go on.
    """

    changed: bool
    cancelled: int = 0
    backfills: list[int] = []


class NextTime(msgspec.Struct, kw_only=True, frozen=True):
    """A time that a schedule means, and when it is due; null = it is left out.

    `why` says what moved it or left it out; null = it is due as it stands.
    """

    nominal_at: datetime
    fires_at: datetime | None
    why: Blocker | None


class NextAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """When a job is due next; if it is stopped, as if it were started now.

    `clock_changes` says what the next changes of the clock within a year do to its times, `hint`
    what is easily misread in its schedule, and `waits_for` what must end before it is due.
    `timezone` is that of its schedule. `times` are null unless it was asked why.
    """

    fires_at: list[datetime]
    enabled: bool
    # older APIs do not say these
    clock_changes: list[str] = []
    hint: str = ""
    waits_for: str = ""
    timezone: str = "UTC"
    times: list[NextTime] | None = None


class NextQuery(msgspec.Struct, kw_only=True):
    """How many due times to return, and whether to say what moved or left out each."""

    count: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 5
    why: bool = False


class OldRuleJob(msgspec.Struct, kw_only=True, frozen=True):
    """A job whose schedule follows an older rule, and the due times that the newest one changes."""

    job: str
    app: str
    schedule: str
    timezone: str
    no_longer_due: list[datetime]
    newly_due: list[datetime]


class FollowedRules(msgspec.Struct, kw_only=True, frozen=True):
    """The jobs that followed older rules, and how many were moved; null in a dry run."""

    jobs: list[OldRuleJob]
    moved: int | None


class FollowRulesBody(msgspec.Struct, kw_only=True):
    """The jobs to look at, as APP/NAME; without any, all, or those of an app."""

    jobs: list[str] = []
    app: str | None = None
    dry_run: bool = False


class EditedField(StrEnum):
    """A field that can be edited in many jobs at once."""

    HANDLER = "handler"
    PARAM = "param"
    ROUTE = "route"
    TIMEOUT = "timeout"
    RETRIES = "retries"
    AUTHOR = "author"
    TAGS = "tags"
    ALARM_EMAILS = "alarm_emails"
    ALARM_WEBHOOK = "alarm_webhook"


class EditMode(StrEnum):
    """What becomes of the value before: only a list is added to, or removed from."""

    SET = "set"
    ADD = "add"
    REMOVE = "remove"


class EditJobsBody(msgspec.Struct, kw_only=True):
    """Which jobs to edit, and the value that a field of them gets.

    The jobs are `jobs`, as APP/NAME, or those that match the filter, as when listing jobs; `all`
    without either. A list may be given as one text with commas. `seen` has the `version` of each
    job that a dry run has answered: then nothing is changed if one has another by now.
    """

    field: EditedField
    value: str | int | list[str]
    mode: EditMode = EditMode.SET
    jobs: list[str] = []
    app: Word | None = None
    q: Word | None = None
    handler: Word | None = None
    tag: Word | None = None
    author: Word | None = None
    enabled: bool | None = None
    state: JobsState | None = None
    everything: bool = msgspec.field(default=False, name="all")
    seen: dict[str, str] | None = None
    dry_run: bool = False


class EditedJob(msgspec.Struct, kw_only=True, frozen=True):
    """What an edit changes about a job, a line for each field, and its `version` before.

    It cannot be undone if it replaces a webhook, or a text of more than 2,000 characters.
    """

    job: str
    version: str
    changes: list[str]
    can_be_undone: bool


class EditedJobs(msgspec.Struct, kw_only=True, frozen=True):
    """The jobs that change, and how many are like that already.

    `edit` undoes it; null = nothing was changed.
    """

    edit: int | None
    jobs: list[EditedJob]
    unchanged: int


class UndoEditBody(msgspec.Struct, kw_only=True):
    """The edit of many jobs to undo."""

    edit: Annotated[int, msgspec.Meta(ge=1, lt=LARGEST_ID)]


class LeftJob(msgspec.Struct, kw_only=True, frozen=True):
    """A job that is not as it was before the edit, and why."""

    job: str
    message: str


class UndoneEdit(msgspec.Struct, kw_only=True, frozen=True):
    """The jobs that have their values of before again, and those that were left as they are.

    `edit` undoes this in turn; null = nothing was changed.
    """

    edit: int | None
    jobs: list[EditedJob]
    left: list[LeftJob]


@operation("GET", "/jobs:find", OpenAccess.ANY_TOKEN, query=NameQuery)
def find_job(name: str) -> JobName:
    """Find the job that a NAME means; several jobs of that name, or none, are refused."""


@operation("GET", "/jobs", Scope.READ, query=JobsQuery)
def list_jobs(
    *,
    app: str | None = None,
    q: str | None = None,
    handler: str | None = None,
    tag: str | None = None,
    author: str | None = None,
    enabled: bool | None = None,
    state: JobsState | None = None,
    limit: int = DEFAULT_LIMIT,
) -> list[Job]:
    """List jobs by app and name, without the sources of scripts."""


@operation("GET", "/jobs:overview", Scope.READ, query=OverviewQuery)
def list_overviews(
    *, app: str | None = None, limit: int | None = DEFAULT_LIMIT
) -> list[JobOverview]:
    """List jobs by app and name as the command line shows them, with their fields side by side."""


@operation("GET", f"{JOB}/overview", Scope.READ)
def show_overview(job: str) -> ShownJob:
    """Show a job as the command line does, with its fields side by side."""


@operation(
    "GET",
    JOB,
    Scope.READ,
    other_answers={304: "not modified"},
    headers=READ_HEADERS,
)
def show_job(job: str) -> Job:
    """Show a job; changes need its `ETag`."""


@operation("GET", f"{JOB}/scripts", Scope.READ)
def list_scripts(job: str) -> ScriptsAnswer:
    """List the versions of a job's script."""


@operation("POST", f"{JOB}/start", Scope.OPERATE)
def start_job(job: str) -> Switched:
    """Start a job's schedule."""


@operation("POST", f"{JOB}/stop", Scope.OPERATE)
def stop_job(job: str) -> Switched:
    """Stop a job's schedule and cancel its planned runs; runs in progress continue."""


@operation("GET", f"{JOB}/next", Scope.READ, query=NextQuery)
def next_times(job: str, *, count: int = 5, why: bool = False) -> NextAnswer:
    """Show when a job is due next."""


@operation(
    "DELETE",
    JOB,
    Scope.WRITE,
    headers={"If-Match": CHANGE_HEADERS["If-Match"]},
    is_conditional=True,
)
def delete_job(job: str) -> None:
    """Delete a job; its runs stay."""


@operation("POST", "/jobs:follow-rules", Scope.WRITE, body=FollowRulesBody)
def follow_rules(
    *, jobs: Sequence[str] = (), app: str | None = None, dry_run: bool = False
) -> FollowedRules:
    """Make schedules that an earlier version stored follow the newest rules."""


@operation("POST", "/jobs:edit", Scope.WRITE, body=EditJobsBody)
def edit_jobs(
    field: str,
    value: str | int | Sequence[str],
    *,
    mode: str = EditMode.SET.value,
    jobs: Sequence[str] = (),
    app: str | None = None,
    q: str | None = None,
    handler: str | None = None,
    tag: str | None = None,
    author: str | None = None,
    enabled: bool | None = None,
    state: JobsState | None = None,
    everything: bool = False,
    seen: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> EditedJobs:
    """Give one field of up to 500 jobs a value: all of them, or none.

    A dry run answers what would change.
    """


@operation("POST", "/jobs:undo-edit", Scope.WRITE, body=UndoEditBody)
def undo_edit(edit: int) -> UndoneEdit:
    """Undo an edit of many jobs, for those that nobody has edited since."""
