"""`warren runs …` as a user types it: lists, logs and kills."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.command import Command, run_warren
from tests.support.stored_rows import Rows
from warren.sql.run_status import RunStatus

KEYS = {
    "id",
    "job",
    "app",
    "kind",
    "status",
    "scheduled_at",
    "due_at",
    "address",
    "shard_index",
    "shard_total",
    "attempt",
    "trigger_code",
    "handle_code",
    "sent_at",
    "started_at",
    "finished_at",
    "message",
    "trigger_message",
}
TICK_MS = 1_764_547_199_999  # 2025-11-30T23:59:59.999Z


@pytest.fixture
def rows(sqlite_schema_url: str) -> Rows:
    return Rows(sqlite_schema_url)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/warren.db",
        "WARREN_LOG_DIR": f"{tmp_path}/logs",
        "TZ": "Asia/Shanghai",
    }


def log_file(folder: Path, run_id: int) -> Path:
    path = folder / "logs" / "2025-11-30" / f"{run_id}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_run_is_listed_with_every_key_and_times_with_offset(
    tmp_path: Path, rows: Rows, env: dict[str, str]
) -> None:
    run = rows.run(
        rows.job("nightly"),
        TICK_MS,
        status="FAILED",
        address="reports-1",
        sent_at=TICK_MS + 10,
        started_at=TICK_MS + 20,
        finished_at=TICK_MS + 1_520,
        message="ValueError: no\n\nTraceback …",
        trigger_message="CRON by node-1",
    )

    done = run_warren("runs", "list", "--json", folder=tmp_path, env=env)

    listed = json.loads(done.stdout)
    assert set(listed) >= KEYS
    assert (listed["id"], listed["job"], listed["app"]) == (run, "nightly", "reports")
    assert (listed["status"], listed["trigger_code"], listed["handle_code"]) == ("FAILED", 200, 500)
    assert listed["scheduled_at"] == "2025-11-30T23:59:59.999+00:00"
    assert listed["finished_at"] == "2025-12-01T00:00:01.519+00:00"
    assert listed["message"].startswith("ValueError: no")


def test_table_shows_the_first_line_of_a_message(
    tmp_path: Path, rows: Rows, env: dict[str, str]
) -> None:
    rows.run(rows.job("nightly"), TICK_MS, status="FAILED", message="\x1b[31mno\x1b[0m\nTraceback")

    table = run_warren("runs", "list", folder=tmp_path, env=env).stdout

    assert "Traceback" not in table
    assert "\x1b" not in table
    assert len(table.splitlines()) == 2


@pytest.mark.parametrize("status", [*RunStatus, "failed"])
def test_any_status_can_be_asked_for(
    tmp_path: Path, rows: Rows, env: dict[str, str], status: str
) -> None:
    rows.run(rows.job("nightly"), TICK_MS, status="FAILED")

    done = run_warren("runs", "list", "--status", status, "--json", folder=tmp_path, env=env)

    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == (status.upper() == "FAILED")


def test_filters_reach_the_query(tmp_path: Path, rows: Rows, env: dict[str, str]) -> None:
    job = rows.job("nightly")
    now = time.time_ns() // 1_000_000
    old = rows.run(job, TICK_MS)
    new = rows.run(job, now - 30_000)
    rows.run(rows.job("other"), now)

    def listed(*arguments: str) -> list[int]:
        done = run_warren("runs", "list", "--json", *arguments, folder=tmp_path, env=env)
        return [json.loads(line)["id"] for line in done.stdout.splitlines()]

    # The tick of TICK_MS lies in the past or in the future of the machine's clock.
    newest_first = sorted([(TICK_MS, old), (now - 30_000, new)], reverse=True)
    assert listed("--job", "reports/nightly") == [run for _, run in newest_first]
    assert listed("--job", "nightly", "--since", "10m", "--status", "PLANNED")[-1] == new
    assert listed("--tick", str(old)) == [old]
    assert len(listed("--limit", "2")) == 2


class TestLog:
    def test_file_is_found_by_the_day_of_the_tick_in_utc(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS, status="SUCCEEDED")
        log_file(tmp_path, run).write_bytes("one\nzwölf\n".encode())

        done = run_warren("runs", "log", str(run), "--follow", folder=tmp_path, env=env)

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "one\nzwölf\n"

    def test_without_the_file_the_kept_end_is_printed_and_said_so(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS, status="FAILED", log_tail="the end")

        done = run_warren("runs", "log", str(run), folder=tmp_path, env=env)

        assert done.stdout == "the end\n"
        assert f"logs/2025-11-30/{run}.log" in done.stderr

    def test_run_that_printed_nothing_says_so(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS, status="SUCCEEDED")

        done = run_warren("runs", "log", str(run), folder=tmp_path, env=env)

        assert (done.returncode, done.stdout) == (0, "")
        assert "has no log: none is kept" in done.stderr

    def test_following_ends_with_the_run_and_misses_nothing(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS, status="RUNNING")
        command = Command("runs", "log", str(run), "-f", folder=tmp_path, env=env)

        with command, log_file(tmp_path, run).open("a") as log:
            print("first", file=log, flush=True)
            command.wait_for("first")
            print("second", file=log, flush=True)
            command.wait_for("second")
            print("last", file=log, flush=True)
            rows.set_run(run, status="SUCCEEDED")
            status = command.wait()

        assert status == 0
        assert command.text() == "first\nsecond\nlast\n"

    def test_log_that_was_cut_back_is_followed_on(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS, status="RUNNING")
        path = log_file(tmp_path, run)
        path.write_text("x" * 1_000 + "\nbefore\n")

        with Command("runs", "log", str(run), "-f", folder=tmp_path, env=env) as command:
            command.wait_for("before")
            path.write_text("cut\n")
            with path.open("a") as log:
                rows.set_run(run, status="SUCCEEDED")
                print("after", file=log, flush=True)
            assert command.wait() == 0


class TestKill:
    def test_planned_run_is_cancelled(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS)

        done = run_warren("runs", "kill", str(run), folder=tmp_path, env=env)
        again = run_warren("runs", "kill", str(run), folder=tmp_path, env=env)

        assert done.stdout == f"run {run}: cancelled before it was sent\n"
        assert again.returncode == 1
        assert again.stderr == f"error: run {run} is already CANCELLED\n"

    def test_kill_of_a_running_one_is_asked_for(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS, status="RUNNING", address="reports-1")

        done = run_warren("runs", "kill", str(run), folder=tmp_path, env=env)
        shown = run_warren("runs", "show", str(run), "--json", folder=tmp_path, env=env)

        assert done.stdout == f"run {run}: kill requested\n"
        assert json.loads(shown.stdout)["kill_requested_at"]


class TestControlCharacters:
    def test_what_an_executor_says_of_a_run_cannot_control_the_terminal(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        run = rows.run(rows.job("nightly"), TICK_MS)
        rows.set_run(run, status="FAILED", message="first\x00\x1b[2J\nsecond\x9b31m")

        shown = run_warren("runs", "show", str(run), folder=tmp_path, env=env).stdout
        told = run_warren("runs", "show", str(run), "--json", folder=tmp_path, env=env).stdout

        assert "\nmessage:\nfirst  [2J\nsecond 31m\n" in shown
        assert not {"\0", "\x1b", "\x9b"} & {*shown, *told}
        assert json.loads(told)["message"] == "first\x00\x1b[2J\nsecond\x9b31m"

    def test_nor_what_it_says_to_somebody_who_waits(
        self, tmp_path: Path, rows: Rows, env: dict[str, str]
    ) -> None:
        job = rows.job("nightly")

        with Command("jobs", "trigger", "nightly", "--wait", folder=tmp_path, env=env) as command:
            command.wait_for("no scheduler is online")
            rows.set_run(rows.newest_run(job), status="FAILED", message="first\x1b[2J\nsecond")
            assert command.wait() == 1

        assert "FAILED: first [2J\nsecond\n" in command.text()


class TestWait:
    @pytest.mark.parametrize(("last", "status"), [("SUCCEEDED", 0), ("FAILED", 1)])
    def test_status_is_that_of_the_last_attempt(
        self, tmp_path: Path, rows: Rows, env: dict[str, str], last: str, status: int
    ) -> None:
        job = rows.job("nightly")

        with Command(
            "jobs", "trigger", "nightly", "--wait", "--json", folder=tmp_path, env=env
        ) as command:
            command.wait_for("no scheduler is online")
            first = rows.newest_run(job)
            rows.end_and_retry(first)
            rows.set_run(rows.newest_run(job), status=last, message="in the end")
            assert command.wait() == status

        told = json.loads(command.text().splitlines()[-1])
        assert (told["id"], told["status"], told["message"]) == (first, last, "in the end")
        assert len(told["run_ids"]) == 2


def test_day_of_the_tick_is_what_the_tests_say() -> None:
    assert f"{datetime.fromtimestamp(TICK_MS / 1000, UTC):%Y-%m-%d}" == "2025-11-30"
