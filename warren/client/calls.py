"""The calls: what each sends and returns, for both `Client` and `AsyncClient`.

Jobs are named APP/NAME. A run is given by its id, or as a returned `Run`. Every call raises
ApiError if the API refuses it or does not answer. A backfill is given like a run.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from warren.client.answers import (
    ApiError,
    Job,
    LogPart,
    Node,
    Planned,
    Run,
    RunFailed,
    Tick,
)
from warren.client.exchange import RETRY_SECONDS, Exchange, Pause, Request, Response
from warren.executor.handlers.params import given_param
from warren.resources import alarms as alarm_operations
from warren.resources import backfills as backfill_operations
from warren.resources import calendars as calendar_operations
from warren.resources import cluster as cluster_operations
from warren.resources import job_files as job_file_operations
from warren.resources import jobs as job_operations
from warren.resources import limits as limit_operations
from warren.resources import reports as report_operations
from warren.resources.job_files import Applied, JobFileText, ValuesGiven
from warren.resources.operation import KEY_HEADER, Operation
from warren.resources.queue import list_queue

P = ParamSpec("P")
T = TypeVar("T")
#: The job in the path of an operation, which is given as APP/NAME, and any variable.
_JOB = "<app>/<name>"
_VARIABLE = re.compile(f"{_JOB}|<[^>]+>")
#: Items of a page at most.
_PAGE = 200
#: Runs of a batch at most; the API takes bodies of 1,000,000 bytes.
_BATCH, _BATCH_BYTES = 5_000, 990_000

RunId: TypeAlias = int | Run
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

    @wraps(operation.declared)
    def exchange(*args: P.args, **kwargs: P.kwargs) -> Exchange[T]:
        given = list(operation.given(*args, **kwargs).items())
        path = "".join(
            text + _in_path(variable, value)
            for text, variable, (_, value) in zip(texts, variables, given, strict=False)
        )
        fields = dict(given[len(variables) :])
        if operation.item is not None:
            most = fields.pop("limit", operation.default("limit"))
            items = yield from items_of(path + rest, _query(fields), most, operation.item)
            return cast(T, items)
        if "params" in fields:
            fields["param"] = given_param(fields.pop("params"), fields.get("param"))
        body = None if endpoint.body is None else _body(endpoint.body, fields)
        headers = {name: str(uuid.uuid4()) for name in endpoint.headers if name in KEY_HEADER}
        asked = {} if endpoint.body else _query(fields)
        query = f"?{urlencode(asked)}" if asked else ""
        response = yield Request(
            method=endpoint.method,
            path=path + rest + query,
            body=body,
            headers=headers,
            wait_seconds=_HEAVY_SECONDS if endpoint.is_heavy else 0,
        )
        return cast(T, endpoint.answer and value_of(response, endpoint.answer))

    return exchange


def _body(kind: type, fields: Mapping[str, Any]) -> bytes:
    """Return a body with its fields as they are called in JSON."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    return msgspec.json.encode({names[name]: value for name, value in fields.items()})


