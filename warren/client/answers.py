"""What calls return: the API's answers as structs. Fields that a newer API adds are ignored."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, TypeVar

import msgspec

from warren.broker.messages.misfits import misfit
from warren.broker.messages.values import Progress

T = TypeVar("T")


class Tick(msgspec.Struct, kw_only=True, frozen=True):
    """The due time that a run belongs to.

    `is_over` once all its shards and attempts have ended; `status` says how, `run_ids` are all, and
    `deciding_id` is the one that decided.
    """

    is_over: bool
    status: str | None
    run_ids: list[int]
    deciding_id: int | None = None  # older APIs do not say it


class Run(msgspec.Struct, kw_only=True, frozen=True):
    """A run, as `warren runs show --json` prints it; `tick` and `calls` are None in lists.

    `progress` is the last that its handler reported: `done`, `total` (None = unknown) and `text`.
    `attempts` are all attempts of all shards of its tick, by shard; only runs that were waited for
    have them.
    """

    id: int
    app: str | None
    job: str | None
    job_id: int
    kind: str
    status: str
    scheduled_at: datetime
    due_at: datetime
    run_date: date | None = None
    started_at: datetime | None
    finished_at: datetime | None
    address: str | None
    handler: str | None
    param: str
    attempt: int
    shard_index: int
    shard_total: int
    message: str
    trigger_message: str
    result: Any = None
    progress: Progress | None = None
    rerun_of: int | None = None
    called_by: int | None = None
    backfill_id: int | None = None
    flow_run_id: int | None = None
    calls: list[int] | None = None
    code_version: str | None = None
    script_version: int | None = None
    script_number: int | None = None
    tick: Tick | None = None
    #: The full limits that it waits for, each with who holds it.
    waits_for: list[str] = []
    #: What could not be checked about the trigger that returned it.
    warnings: list[str] = []
    attempts: list["Run"] | None = None

    def result_as(self, kind: type[T]) -> T:
        """Return the result as a value of a type: a struct, dataclass, TypedDict or pydantic model.

        Raises:
            ValueError: it does not fit.

        """
        validate = getattr(kind, "model_validate", None)  # pydantic's
        try:
            return validate(self.result) if validate else msgspec.convert(self.result, kind)
        except (msgspec.ValidationError, ValueError) as error:
            name = getattr(kind, "__name__", repr(kind))
            raise ValueError(
                f"the result of run {self.id} is no {name}: {misfit(error, kind)}"
            ) from error


class Node(msgspec.Struct, kw_only=True, frozen=True):
    """A node of a flow's run.

    `state` is WAITING until it begins, then that of its runs, and `outcome` when it is over.
    `after` are the nodes before it, each with what must become of it. `run_id` is the run to look
    at first. Of its `shards`, so many have succeeded, were skipped or failed.
    """

    node: str
    app: str | None
    job: str | None
    after: dict[str, str]
    join: str
    state: str
    outcome: str | None
    kept_outcome: str | None
    kept_run_id: int | None
    shards: int | None
    succeeded: int
    skipped: int
    failed: int
    run_id: int | None
    begun_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    reason: str


class JobState(msgspec.Struct, kw_only=True, frozen=True):
    """What is not in a job's declaration."""

    id: int
    next_fire_at: datetime | None
    last_status: str | None
    last_due_at: datetime | None
    stop_reason: str


class Job(msgspec.Struct, kw_only=True, frozen=True):
    """A job; `schedule` is as in a job file."""

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


class LogPart(msgspec.Struct, kw_only=True, frozen=True):
    """Some lines of a log, from `from_line` on; `is_end`: the run is over and nothing follows."""

    from_line: int
    next_line: int
    text: str
    is_end: bool
    source: str

    @property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return self.text.removesuffix("\n").split("\n") if self.text else []


class Planned(msgspec.Struct, kw_only=True, frozen=True):
    """The ids of planned runs."""

    run_ids: list[int]


class ApiError(Exception):
    """The API refused a call; `problem` is its answer (RFC 9457).

    `status` is that of HTTP, 0 if there was no answer. `run_ids` are the runs that `trigger_all`
    had planned before.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.run_ids: list[int] = []
        self.problem = dict(problem)
        detail = str(problem.get("detail", "")) or f"status {status}"
        # The detail of several broken rules is all of them already.
        errors = [each for each in problem.get("errors", ()) if each["detail"] not in detail]
        super().__init__("; ".join([detail, *map(placed, errors)]))


class RunFailed(Exception):
    """A run's tick is over and did not succeed; `run` is the one that decided, as of `wait`."""

    def __init__(self, run: Run) -> None:
        self.run = run
        status = run.tick.status if run.tick else run.status
        super().__init__(f"run {run.id} {status}: {run.message}")


def placed(error: Mapping[str, Any]) -> str:
    """Return one problem of a refusal after its place."""
    place = error.get("pointer") or error.get("parameter")
    if error.get("line") is not None:
        place = f"line {error['line']}"
    if error.get("file"):
        place = f"{error['file']}:{error['line']}" if error.get("line") else error["file"]
    return f"{place}: {error.get('detail')}" if place else str(error.get("detail"))
