"""`warren.Client` against a real API server: once for each key, whatever is lost on the way."""

import asyncio
import inspect
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from flask import Flask, request
from sqlalchemy import func, select
from werkzeug.wrappers import Response

from tests.support.api import make_api, make_token
from tests.support.console import Clock, add_user
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren import ApiError, AsyncClient, Client, RunFailed
from warren.admin_web.serving.http_server import ConsoleServer
from warren.client import Applied, Trigger, calls
from warren.client.exchange import Request
from warren.client.exchange import Response as HttpAnswer
from warren.errors import JobFileError, SettingsError
from warren.resources.job_files import JobFileText, ValuesGiven
from warren.sql.accounts.users import Role
from warren.sql.models import Run


class Unreliable:
    """Stands before an application, and spoils as many answers as it is told."""

    def __init__(self, app: Flask) -> None:
        self.app = app
        #: What becomes of the next answers: a status and a wait, or 0 = the connection is cut.
        self.spoiled: list[tuple[int, str]] = []
        #: The status of a page that is sent instead of every answer; 0 = none is.
        self.pages = 0
        self.headers: dict[str, str] = {}
        #: What is answered instead of the content; empty = nothing is.
        self.replaced = b""
        self._served = app.wsgi_app

    def __call__(self, environ: Any, start: Any) -> Any:
        if self.pages:
            page = Response("<p>Hello</p>", status=self.pages, headers=self.headers)
            return page(environ, start)
        answer = Response.from_app(self._served, environ)
        if self.replaced:
            answer.data = self.replaced
        if not self.spoiled:
            return answer(environ, start)
        status, wait = self.spoiled.pop(0)
        if not status:
            start("200 OK", [("Content-Length", "1000")])
            return [b"{"]
        return Response("{}", status=status, headers={"Retry-After": wait})(environ, start)


@pytest.fixture
def rows(sqlite_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_url)
    rows.app("reports")
    rows.job("nightly")
    add_user(rows.database, "admin", Role.ADMINISTRATOR)
    yield rows
    rows.database.close()


@pytest.fixture
def path(rows: Rows) -> Unreliable:
    app = make_api(rows.database, Clock())
    path = Unreliable(app)
    app.wsgi_app = path  # type: ignore[method-assign]
    return path


@pytest.fixture
def url(path: Unreliable) -> Iterator[str]:
    server = ConsoleServer(path.app, host="127.0.0.1", port=0, threads=8)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture
def token(rows: Rows) -> str:
    return make_token(rows.database, Clock())


@pytest.fixture
def client(url: str, token: str) -> Client:
    return Client(url, token, pause=lambda _seconds: None)


def count(rows: Rows) -> int:
    return int(
        rows.database.read(lambda s: s.execute(select(func.count()).select_from(Run)).scalar_one())
    )


@pytest.mark.parametrize("spoiled", [(503, "0"), (429, "0"), (0, "")])
def test_a_trigger_that_is_sent_again_runs_once(
    rows: Rows, client: Client, path: Unreliable, spoiled: tuple[int, str]
) -> None:
    path.spoiled = [spoiled, spoiled]

    run = client.trigger("reports/nightly", "x")

    assert (run.status, run.param) == ("PLANNED", "x")
    assert count(rows) == 1


def test_a_backfill_is_previewed_and_made_once_with_the_same_arguments(
    client: Client, path: Unreliable
) -> None:
    asked: dict[str, Any] = {"from_date": date(2020, 1, 1), "to_date": "2020-01-03"}
    asked |= {"dates": True, "at_once": 2, "newest_first": True, "params": {"a": 1}, "key": "k"}

    preview = client.preview_backfill("reports/nightly", **asked)
    path.spoiled = [(0, "")]
    made = client.backfill("reports/nightly", **asked)
    with pytest.raises(ValueError, match="expected params or param"):
        client.backfill("reports/nightly", **asked, param="x")
    with pytest.raises(TypeError, match="newest"):
        client.backfill("reports/nightly", **asked, newest=True)  # type: ignore[call-arg]

    assert [tick.run_date.day for tick in preview.due_times] == [3, 2, 1]
    assert (made.at_once, made.newest_first, made.param) == (2, True, '{"a":1}')
    assert [one.id for one in client.backfills(job="reports/nightly", going=True)] == [made.id]
    due_times = client.backfill_due_times(made)
    assert [due.run_date.day for due in due_times] == [3, 2, 1]
    assert client.get_backfill(made, ticks=True).ticks == due_times
    assert client.get_backfill(made.id).ticks is None
    assert client.cancel_backfill(made, kill=True).killed == 0


