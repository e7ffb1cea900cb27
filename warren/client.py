"""`warren.Client`: calls the HTTP API from Python, with the standard library alone.

    client = Client("http://127.0.0.1:8081", token)
    run = client.run("reports/nightly", param="2026-12-01")

Lost requests are sent again. Each trigger has a key, so it runs once however often it is sent.
"""

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException, HTTPMessage
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

_PATH = "/api/v1"
#: Statuses after which the same call may succeed a little later.
_RETRYABLE = frozenset({429, 503})
#: How many seconds one request waits for an end; the API allows 60.
_WAIT_SECONDS = 30
#: How many seconds more than `timeout` a job file may take: 70,000 jobs are one transaction.
_APPLY_SECONDS = 300
_LONGEST_PAUSE = 5.0


class ApiError(Exception):
    """The API refused a call; `problem` is its answer (RFC 9457).

    `status` is that of HTTP, 0 if there was no answer.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        detail = str(problem.get("detail", "")) or f"status {status}"
        errors = [one for one in problem.get("errors", ()) if one.get("detail") != detail]
        super().__init__("; ".join([detail, *map(_placed, errors)]))


class RunFailed(Exception):
    """A run's tick is over and did not succeed; `run` is the run with its `tick`."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        self.run = dict(run)
        super().__init__(f"run {run['id']} {run['tick']['status']}: {run['message']}")


class Client:
    """Calls one API with one token.

    Args:
        url: the API's address, such as `https://warren.example.com`, with or without `/api/v1`.
        token: as printed by `warren tokens add`.
        timeout: seconds to wait for an answer.
        patience: seconds for which a failed call is repeated, if it may succeed later.
        pause: sleeps for a number of seconds.

    Raises:
        ValueError: the URL is not http(s), or the token is malformed.

    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30.0,
        patience: float = 60.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"expected url to be an http(s) URL, got: {url!r}")
        self._base = f"{url.rstrip('/').removesuffix(_PATH)}{_PATH}"
        self._token = token.strip()
        if not self._token.isascii() or not self._token.isprintable():
            raise ValueError("expected token to be what `warren tokens add` printed")
        self._timeout = timeout
        self._patience = patience
        self._pause = pause
        self._opener = build_opener(_NoRedirect)

    def trigger(
        self,
        job: str,
        param: str | None = None,
        *,
        addresses: Sequence[str] = (),
        key: str | None = None,
    ) -> dict[str, Any]:
        """Run a job, named APP/NAME, now; return the planned run.

        Calls with the same `key` within a day trigger only one run; None = a new key.

        Raises:
            ApiError: the API refused it or cannot be reached.

        """
        body = {"param": param, "addresses": list(addresses)}
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        found, _ = self._call("POST", f"{_job(job)}/runs", _json(body), headers)
        return dict(found)

    def run(
        self,
        job: str,
        param: str | None = None,
        *,
        addresses: Sequence[str] = (),
        key: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Run a job now and wait for its end, including retries and shards; return the run.

        Raises:
            RunFailed: it did not succeed.
            TimeoutError: it is not over after `timeout` seconds; it continues.
            ApiError: see `trigger`.

        """
        planned = self.trigger(job, param, addresses=addresses, key=key)
        return self.wait(planned["id"], timeout=timeout)

    def rerun(
        self,
        run_id: int,
        *,
        current: bool = False,
        children: bool = True,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Run an ended run again for its due time; return the planned run.

        Args:
            run_id: the run to repeat, with its param and its version of the script.
            current: take the job's param and script as they are now.
            children: let a success trigger the job's children, as the first run would have.
            key: as for `trigger`.

        Raises:
            ApiError: the run is still open, its job or version is gone, or see `trigger`.

        """
        body = {"current": current, "children": children}
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        found, _ = self._call("POST", f"/runs/{int(run_id)}/rerun", _json(body), headers)
        return dict(found)

    def wait(self, run_id: int, *, timeout: float | None = None) -> dict[str, Any]:
        """Wait until a run's whole tick is over; return the run. Raises the same as `run`."""
        end_at = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT_SECONDS if end_at is None else end_at - time.monotonic()
            seconds = max(0, min(_WAIT_SECONDS, int(left)))
            found, headers = self._call(
                "GET", f"/runs/{int(run_id)}", None, {"Prefer": f"wait={seconds}"}, seconds
            )
            if found["tick"]["is_over"]:
                if found["tick"]["status"] not in {"SUCCEEDED", "SKIPPED"}:
                    raise RunFailed(found)
                return dict(found)
            if end_at is not None and time.monotonic() >= end_at:
                raise TimeoutError(f"run {run_id} is {found['status']} after {timeout} s")
            if "Preference-Applied" not in headers:
                self._pause(1.0 if end_at is None else min(1.0, max(0.05, left)))

    def follow(self, run_id: int, *, from_line: int = 1) -> Iterator[str]:
        """Yield the lines of a run's log, without line ends, until the run is over.

        Raises:
            ApiError: see `trigger`; or the run is over, and for `patience` seconds nobody could
                return the rest of its log. If not a single line was found, the lines just end.

        """
        has_begun, give_up_at = from_line > 1, None
        while True:
            found, headers = self._call(
                "GET",
                f"/runs/{int(run_id)}/log?{urlencode({'from_line': from_line})}",
                None,
                {"Prefer": f"wait={_WAIT_SECONDS}"},
                _WAIT_SECONDS,
            )
            if found["text"]:
                has_begun, give_up_at = True, None
                yield from found["text"].removesuffix("\n").split("\n")
            from_line = found["next_line"]
            if found["is_end"]:
                return
            if found["text"]:
                continue
            is_over = self._call("GET", f"/runs/{int(run_id)}")[0]["tick"]["is_over"]
            if is_over:
                now = time.monotonic()
                give_up_at = now + self._patience if give_up_at is None else give_up_at
                if now >= give_up_at:
                    break
            if is_over or "Preference-Applied" not in headers:
                self._pause(1.0)
        if has_begun:
            problem = f"run {run_id} is over, but the rest of its log cannot be read"
            raise ApiError(0, {"detail": problem})

    def apply(
        self,
        job_file: str | bytes | Mapping[str, Any],
        *,
        dry_run: bool = False,
        prune: bool = False,
    ) -> dict[str, Any]:
        """Make jobs match a job file, given as YAML text or as values; return the changes.

        Raises:
            ApiError: see `trigger`; nothing was changed, unless its `status` is 0.

        """
        query = urlencode({"dry_run": str(dry_run).lower(), "prune": str(prune).lower()})
        if isinstance(job_file, Mapping):
            data, media = _json(job_file), "application/json"
        else:
            data = job_file.encode() if isinstance(job_file, str) else job_file
            media = "application/yaml"
        headers = {"Content-Type": media}
        found, _ = self._call("POST", f"/apply?{query}", data, headers, _APPLY_SECONDS)
        return dict(found)

    def get(self, path: str) -> Any:
        """Return the answer to a GET below the base path, such as `/jobs?app=reports`."""
        return self._call("GET", path)[0]

    def _call(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        wait_seconds: float = 0.0,
    ) -> tuple[Any, Mapping[str, str]]:
        given = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        } | dict(headers or {})
        give_up_at = time.monotonic() + self._patience
        tries = 0
        while True:
            request = Request(self._base + path, data=data, headers=given, method=method)  # noqa: S310 - http(s), looked at above
            try:
                with self._opener.open(request, timeout=self._timeout + wait_seconds) as answer:
                    return _answer(answer.read(), answer.status), _headers(answer.headers)
            except HTTPError as error:
                refused, wait = _refused(error)
            except (OSError, HTTPException, URLError) as error:
                refused, wait = ApiError(0, {"detail": f"no answer: {error}"}), None
            tries += 1
            wait = min(_LONGEST_PAUSE, 0.1 * 2.0**tries) if wait is None else wait
            may_pass = refused.status == 0 or refused.status in _RETRYABLE
            if not may_pass or time.monotonic() + wait > give_up_at:
                raise refused
            self._pause(wait * random.uniform(1.0, 1.2))  # noqa: S311 - jitter


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirects: a token is for one host only."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that a redirect is an error."""


