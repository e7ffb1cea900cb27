"""The calls: what each sends and returns, for both `Client` and `AsyncClient`.

Jobs are named APP/NAME. A run is given by its id, or as a returned `Run`. Every call raises
ApiError if the API refuses it or does not answer.
"""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from warren.client import wire
from warren.client.answers import Applied, Executor, Job, Limit, LogPart, Node, Planned, Run, Tick
from warren.client.errors import ApiError, RunFailed
from warren.client.exchange import Exchange, Pause, Request
from warren.client.wire import Instant, RunId, Span, Trigger

#: A job file in YAML.
JobFileText: TypeAlias = str | bytes
#: How many seconds one request waits for an end; the API allows 60.
WAIT_SECONDS = 30
#: How many seconds longer than usual a job file may take: 70,000 jobs are one transaction.
_APPLY_SECONDS = 300
WAIT = {"Prefer": f"wait={WAIT_SECONDS}"}


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
    response = yield wire.keyed(f"{wire.job_path(job)}/runs", wire.trigger_body(wish), key)
    return wire.value_of(response, Run)


def trigger_all(
    job: str, triggers: Iterable[Trigger], *, key: str | None = None
) -> Exchange[list[int]]:
    """Run a job any number of times; return the ids of the planned runs, in order.

    They are sent in chunks of up to 5,000 runs and about 1 MB, each planned as a whole or not at
    all. If one is refused, the error's `run_ids` are those of the chunks before it. With the same
    `key`, the same call plans only the rest.
    """
    path, key = f"{wire.job_path(job)}/runs:batch", key or str(uuid.uuid4())
    run_ids: list[int] = []
    for number, chunk in enumerate(wire.batches([wire.trigger_body(wish) for wish in triggers])):
        own_key = f"{key}/{number}" if number else key
        try:
            response = yield wire.keyed(path, {"runs": chunk}, own_key)
        except ApiError as error:
            error.run_ids = run_ids
            raise
        run_ids += wire.value_of(response, Planned).run_ids
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
            path=wire.run_path(run),
            headers={"Prefer": f"wait={seconds}"},
            wait_seconds=seconds,
        )
        ended = wire.value_of(response, Run)
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
        response = yield Request(method="GET", path=f"{wire.run_path(run)}/tick")
        attempts = wire.value_of(response, _Attempts).items
    return msgspec.structs.replace(decided, tick=tick, attempts=attempts)


def get(run: RunId) -> Exchange[Run]:
    """Return a run and the state of its tick."""
    return wire.value_of((yield Request(method="GET", path=wire.run_path(run))), Run)


def nodes(run: RunId) -> Exchange[list[Node]]:
    """Return the nodes of a flow's run, each behind those it runs after; none of other runs."""
    response = yield Request(method="GET", path=f"{wire.run_path(run)}/nodes")
    return wire.value_of(response, _Nodes).items


def cancel(run: RunId) -> Exchange[None]:
    """Cancel a run that was triggered, while it is planned; again is no error."""
    yield Request(method="DELETE", path=wire.run_path(run))


def reschedule(
    run: RunId, *, at: Instant | None = None, after: Span | None = None
) -> Exchange[Run]:
    """Give a run that was triggered another due time, while it is planned; return the run."""
    body = wire.trigger_body(Trigger(at=at, after=after))
    return wire.value_of((yield wire.json_request("PATCH", wire.run_path(run), body)), Run)


def kill(run: RunId) -> Exchange[str]:
    """Kill a run, wherever it is; return what has been done."""
    response = yield Request(method="POST", path=f"{wire.run_path(run)}/kill")
    return str(wire.value_of(response, dict[str, str])["result"])


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
    return wire.value_of((yield wire.keyed(f"{wire.run_path(run)}/rerun", body, key)), Run)


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
        "since": wire.instant_text(since),
        "until": wire.instant_text(until),
        "unresolved": "true" if unresolved else None,
        "outside_flows": "true" if outside_flows else None,
        "flow_run_id": None if flow_run_id is None else str(flow_run_id),
        "backfill_id": None if backfill_id is None else str(backfill_id),
    }
    return (yield from wire.items_of("/runs", wanted, limit, Run))


