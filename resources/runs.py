"""Runs: each is one attempt of one shard at a due time of a job, which is its tick."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from warren.resources.decoders import decoder_of
from warren.resources.misfits import misfit
from warren.resources.operation import (
    DEFAULT_LIMIT,
    JSON,
    KEY_HEADER,
    TEXT,
    Day,
    Id,
    InstantText,
    PageQuery,
    Scope,
    Word,
    operation,
)

T = TypeVar("T")
#: Runs of a batch, runs that are repeated together, and executors that a trigger names, at most.
MAX_TRIGGERS, MAX_RERUNS, MAX_ADDRESSES = 5_000, 500, 100
#: Lines of one part of a log at most.
MAX_LINES = 1_000
#: The most seconds that a request waits.
LONGEST_SECONDS = 60
WAIT_HEADER = {
    "Prefer": f"`wait=N`: delay the answer by up to N seconds, {LONGEST_SECONDS} at most."
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Per cent, what is `done` of a `total`, and the time left; None if that is not known."""

    percent: int | None
    done: str
    total: str
    left_ms: int | None
    text: str

    def __str__(self) -> str:
        """Return it as a line: `3 of 10 (30 %), loading`."""
        share = "" if self.percent is None else f" ({self.percent} %)"
        whole = f" of {self.total}" if self.total else ""
        return f"{self.done}{whole}{share}{', ' if self.text else ''}{self.text}"


