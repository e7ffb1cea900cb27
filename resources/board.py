"""The board: jobs in trouble, since when and why, and what the last 24 hours were like."""

from datetime import datetime
from enum import StrEnum

import msgspec

from warren.resources.jobs import JOB
from warren.resources.operation import InstantText, Scope, Word, operation


class Trouble(StrEnum):
    """What is wrong with a job, the worst first."""

    #: Its newest due time that is over failed.
    FAILING = "FAILING"
    #: The same, as its executor was lost.
    LOST = "LOST"
    #: Its newest due times were skipped.
    SKIPPED = "SKIPPED"
    #: Runs of it are overdue and have not started.
    WAITING = "WAITING"
    #: Its newest run took much longer than usual.
    SLOW = "SLOW"
    #: A run of it has been running for much longer than usual.
    LONG = "LONG"
    FINE = "FINE"


#: A job with such a trouble fails.
FAILS = frozenset({Trouble.FAILING, Trouble.LOST})


class DueTimeMark(msgspec.Struct, kw_only=True, frozen=True):
    """A due time that is over, or due times in a row that were skipped: `count` of them.

    `status` is that of the run that decided it; NOT_RUN = it was skipped. `took` is in seconds.
    """

    at: datetime
    status: str
    took: float = 0
    run: int | None = None
    count: int = 1


class JobMute(msgspec.Struct, kw_only=True, frozen=True):
    """Who looks after a job's trouble, why, and until when; its alarms are not sent if `silent`."""

    by: str
    why: str
    until: datetime
    silent: bool


class JobOnBoard(msgspec.Struct, kw_only=True, frozen=True):
    """How a job is doing by its due times.

    `trouble_since` is the due time, or the start, since which it has this trouble, and `count` how
    many due times it concerns. `error` is the newest one, without secrets, and `error_since` the
    first due time in a row that had it. `newest_run` is the run that decided the newest due time.
    `took`, `usual` and `last_week` are in seconds; `usual` is the median of the last successes and
    `last_week` what it was a week ago, null if these are too few. `next_at` is when it is due next.
    """

    id: int
    app: str
    job: str
    trouble: Trouble
    trouble_since: datetime | None
    count: int
    error: str
    error_key: str
    error_since: datetime | None
    error_run: int | None
    good_at: datetime | None
    newest_at: datetime | None
    newest_run: int | None
    took: float
    usual: float | None
    last_week: float | None
    next_at: datetime | None
    strip: list[DueTimeMark]
    mute: JobMute | None = None


class ErrorGroup(msgspec.Struct, kw_only=True, frozen=True):
    """Jobs that fail with the same error: how many, and where it came first."""

    error: str
    error_key: str
    jobs: int
    since: datetime
    first_job: str
    first_run: int


class QuarterCount(msgspec.Struct, kw_only=True, frozen=True):
    """Runs that were due in the quarter of an hour from `at` on, and skipped due times."""

    at: datetime
    succeeded: int
    failed: int
    skipped: int


class BoardEvent(msgspec.Struct, kw_only=True, frozen=True):
    """Something that lasted: its kind, what it was about, and since and until when; null = still.

    Kinds are OUTAGE (one error in five jobs or more), NO_SCHEDULER, EXECUTOR_GONE, LIMIT_FULL and
    PAUSE. `count` is how many jobs or runs it concerned, or due times were skipped as there was no
    scheduler; of an outage, `recovered` is how many of the jobs do not fail now, `error_key` its
    error, and `app` is null if it hit several.
    """

    id: int
    kind: str
    app: str | None
    subject: str
    since: datetime
    until: datetime | None
    count: int = 0
    recovered: int = 0
    error_key: str = ""


class Board(msgspec.Struct, kw_only=True, frozen=True):
    """What is wrong now, in the apps that the reader may see.

    `sentence` says it in one sentence, `details` in further ones. `troubles` counts the jobs of
    each trouble; `recovered` are those that failed within the last day and no longer do. `jobs`
    are those in trouble, the worst first; `more` says that there are others. `filled` false: after
    an upgrade, not all jobs have been looked at yet.
    """

    at: datetime
    sentence: str
    details: list[str]
    failing: int
    troubles: dict[str, int]
    recovered: int
    fine: int
    total: int
    groups: list[ErrorGroup]
    jobs: list[JobOnBoard]
    more: bool
    quarters: list[QuarterCount]
    events: list[BoardEvent]
    filled: bool


class BoardQuery(msgspec.Struct, kw_only=True):
    """Which app to show; by default all that the reader may see."""

    app: Word | None = None


@operation("GET", "/board", Scope.READ, query=BoardQuery)
def show_board(*, app: str | None = None) -> Board:
    """Show which jobs are in trouble, since when and why, and the last 24 hours."""


class MuteBody(msgspec.Struct, kw_only=True):
    """Until when somebody looks after a job, and why; without `silent`, alarms are still sent."""

    until: InstantText
    why: str = ""
    silent: bool = True


@operation("PUT", f"{JOB}/mute", Scope.OPERATE, body=MuteBody)
def mute_job(job: str, *, until: datetime | str, why: str = "", silent: bool = True) -> JobMute:
    """Mute a job in trouble: for that time, its alarms are kept but not sent.

    It ends sooner if the job fails with another error, and after 30 days at most.
    """


@operation("DELETE", f"{JOB}/mute", Scope.OPERATE)
def unmute_job(job: str) -> None:
    """End the mute of a job."""
