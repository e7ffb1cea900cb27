"""`make up`: the examples are at work within half a minute, and each does what it says."""

import csv
import json
import re
import shutil
import signal
import tarfile
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
WAREHOUSE = {"nightly", "extract", "load", "part", "mend", "report"}
BY_HAND = {"month-end"} | WAREHOUSE

Row = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which the examples have been at work, each at least once, and still are.

    In the end they are stopped by Ctrl-C, and the audit must be clean.
    """
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES, folder / "examples")
    files = ["--jobs", "examples/handlers.py", "--seed", "examples/jobs.yaml"]
    with Command("up", *files, folder=folder) as command:
        command.wait_for("Ctrl-C stops everything", 60)
        jobs = {row["name"] for row in listed(folder, "jobs", "list")}
        eventually(lambda: at_work(command) | BY_HAND == jobs, 90, every=0.1)
        yield folder
        below = command.tree()
        command.send(signal.SIGINT)
        assert command.wait(30) == 0, command.text()
    eventually(lambda: not any(process.is_alive for process in below))
    audit = run_warren("audit", folder=folder)
    assert audit.returncode == 0, audit.stdout


def listed(folder: Path, *arguments: str) -> list[Row]:
    done = run_warren(*arguments, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def runs_of(folder: Path, job: str, *, first_only: bool = True) -> list[Row]:
    """Return a job's runs, the eldest first; of its first tick only, unless said otherwise."""
    runs = sorted(
        listed(folder, "runs", "list", "--limit", "1000", "--job", job), key=lambda run: run["id"]
    )
    return [run for run in runs if not first_only or run["scheduled_at"] == runs[0]["scheduled_at"]]


def at_work(command: Command) -> set[str]:
    """Return the jobs of which the command has said that a tick is over."""
    return set(re.findall(r"(?:SUCCEEDED|TIMED_OUT)  run \d+  examples/([a-z-]+)", command.text()))


def whole(folder: Path, region: str = "") -> tuple[int, str]:
    """Return how many orders there are and what they come to, counted in another way."""
    with (folder / ".warren/examples/orders.csv").open() as file:
        rows = [row for row in csv.reader(file) if row[2].startswith(region)]
    cents = [int(row[3]) for row in rows if row[3].isdecimal()]
    return len(cents), f"{len(cents):,} orders, {sum(cents) / 100:,.2f} in total"


def folder_of(run: Row) -> str:
    return f"{datetime.fromisoformat(run['scheduled_at']):%Y-%m-%dT%H-%M-%S.%f}"


def shared_by_three(folder: Path) -> list[Row]:
    """Return the shards of a tick that came when all three executors were online."""
    runs = runs_of(folder, "order-parts", first_only=False)
    shards = [run for run in runs if run["shard_total"] == 3 and run["status"] == "SUCCEEDED"]
    first = [run for run in shards if run["scheduled_at"] == shards[0]["scheduled_at"]]
    return first if len(first) == 3 else []


def test_each_of_three_executors_adds_up_a_part_of_the_orders(folder: Path) -> None:
    shards = eventually(lambda: shared_by_three(folder), every=2.0)

    assert [(run["shard_index"], run["shard_total"]) for run in shards] == [(0, 3), (1, 3), (2, 3)]
    assert [run["address"] for run in shards] == ["examples-1", "examples-2", "examples-3"]
    assert [run["message"].split(" orders")[0] for run in shards] == [
        "part 1 of 3: 33,334",
        "part 2 of 3: 33,333",
        "part 3 of 3: 33,333",
    ]


def test_the_child_merges_the_parts_once_into_the_whole(folder: Path) -> None:
    count, words = whole(folder)

    [run] = runs_of(folder, "order-totals")

    assert (run["kind"], run["status"]) == ("PARENT", "SUCCEEDED")
    assert run["scheduled_at"] == runs_of(folder, "order-parts")[0]["scheduled_at"]
    assert count == 100_000
    assert run["message"].startswith(f"{words}, from ")


def test_the_child_run_by_itself_fails_and_says_who_runs_it(folder: Path) -> None:
    done = run_warren("jobs", "trigger", "order-totals", "--wait", folder=folder)

    assert done.returncode == 1
    assert "order-parts starts this job when all shards are done" in done.stdout


def test_the_shell_script_packs_what_was_merged_a_while_ago(folder: Path) -> None:
    parts = folder / ".warren/examples/parts"
    name = folder_of(runs_of(folder, "order-totals")[0])

    eventually((parts / "packed" / f"{name}.tar.gz").exists)
    eventually(lambda: not (parts / name).exists())

    with tarfile.open(parts / "packed" / f"{name}.tar.gz") as package:
        packed = {member.name for member in package if member.isfile()}
    shards = {f"{name}/shard-{index}.json" for index in range(len(packed) - 1)}
    assert packed == {f"{name}/total.json"} | shards


def test_the_python_script_lists_the_folder(folder: Path) -> None:
    run = runs_of(folder, "folder-sizes")[0]

    log = run_warren("runs", "log", str(run["id"]), folder=folder).stdout

    assert run["status"] == "SUCCEEDED"
    assert log.startswith(f"run {run['id']}, due ")
    assert "bytes in .warren/examples\n" in log


def test_the_third_attempt_succeeds(folder: Path) -> None:
    attempts = runs_of(folder, "third-time-lucky")

    assert [(run["attempt"], run["kind"], run["status"]) for run in attempts] == [
        (0, "CRON", "FAILED"),
        (1, "RETRY", "FAILED"),
        (2, "RETRY", "SUCCEEDED"),
    ]
    assert attempts[0]["message"].startswith("ConnectionError: attempt 1: the line is bad\n")
    assert attempts[2]["message"] == "attempt 3 came through"


def test_the_stubborn_one_is_ended_by_its_timeout(folder: Path) -> None:
    run = runs_of(folder, "stubborn")[0]

    assert run["status"] == "TIMED_OUT"
    assert "killed with SIGKILL" in run["message"]


def test_the_load_is_noted_at_every_tick(folder: Path) -> None:
    runs = runs_of(folder, "host-load", first_only=False)
    over = [run["scheduled_at"] for run in runs if run["status"] == "SUCCEEDED"]

    noted = (folder / ".warren/examples/load.csv").read_text().splitlines()

    ticks = {datetime.fromisoformat(line.split(",")[0]) for line in noted}
    assert ticks >= set(map(datetime.fromisoformat, over))


def test_a_night_of_the_warehouse_runs_each_node_once(folder: Path) -> None:
    day = ("--run-date", "2026-11-24")

    done = run_warren("jobs", "trigger", "nightly", *day, "--wait", folder=folder)

    assert done.returncode == 0, done.stdout
    nodes = [run for name in WAREHOUSE - {"nightly"} for run in runs_of(folder, name)]
    assert sum(run["job"].endswith("part") for run in nodes) == 5
    assert Counter(run["status"] for run in nodes) == {"SUCCEEDED": 8}
    assert {run["run_date"] for run in nodes} == {"2026-11-24"}


@pytest.mark.release
def test_month_end_counts_one_region(folder: Path) -> None:
    _, words = whole(folder, "overseas")

    done = run_warren("jobs", "trigger", "month-end", "--wait", folder=folder)

    assert done.returncode == 0
    assert words in done.stdout
