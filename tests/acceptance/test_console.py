"""`warren console` as a process: its first start, two of them, a scheduler's absence, its end."""

import re
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually
from warren.sql.engine import Database
from warren.sql.registry import presence


@pytest.fixture
def env(tmp_path: Path, mariadb_url: str, vhost: str) -> dict[str, str]:
    env = {
        "WARREN_DATABASE_URL": mariadb_url,
        "WARREN_BROKER_URL": vhost,
        "WARREN_SECRET": "s" * 32,
        "WARREN_PORT": "0",
    }
    assert run_warren("db", "upgrade", folder=tmp_path, env=env).returncode == 0
    return env


def address(console: Command) -> str:
    console.wait_for("console: ")
    found = re.search(r"^console: (http://\S+)$", console.text(), re.MULTILINE)
    assert found is not None
    return found[1]


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_two_consoles_share_one_first_administrator_and_end_in_order(
    tmp_path: Path, env: dict[str, str]
) -> None:
    consoles = [Command("console", folder=tmp_path, env=env) for _ in range(2)]
    urls = [address(console) for console in consoles]
    told = "".join(console.text() for console in consoles)
    assert len(re.findall(r"^admin password: \S{16}$", told, re.MULTILINE)) == 1
    assert [status(f"{url}/login") for url in urls] == [200, 200]
    assert status(f"{urls[0]}/healthz") == 503

    scheduler = Command("scheduler", folder=tmp_path, env=env)
    eventually(lambda: status(f"{urls[0]}/healthz") == 200, every=0.1)

    for process in (*consoles, scheduler):
        process.send(signal.SIGTERM)
    assert [process.wait(30) for process in (*consoles, scheduler)] == [0, 0, 0]
    database = Database(env["WARREN_DATABASE_URL"])
    rows = database.read(lambda session: presence.listing(session, presence.ADMIN))
    database.close()
    assert list(rows) == []


def test_a_port_that_is_taken_is_one_line(tmp_path: Path, env: dict[str, str]) -> None:
    first = Command("console", folder=tmp_path, env=env, cold=True)
    port = address(first).rpartition(":")[2]

    second = run_warren("console", "--port", port, folder=tmp_path, env=env)

    assert second.returncode == 1
    assert f"cannot listen at 127.0.0.1:{port}" in second.stderr
    first.send(signal.SIGTERM)
    assert first.wait(30) == 0


@pytest.mark.parametrize("name", ["WARREN_SECRET", "WARREN_BROKER_URL", "WARREN_DATABASE_URL"])
def test_nothing_starts_without_what_it_needs(
    tmp_path: Path, env: dict[str, str], name: str
) -> None:
    env.pop(name)

    refused = run_warren("console", folder=tmp_path, env=env)

    assert refused.returncode != 0
    assert name in refused.stderr
