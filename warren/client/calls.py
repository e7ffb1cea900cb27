"""The calls: what each sends and returns, for both `Client` and `AsyncClient`.

Jobs are named APP/NAME. A run is given by its id, or as a returned `Run`. Every call raises
ApiError if the API refuses it or does not answer. A backfill is given like a run.
"""

import re
import string
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from warren.client.exchange import (
    RETRY_SECONDS,
    ApiError,
    Exchange,
    Pause,
    Request,
    Response,
    RunFailed,
)
from warren.executor.handlers.params import given_param
from warren.resources import alarms as alarm_operations
from warren.resources import backfills as backfill_operations
from warren.resources import board as board_operations
from warren.resources import calendars as calendar_operations
from warren.resources import cluster as cluster_operations
from warren.resources import job_files as job_file_operations
from warren.resources import jobs as job_operations
from warren.resources import limits as limit_operations
from warren.resources import reports as report_operations
from warren.resources import runs as run_operations
from warren.resources.job_files import Applied, JobFileText, ValuesGiven
from warren.resources.jobs import Job
from warren.resources.operation import IS_KEY, KEY_HEADER, KEY_RULE, Operation, page_type
from warren.resources.runs import MAX_TRIGGERS, EndedRun, LogAnswer, Node, Run, RunId, RunWithTick

P = ParamSpec("P")
T = TypeVar("T")
#: The job in the path of an operation, which is given as APP/NAME, and any variable.
_JOB = "<app>/<name>"
_VARIABLE = re.compile(f"{_JOB}|<[^>]+>")
#: Items of a page at most.
_PAGE = 200
#: The size of a batch of triggers at most; the API takes bodies of 1,000,000 bytes.
_BATCH_BYTES = 990_000

#: An aware datetime, or ISO 8601 with an offset.
Instant: TypeAlias = datetime | str
#: A span, or a text such as `90s`, `5m`, `2d12h`.
Span: TypeAlias = timedelta | str
#: A job file in YAML, a path of one or of a folder, or one with its name.
GivenFile: TypeAlias = str | bytes | Path | JobFileText
#: How many seconds one request waits for an end; the API allows 60.
WAIT_SECONDS = 30
#: How many seconds longer than usual what is heavy may take: 70,000 jobs are one transaction.
_HEAVY_SECONDS = 300
WAIT = {"Prefer": f"wait={WAIT_SECONDS}"}


class Trigger(msgspec.Struct, kw_only=True, frozen=True):
    """One run of `trigger_all`; see `trigger`."""

    param: str | None = None
    params: Any = None
    at: Instant | None = None
    after: Span | None = None
    late: bool = False
    addresses: Sequence[str] = ()
    run_date: date | str | None = None


def call_of(operation: Operation[P, T]) -> Callable[P, Exchange[T]]:
    """Return the call of an operation: what it gives goes into the path, the query or the body."""
    endpoint = operation.endpoint
    variables = _VARIABLE.findall(endpoint.rule)
    *texts, rest = _VARIABLE.split(endpoint.rule)
    fields_of = endpoint.body or endpoint.query
    known = {field.name for field in msgspec.structs.fields(fields_of)} if fields_of else set()
    has_key_header = KEY_HEADER.keys() <= endpoint.headers.keys()

    @wraps(operation.declared)
    def exchange(*args: P.args, **kwargs: P.kwargs) -> Exchange[T]:
        given = list(operation.given(*args, **kwargs).items())
        path = "".join(
            text + _in_path(variable, value)
            for text, variable, (_, value) in zip(texts, variables, given, strict=False)
        )
        asked = dict(given[len(variables) :])
        most = None if operation.item is None else asked.pop("limit", None)
        headers = {}
        if has_key_header:
            is_sent = "key" in known
            own = None if is_sent else asked.pop("key", None)
            sent = str(own or uuid.uuid4())
            if not IS_KEY(sent):
                raise ValueError(f"expected key to be {KEY_RULE}, got: {own!r}")
            headers = dict.fromkeys(KEY_HEADER, sent)
        fields = {} if fields_of is None else written(fields_of, asked)
        query = {} if endpoint.body else _query(fields)
        if operation.item is not None:
            items = yield from items_of(path + rest, query, most, operation.item)
            return cast(T, items)
        response = yield Request(
            method=endpoint.method,
            path=path + rest + (f"?{urlencode(query)}" if query else ""),
            body=msgspec.json.encode(fields) if endpoint.body else None,
            headers=headers,
            wait_seconds=_HEAVY_SECONDS if endpoint.is_heavy else 0,
        )
        return cast(T, endpoint.answer and value_of(response, endpoint.answer))

    return exchange