class Progress(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """How far a run is, as its handler last said: `done` of `total`, null = unknown, and a text."""

    done: Annotated[float, msgspec.Meta(ge=0)]
    total: Annotated[float, msgspec.Meta(gt=0)] | None = None
    text: str = ""

    def after(self, ran_ms: int) -> RunProgress:
        """Return how far a run is after so long, and how long it will take at the same pace."""
        share = min(self.done / self.total, 1.0) if self.total else None
        return RunProgress(
            percent=None if share is None else int(100 * share),
            done=f"{self.done:,.10g}",
            total=f"{self.total:,.10g}" if self.total else "",
            left_ms=int(ran_ms / share) - ran_ms if share and ran_ms > 0 else None,
            text=self.text,
        )


class TickEnd(msgspec.Struct, kw_only=True, frozen=True):
    """The state of a run's whole tick: all shards with all attempts.

    `status` is null until it is over; then SUCCEEDED, or the status of the first shard that did not
    succeed, or LOST if a shard's run no longer exists. `run_ids` are in order of shard and attempt.
    `deciding_id` is the run that decided: the newest of the first shard that did not succeed, or of
    the first shard.
    """

    is_over: bool
    status: str | None
    run_ids: list[int]
    deciding_id: int | None = None  # older APIs do not say it


class Run(msgspec.Struct, kw_only=True, frozen=True):
    """A run; a deleted job's has no `job`.

    `result` is what the handler returned; `progress` is the last that it reported; `waits_for` are
    the full limits that it waits for, each with who holds it, and executors whose queues cannot be
    reached. `script_version` is the id of the
    version of its script, and `script_number` its number, null if it is no longer kept.
    """

    id: int
    job: str | None
    job_id: int
    app: str | None
    kind: str
    status: str
    scheduled_at: datetime
    due_at: datetime
    run_date: date | None = None
    address: str | None
    handler: str | None
    script_version: int | None = None
    script_number: int | None = None
    code_version: str | None = None
    param: str
    origin_id: int = 0
    rerun_of: int | None = None
    called_by: int | None = None
    backfill_id: int | None = None
    flow_run_id: int | None = None
    shard_index: int
    shard_total: int
    attempt: int
    starts: int = 0
    trigger_code: int = 0
    handle_code: int = 0
    routed_at: datetime | None = None
    sent_at: datetime | None = None
    started_at: datetime | None
    finished_at: datetime | None
    kill_requested_at: datetime | None = None
    late_status: str | None = None
    message: str
    trigger_message: str
    result: Any = None
    progress: Progress | None = None
    waits_for: list[str] = []

    @property
    def tick(self) -> TickEnd | None:
        """The state of its tick; None in lists."""
        return None

    @property
    def calls(self) -> list[int] | None:
        """The ids of the runs that its handler has called; None in lists."""
        return None

    @property
    def attempts(self) -> "Sequence[Run] | None":
        """All attempts of all shards of its tick; None unless it was waited for."""
        return None

    def result_as(self, kind: type[T]) -> T:
        """Return the result as a value of a type: a struct, dataclass, TypedDict or pydantic model.

        Raises:
            ValueError: it does not fit.

        """
        validate = getattr(kind, "model_validate", None)  # pydantic's
        try:
            if not validate:
                decoder_of(kind)  # so that this thread may convert to it
            return validate(self.result) if validate else msgspec.convert(self.result, kind)
        except (msgspec.ValidationError, ValueError) as error:
            name = getattr(kind, "__name__", repr(kind))
            raise ValueError(
                f"the result of run {self.id} is no {name}: {misfit(error, kind)}"
            ) from error


class RunWithTick(Run, kw_only=True, frozen=True):
    """A run with the state of its tick, and the ids of the runs that its handler has called.

    `warnings` are those of the trigger that is answered: what could not be checked.
    """

    tick: TickEnd
    calls: list[int] = []
    warnings: list[str] = []


class EndedRun(RunWithTick, kw_only=True, frozen=True):
    """The run that decided how a tick ended; `attempts` are all of all shards, by shard."""

    attempts: list[Run]


class TickAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """A tick: its state, and the attempts of its shards.

    `items` are at most 1,000, and have at most 4 MB of texts; of a larger tick, they are the last
    attempts. `tick.run_ids` are all.
    """

    tick: TickEnd
    items: list[Run]


class Condition(StrEnum):
    """What must become of a node for an edge that leaves it to be true."""

    SUCCESS = "success"
    FAILURE = "failure"
    ALWAYS = "always"


class Join(StrEnum):
    """How many of the edges to a node must be true."""

    ALL = "all"
    ANY = "any"


class Node(msgspec.Struct, kw_only=True, frozen=True):
    """A node of a flow's run.

    `state` is WAITING until the node begins, then that of its run which is furthest, and `outcome`
    when it is over; `reason` says why it failed or did not run. `after` are the nodes before it,
    each with what must become of it. Of its `shards`, so many have succeeded, were skipped or
    failed; `run_id` is the run to look at first. A KEPT node became `kept_outcome` in
    `kept_run_id`, the run that is repeated. `job`, `app` and `run_id` are null if the job is
    deleted or the reader may not see it.
    """

    node: str
    job: str | None
    app: str | None
    after: dict[str, Condition]
    join: Join
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


class NodesAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """The nodes of a flow's run, each behind those it runs after; none if the run is no flow's."""

    items: list[Node]


class LogAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """Lines of a log; `is_end`: the run is over and nothing follows.

    `source` is `executor`, `store` for the log store, `kept` if only the end stored with the run is
    available, or `none`.
    The lines of a kept end have other numbers than in the log, so all of it is returned, up to 4 kB
    whatever the `limit` is, and only if `from_line` is 1.
    """

    from_line: int
    next_line: int
    text: str
    is_end: bool
    source: str

    @property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return self.text.removesuffix("\n").split("\n") if self.text else []


class KillOutcome(StrEnum):
    """The result of a kill; the values are for people and programs."""

    CANCELLED = "cancelled before it was sent"
    REQUESTED = "kill requested"


class Killed(msgspec.Struct, kw_only=True, frozen=True):
    """What happened to the run."""

    result: KillOutcome


class Planned(msgspec.Struct, kw_only=True, frozen=True):
    """The runs that were planned."""

    run_ids: list[int]


class Reruns(Planned, kw_only=True, frozen=True):
    """The runs that were planned; of a dry run, those that would be repeated.

    `left_out` says how many of the runs that a filter found are not repeated, by reason.
    """

    left_out: dict[str, int] = {}  # older APIs do not say it


class BatchAnswer(Planned, kw_only=True, frozen=True):
    """The runs that were planned, in the order of the request.

    `warnings` say what could not be checked.
    """

    warnings: list[str] = []  # older APIs do not say it


class Cleared(msgspec.Struct, kw_only=True, frozen=True):
    """How many runs were deleted; if not `is_over`, time was, and the rest is for another call."""

    count: int
    is_over: bool


class Skip(msgspec.Struct, kw_only=True, frozen=True):
    """Skipped due times of a job: `count` of them from `from_at` to `to_at`, and why.

    A deleted job's have no `job`. Backfills have made good `made_good` of them since, the last by
    run `made_good_by`.
    """

    id: int
    job_id: int
    job: str | None
    app: str | None
    from_at: datetime
    to_at: datetime
    recorded_at: datetime
    made_good: int
    made_good_by: int | None
    count: int
    reason: str


#: Those that can be asked for; a run of a newer version may have others.
Status: TypeAlias = Literal[
    "CANCELLED",
    "FAILED",
    "KILLED",
    "LOST",
    "PLANNED",
    "REFUSED",
    "ROUTED",
    "RUNNING",
    "SENT",
    "SKIPPED",
    "SUCCEEDED",
    "TIMED_OUT",
    "UNDELIVERED",
]
Kind: TypeAlias = Literal[
    "API", "BACKFILL", "CRON", "MANUAL", "MISFIRE", "NODE", "PARENT", "RERUN", "RETRY"
]
#: A job as NAME or APP/NAME.
JobWord = Annotated[str, msgspec.Meta(max_length=330)]


class RunsQuery(PageQuery, kw_only=True):
    """Which runs to list, by due time; `job` is NAME together with an app, or APP/NAME.

    `unresolved`: only failures that are unresolved: nothing later succeeded or is open.
    `outside_flows`: all but runs of flows' nodes; `flow_run_id`: only those of the nodes of one run
    of a flow; `backfill_id`: only those of a backfill; `tick_of`: only shards and attempts of the
    same tick as this run. Without `status`, `until` and such an id, runs that are due over an hour
    from now are left out; with `status=PLANNED` they are listed too.
    """

    app: Word | None = None
    job: JobWord | None = None
    status: list[Status] = msgspec.field(default_factory=list)
    kind: Kind | None = None
    unresolved: bool = False
    outside_flows: bool = False
    flow_run_id: Id | None = None
    backfill_id: Id | None = None
    tick_of: Id | None = None
    since: InstantText | None = None
    until: InstantText | None = None
    address: Word | None = None
    run_date: Day | None = None


class QueueQuery(PageQuery, kw_only=True):
    """Whose runs to list."""

    app: Word | None = None


class LogQuery(msgspec.Struct, kw_only=True):
    """Which lines to return; `kept`: those of its end that is kept with the run."""

    from_line: Annotated[int, msgspec.Meta(ge=1, le=50_000_000)] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LINES)] = MAX_LINES
    kept: bool = False