def _placed(error: Mapping[str, Any]) -> str:
    place = error.get("pointer") or error.get("parameter")
    if error.get("line") is not None:
        place = f"line {error['line']}"
    return f"{place}: {error.get('detail')}" if place else str(error.get("detail"))


def _answer(data: bytes, status: int) -> Any:
    """Return what an answer says; raises ApiError if Warren's API does not answer like that."""
    try:
        return json.loads(data) if data else None
    except ValueError as error:
        raise ApiError(status, _foreign(status)) from error


def _foreign(status: int) -> dict[str, str]:
    return {"detail": f"status {status}, but not from Warren's API; is the address right?"}


def _refused(error: HTTPError) -> tuple[ApiError, float | None]:
    """Return the error in an answer, and its Retry-After seconds if any."""
    try:
        problem = json.loads(error.read())
    except (ValueError, OSError, HTTPException):
        problem = {}
    after = error.headers.get("Retry-After", "")
    wait = float(after) if after.isdecimal() else None
    is_ours = isinstance(problem, dict) and "detail" in problem
    return ApiError(error.code, problem if is_ours else _foreign(error.code)), wait


def _headers(found: HTTPMessage) -> dict[str, str]:
    return {name.title(): value for name, value in found.items()}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _job(name: str) -> str:
    app, slash, job = name.partition("/")
    if not slash or not app or not job:
        raise ValueError(f"expected job to be APP/NAME, got: {name!r}")
    return f"/jobs/{quote(app, safe='')}/{quote(job, safe='')}"