def _query(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a query."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
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
calendars = call_of(calendar_operations.list_calendars)
calendar = call_of(calendar_operations.show_calendar)
apply_calendars = call_of(calendar_operations.apply_calendars)
check_job_files = call_of(job_file_operations.check_job_files)
export_job_file = call_of(job_file_operations.export_job_file)
find_job = call_of(job_operations.find_job)
start_job = call_of(job_operations.start_job)
stop_job = call_of(job_operations.stop_job)
next_times = call_of(job_operations.next_times)
follow_rules = call_of(job_operations.follow_rules)
limits = call_of(limit_operations.list_limits)
limit = call_of(limit_operations.show_limit)
set_limit = call_of(limit_operations.set_limit)
delete_limit = call_of(limit_operations.delete_limit)
executors = call_of(cluster_operations.list_executors)
executor = call_of(cluster_operations.show_executor)
drain_executor = call_of(cluster_operations.drain_executor)
queue = call_of(list_queue)
forget_executor = call_of(cluster_operations.forget_executor)
report_days = call_of(report_operations.report_days)
schedulers = call_of(cluster_operations.list_schedulers)
cluster = call_of(cluster_operations.show_cluster)
pause_cluster = call_of(cluster_operations.pause_cluster)
resume_cluster = call_of(cluster_operations.resume_cluster)
add_app = call_of(cluster_operations.add_app)
pause_app = call_of(cluster_operations.pause_app)
resume_app = call_of(cluster_operations.resume_app)


def keyed(path: str, body: Any, key: str | None) -> Request:
    """Return a request that does what it says once, however often it is sent."""
    return json_request("POST", path, body, {"Idempotency-Key": key or str(uuid.uuid4())})


def json_request(
    method: str, path: str, body: Any, headers: Mapping[str, str] | None = None
) -> Request:
    """Return a request with a JSON body."""
    return Request(
        method=method, path=path, body=msgspec.json.encode(body), headers=dict(headers or {})
    )


def items_of(
    path: str, wanted: Mapping[str, str | None], limit: int | None, kind: type[T]
) -> Exchange[list[T]]:
    """Return the items of a list, page by page."""
    items: list[T] = []
    query = {name: value for name, value in wanted.items() if value}
    while limit is None or len(items) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(items))
        response = yield Request(method="GET", path=f"{path}?{urlencode(query | {'limit': size})}")
        page = value_of(response, dict[str, Any])
        items += msgspec.convert(page["items"], list[kind], strict=False)  # type: ignore[valid-type]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    return items


def value_of(response: Response, kind: type[T]) -> T:
    """Return what an answer says; raises ApiError if Warren's API does not answer like that."""
    return response.value(kind)