After = Annotated[
    str, msgspec.Meta(max_length=32, description="A duration such as `90s`, `5m` or `2d12h`.")
]


class MoveBody(msgspec.Struct, kw_only=True):
    """The new due time of a planned run: `at` a time, or `in` a while from now."""

    at: InstantText | None = None
    after: After | None = msgspec.field(default=None, name="in")


class TriggerBody(msgspec.Struct, kw_only=True):
    """How to run a job: with this param instead of its own, only on these executors.

    Its date is `run_date`, or by the job's rule that of its due time.
    It runs now, `at` a time, or `in` a while. A time that has passed is refused; with `late`, the
    run is due now instead. `manual`: a person asks for it, so its kind is MANUAL instead of API.
    """

    param: str | None = None
    addresses: Annotated[list[str], msgspec.Meta(max_length=MAX_ADDRESSES)] = []
    at: InstantText | None = None
    after: After | None = msgspec.field(default=None, name="in")
    late: bool = False
    run_date: Day | None = None
    manual: bool = False


class BatchBody(msgspec.Struct, kw_only=True):
    """Runs of a job to plan, all or none."""

    runs: Annotated[list[TriggerBody], msgspec.Meta(min_length=1, max_length=MAX_TRIGGERS)]


class RerunBody(msgspec.Struct, kw_only=True):
    """How to repeat a run: as it was, or with the job's `current` handler, param and script.

    `children`: whether the job's children run when the due time has succeeded. Without it they do,
    but if they have already run for this due time, the request is refused. Of a flow's run,
    `failed` repeats only what failed or was stopped and what runs after it, `from` one node and
    what runs after it, and `only` one node; the other nodes are kept with their results.
    """

    current: bool = False
    children: bool | None = None
    failed: bool = False
    from_node: Word | None = msgspec.field(default=None, name="from")
    only_node: Word | None = msgspec.field(default=None, name="only")


