"""`warren jobs apply --api` names the file and the line of whatever the API refuses."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.api import make_api, make_token
from tests.support.console import Clock, add_user
from tests.support.stored_rows import Rows
from warren.admin_web.serving.http_server import ConsoleServer
from warren.cli import root
from warren.errors import JobFileError, WarrenError
from warren.sql.accounts.users import Role

JOBS = """\
jobs:
  - {name: a, app: reports, handler: h}
  - name: b
    app: APP
    handler: h
    FIELD
"""


@pytest.fixture
def apply(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Result]]:
    """Apply a job file as a person does, to an API that has the app `reports`."""
    rows = Rows(sqlite_url)
    rows.app("reports")
    add_user(rows.database, "admin", Role.ADMINISTRATOR)
    monkeypatch.setenv("WARREN_API_TOKEN", make_token(rows.database, Clock()))
    app = make_api(rows.database, Clock())
    server = ConsoleServer(app, host="127.0.0.1", port=0, threads=2)
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    yield lambda path: CliRunner().invoke(root, ["jobs", "apply", str(path), "--api", url])
    server.stop()
    rows.database.close()


def test_a_file_larger_than_a_job_file_may_be_is_not_sent(apply: Callable[[Path], Result]) -> None:
    refused = apply(Path("/dev/zero")).exception

    assert isinstance(refused, JobFileError)
    assert str(refused).startswith("/dev/zero: expected a file of up to 5000000 bytes")


@pytest.mark.parametrize(
    ("app", "field", "words"),
    [
        ("reports", "retries: three", "6: expected retries to be a whole number, got: 'three'"),
        ("reports", "children: [nobody]", "6: cannot save job b: unknown child 'nobody'"),
        ("reports", "enabled: true", "3: cannot start job b: it has no schedule"),
        ("nowhere", "retries: 3", "4: unknown app 'nowhere'; name it under 'apps'"),
    ],
)
def test_a_refusal_names_the_file_and_the_line(
    apply: Callable[[Path], Result], tmp_path: Path, app: str, field: str, words: str
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS.replace("APP", app).replace("FIELD", field))

    refused = apply(file).exception

    assert isinstance(refused, WarrenError)
    assert refused.lines == (f"{file}:{words}",)


def test_what_is_right_is_applied(apply: Callable[[Path], Result], tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS.replace("APP", "reports").replace("FIELD", "retries: 3"))

    assert apply(file).stdout.endswith("2 changed, 0 unchanged\n")
