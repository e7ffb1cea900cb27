"""How requests are written and their answers read, for the table of calls."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from warren.client.answers import Changed, Run
from warren.client.exchange import Exchange, Request, Response
from warren.executor.handlers.params import given_param

T = TypeVar("T")
#: Items of a page at most.
_PAGE = 200
#: Runs of a batch at most; the API takes bodies of 1,000,000 bytes.
_BATCH, _BATCH_BYTES = 5_000, 990_000

RunId: TypeAlias = int | Run
#: An aware datetime, or ISO 8601 with an offset.
Instant: TypeAlias = datetime | str
#: A span, or a text such as `90s`, `5m`, `2d12h`.
Span: TypeAlias = timedelta | str


class Trigger(msgspec.Struct, kw_only=True, frozen=True):
    """One run of `trigger_all`; see `trigger`."""

    param: str | None = None
    params: Any = None
    at: Instant | None = None
    after: Span | None = None
    late: bool = False
    addresses: Sequence[str] = ()
    run_date: date | str | None = None


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


def switch(path: str, **body: str | None) -> Exchange[bool]:
    """Switch something; return whether that changed it."""
    given = {name: value for name, value in body.items() if value}
    request = json_request("POST", path, given) if given else Request(method="POST", path=path)
    return value_of((yield request), Changed).changed


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


def paused_path(app: str | None) -> str:
    """Return the path of what can be paused: an app, or None = everything."""
    return "/cluster" if app is None else f"/apps/{quote(app, safe='')}"


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