class RerunsBody(RerunBody, kw_only=True):
    """Which runs to repeat, all or none, and how.

    They are `run_ids`, or the ended runs that match the filter, as when listing runs; without
    `status`, unresolved failures. What cannot be repeated is left out of a filter's runs.
    With `newest`, of the runs of each job only those of its newest due time among them.
    """

    run_ids: Annotated[list[Id], msgspec.Meta(max_length=MAX_RERUNS)] = []
    app: Word | None = None
    job: JobWord | None = None
    status: list[Status] = []
    unresolved: bool = False
    since: InstantText | None = None
    until: InstantText | None = None
    newest: bool = False
    dry_run: bool = False


class ClearBody(msgspec.Struct, kw_only=True):
    """Which finished runs to delete: those due `before` a time, all but the newest, or `all`.

    They are those of a job, given as APP/NAME, of an app, or of all. `dry_run` only counts them.
    """

    job: JobWord | None = None
    app: Word | None = None
    before: InstantText | None = None
    keep: Annotated[int, msgspec.Meta(ge=1)] | None = None
    everything: bool = msgspec.field(default=False, name="all")
    dry_run: bool = False


class SkipsQuery(PageQuery, kw_only=True):
    """Which skips to list; `job` is APP/NAME, and `since` is a due time."""

    job: JobWord | None = None
    since: InstantText | None = None


@operation("GET", "/runs", Scope.READ, query=RunsQuery)
def list_runs(
    *,
    app: str | None = None,
    job: str | None = None,
    status: str | Sequence[str] = (),
    kind: str | None = None,
    address: str | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    run_date: date | str | None = None,
    unresolved: bool = False,
    outside_flows: bool = False,
    flow_run_id: int | None = None,
    backfill_id: int | None = None,
    tick_of: int | None = None,
    limit: int = DEFAULT_LIMIT,
) -> list[Run]:
    """List runs, latest due time first."""


@operation("GET", "/skips", Scope.READ, query=SkipsQuery)
def list_skips(
    *, job: str | None = None, since: datetime | str | None = None, limit: int = DEFAULT_LIMIT
) -> list[Skip]:
    """List due times that were skipped, and why, the latest first."""


@operation("GET", "/queue", Scope.READ, query=QueueQuery)
def list_queue(*, app: str | None = None, limit: int | None = DEFAULT_LIMIT) -> list[Run]:
    """List due runs that are not sent yet, the longest waiting first, and what they wait for."""


RunId: TypeAlias = int | Run
_PATH = "/runs/<id:run_id>"


@operation("GET", _PATH, Scope.READ, headers=WAIT_HEADER)
def show_run(run: RunId) -> RunWithTick:
    """Show a run and the state of its tick."""


@operation("GET", f"{_PATH}/tick", Scope.READ)
def show_tick(run: RunId) -> TickAnswer:
    """Show every attempt of every shard of a run's tick.

    Of a tick with more than 1,000 attempts or 4 MB of texts, the last attempts are shown. The
    others are named in `tick.run_ids`; each can be read as `/runs/{run_id}`.
    """


@operation("GET", f"{_PATH}/nodes", Scope.READ)
def show_nodes(run: RunId) -> NodesAnswer:
    """Show the nodes of a flow's run."""


_TRACE = {
    "traceparent": "The caller's span (W3C Trace Context); the run becomes part of its trace."
}
_OVER = {200: "the whole tick is over"}
_OF_JOB = "/jobs/<app>/<name>/runs"


