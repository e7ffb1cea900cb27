"""Jobs: how they are named, whether they fire on their schedules, and when."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec

from warren.resources.cluster import Blocker
from warren.resources.operation import OpenAccess, Scope, operation

#: The path of a job.
JOB = "/jobs/<app>/<name>"
CHANGE_HEADERS = {
    "If-Match": "The `ETag` that it must still have; `*` = any.",
    "If-None-Match": "`*`: it must not exist yet.",
}
#: The header that says how many planned runs of a deleted job were cancelled, if any.
CANCELLED_HEADER = "Warren-Cancelled"


class JobName(msgspec.Struct, kw_only=True, frozen=True):
    """The name of a job: APP/NAME."""

    app: str
    name: str

    def __str__(self) -> str:
        """Return APP/NAME."""
        return f"{self.app}/{self.name}"


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


@operation("GET", "/jobs:find", OpenAccess.ANY_TOKEN, query=NameQuery)
def find_job(name: str) -> JobName:
    """Find the job that a NAME means; several jobs of that name, or none, are refused."""


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
    """Have schedules that an earlier version stored follow the newest rules."""
