"""`warren.Client` against a real API server: once for each key, whatever is lost on the way."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, request
from sqlalchemy import func, select
from werkzeug.wrappers import Response

from tests.support.api import make_api, make_token
from tests.support.console import Clock, add_user
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren import ApiError, Client, RunFailed
from warren.admin_web.serving.http_server import ConsoleServer
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
        self._served = app.wsgi_app

    def __call__(self, environ: Any, start: Any) -> Any:
        if self.pages:
            return Response("<p>Hello</p>", status=self.pages)(environ, start)
        answer = Response.from_app(self._served, environ)
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

    assert (run["status"], run["param"]) == ("PLANNED", "x")
    assert count(rows) == 1


def test_what_is_refused_is_told_and_not_sent_again(client: Client, path: Unreliable) -> None:
    with pytest.raises(ApiError, match="no job named 'nobody'") as refused:
        client.trigger("reports/nobody")

    assert refused.value.status == 404
    with pytest.raises(ValueError, match="expected job to be APP/NAME"):
        client.trigger("nightly")


def test_one_thing_that_is_wrong_is_named_too(client: Client) -> None:
    with pytest.raises(ApiError, match="limit: Expected `int` <= 200"):
        client.get("/jobs?limit=201")
    with pytest.raises(ApiError, match=r"is invalid; /jobs/0/app: missing field 'app'$"):
        client.apply({"jobs": [{"name": "x"}]})
    with pytest.raises(ApiError, match="has a problem; line 1: unknown field 'job', did you mean"):
        client.apply("job: []")


def test_the_address_may_name_the_version(url: str, token: str) -> None:
    assert Client(f"{url}/api/v1/", token).get("/whoami")["owner"] == "admin"


@pytest.mark.parametrize("status", [200, 404])
def test_a_server_that_is_not_warrens_is_told_apart(
    client: Client, path: Unreliable, status: int
) -> None:
    path.pages = status

    with pytest.raises(ApiError, match=f"^status {status}, but not from Warren's API") as refused:
        client.get("/jobs")

    assert refused.value.status == status


def test_an_api_that_is_not_there_is_given_up(token: str) -> None:
    nobody = Client("http://127.0.0.1:9", token, patience=0, pause=lambda _seconds: None)

    with pytest.raises(ApiError, match="no answer"):
        nobody.trigger("reports/nightly")


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
            Client(f"http://127.0.0.1:{server.port}", token).get("/jobs")
    finally:
        server.stop()
    assert len(seen) == 1


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
    assert succeeded["tick"]["status"] == "SUCCEEDED"
    assert "FAILED: so it went" in str(failed)


def test_a_run_is_run_again_once_for_its_due_time(
    rows: Rows, client: Client, path: Unreliable
) -> None:
    failed = rows.run(1, 10**12, status="FAILED")
    path.spoiled = [(0, "")]

    planned = client.rerun(failed)

    assert (planned["rerun_of"], planned["kind"]) == (failed, "RERUN")
    with rows.database.engine.connect() as connection:
        assert connection.scalar(select(func.count()).where(Run.rerun_of == failed)) == 1
    with pytest.raises(ApiError, match="still"):
        client.rerun(planned["id"])


def test_a_run_that_takes_too_long_goes_on(client: Client) -> None:
    planned = client.trigger("reports/nightly")

    with pytest.raises(TimeoutError, match="is PLANNED"):
        client.wait(planned["id"], timeout=0.1)


def test_a_log_is_followed_to_its_end(rows: Rows, client: Client) -> None:
    run = rows.run(1, Clock().now, status="FAILED", address="gone", log_tail="one\ntwo\n")

    assert list(client.follow(run)) == ["one", "two"]


class Scripted(Client):
    """Is told what the API answers about the log of a run that is over; None = no lines."""

    def __init__(self, *texts: str | None, patience: float = 60.0) -> None:
        super().__init__("http://127.0.0.1:9", "x", patience=patience, pause=lambda _seconds: None)
        self.texts = list(texts)
        self.next_line = 1

    def _call(self, _method: str, path: str, *_: Any, **__: Any) -> tuple[Any, dict[str, str]]:
        if "/log?" not in path:
            return {"tick": {"is_over": True}}, {}
        text = self.texts.pop(0) if self.texts else None
        self.next_line += (text or "").count("\n")
        is_end = bool(text) and not self.texts
        return {"text": text or "", "next_line": self.next_line, "is_end": is_end}, {}


def test_a_log_that_can_be_read_now_and_then_is_followed_to_its_end() -> None:
    client = Scripted("one\n", None, "two\n", None, None, "three\n", None, None, None, "four\n")

    assert list(client.follow(1)) == ["one", "two", "three", "four"]


def test_a_log_whose_rest_cannot_be_had_does_not_seem_to_be_whole() -> None:
    lines = Scripted("one\n", None, "never", patience=0).follow(1)

    assert next(lines) == "one"
    with pytest.raises(ApiError, match="run 1 is over, but the rest of its log cannot be read"):
        next(lines)


def test_a_log_that_cannot_be_had_ends(rows: Rows, url: str, token: str) -> None:
    run = rows.run(1, Clock().now, status="LOST", address="gone")
    hasty = Client(url, token, patience=0, pause=lambda _seconds: None)

    assert list(hasty.follow(run)) == []


def test_the_log_of_a_run_that_no_executor_had_is_over(rows: Rows, client: Client) -> None:
    run = rows.run(1, Clock().now, status="CANCELLED")

    assert list(client.follow(run)) == []
    assert client.get(f"/runs/{run}/log")["is_end"]


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

    assert (sent, done["changes"]) == (["/api/v1/apply"], [])


def test_a_job_file_is_applied(client: Client) -> None:
    text = "jobs:\n  - {name: weekly, app: reports, handler: report}\n"

    first, second = client.apply(text), client.apply(text)
    wrong = {"jobs": [{"name": "a/b", "app": "reports", "handler": ""}]}
    with pytest.raises(ApiError) as refused:
        client.apply(wrong)

    assert [change["action"] for change in first["changes"]] == ["create"]
    assert (second["changes"], second["unchanged"]) == ([], 1)
    assert {one["pointer"] for one in refused.value.problem["errors"]} == {
        "/jobs/0/name",
        "/jobs/0/handler",
    }


def test_it_needs_the_standard_library_alone() -> None:
    code = """
import sys
before = set(sys.modules)
import warren
assert "warren.client" not in sys.modules
warren.Client
heavy = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(heavy - set(sys.stdlib_module_names)))
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