@operation(
    "POST",
    _OF_JOB,
    Scope.TRIGGER,
    status=202,
    body=TriggerBody,
    other_answers=_OVER,
    headers=KEY_HEADER | WAIT_HEADER | _TRACE,
)
def trigger(
    job: str,
    param: str | None = None,
    *,
    params: Any = None,
    at: datetime | str | None = None,
    after: timedelta | str | None = None,
    late: bool = False,
    addresses: Sequence[str] = (),
    run_date: date | str | None = None,
    manual: bool = False,
    key: str | None = None,
) -> RunWithTick:
    """Run a job now or at a given time, whether it is started or stopped.

    A param replaces the job's own. A time that has passed is refused; with `late`, the run is due
    now instead. Calls with the same key within a day trigger only one run.
    """


@operation(
    "POST",
    f"{_OF_JOB}:batch",
    Scope.TRIGGER,
    status=202,
    body=BatchBody,
    headers=KEY_HEADER | _TRACE,
)
def trigger_all(job: str, runs: Sequence[Any], *, key: str | None = None) -> BatchAnswer:
    """Run a job many times, each now or at its own time; all runs are planned, or none."""


@operation("PATCH", _PATH, Scope.TRIGGER, body=MoveBody)
def move_run(
    run: RunId, *, at: datetime | str | None = None, after: timedelta | str | None = None
) -> RunWithTick:
    """Change the due time of a triggered run that is still planned."""


@operation("DELETE", _PATH, Scope.TRIGGER)
def cancel_run(run: RunId) -> None:
    """Cancel a run that was triggered, while it is planned. Any run can be killed instead."""


@operation("POST", f"{_PATH}/kill", Scope.OPERATE)
def kill_run(run: RunId) -> Killed:
    """Kill a run, wherever it is."""


@operation(
    "POST",
    f"{_PATH}/rerun",
    Scope.TRIGGER,
    status=202,
    body=RerunBody,
    other_answers=_OVER,
    headers=KEY_HEADER | WAIT_HEADER,
)
def rerun(
    run: RunId,
    *,
    current: bool = False,
    children: bool | None = True,
    failed: bool = False,
    from_node: str | None = None,
    only_node: str | None = None,
    key: str | None = None,
) -> RunWithTick:
    """Run a run again for its due time, with its param and version of the script.

    With `current`, it takes the handler, param and script of its job as they are now.
    """


@operation("POST", "/runs:rerun", Scope.TRIGGER, status=202, body=RerunsBody, headers=KEY_HEADER)
def rerun_all(
    run_ids: Sequence[int] = (),
    *,
    app: str | None = None,
    job: str | None = None,
    status: Sequence[str] = (),
    unresolved: bool = False,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    current: bool = False,
    children: bool | None = True,
    failed: bool = False,
    from_node: str | None = None,
    only_node: str | None = None,
    newest: bool = False,
    dry_run: bool = False,
    key: str | None = None,
) -> Reruns:
    """Run several runs again, each for its due time; all of them, or none.

    They are named, or found by a filter: without `status`, unresolved failures. Of the attempts of
    one shard of a due time, the newest is repeated; with `newest`, also of the due times of each
    job. A dry run only says which.
    """


@operation(
    "POST", "/runs:clear", Scope.OPERATE, body=ClearBody, is_heavy=True, needs_whole_apps=True
)
def clear_runs(
    *,
    job: str | None = None,
    app: str | None = None,
    before: datetime | str | None = None,
    keep: int | None = None,
    everything: bool = False,
    dry_run: bool = False,
) -> Cleared:
    """Delete finished runs; their logs and the day report stay.

    All runs of a tick are deleted together, once the last one is over.
    """


@operation(
    "GET",
    f"{_PATH}/log",
    Scope.LOGS,
    query=LogQuery,
    answer_media=(JSON, TEXT),
    headers=WAIT_HEADER,
)
def read_log(run: RunId, *, from_line: int = 1, kept: bool = False) -> LogAnswer:
    """Read a run's log from a line on; as text if that is accepted."""