def test_a_job_is_started_stopped_and_deleted_with_what_that_cancels(client: Client) -> None:
    client.apply("jobs: [{name: weekly, app: reports, handler: h, schedule: {every: 1h}}]")
    going = client.backfill("reports/weekly", "2020-01-01", "2020-01-01", dates=True)
    client.trigger("reports/weekly", after="1h")

    assert client.start_job("reports/weekly").changed
    due = client.next_times("reports/weekly", count=2, why=True)
    stopped = client.stop_job("reports/weekly")
    client.trigger("reports/weekly", after="1h")
    deleted = client.delete_job("reports/weekly")

    assert (due.timezone, due.enabled) == ("UTC", True)
    assert due.times is not None
    assert [time.fires_at for time in due.times] == due.fires_at
    assert (stopped.changed, stopped.backfills) == (True, [going.id])
    assert deleted == 2
    assert client.follow_rules(dry_run=True).moved is None


def test_a_field_of_jobs_is_edited_and_undone(client: Client) -> None:
    client.apply("jobs: [{name: weekly, app: reports, handler: h}]")

    ahead = client.edit_jobs("tags", ["a", "b"], jobs=["reports/weekly"], dry_run=True)
    done = client.edit_jobs("tags", "c", mode="add", app="reports", q="weekly")
    undone = client.undo_edit(done.edit or 0)

    assert (ahead.edit, [job.changes for job in ahead.jobs]) == (None, [["tags: '' -> 'a,b'"]])
    assert [job.job for job in undone.jobs] == ["reports/weekly"]
    assert client.job_overview("reports/weekly").fields["tags"] == []


def test_jobs_are_listed_exported_and_checked_with_all_their_fields(client: Client) -> None:
    client.apply(
        "jobs: [{name: weekly, app: reports, handler: h, alarm: {webhook: 'https://a/b'}}]"
    )

    file = client.export_job_file(jobs=["reports/weekly"])
    checked = client.check_job_files(files=[JobFileText("jobs.yaml", file.text)])
    shown = client.job_overview("reports/weekly")

    assert (checked.jobs, checked.problems, file.left_out) == (1, [], [])
    assert shown.fields["alarm_webhook"] == "https://a/b"
    assert (shown.state, shown.words["timeout"]) == ("on demand", "none")
    assert [job.name for job in client.job_overviews(app="reports")] == ["nightly", "weekly"]
    assert client.job_scripts("reports/weekly").items == []


def test_what_a_command_refuses_of_a_named_file_has_its_line(client: Client) -> None:
    text = (
        "jobs:\n- {name: a, app: reports, handler: h}\n- name: b\n  app: reports\n  children: [c]\n"
    )

    with pytest.raises(ApiError) as refused:
        client.apply([JobFileText("jobs.yaml", f"{text}  handler: h\n")])

    [error] = refused.value.problem["errors"]
    assert (error["file"], error["line"], error["pointer"]) == ("jobs.yaml", 5, "/jobs/1/children")


def test_job_files_are_applied_together_and_later_ones_win(
    client: Client, url: str, token: str, tmp_path: Path
) -> None:
    folder, later = tmp_path / "jobs", tmp_path / "jobs.prod.yaml"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        "defaults: {app: reports, timeout: 60}\n"
        "jobs: [{name: weekly, handler: old, param: '${BUCKET}', author: ann}]\n"
    )
    (folder / "b.yml").write_text("jobs: [{name: weekly, app: reports, handler: report}]\n")
    later.write_text("jobs: [{name: weekly, app: reports, retries: 5}]\n")
    files = [folder, later, "jobs: [{name: weekly, app: reports, author: bob}]\n"]

    async def again() -> Applied:
        async with AsyncClient(url, token) as calls:
            return await calls.apply(files, values={"BUCKET": "prod"})

    first, second = client.apply(files, values={"BUCKET": "prod"}), asyncio.run(again())

    assert [change.name for change in first.changes] == ["reports/weekly"]
    assert (second.changes, second.unchanged) == ([], 1)
    spec = client.read("/jobs/reports/weekly")
    said = {name: spec[name] for name in ("handler", "param", "author", "retries", "timeout")}
    assert said == {
        "handler": "report",
        "param": "prod",
        "author": "bob",
        "retries": 5,
        "timeout": 60,
    }