def written(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body or a query as JSON has it.

    Left out is what the API assumes, so that an older one does not meet what it does not know.
    """
    fields = dict(given)
    if "params" in fields:
        fields["param"] = given_param(fields.pop("params"), fields.get("param"))
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    texts = {name: _written(value) for name, value in fields.items()}
    return {
        known[name].encode_name: value
        for name, value in texts.items()
        if value != _assumed(known[name])
    }


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"expected a time with its zone, got: {value!r}")
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds())}s"
    if isinstance(value, date):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _assumed(field: msgspec.structs.FieldInfo) -> Any:
    """Return the default of a field; NODEFAULT if it has none."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def _query(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a query."""
    return {
        name: ",".join(value)
        if isinstance(value, list)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in fields.items()
    }


def _in_path(variable: str, value: Any) -> str:
    if variable == _JOB:
        return job_path(value).removeprefix("/jobs/")
    return quote(str(getattr(value, "id", value)), safe="")


alarms = call_of(alarm_operations.list_alarms)
alarm = call_of(alarm_operations.show_alarm)
send_test_alarms = call_of(alarm_operations.send_test_alarms)
resend_alarms = call_of(alarm_operations.resend_alarms)
dismiss_alarms = call_of(alarm_operations.dismiss_alarms)
incidents = call_of(alarm_operations.list_incidents)
incident = call_of(alarm_operations.show_incident)
acknowledge_incident = call_of(alarm_operations.acknowledge_incident)
backfill = call_of(backfill_operations.make_backfill)
preview_backfill = call_of(backfill_operations.preview_backfill)
backfills = call_of(backfill_operations.list_backfills)
get_backfill = call_of(backfill_operations.show_backfill)
backfill_due_times = call_of(backfill_operations.list_due_times)
pause_backfill = call_of(backfill_operations.pause_backfill)
resume_backfill = call_of(backfill_operations.resume_backfill)
cancel_backfill = call_of(backfill_operations.cancel_backfill)
board = call_of(board_operations.show_board)
mute_job = call_of(board_operations.mute_job)
unmute_job = call_of(board_operations.unmute_job)
calendars = call_of(calendar_operations.list_calendars)
calendar = call_of(calendar_operations.show_calendar)
apply_calendars = call_of(calendar_operations.apply_calendars)
check_job_files = call_of(job_file_operations.check_job_files)
export_job_file = call_of(job_file_operations.export_job_file)
list_jobs = call_of(job_operations.list_jobs)
job = call_of(job_operations.show_job)
job_overviews = call_of(job_operations.list_overviews)
job_overview = call_of(job_operations.show_overview)
job_scripts = call_of(job_operations.list_scripts)
find_job = call_of(job_operations.find_job)
start_job = call_of(job_operations.start_job)
stop_job = call_of(job_operations.stop_job)
next_times = call_of(job_operations.next_times)
follow_rules = call_of(job_operations.follow_rules)
edit_jobs = call_of(job_operations.edit_jobs)
undo_edit = call_of(job_operations.undo_edit)
limits = call_of(limit_operations.list_limits)
limit = call_of(limit_operations.show_limit)
set_limit = call_of(limit_operations.set_limit)
delete_limit = call_of(limit_operations.delete_limit)
runs = call_of(run_operations.list_runs)
_trigger_chunk = call_of(run_operations.trigger_all)
skips = call_of(run_operations.list_skips)
get = call_of(run_operations.show_run)
trigger = call_of(run_operations.trigger)
cancel = call_of(run_operations.cancel_run)
reschedule = call_of(run_operations.move_run)
rerun = call_of(run_operations.rerun)
rerun_all = call_of(run_operations.rerun_all)
clear_runs = call_of(run_operations.clear_runs)
log = call_of(run_operations.read_log)
executors = call_of(cluster_operations.list_executors)
executor = call_of(cluster_operations.show_executor)
drain_executor = call_of(cluster_operations.drain_executor)
queue = call_of(run_operations.list_queue)
forget_executor = call_of(cluster_operations.forget_executor)
report_days = call_of(report_operations.report_days)
schedulers = call_of(cluster_operations.list_schedulers)
cluster = call_of(cluster_operations.show_cluster)
pause_cluster = call_of(cluster_operations.pause_cluster)
resume_cluster = call_of(cluster_operations.resume_cluster)
add_app = call_of(cluster_operations.add_app)
pause_app = call_of(cluster_operations.pause_app)
resume_app = call_of(cluster_operations.resume_app)


def items_of(
    path: str, wanted: Mapping[str, str | None], limit: int | None, kind: Any
) -> Exchange[list[Any]]:
    """Return the items of a list, page by page; `kind` is their type."""
    items: list[Any] = []
    query = {name: value for name, value in wanted.items() if value}
    while limit is None or len(items) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(items))
        response = yield Request(method="GET", path=f"{path}?{urlencode(query | {'limit': size})}")
        page = value_of(response, page_type(kind))
        items += page.items
        if page.next is None:
            break
        query["cursor"] = page.next
    return items