def instant_text(at: Instant | None) -> str | None:
    """Return a time as it is sent; raises ValueError if it has no zone."""
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError(f"expected a time with its zone, got: {at!r}")
    return at.isoformat()


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
        if part and (len(part) == _BATCH or size + length > _BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(body)
        size += length
    if part:
        yield part


def trigger_body(wish: Trigger) -> dict[str, Any]:
    """Return the JSON that asks for a run."""
    after = wish.after
    if isinstance(after, timedelta):
        after = f"{round(after.total_seconds())}s"
    given = {
        "param": given_param(wish.params, wish.param),
        "at": instant_text(wish.at),
        "in": after,
        "late": wish.late,
        "addresses": list(wish.addresses),
        "run_date": None if wish.run_date is None else str(wish.run_date),
    }
    return {name: value for name, value in given.items() if value or value == ""}


class _Nodes(msgspec.Struct, kw_only=True, frozen=True):
    items: list[Node]


class _Attempts(msgspec.Struct, kw_only=True, frozen=True):
    items: list[Run]


def trigger(
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
) -> Exchange[Run]:
    """Run a job now, `at` a time or `after` a while; return the planned run.

    Args:
        job: APP/NAME.
        param: instead of the job's own.
        params: the same as a value that JSON can hold, such as a struct of the handler's params.
        at: a time in the future, within ten years.
        after: a while from now.
        late: run it now if `at` has passed; without this, it is refused.
        addresses: the executors to choose from; empty = any of the app's.
        run_date: the date that the run is about; None = by the job's rule, from its due time.
        key: calls with the same key within a day trigger only one run; None = a new key.

    Raises:
        ValueError: both `param` and `params` are given.
        TypeError: JSON cannot hold `params`.

    """
    wish = Trigger(
        param=param,
        params=params,
        at=at,
        after=after,
        late=late,
        addresses=addresses,
        run_date=run_date,
    )
    response = yield keyed(f"{job_path(job)}/runs", trigger_body(wish), key)
    return value_of(response, Run)


def trigger_all(
    job: str, triggers: Iterable[Trigger], *, key: str | None = None
) -> Exchange[list[int]]:
    """Run a job any number of times; return the ids of the planned runs, in order.

    They are sent in chunks of up to 5,000 runs and about 1 MB, each planned as a whole or not at
    all. If one is refused, the error's `run_ids` are those of the chunks before it. With the same
    `key`, the same call plans only the rest.
    """
    path, key = f"{job_path(job)}/runs:batch", key or str(uuid.uuid4())
    run_ids: list[int] = []
    for number, chunk in enumerate(batches([trigger_body(wish) for wish in triggers])):
        own_key = f"{key}/{number}" if number else key
        try:
            response = yield keyed(path, {"runs": chunk}, own_key)
        except ApiError as error:
            error.run_ids = run_ids
            raise
        run_ids += value_of(response, Planned).run_ids
    return run_ids


def run(
    job: str,
    param: str | None = None,
    *,
    params: object = None,
    addresses: Sequence[str] = (),
    key: str | None = None,
    timeout: float | None = None,
) -> Exchange[Run]:
    """Run a job now and wait for its end, including retries and shards; return what decided.

    That is the last attempt. Of a broadcast, it is that of the first shard that failed, or of the
    first one if none did. Its `attempts` are all.

    Raises:
        RunFailed: it did not succeed.
        TimeoutError: it is not over after `timeout` seconds; it continues.

    """
    planned = yield from trigger(job, param, params=params, addresses=addresses, key=key)
    return (yield from wait(planned, timeout=timeout))


def wait(run: RunId, *, timeout: float | None = None) -> Exchange[Run]:
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
        ended = value_of(response, Run)
        assert ended.tick is not None
        if ended.tick.is_over:
            decided = yield from _decided(ended, ended.tick)
            if ended.tick.status not in {"SUCCEEDED", "SKIPPED"}:
                raise RunFailed(decided)
            return decided
        if end_at is not None and time.monotonic() >= end_at:
            raise TimeoutError(f"{_so_far(ended, ended.tick)} after {timeout} s")
        if "preference-applied" not in response.headers:
            yield Pause(1.0 if end_at is None else min(1.0, max(0.05, left)))


def _so_far(run: Run, tick: Tick) -> str:
    """Return how far a tick is that is not over."""
    if tick.run_ids == [run.id]:
        return f"run {run.id} is {run.status}"
    return f"run {run.id} is not over with its {len(tick.run_ids)} shards and attempts"


def _decided(run: Run, tick: Tick) -> Exchange[Run]:
    """Return the run that decided how a run's tick ended, with all attempts."""
    decided = run
    if tick.deciding_id not in {None, run.id}:
        decided = yield from get(tick.deciding_id)
    attempts = [run]
    if tick.run_ids != [run.id]:
        response = yield Request(method="GET", path=f"{run_path(run)}/tick")
        attempts = value_of(response, _Attempts).items
    return msgspec.structs.replace(decided, tick=tick, attempts=attempts)


def get(run: RunId) -> Exchange[Run]:
    """Return a run and the state of its tick."""
    return value_of((yield Request(method="GET", path=run_path(run))), Run)


def nodes(run: RunId) -> Exchange[list[Node]]:
    """Return the nodes of a flow's run, each behind those it runs after; none of other runs."""
    response = yield Request(method="GET", path=f"{run_path(run)}/nodes")
    return value_of(response, _Nodes).items


def cancel(run: RunId) -> Exchange[None]:
    """Cancel a run that was triggered, while it is planned; again is no error."""
    yield Request(method="DELETE", path=run_path(run))


def reschedule(
    run: RunId, *, at: Instant | None = None, after: Span | None = None
) -> Exchange[Run]:
    """Give a run that was triggered another due time, while it is planned; return the run."""
    body = trigger_body(Trigger(at=at, after=after))
    return value_of((yield json_request("PATCH", run_path(run), body)), Run)


def kill(run: RunId) -> Exchange[str]:
    """Kill a run, wherever it is; return what has been done."""
    response = yield Request(method="POST", path=f"{run_path(run)}/kill")
    return str(value_of(response, dict[str, str])["result"])


def rerun(
    run: RunId,
    *,
    current: bool = False,
    children: bool = True,
    failed: bool = False,
    from_node: str | None = None,
    only_node: str | None = None,
    key: str | None = None,
) -> Exchange[Run]:
    """Run an ended run again for its due time; return the planned run.

    Args:
        run: the run to repeat, with its param and its version of the script.
        current: take the job's param and script as they are now.
        children: let a success trigger the job's children, as the first run would have.
        failed: of a flow's run, repeat only what failed, and what runs after it.
        from_node: of a flow's run, repeat only this node, and what runs after it.
        only_node: of a flow's run, repeat only this node.
        key: as for `trigger`.

    """
    body: dict[str, Any] = {"current": current, "children": children}
    body |= {"failed": True} if failed else {}
    body |= {"from": from_node} if from_node else {}
    body |= {"only": only_node} if only_node else {}
    return value_of((yield keyed(f"{run_path(run)}/rerun", body, key)), Run)


def runs(
    *,
    app: str | None = None,
    job: str | None = None,
    status: str | Sequence[str] = (),
    kind: str | None = None,
    address: str | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    unresolved: bool = False,
    outside_flows: bool = False,
    flow_run_id: int | None = None,
    backfill_id: int | None = None,
    limit: int = 50,
) -> Exchange[list[Run]]:
    """Return up to `limit` runs, the latest due time first.

    `outside_flows`: all but runs of flows' nodes; `flow_run_id`: only those of one run of a flow.
    Without `status`, `until` and these ids, those due over an hour from now are left out.
    """
    wanted = {
        "app": app,
        "job": job,
        "status": status if isinstance(status, str) else ",".join(status),
        "kind": kind,
        "address": address,
        "since": instant_text(since),
        "until": instant_text(until),
        "unresolved": "true" if unresolved else None,
        "outside_flows": "true" if outside_flows else None,
        "flow_run_id": None if flow_run_id is None else str(flow_run_id),
        "backfill_id": None if backfill_id is None else str(backfill_id),
    }
    return (yield from items_of("/runs", wanted, limit, Run))


def log(run: RunId, *, from_line: int = 1) -> Exchange[LogPart]:
    """Return up to 1,000 lines of a run's log."""
    path = f"{run_path(run)}/log?from_line={int(from_line)}"
    return value_of((yield Request(method="GET", path=path)), LogPart)


def jobs(
    *,
    app: str | None = None,
    name: str | None = None,
    handler: str | None = None,
    tag: str | None = None,
    enabled: bool | None = None,
    limit: int = 1_000,
) -> Exchange[list[Job]]:
    """Return up to `limit` jobs by app and name; `name` and `handler` match parts of theirs."""
    switched = None if enabled is None else str(enabled).lower()
    wanted = {"app": app, "q": name, "handler": handler, "tag": tag, "enabled": switched}
    return (yield from items_of("/jobs", wanted, limit, Job))


def job(name: str) -> Exchange[Job]:
    """Return a job by its name, APP/NAME."""
    return value_of((yield Request(method="GET", path=job_path(name))), Job)


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
    end = msgspec.UNSET if until is None else instant_text(until)
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
    return value_of((yield Request(method="GET", path=path)), object)


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
        part = value_of(response, LogPart)
        self._line, self.is_over = part.next_line, part.is_end
        if part.text:
            self._has_begun, self._give_up_at = True, None
        elif not part.is_end:
            yield from self._look_again("preference-applied" in response.headers)
        return part.lines

    def _look_again(self, has_waited: bool) -> Exchange[None]:
        """Wait a little; end or raise once the rest of the log can no longer be expected."""
        run_ = yield from get(self._id)
        assert run_.tick is not None
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
