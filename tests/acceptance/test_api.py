"""`warren api` as processes: one run for a key whatever dies, and the page of it line by line."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import documentation, fault_injection
from tests.support.api import make_token
from tests.support.command import WARREN, Command
from tests.support.console import Clock, add_user
from tests.support.processes import basic_environment
from tests.support.sql_rows import side_by_side
from tests.support.stored_rows import Rows
from warren import ApiError, Client
from warren.sql.accounts.users import Role
from warren.sql.clock import database_now_ms

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/api.md").read_text()
#: Of the page's calls, those that are refused, and how.
REFUSED = {"/kill": "409", "/drain": "404"}


@pytest.fixture
def env(mariadb_url: str, vhost: str) -> dict[str, str]:
    return {
        "WARREN_DATABASE_URL": mariadb_url,
        "WARREN_BROKER_URL": vhost,
        "WARREN_SECRET": "s" * 32,
        "WARREN_API_PORT": "0",
    }


def url_of(api: Command) -> str:
    api.wait_for("api: ")
    found = re.search(r"^api: (http://\S+)/api/v1$", api.text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_one_key_makes_one_run_at_two_processes_and_across_a_death(
    tmp_path: Path, env: dict[str, str]
) -> None:
    rows = Rows(env["WARREN_DATABASE_URL"])
    job_id = rows.job("nightly")
    add_user(rows.database, "admin", Role.ADMINISTRATOR)
    # Tokens live by the real clock here.
    token = make_token(rows.database, Clock(rows.database.read(database_now_ms)))
    fate = (fault_injection.__file__, "SIGKILL", "waitress:after-commit")
    apis = [Command("api", folder=tmp_path, env=env, cold=True) for _ in range(2)]
    doomed = Command(*fate, "api", folder=tmp_path, env=env, program=Path(sys.executable))
    urls = [url_of(api) for api in apis]
    clients = [Client(urls[number % 2], token) for number in range(20)]

    answers = side_by_side(
        *[lambda one=one: one.trigger("reports/nightly", key="deploy") for one in clients]
    )
    with pytest.raises(ApiError, match="no answer"):
        Client(url_of(doomed), token, retry_for=0).trigger("reports/nightly", key="killed")
    after_death = rows.newest_run(job_id)
    again = clients[0].trigger("reports/nightly", key="killed")

    assert len({answer.id for answer in answers}) == 1
    assert again.id == after_death
    listed = clients[0].runs(job="reports/nightly")
    assert {run.id for run in listed} == {answers[0].id, after_death}
    assert doomed.wait(30) == -signal.SIGKILL
    for api in apis:
        api.send(signal.SIGTERM)
    assert [api.wait(30) for api in apis] == [0, 0]
    rows.database.close()


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.release
def test_every_line_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    files = ["--jobs", "examples/handlers.py", "--apply", "examples/jobs.yaml"]
    with Command("up", *files, folder=tmp_path, env={"WARREN_PORT": "0"}) as up:
        up.wait_for("Ctrl-C stops everything", 60)
        first_call = re.search(r"^  (curl .*)/jobs$", up.text(), re.MULTILINE)
        assert first_call is not None
        url = first_call[1].rpartition(" ")[2]
        env = basic_environment() | {
            "HOME": str(tmp_path),
            "PATH": f"{WARREN.parent}:/usr/bin:/bin",
        }

        def run(program: str, text: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [program, "-"],
                input=text,
                cwd=tmp_path,
                env=env | {"API": url},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

        done = run("/bin/bash", "set -e\n" + "\n".join(map(_told, _shell_lines())))
        assert done.returncode == 0, done.stdout + done.stderr
        calls = re.findall(r"^CALL (\d+) (.*)$", done.stdout, re.MULTILINE)
        assert len(calls) > 30
        for status, line in calls:
            expected = next((code for end, code in REFUSED.items() if line.endswith(end)), "2")
            assert status.startswith(expected), f"{line}: {done.stdout}"
        assert "0 changed" in done.stdout

        env["TOKEN"] = (tmp_path / ".warren/api-token").read_text().strip()
        code = "".join(documentation.blocks(PAGE, "python"))
        done = run(sys.executable, code)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCEEDED" in done.stdout
        assert "404 no job named 'nobody'" in done.stdout


def _shell_lines() -> list[str]:
    lines = [line for block in documentation.blocks(PAGE, "sh") for line in block.splitlines()]
    return [line for line in lines if not line.startswith("export API=")]


def _told(line: str) -> str:
    """Return a line of the page so that a call says its status after what it gives."""
    if not line.startswith("curl "):
        return line
    name = line.rpartition(" ")[2].strip('"').replace("$", "")
    return f"{line} -w '\\nCALL %{{http_code}} {name}\\n'"