def test_problems_of_job_files_name_their_file_and_change_nothing(
    client: Client, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("jobs: [{name: weekly, app: reports, handler: report}]\n")
    bad.write_text("jobs:\n  - {name: x, app: reports, handler: h, retrys: 1}\n")

    with pytest.raises(ApiError, match=r"bad.yaml:2: unknown field 'retrys', did you mean") as one:
        client.apply([good, bad])
    with pytest.raises(ApiError, match=r"no job file has \$\{OTHER\}"):
        client.apply(good, values={"OTHER": "x"})
    with pytest.raises(JobFileError, match=r"cannot read .*none.yaml: No such file"):
        client.apply([good, tmp_path / "none.yaml"])
    both = {"files": [{"name": "a", "text": "jobs: []"}], "jobs": [{"name": "x", "app": "reports"}]}
    with pytest.raises(
        ApiError, match="expected either files or apps, calendars, limits and jobs, got: both"
    ):
        client.apply(both)
    with pytest.raises(ValueError, match="expected values with job files only"):
        client.apply({"jobs": []}, values={"A": "x"})

    assert one.value.status == 422
    assert "weekly" not in {job.name for job in client.jobs()}


def test_what_is_refused_is_told_and_not_sent_again(client: Client, path: Unreliable) -> None:
    with pytest.raises(ApiError, match="no job named 'nobody'") as refused:
        client.trigger("reports/nobody")

    assert refused.value.status == 404
    with pytest.raises(ValueError, match="expected job to be APP/NAME"):
        client.trigger("nightly")


def test_one_thing_that_is_wrong_is_named_too(client: Client) -> None:
    with pytest.raises(ApiError, match="limit: Expected `int` <= 200"):
        client.read("/jobs?limit=201")
    with pytest.raises(ApiError, match=r"is invalid; /jobs/0/app: missing field 'app'$"):
        client.apply({"jobs": [{"name": "x", "handler": "h"}]})
    with pytest.raises(ApiError, match="has a problem; line 1: unknown field 'job', did you mean"):
        client.apply("job: []")


def test_the_address_may_name_the_version(url: str, token: str) -> None:
    assert Client(f"{url}/api/v1/", token).read("/whoami")["owner"] == "admin"


def test_the_answer_of_a_proxy_is_one_line_with_its_status_address_and_cure(
    client: Client, path: Unreliable, url: str
) -> None:
    cures = {
        413: "a proxy takes no request of 200,000 bytes; raise its limit "
        "(nginx: client_max_body_size)",
        502: "a proxy gets no proper answer from Warren behind it; is it running?",
        503: "a proxy gets no proper answer from Warren behind it; is it running?",
        504: "a proxy has waited too long for Warren behind it (nginx: proxy_read_timeout)",
        302: "it redirects to https://sso.example.com/in; give the address that it leads to",
    }
    path.headers = {"Location": "https://sso.example.com/in?token=hush"}
    said = {}
    for status in cures:
        path.pages = status
        with pytest.raises(ApiError) as refused:
            client.apply("#" * 200_000)
        said[status] = str(refused.value)

    assert said == {
        status: f"status {status} from {url}, not from Warren's API: {cure}"
        for status, cure in cures.items()
    }


def test_a_request_that_warrens_server_refuses_itself_is_blamed_on_no_proxy(
    client: Client,
) -> None:
    with pytest.raises(ApiError) as refused:
        client.apply("#" * 20_000_000)

    assert str(refused.value) == "status 413: Warren takes no request of 20,000,000 bytes"


@pytest.mark.parametrize("status", [200, 401, 403, 404])
def test_a_server_that_is_not_warrens_is_told_apart_with_its_address(
    client: Client, path: Unreliable, url: str, status: int
) -> None:
    path.pages = status

    with pytest.raises(
        ApiError, match=f"^status {status} from {url}, not from Warren's API: "
    ) as refused:
        client.read("/jobs")

    assert refused.value.status == status


def test_an_api_that_is_not_there_is_given_up(token: str) -> None:
    nobody = Client("http://127.0.0.1:9", token, retry_for=0, pause=lambda _seconds: None)

    with pytest.raises(ApiError, match="no answer"):
        nobody.trigger("reports/nightly")


def test_a_connection_that_is_refused_is_tried_three_times_within_two_seconds(token: str) -> None:
    pauses: list[float] = []
    port = unused_port()
    url = f"http://me:secret@127.0.0.1:{port}/below"

    with pytest.raises(ApiError) as nobody:
        Client(url, token, pause=pauses.append).trigger("reports/nightly")

    no_answer = f"no answer from http://127.0.0.1:{port}: [Errno 111] Connection refused"
    assert str(nobody.value) == no_answer
    assert len(pauses) == 2
    assert sum(pauses) < 2


def test_with_retry_for_a_connection_that_is_refused_is_tried_for_longer(token: str) -> None:
    pauses: list[float] = []
    patient = Client(f"http://127.0.0.1:{unused_port()}", token, retry_for=20, pause=pauses.append)

    with pytest.raises(ApiError, match="no answer"):
        patient.run("reports/nightly")

    assert len(pauses) > 2


def unused_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def test_a_token_is_taken_with_the_end_of_its_line(token: str) -> None:
    """As it is read from a file; what cannot be one is refused without saying it."""
    assert Client("http://127.0.0.1:9", f"{token}\n")

    with pytest.raises(ValueError, match="expected token to be") as refused:
        Client("http://127.0.0.1:9", "wrn_one\nwrn_two")
    assert "wrn_one" not in str(refused.value)


def test_a_token_goes_nowhere_else(token: str) -> None:
    app, seen = Flask("elsewhere"), []

    @app.route("/", defaults={"path": ""})
    @app.route("/<path:path>")
    def view(path: str) -> Response:
        seen.append(request.headers.get("Authorization"))
        return Response("", status=302, headers={"Location": "/other"})

    server = ConsoleServer(app, host="127.0.0.1", port=0)
    server.start()
    try:
        with pytest.raises(ApiError):
            Client(f"http://127.0.0.1:{server.port}", token).read("/jobs")
    finally:
        server.stop()
    assert len(seen) == 1


def test_a_token_is_encrypted_however_the_scheme_is_spelled(token: str) -> None:
    received = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def receive() -> None:
            with listener.accept()[0] as connection:
                received.append(connection.recv(3))

        receiving = threading.Thread(target=receive)
        receiving.start()
        with pytest.raises(ApiError, match="no answer"):
            Client(f"HTTPS://127.0.0.1:{port}", token, retry_for=0).read("/jobs")
        receiving.join()

    assert received == [b"\x16\x03\x01"]  # the first bytes of TLS


def test_a_read_path_may_have_any_characters(client: Client, url: str, token: str) -> None:
    async def read(path: str) -> Any:
        async with AsyncClient(url, token) as other:
            return await other.read(path)

    for path in ("/jobs?q=nightly&limit=1", "/jobs?q=night%6Cy"):
        assert [job["name"] for job in client.read(path)["items"]] == ["nightly"]
    for path in ("/jobs?q=日报", "/jobs?q=a b"):
        assert client.read(path)["items"] == asyncio.run(read(path))["items"] == []


def test_an_answer_that_a_newer_api_gives_is_not_blamed_on_the_address(
    rows: Rows, client: Client, path: Unreliable
) -> None:
    run_id = rows.run(1, Clock().now, status="PLANNED")
    path.replaced = b'{"items": [{"id": "x"}], "next": null}'

    for call in (lambda: client.get(run_id), client.runs):
        with pytest.raises(ApiError, match="does not understand the answer of a newer Warren: "):
            call()


@pytest.mark.parametrize("values", [{}, ValuesGiven()])
def test_job_files_are_sent_with_nothing_that_the_first_release_does_not_know(
    values: dict[str, str] | ValuesGiven,
) -> None:
    sent = next(calls.apply([JobFileText("jobs.yaml", "jobs: []")], values=values))

    assert isinstance(sent, Request)
    assert sent.body == b'{"files":[{"name":"jobs.yaml","text":"jobs: []"}]}'


@pytest.mark.parametrize("key", ["订单-42", "order 42", "order\n42"])
def test_a_key_that_no_request_can_carry_is_refused_at_once(
    rows: Rows, client: Client, url: str, token: str, key: str
) -> None:
    wrong = "expected key to be 1 to 128 visible ASCII characters, got: "

    with pytest.raises(ValueError, match=wrong):
        client.trigger("reports/nightly", key=key)
    with pytest.raises(ValueError, match=wrong):
        asyncio.run(AsyncClient(url, token).trigger("reports/nightly", key=key))

    assert count(rows) == 0


def test_a_run_is_waited_for_and_its_failure_raised(rows: Rows, client: Client) -> None:
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append(client.run("reports/nightly"))
        except RunFailed as failed:
            ended.append(failed)

    for status in ("SUCCEEDED", "FAILED"):
        before = count(rows)
        caller = threading.Thread(target=run)
        caller.start()
        eventually(lambda before=before: count(rows) > before)
        rows.set_run(rows.newest_run(1), status=status, message="so it went")
        caller.join(60)

    succeeded, failed = ended
    assert succeeded.tick.status == "SUCCEEDED"
    assert "FAILED: so it went" in str(failed)


def test_the_last_attempt_is_returned_because_it_decided(
    rows: Rows, client: Client, url: str, token: str
) -> None:
    def attempt(job: int, number: int, origin: int, status: str, **more: Any) -> int:
        common = {"scheduled_at": 10**12, "origin_id": origin, "attempt": number}
        return rows.run(job, 10**12, status=status, message=status.lower(), **common | more)

    def awaited(run_id: int) -> list[Any]:
        async def wait() -> Any:
            async with AsyncClient(url, token) as other:
                return await other.wait(run_id)

        ended = []
        for wait_for in (lambda: client.wait(run_id), lambda: asyncio.run(wait())):
            try:
                ended.append(wait_for())
            except RunFailed as failed:
                ended.append(failed.run)
        return ended

    first = attempt(1, 0, 7, "FAILED")
    last = attempt(1, 1, 7, "SUCCEEDED", result='{"rows": 3}')
    spread = [
        attempt(1, number, 8, status, shard_index=shard, shard_total=2, result=json.dumps(shard))
        for shard, number, status in [(0, 0, "FAILED"), (0, 1, "SUCCEEDED"), (1, 0, "SUCCEEDED")]
    ]
    broken = [
        attempt(1, 0, 9, status, shard_index=shard, shard_total=3)
        for shard, status in enumerate(["SUCCEEDED", "FAILED", "SUCCEEDED"])
    ]

    cases = {first: last, spread[0]: spread[1], spread[2]: spread[1], broken[0]: broken[1]}
    for asked, decided in cases.items():
        for run in awaited(asked):
            assert run.id == decided, asked
            assert run.status == run.tick.status, asked
            assert [one.id for one in run.attempts] == run.tick.run_ids, asked
    [retried, _] = awaited(first)
    assert [(one.status, one.result, one.message) for one in retried.attempts] == [
        ("FAILED", None, "failed"),
        ("SUCCEEDED", {"rows": 3}, "succeeded"),
    ]
    assert (retried.result, retried.message) == ({"rows": 3}, "succeeded")
    with pytest.raises(RunFailed, match=f"run {broken[1]} FAILED: failed"):
        client.wait(broken[0])


def test_a_run_tells_how_far_it_is(rows: Rows, client: Client) -> None:
    run = rows.run(1, Clock().now, status="RUNNING", progress='{"done":3,"total":10,"text":"x"}')

    told = client.get(run).progress

    assert told is not None
    assert (told.done, told.total, told.text) == (3, 10, "x")
    assert client.get(rows.run(1, Clock().now + 1)).progress is None


def test_any_number_of_triggers_is_sent_in_chunks(
    rows: Rows, client: Client, path: Unreliable
) -> None:
    many = [Trigger(param=str(number)) for number in range(5_010)]
    large = [Trigger(param=f"{number} " + "x" * 60_000) for number in range(40)]

    path.spoiled = [(503, "0"), (0, "")]
    of_many = client.trigger_all("reports/nightly", many, key="day-1")
    of_large = client.trigger_all("reports/nightly", large)

    assert client.trigger_all("reports/nightly", many, key="day-1") == of_many
    assert client.trigger_all("reports/nightly", []) == []
    assert len({*of_many, *of_large}) == count(rows) == 5_050
    for run_id, number in [(of_many[5_001], "5001"), (of_large[39], "39")]:
        assert client.get(run_id).param.split()[0] == number


def test_an_error_says_each_problem_once() -> None:
    def said(detail: str, *errors: dict[str, Any]) -> str:
        return str(ApiError(422, {"detail": detail, "errors": list(errors)}))

    day, parts = {"detail": "no day", "pointer": "/param/day"}, {"detail": "no parts"}

    assert said("no day; no parts", day, parts) == "no day; no parts"
    assert said("no day", day) == "no day"
    assert said("no day; give one", {"detail": "no day; give one"}) == "no day; give one"
    assert (
        said("the body is invalid", day, parts)
        == "the body is invalid; /param/day: no day; no parts"
    )


def test_what_was_planned_before_a_refused_chunk_is_told(rows: Rows, client: Client) -> None:
    wanted = [Trigger(param="fits")] * 5_001 + [Trigger(addresses=["nobody"])]

    with pytest.raises(ApiError, match="nobody") as refused:
        client.trigger_all("reports/nightly", wanted)

    assert len(refused.value.run_ids) == count(rows) == 5_000


def test_a_refusal_for_want_of_room_is_final_for_who_does_not_wait(
    rows: Rows, url: str, token: str
) -> None:
    full = rows.job("full", max_waiting=1)
    rows.run(full, Clock().now - 1_000)
    asked = []

    hurried = Client(url, token, waits_for_room=False, pause=asked.append)
    patient = Client(url, token, pause=asked.append)

    with pytest.raises(ApiError, match="full"):
        hurried.trigger("reports/full")
    assert asked == []
    with pytest.raises(ApiError, match="full"):
        patient.trigger("reports/full")
    assert asked


def test_a_run_is_run_again_once_for_its_due_time(
    rows: Rows, client: Client, path: Unreliable
) -> None:
    failed = rows.run(1, 10**12, status="FAILED")
    path.spoiled = [(0, "")]

    planned = client.rerun(failed)

    assert (planned.rerun_of, planned.kind) == (failed, "RERUN")
    with rows.database.engine.connect() as connection:
        assert connection.scalar(select(func.count()).where(Run.rerun_of == failed)) == 1
    with pytest.raises(ApiError, match="still"):
        client.rerun(planned)


def test_a_run_that_takes_too_long_goes_on(rows: Rows, client: Client) -> None:
    planned = client.trigger("reports/nightly")

    with pytest.raises(TimeoutError, match="is PLANNED"):
        client.wait(planned, timeout=0.1)

    rows.set_run(planned.id, status="FAILED")
    due = round(planned.scheduled_at.timestamp() * 1_000)
    rows.run(1, due, origin_id=planned.id, attempt=1)
    with pytest.raises(TimeoutError, match="is not over with its 2 shards and attempts"):
        client.wait(planned, timeout=0.1)


def test_a_log_is_followed_to_its_end(rows: Rows, client: Client) -> None:
    run = rows.run(1, Clock().now, status="FAILED", address="gone", log_tail="one\ntwo\n")

    assert list(client.follow(run)) == ["one", "two"]


class Scripted(Client):
    """Is told what the API answers about the log of a run that is over; None = no lines."""

    def __init__(self, *texts: str | None, retry_for: float = 60.0) -> None:
        super().__init__(
            "http://127.0.0.1:9", "x", retry_for=retry_for, pause=lambda _seconds: None
        )
        self._transport = self  # type: ignore[assignment]
        self.texts = list(texts)
        self.next_line = 1

    def send(self, request: Request) -> HttpAnswer:
        if "/log?" not in request.path:
            return HttpAnswer(200, {}, msgspec.json.encode(over_run()))
        text = self.texts.pop(0) if self.texts else None
        told = {"from_line": self.next_line, "text": text or "", "source": "executor"}
        self.next_line += (text or "").count("\n")
        is_end = bool(text) and not self.texts
        told |= {"next_line": self.next_line, "is_end": is_end}
        return HttpAnswer(200, {}, msgspec.json.encode(told))


def over_run() -> dict[str, Any]:
    now = datetime.now(UTC)
    empty = dict.fromkeys(
        ["app", "job", "run_date", "started_at", "finished_at", "address", "handler"]
    )
    texts = dict.fromkeys(["kind", "status", "param", "message", "trigger_message"], "")
    numbers = dict.fromkeys(["id", "job_id", "attempt", "shard_index", "shard_total"], 1)
    tick = {"is_over": True, "status": "LOST", "run_ids": [1]}
    return {**empty, **texts, **numbers, "scheduled_at": now, "due_at": now, "tick": tick}


def test_a_log_that_can_be_read_now_and_then_is_followed_to_its_end() -> None:
    client = Scripted("one\n", None, "two\n", None, None, "three\n", None, None, None, "four\n")

    assert list(client.follow(1)) == ["one", "two", "three", "four"]


def test_a_log_whose_rest_cannot_be_had_does_not_seem_to_be_whole() -> None:
    lines = Scripted("one\n", None, "never", retry_for=0).follow(1)

    assert next(lines) == "one"
    with pytest.raises(ApiError, match="run 1 is over, but the rest of its log cannot be read"):
        next(lines)


def test_a_log_that_cannot_be_had_ends(rows: Rows, url: str, token: str) -> None:
    run = rows.run(1, Clock().now, status="LOST", address="gone")
    hasty = Client(url, token, retry_for=0, pause=lambda _seconds: None)

    assert list(hasty.follow(run)) == []


def test_the_log_of_a_run_that_no_executor_had_is_over(rows: Rows, client: Client) -> None:
    run = rows.run(1, Clock().now, status="CANCELLED")

    assert list(client.follow(run)) == []
    assert client.log(run).is_end


def test_a_job_file_that_takes_long_is_sent_once(rows: Rows, path: Unreliable) -> None:
    """A client that gave up would send it again, while the first is still being applied."""
    sent, may_answer = [], threading.Event()
    spoilt = path.app.wsgi_app

    def slow(environ: Any, start: Any) -> Any:
        sent.append(environ["PATH_INFO"])
        may_answer.wait(30)
        return spoilt(environ, start)

    path.app.wsgi_app = slow  # type: ignore[method-assign]
    server = ConsoleServer(path.app, host="127.0.0.1", port=0, threads=8)
    server.start()
    try:
        hasty = Client(
            f"http://127.0.0.1:{server.port}", make_token(rows.database, Clock()), timeout=0.2
        )
        threading.Timer(1.0, may_answer.set).start()
        done = hasty.apply("jobs: []\n")
    finally:
        may_answer.set()
        server.stop()

    assert (sent, done.changes) == (["/api/v1/apply"], [])


def test_a_job_file_is_applied(client: Client) -> None:
    text = "jobs:\n  - {name: weekly, app: reports, handler: report}\n"

    first, second = client.apply(text), client.apply(text)
    wrong = {"jobs": [{"name": "a/b", "app": "reports", "handler": ""}]}
    with pytest.raises(ApiError) as refused:
        client.apply(wrong)

    assert [change.action for change in first.changes] == ["create"]
    assert (second.changes, second.unchanged) == ([], 1)
    assert {one["pointer"] for one in refused.value.problem["errors"]} == {
        "/jobs/0/name",
        "/jobs/0/handler",
    }


def test_a_run_has_the_date_that_its_trigger_names(client: Client) -> None:
    by_day = client.trigger("reports/nightly", run_date=date(2026, 2, 28))
    by_text = client.trigger_all("reports/nightly", [Trigger(run_date="2026-03-01")])

    assert client.get(by_day).run_date == date(2026, 2, 28)
    assert client.get(by_text[0]).run_date == date(2026, 3, 1)


@dataclass
class Load:
    day: date
    parts: int = 1


def test_params_are_given_and_results_read_as_values_of_a_type(rows: Rows, client: Client) -> None:
    job = "reports/nightly"
    one = client.trigger(job, params=Load(date(2026, 12, 1)))
    [other] = client.trigger_all(job, [Trigger(params={"day": "2026-12-02"})])
    rows.set_run(one.id, status="SUCCEEDED", result='{"day":"2026-12-01","parts":7}')

    assert one.param == '{"day":"2026-12-01","parts":1}'
    assert client.get(other).param == '{"day":"2026-12-02"}'
    assert client.get(one).result_as(Load) == Load(date(2026, 12, 1), 7)
    assert client.get(one).result_as(dict[str, Any])["parts"] == 7
    with pytest.raises(ValueError, match=f"^the result of run {other} is no Load: Expected"):
        client.get(other).result_as(Load)
    with pytest.raises(ValueError, match=r"^expected params or param, got: both$"):
        client.trigger(job, "x", params={})
    with pytest.raises(TypeError, match=r"^expected params that JSON can hold, got: "):
        client.trigger(job, params=object())
    assert count(rows) == 2


def test_runs_at_times_of_their_own_are_planned_moved_and_cancelled(client: Client) -> None:
    day = timedelta(days=1)
    at = datetime.fromtimestamp(Clock().now / 1_000, UTC) + 2 * day

    one = client.trigger("reports/nightly", "x", at=at)
    others = client.trigger_all(
        "reports/nightly", [Trigger(param=str(number), after=day) for number in range(300)]
    )
    moved = client.reschedule(one, at=at + day)
    client.cancel(one)
    client.cancel(one)

    assert abs(moved.due_at - at - day) < timedelta(milliseconds=1)
    assert client.get(one).status == "CANCELLED"
    planned = client.runs(status="PLANNED", limit=250)
    assert [run.id for run in planned] == others[:-251:-1]
    assert client.runs() == []
    with pytest.raises(ValueError, match="expected a time with its zone"):
        client.trigger("reports/nightly", at=datetime(2036, 1, 1))  # noqa: DTZ001 - is refused


def test_jobs_are_listed_started_and_stopped(client: Client) -> None:
    client.apply("jobs:\n  - {name: each, app: reports, handler: x, schedule: {every: 60}}\n")

    assert [client.start("reports/each"), client.start("reports/each")] == [True, False]
    assert client.job("reports/each").enabled
    assert [job.name for job in client.jobs(app="reports", enabled=True)] == ["each"]
    assert client.stop("reports/each")
    assert [client.pause("reports", reason="a move"), client.resume("reports")] == [True, True]
    assert client.executors() == []


def test_connections_are_kept_and_a_lost_one_is_replaced(
    rows: Rows, path: Unreliable, token: str
) -> None:
    """A server that has been restarted closed the connections that the client kept."""
    port = 0
    for _ in range(2):
        server = ConsoleServer(path.app, host="127.0.0.1", port=port, threads=8)
        server.start()
        if not port:
            port = server.port
            client = Client(f"http://127.0.0.1:{port}", token, retry_for=0)
        assert client.read("/whoami")["owner"] == "admin"
        [kept] = client._transport._free
        client.read("/whoami")
        assert list(client._transport._free) == [kept]
        server.stop()


def test_a_client_from_the_environment_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, url: str, token: str, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARREN_API_TOKEN", token)
    with pytest.raises(SettingsError, match="WARREN_API_URL: expected it to be set"):
        Client.from_env()

    monkeypatch.setenv("WARREN_API_URL", url)

    assert Client.from_env().read("/whoami")["owner"] == "admin"


def test_the_clock_is_that_of_the_api_whatever_this_machines_says(client: Client) -> None:
    assert client.now_ms() == pytest.approx(Clock().now, abs=60_000)


class TestAsync:
    def test_it_has_the_same_calls(self) -> None:
        for name, call in vars(Client).items():
            if not name.startswith("_") and name not in {"complete", "now_ms"}:
                assert inspect.getdoc(vars(AsyncClient)[name]), name
                if not inspect.isfunction(call):
                    assert vars(AsyncClient)[name]._exchange is call._exchange

    def test_calls_run_at_once_over_connections_that_are_kept(
        self, rows: Rows, url: str, token: str, path: Unreliable
    ) -> None:
        path.spoiled = [(503, "0"), (0, "")]

        async def plan() -> tuple[list[int], int]:
            async with AsyncClient(url, token) as client:
                calls = [client.trigger("reports/nightly", str(one)) for one in range(20)]
                planned = await asyncio.gather(*calls)
                before = len(client._transport._free)
                for run in planned:
                    assert (await client.get(run)).id == run.id
                assert len(client._transport._free) == before
                return [run.id for run in planned], before

        run_ids, connections = asyncio.run(plan())

        assert len(set(run_ids)) == count(rows) == 20
        assert 1 <= connections <= 20

    def test_it_is_refused_and_waits_like_the_other(self, rows: Rows, url: str, token: str) -> None:
        over = rows.run(1, Clock().now, status="FAILED", address="gone", log_tail="one\ntwo\n")

        async def use() -> list[str]:
            async with AsyncClient(url, token) as client:
                with pytest.raises(ApiError, match="no job named 'nobody'"):
                    await client.trigger("reports/nobody")
                with pytest.raises(RunFailed, match="FAILED"):
                    await client.wait(over)
                planned = await client.trigger("reports/nightly")
                with pytest.raises(TimeoutError, match="is PLANNED"):
                    await client.wait(planned, timeout=0.1)
                await client.cancel(planned)
                return [line async for line in client.follow(over)]

        assert asyncio.run(use()) == ["one", "two"]

    def test_one_client_serves_one_loop_after_another(self, url: str, token: str) -> None:
        client = AsyncClient(url, token)

        owners = [asyncio.run(client.read("/whoami"))["owner"] for _ in range(2)]

        assert owners == ["admin", "admin"]

    def test_an_api_that_is_not_there_is_given_up(self, token: str) -> None:
        nobody = AsyncClient(f"http://127.0.0.1:{unused_port()}", token)

        with pytest.raises(ApiError, match="no answer"):
            asyncio.run(nobody.trigger("reports/nightly"))


def test_it_needs_msgspec_and_the_standard_library_alone() -> None:
    code = """
import sys
before = set(sys.modules)
import warren
assert "warren.client" not in sys.modules
warren.Client
heavy = {name.partition(".")[0] for name in set(sys.modules) - before}
known = {*sys.stdlib_module_names, "msgspec", "typing_extensions"}  # which msgspec takes if it can
print(sorted(heavy - known))
"""
    root = Path(__file__).parents[3]

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.strip() == "['warren']"
