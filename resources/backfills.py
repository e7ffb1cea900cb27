"""Backfills: runs of a job for a range of dates."""

from datetime import date, datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from warren.resources.operation import (
    DEFAULT_LIMIT,
    KEY_HEADER,
    Day,
    PageQuery,
    Scope,
    Word,
    operation,
)

#: The most due times of a backfill that are open at once, and skips that one is made for.
MAX_AT_ONCE, MAX_SKIPS = 100, 500
#: Due times for which nothing ran, that are unresolved, or all.
Only: TypeAlias = Literal["missing", "failed", "all"]


class Backfill(msgspec.Struct, kw_only=True, frozen=True):
    """A backfill; a deleted job's has no `job`.

    `state` is OPEN, PAUSED, DONE or CANCELLED. `due_times` are those in its range: `left_out`,
    `open`, `succeeded`, `failed`, `skipped`, and the others are to come. `expected_at` is when it
    will probably be done. `notices` say what is doubtful about a new one.
    """

    id: int
    app: str
    job: str
    key: str | None
    state: str
    reason: str
    from_date: date | None
    to_date: date | None
    due_times: int
    to_come: int
    left_out: int
    open: int
    succeeded: int
    failed: int
    skipped: int
    at_once: int
    newest_first: bool
    only: str
    stop_on_failure: bool
    children: bool
    instead: bool
    param: str | None
    made_at: datetime
    made_by: str
    ended_at: datetime | None
    expected_at: datetime | None
    notices: list[str]

    @property
    def done(self) -> int:
        """How many due times have ended, or were left out."""
        return self.due_times - self.to_come - self.open

    @property
    def dates(self) -> str:
        """The range of its run dates; empty if it was made for single due times."""
        if self.from_date == self.to_date:
            return str(self.from_date or "")
        return f"{self.from_date}..{self.to_date}"


class CancelledBackfill(Backfill, kw_only=True, frozen=True):
    """A cancelled backfill; `killed` is how many open runs were ended with it."""

    killed: int | None = None  # older APIs do not say it


class MadeBackfill(Backfill, kw_only=True, frozen=True):
    """A backfill that was made, or the earlier one with its key, if not `is_new`."""

    is_new: bool = True  # older APIs do not say it


class BackfillDueTime(msgspec.Struct, kw_only=True, frozen=True):
    """A due time of a backfill, numbered in its order; `run_id` is the newest of its runs."""

    number: int
    scheduled_at: datetime
    run_date: date
    state: str
    run_id: int | None


class ShownBackfill(Backfill, kw_only=True, frozen=True):
    """A backfill with its due times, `ticks`; null unless they were asked for."""

    ticks: list[BackfillDueTime] | None = None


class PreviewedDueTime(msgspec.Struct, kw_only=True, frozen=True):
    """A due time of a backfill that is not made: what became of it, and if it would run."""

    scheduled_at: datetime
    run_date: date
    state: str
    runs: bool


class BackfillPreview(msgspec.Struct, kw_only=True, frozen=True):
    """What a backfill would do now; `notices` say what is doubtful about it."""

    due_times: list[PreviewedDueTime]
    notices: list[str]


class BackfillBody(msgspec.Struct, kw_only=True):
    """A backfill to make: of the due times with run dates in a range, or of `skips`, by their ids.

    `dates`: one run for each date instead, for jobs without a schedule. `at_once`: how many due
    times may be open at the same time. `only`: due times for which nothing ran, that are failed
    now, or all. `stop_on_failure`: pause once a run has failed for good. `children`: let successes
    trigger the job's children. `instead`: stop the job's schedule until the backfill is over.
    `param`: of all runs, instead of the job's own. `key`: the same key of the same job makes no
    second backfill.
    """

    from_date: Day | None = msgspec.field(default=None, name="from")
    to_date: Day | None = msgspec.field(default=None, name="to")
    skips: Annotated[list[int], msgspec.Meta(max_length=MAX_SKIPS)] = []
    dates: bool = False
    #: Checked with the job's other rules; msgspec would say it in other words.
    at_once: Annotated[
        int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": MAX_AT_ONCE})
    ] = 1
    newest_first: bool = False
    only: Only = "missing"
    stop_on_failure: bool = False
    children: bool = True
    instead: bool = False
    param: str | None = None
    key: str | None = None


class BackfillsQuery(PageQuery, kw_only=True):
    """Which backfills to list; `job` is APP/NAME, and `going` those that are open or paused."""

    job: Word | None = None
    going: bool = False


class BackfillQuery(msgspec.Struct, kw_only=True):
    """Whether to answer the due times, too."""

    ticks: bool = False


class CancelBody(msgspec.Struct, kw_only=True):
    """Whether the open runs are ended, too."""

    kill: bool = False


BackfillId: TypeAlias = int | Backfill
_PATH = "/backfills/<id:backfill_id>"


_OF_JOB = "/jobs/<app>/<name>/backfills"


@operation("POST", _OF_JOB, Scope.TRIGGER, body=BackfillBody, status=201, headers=KEY_HEADER)
def make_backfill(
    job: str,
    from_date: date | str,
    to_date: date | str,
    *,
    dates: bool = False,
    at_once: int = 1,
    newest_first: bool = False,
    only: str = "missing",
    stop_on_failure: bool = False,
    children: bool = True,
    instead: bool = False,
    param: str | None = None,
    params: Any = None,
    key: str | None = None,
) -> MadeBackfill:
    """Run a job for a range of dates, a limited number at once."""


@operation("POST", f"{_OF_JOB}:preview", Scope.TRIGGER, body=BackfillBody, is_heavy=True)
def preview_backfill(
    job: str,
    from_date: date | str,
    to_date: date | str,
    *,
    dates: bool = False,
    at_once: int = 1,
    newest_first: bool = False,
    only: str = "missing",
    stop_on_failure: bool = False,
    children: bool = True,
    instead: bool = False,
    param: str | None = None,
    params: Any = None,
    key: str | None = None,
) -> BackfillPreview:
    """Show what a backfill would do now, without making it."""


@operation("GET", "/backfills", Scope.READ, query=BackfillsQuery)
def list_backfills(
    *, job: str | None = None, going: bool = False, limit: int = DEFAULT_LIMIT
) -> list[Backfill]:
    """List backfills, newest first. They count how runs ended at first, before re-runs."""


@operation("GET", _PATH, Scope.READ, query=BackfillQuery)
def show_backfill(backfill: BackfillId, *, ticks: bool = False) -> ShownBackfill:
    """Show a backfill."""


@operation("GET", f"{_PATH}/due_times", Scope.READ)
def list_due_times(backfill: BackfillId) -> list[BackfillDueTime]:
    """List the due times of a backfill in its order, and what became of each."""


@operation("POST", f"{_PATH}/pause", Scope.OPERATE)
def pause_backfill(backfill: BackfillId) -> Backfill:
    """Plan no more runs of a backfill until it is resumed; open ones continue."""


@operation("POST", f"{_PATH}/resume", Scope.OPERATE)
def resume_backfill(backfill: BackfillId) -> Backfill:
    """Resume a paused backfill, including one that a failure has paused."""


@operation("POST", f"{_PATH}/cancel", Scope.OPERATE, body=CancelBody)
def cancel_backfill(backfill: BackfillId, *, kill: bool = False) -> CancelledBackfill:
    """Plan no more runs of a backfill; open ones continue unless they are killed."""