def log(run: RunId, *, from_line: int = 1) -> Exchange[LogPart]:
    """Return up to 1,000 lines of a run's log."""
    path = f"{wire.run_path(run)}/log?from_line={int(from_line)}"
    return wire.value_of((yield Request(method="GET", path=path)), LogPart)


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
    return (yield from wire.items_of("/jobs", wanted, limit, Job))


def job(name: str) -> Exchange[Job]:
    """Return a job by its name, APP/NAME."""
    return wire.value_of((yield Request(method="GET", path=wire.job_path(name))), Job)


def start(job: str) -> Exchange[bool]:
    """Start a job's schedule; return False if it is started."""
    return (yield from wire.switch(f"{wire.job_path(job)}/start"))


def stop(job: str) -> Exchange[bool]:
    """Stop a job's schedule; return False if it is stopped. Runs in progress continue."""
    return (yield from wire.switch(f"{wire.job_path(job)}/stop"))


def pause(
    app: str | None = None, *, reason: str = "", until: Instant | None = None
) -> Exchange[bool]:
    """Stop dispatching runs of an app, None = of all; return False if it was paused like this."""
    return (
        yield from wire.switch(
            f"{wire.paused_path(app)}/pause", reason=reason, until=wire.instant_text(until)
        )
    )


def resume(app: str | None = None) -> Exchange[bool]:
    """Resume dispatching runs of an app, None = of all; return False if nothing was paused."""
    return (yield from wire.switch(f"{wire.paused_path(app)}/resume"))


def executors(*, app: str | None = None) -> Exchange[list[Executor]]:
    """Return the executors of an app, None = of all apps."""
    return (yield from wire.items_of("/executors", {"app": app}, None, Executor))


def limits() -> Exchange[list[Limit]]:
    """Return the limits that jobs share, by name."""
    return (yield from wire.items_of("/limits", {}, None, Limit))


def set_limit(
    name: str, *, at_once: int | None = None, rate: int | None = None, per: str | None = None
) -> Exchange[Limit]:
    """Create a limit, or change it to exactly this; `per` is a duration such as `1m`."""
    body = {"at_once": at_once, "rate": rate, "per": per}
    request = wire.json_request("PUT", f"/limits/{quote(name, safe='')}", body)
    return wire.value_of((yield request), Limit)


def delete_limit(name: str) -> Exchange[None]:
    """Delete a limit that no job names and no run holds."""
    yield Request(method="DELETE", path=f"/limits/{quote(name, safe='')}")


def apply(
    job_file: JobFileText | Mapping[str, Any] | Path | Sequence[JobFileText | Path],
    *,
    values: Mapping[str, str] | None = None,
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
        wait_seconds=_APPLY_SECONDS,
    )
    return wire.value_of(response, Applied)


def _job_file_body(
    job_file: JobFileText | Mapping[str, Any] | Path | Sequence[JobFileText | Path],
    values: Mapping[str, str],
) -> tuple[bytes, str]:
    """Return the body of a request to apply job files, and its type."""
    if isinstance(job_file, Mapping):
        if values:
            raise ValueError("expected values with job files only; these have no ${NAME}")
        return msgspec.json.encode(job_file), "application/json"
    if isinstance(job_file, str | bytes) and not values:
        return job_file.encode() if isinstance(job_file, str) else job_file, "application/yaml"
    given = [job_file] if isinstance(job_file, str | bytes | Path) else job_file
    body = {"files": list(_named_texts(given)), "values": values}
    return msgspec.json.encode(body), "application/json"


def _named_texts(given: Sequence[JobFileText | Path]) -> Iterator[dict[str, str]]:
    from warren.jobfile.sources import decoded, read_sources  # noqa: PLC0415 - few programs need it

    for number, source in enumerate(given, 1):
        if isinstance(source, Path):
            yield from ({"name": file.name, "text": file.text} for file in read_sources([source]))
        else:
            name = f"job file {number}"
            yield {
                "name": name,
                "text": source if isinstance(source, str) else decoded(source, name),
            }


def read(path: str) -> Exchange[Any]:
    """Return the answer to a GET of any path below the base, such as `/ledger/APP/JOB`."""
    return wire.value_of((yield Request(method="GET", path=path)), object)