def value_of(response: Response, kind: type[T]) -> T:
    """Return what an answer says; raises ApiError if Warren's API does not answer like that."""
    return response.value(kind)


def run_path(run: RunId) -> str:
    """Return the path of a run."""
    return f"/runs/{int(run if isinstance(run, int) else run.id)}"


def job_path(name: str) -> str:
    """Return the path of a job, given as APP/NAME; raises ValueError for another form."""
    app, slash, job = name.partition("/")
    if not slash or not app or not job:
        raise ValueError(f"expected job to be APP/NAME, got: {name!r}")
    return f"/jobs/{quote(app, safe='')}/{quote(job, safe='')}"


def batches(bodies: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the JSON of triggers in parts that fit into one request each."""
    part: list[dict[str, Any]] = []
    size = 0
    for body in bodies:
        length = len(msgspec.json.encode(body)) + 1
        if part and (len(part) == MAX_TRIGGERS or size + length > _BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(body)
        size += length
    if part:
        yield part


def trigger_all(
    job: str, triggers: Iterable[Trigger], *, key: str | None = None
) -> Exchange[list[int]]:
    """Run a job any number of times; return the ids of the planned runs, in order.

    They are sent in chunks of up to 5,000 runs and about 1 MB, each planned as a whole or not at
    all. If one is refused, the error's `run_ids` are those of the chunks before it. With the same
    `key`, the same call plans only the rest.
    """
    key = key or str(uuid.uuid4())
    run_ids: list[int] = []
    bodies = [
        written(run_operations.TriggerBody, msgspec.structs.asdict(wish)) for wish in triggers
    ]
    for number, chunk in enumerate(batches(bodies)):
        own_key = f"{key}/{number}" if number else key
        try:
            planned = yield from _trigger_chunk(job, chunk, key=own_key)
        except ApiError as error:
            error.run_ids = run_ids
            raise
        run_ids += planned.run_ids
    return run_ids


def run(
    job: str,
    param: str | None = None,
    *,
    params: object = None,
    at: Instant | None = None,
    after: Span | None = None,
    late: bool = False,
    addresses: Sequence[str] = (),
    run_date: date | str | None = None,
    key: str | None = None,
    timeout: float | None = None,
) -> Exchange[EndedRun]:
    """Run a job like `trigger`, and wait for its end with retries and shards; return what decided.

    That is the last attempt. Of a broadcast, it is that of the first shard that failed, or of the
    first one if none did. Its `attempts` are all.

    Raises:
        RunFailed: it did not succeed.
        TimeoutError: it is not over after `timeout` seconds; it continues.

    """
    planned = yield from trigger(
        job,
        param,
        params=params,
        at=at,
        after=after,
        late=late,
        addresses=addresses,
        run_date=run_date,
        key=key,
    )
    return (yield from wait(planned, timeout=timeout))


def wait(run: RunId, *, timeout: float | None = None) -> Exchange[EndedRun]:
    """Wait until a run's whole tick is over. Returns and raises the same as `run`."""
    end_at = None if timeout is None else time.monotonic() + timeout
    while True:
        left = WAIT_SECONDS if end_at is None else end_at - time.monotonic()
        seconds = max(0, min(WAIT_SECONDS, int(left)))
        response = yield Request(
            method="GET",
            path=run_path(run),
            headers={"Prefer": f"wait={seconds}"},
            wait_seconds=seconds,
        )
        ended = value_of(response, RunWithTick)
        if ended.tick.is_over:
            decided = yield from _decided(ended)
            if ended.tick.status not in {"SUCCEEDED", "SKIPPED"}:
                raise RunFailed(decided)
            return decided
        if end_at is not None and time.monotonic() >= end_at:
            raise TimeoutError(f"{_so_far(ended)} after {timeout} s")
        if "preference-applied" not in response.headers:
            yield Pause(1.0 if end_at is None else min(1.0, max(0.05, left)))


def _so_far(run: RunWithTick) -> str:
    """Return how far a tick is that is not over."""
    if run.tick.run_ids == [run.id]:
        return f"run {run.id} is {run.status}"
    return f"run {run.id} is not over with its {len(run.tick.run_ids)} shards and attempts"


def _decided(run: RunWithTick) -> Exchange[EndedRun]:
    """Return the run that decided how a run's tick ended, with all attempts."""
    decided, attempts = run, [cast(Run, run)]
    if run.tick.deciding_id not in {None, run.id}:
        decided = yield from get(run.tick.deciding_id)
    if run.tick.run_ids != [run.id]:
        attempts = (yield from call_of(run_operations.show_tick)(run)).items
    fields = msgspec.structs.asdict(decided) | {"tick": run.tick}
    return EndedRun(**fields, attempts=attempts)


def nodes(run: RunId) -> Exchange[list[Node]]:
    """Return the nodes of a flow's run, each behind those it runs after; none of other runs."""
    return (yield from call_of(run_operations.show_nodes)(run)).items


def kill(run: RunId) -> Exchange[str]:
    """Kill a run, wherever it is; return what has been done."""
    return (yield from call_of(run_operations.kill_run)(run)).result.value


def jobs(
    *,
    app: str | None = None,
    name: str | None = None,
    handler: str | None = None,
    tag: str | None = None,
    author: str | None = None,
    enabled: bool | None = None,
    state: job_operations.JobsState | None = None,
    limit: int = 1_000,
) -> Exchange[list[Job]]:
    """Return up to `limit` jobs by app and name.

    `name`, `handler` and `author` match parts of theirs; `state` is `failing`, `recovered`,
    `trouble` or `fine`.
    """
    return (
        yield from list_jobs(
            app=app,
            q=name,
            handler=handler,
            tag=tag,
            author=author,
            enabled=enabled,
            state=state,
            limit=limit,
        )
    )


def start(job: str) -> Exchange[bool]:
    """Start a job's schedule; return False if it is started."""
    return (yield from start_job(job)).changed


def stop(job: str) -> Exchange[bool]:
    """Stop a job's schedule; return False if it is stopped. Runs in progress continue."""
    return (yield from stop_job(job)).changed


def delete_job(job: str) -> Exchange[int]:
    """Delete a job, whatever has changed about it; return how many planned runs are cancelled."""
    response = yield Request(method="DELETE", path=job_path(job), headers={"If-Match": "*"})
    return int(response.headers.get(job_operations.CANCELLED_HEADER.lower(), 0))


def pause(
    app: str | None = None, *, reason: str = "", until: Instant | None = None
) -> Exchange[bool]:
    """Stop dispatching runs of an app, None = of all; return False if it was paused like this."""
    end = msgspec.UNSET if until is None else until
    if app is None:
        return (yield from pause_cluster(reason=reason, until=end)).changed
    return (yield from pause_app(app, reason=reason, until=end)).changed


def resume(app: str | None = None) -> Exchange[bool]:
    """Resume dispatching runs of an app, None = of all; return False if nothing was paused."""
    return (yield from resume_cluster() if app is None else resume_app(app)).changed


def apply(
    job_file: GivenFile | Mapping[str, Any] | Sequence[GivenFile],
    *,
    values: Mapping[str, str] | ValuesGiven | None = None,
    dry_run: bool = False,
    prune: bool = False,
    take_over: bool = False,
    module: str = "",
    app: str = "",
) -> Exchange[Applied]:
    """Make jobs match a job file, or several together, all or nothing; return the changes.

    A job file is a YAML text, its content as Python values, or the path of a file or folder, which
    stands for its files `NAME.yaml` and `NAME.yml`. Of several texts and paths, later ones win
    field by field. `values` are those of `${NAME}` in them.

    With `module`, the jobs are declared in its handlers' code, and `prune` deletes those that it
    declared before: in all apps, or only in those of the jobs and in `app`. Jobs that are declared
    elsewhere are refused, unless they are taken over.

    Raises:
        ApiError: nothing was changed, unless its `status` is 0.
        JobFileError: a file cannot be read.

    """
    flags = {"dry_run": dry_run, "prune": prune, "take_over": take_over}
    texts = {"module": module, "app": app}
    query = urlencode(
        {name: str(value).lower() for name, value in flags.items() if value}
        | {name: value for name, value in texts.items() if value}
    )
    data, media = _job_file_body(job_file, values or {})
    response = yield Request(
        method="POST",
        path=f"/apply?{query}" if query else "/apply",
        body=data,
        headers={"Content-Type": media},
        wait_seconds=_HEAVY_SECONDS,
    )
    return value_of(response, Applied)


def _job_file_body(
    job_file: GivenFile | Mapping[str, Any] | Sequence[GivenFile],
    values: Mapping[str, str] | ValuesGiven,
) -> tuple[bytes, str]:
    """Return the body of a request to apply job files, and its type."""
    if isinstance(job_file, Mapping):
        if values:
            raise ValueError("expected values with job files only; these have no ${NAME}")
        return msgspec.json.encode(job_file), "application/json"
    if isinstance(job_file, str | bytes) and not values:
        return job_file.encode() if isinstance(job_file, str) else job_file, "application/yaml"
    given = [job_file] if isinstance(job_file, str | bytes | Path | JobFileText) else job_file
    body: dict[str, Any] = {"files": list(_named(given))}
    if values and values != ValuesGiven():  # older APIs do not know what is given
        body["given" if isinstance(values, ValuesGiven) else "values"] = values
    return msgspec.json.encode(body), "application/json"


def _named(given: Iterable[GivenFile]) -> Iterator[JobFileText]:
    from warren.jobfile.sources import decoded, read_sources  # noqa: PLC0415 - few programs need it

    for number, source in enumerate(given, 1):
        if isinstance(source, JobFileText):
            yield source
        elif isinstance(source, Path):
            yield from read_sources([source])
        else:
            name = f"job file {number}"
            text = source if isinstance(source, str) else decoded(source, name)
            yield JobFileText(name, text)


def read(path: str) -> Exchange[Any]:
    """Return the answer to a GET of any path below the base, such as `/ledger/APP/JOB`."""
    # What the path has quoted already stays.
    sent = quote(path, safe=string.punctuation)
    return value_of((yield Request(method="GET", path=sent)), object)


class FollowedLog:
    """The lines of a run's log from a given one on, as they appear.

    `patience`: for how many seconds after the run's end to ask for the rest of its log.
    """

    def __init__(self, run: RunId, from_line: int, patience: float | None) -> None:
        self._path = run_path(run)
        self._id = run if isinstance(run, int) else run.id
        self._line = from_line
        self._patience = RETRY_SECONDS if patience is None else patience
        self._has_begun = from_line > 1
        self._give_up_at: float | None = None
        self.is_over = False

    def more(self) -> Exchange[list[str]]:
        """Return the next lines, perhaps none.

        Raises:
            ApiError: the run is over, but nobody could return the rest of its log. If not a single
                line was found, the lines just end.

        """
        path = f"{self._path}/log?from_line={self._line}"
        response = yield Request(method="GET", path=path, headers=WAIT, wait_seconds=WAIT_SECONDS)
        part = value_of(response, LogAnswer)
        self._line, self.is_over = part.next_line, part.is_end
        if part.text:
            self._has_begun, self._give_up_at = True, None
        elif not part.is_end:
            yield from self._look_again("preference-applied" in response.headers)
        return part.lines

    def _look_again(self, has_waited: bool) -> Exchange[None]:
        """Wait a little; end or raise once the rest of the log can no longer be expected."""
        run_ = yield from get(self._id)
        now = time.monotonic()
        if run_.tick.is_over:
            self._give_up_at = self._give_up_at or now + self._patience
            if now >= self._give_up_at:
                self.is_over = True
                if self._has_begun:
                    words = f"run {self._id} is over, but the rest of its log cannot be read"
                    raise ApiError(0, {"detail": words})
                return
        if run_.tick.is_over or not has_waited:
            yield Pause(1.0)
