"""`make bench` with small figures, so that what measures does not rot.

The first test takes seconds; the others start services of their own, and are left to a release.
"""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import comparison, throughput
from benchmarks.bare import pipeline
from benchmarks.bare.links import PACKED
from benchmarks.console import MORE, PAGES
from benchmarks.endurance import LOOKS
from benchmarks.peers.peer import BIN, PEERS
from benchmarks.peers.private_redis import PrivateRedis
from benchmarks.servers import Servers
from benchmarks.stack import Stack
from benchmarks.table import Table
from tests.support.command import Command
from tests.support.mariadb import SERVER, PrivateMariaDB
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.rabbitmq import PrivateRabbit
from tests.support.soak import soaked
from warren.scheduler.routing.routes import Route

ROOT = Path(__file__).parents[2]
MEASURED = (
    "10 jobs at each full second, late by",
    "50 jobs in one second, for the first time: sent · done",
    "50 jobs in one second, for the first time: stored",
    "50 jobs in one second, the same again: sent · done",
    "50 jobs in one second, the same again: stored",
    "50 jobs in one second, the same after 0 minutes: sent · done",
    "50 jobs in one second, the same after 0 minutes: stored",
    "50 jobs in one second, one-time, of one handler: sent · done",
    "50 jobs in one second, one-time, of one handler: stored",
    "60 jobs in one second, for the first time: sent · done",
    "60 jobs in one second, for the first time: stored",
    "60 jobs in one second, one-time, of one handler: sent · done",
    "60 jobs in one second, one-time, of one handler: stored",
    "10 one-time jobs/s spread over the second, late by",
    "runs/s, end to end, 300 runs of 16 jobs",
    "runs/s, bare pipeline, 300 runs of 16 jobs",
    "runs/s, bare pipeline, packed, 300 runs of 16 jobs",
    "runs/s, a fresh process each",
    "a chain of 10 children: done after",
    "shards/s, 3 broadcasts at once to 10 simulated executors",
    "one broadcast to 10 simulated executors: done after",
    "scheduler's CPU to send 50 runs of 50 jobs",
    *(f"decisions/s, 10 executors, {route}" for route in Route),
)


pytestmark = pytest.mark.skipif(
    SERVER != "mariadbd",
    reason="measures MariaDB and PostgreSQL, and fills tables from MariaDB's sequences",
)
needs_services = pytest.mark.skipif(
    not all(one.is_installed() for one in (PrivateRabbit, PrivateMariaDB, PrivatePostgreSQL)),
    reason="the services are not installed: make services",
)


@pytest.fixture(params=["mysql_server", "postgresql"])
def own(request: pytest.FixtureRequest, tmp_path: Path, rabbitmq: PrivateRabbit) -> Servers:
    """The session's services, with either database."""
    return Servers(rabbitmq, request.getfixturevalue(request.param), tmp_path)


def test_few_runs_are_measured_and_compared_with_the_bare_pipeline(
    own: Servers, vhost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = comparison.Comparison(jobs=2, runs=10)
    stack = Stack(own)
    try:
        stack.start()
        url = own.database.create_database()
        bare = pipeline.measure(url, vhost, 10, jobs=2, messages=PACKED, servers=own.clocks())
        found.packed.append(bare)
        found.single.append(bare)
        found.ours.append(throughput.measure(stack, throughput.jobs(stack, 2), 10))
        stack.audit()
    finally:
        stack.close()

    Table(own.facts()).add(comparison.rows([found], [">= 0.80"]))

    words = r"^runs/s, end to end, 10 runs of 2 jobs +\S+ +\S+ of the bare pipeline +>= 0\.80$"
    assert re.search(words, capsys.readouterr().out, re.MULTILINE)


@pytest.mark.release
@needs_services
def test_the_benchmark_measures_everything_and_keeps_its_table_in_a_file(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program = Path(sys.executable)

    with Command("-m", "benchmarks", "--quick", folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(400.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    rows = [line for line in printed.splitlines() if line.startswith(MEASURED)]
    assert len(rows) == len(MEASURED), printed
    kept = json.loads((tmp_path / "build" / "bench.json").read_text())
    processes = {"mariadbd", "RabbitMQ", "scheduler", "executor", "zygote, job processes"}
    assert [row["what"] for row in kept["rows"] if row["what"].startswith(MEASURED)]
    assert processes < set(kept["throughput"][0]["ours"][0]["cpu_us"])


@pytest.mark.release
@needs_services
def test_the_storms_on_postgresql_are_measured(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program = Path(sys.executable)
    arguments = ("-m", "benchmarks", "--quick", "--storms", "--database", "postgresql")

    with Command(*arguments, folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(240.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    assert re.search(r"^\d+ cores for everything, .*PostgreSQL 1", printed, re.MULTILINE)
    stored = re.findall(
        r"^\d+ jobs in one second, .*: stored +p50 ([\d,]+) · last", printed, re.MULTILINE
    )
    assert len(stored) == len([name for name in MEASURED if name.endswith(": stored")]), printed


@pytest.mark.release
@needs_services
@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
def test_the_benchmark_of_endurance_tells_what_stored_runs_take(
    tmp_path: Path, database: str
) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program = Path(sys.executable)
    short = ("--minutes", "0.5", "--rate", "10", "--database", database)

    with Command(
        "-m", "benchmarks.endurance", *short, folder=tmp_path, env=env, program=program
    ) as bench:
        status = bench.wait(240.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    looks = re.findall(
        r"^after \d\.\d min: (\d+) runs +([\d,]+) bytes a run", printed, re.MULTILINE
    )
    assert len(looks) == LOOKS
    assert int(looks[-1][0]) > 200
    assert ("dead rows" in printed) == (database == "postgresql")


@pytest.mark.release
@needs_services
@pytest.mark.parametrize("database", ["mariadb", "postgresql"])
def test_the_benchmark_of_the_console_measures_every_page(tmp_path: Path, database: str) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program, few = Path(sys.executable), ("--jobs", "300", "--runs", "3000")
    arguments = ("-m", "benchmarks.console", "--quick", *few, "--database", database)

    with Command(*arguments, folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(240.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    measured = re.findall(r"^(.+) \((admin|operator)\) +\d+ ms +\d+ ms", printed, re.MULTILINE)
    assert measured == [
        *((page.name, "admin") for page in (*PAGES, *MORE)),
        *((page.name, "operator") for page in PAGES),
    ]


@pytest.mark.release
@needs_services
def test_the_benchmark_of_the_api_measures_calls_lateness_and_waiting(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program, arguments = Path(sys.executable), ("-m", "benchmarks.api", "--quick")

    with Command(*arguments, folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(240.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    kept = json.loads((tmp_path / "build" / "bench-api.json").read_text())
    assert [row["what"] for row in kept["rows"]] == [
        "a bare view",
        "reads of a run",
        "triggers",
        "triggers of a typed handler",
        "runs planned, one a call",
        "runs planned by AsyncClient, 100 in a call",
        "lateness without calls",
        "lateness beside reads",
        "10 clients wait on 3 processes: they know after",
    ]


@pytest.mark.release
@needs_services
def test_the_benchmark_of_the_business_day_has_a_figure_for_each_goal(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program, arguments = Path(sys.executable), ("-m", "benchmarks.business_day", "--quick")

    with Command(*arguments, folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(240.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    kept = json.loads((tmp_path / "build" / "bench-business-day.json").read_text())
    goals = {row["goal"] for row in kept["rows"][1:] if row["goal"]}
    assert goals == {"<= 50 us", "<= 1 s", "<= 50 ms", "<= 1.0 s", "<= 1.5 s", "<= 8 s", ">= 500"}


@pytest.mark.release
@needs_services
def test_the_benchmark_of_the_gateway_measures_runs_in_turn_with_warrens_own(
    tmp_path: Path,
) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program, arguments = Path(sys.executable), ("-m", "benchmarks.gateway", "--quick")

    with Command(*arguments, folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(240.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    kept = json.loads((tmp_path / "build" / "bench-gateway.json").read_text())
    assert {"gateway", "remote executors", "scheduler"} < set(kept["through"][0]["cpu_us"])
    assert kept["rows"][-1]["what"] == "a gateway with 3 idle remotes"


@pytest.mark.release
@needs_services
def test_the_benchmark_of_growth_compares_runs_beside_few_and_many_stored(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program = Path(sys.executable)
    arguments = ("-m", "benchmarks.growth", "--short", "--only", "runs")

    with Command(*arguments, folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(240.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    points = re.findall(r"^runs stored: ([\d,]+) +CPU [\d,]+ us a run", printed, re.MULTILINE)
    assert points == ["2,000", "20,000"]
    kept = json.loads((tmp_path / "build" / "bench-growth.json").read_text())
    for measured in kept["axes"]["runs"]:
        [rate] = measured["rates"]
        assert {"mariadbd", "RabbitMQ", "scheduler", "executor"} < set(rate["cpu_us"])
        assert rate["rows_read"] > 0


@pytest.mark.release
@needs_services
@pytest.mark.skipif(
    not (BIN.is_dir() and PrivateRedis.is_installed()),
    reason="the peers are not installed: make bench-peers",
)
def test_the_comparison_with_peers_measures_each_in_turn_with_warren(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    program, arguments = Path(sys.executable), ("-m", "benchmarks.peers", "--quick")

    with Command(*arguments, folder=tmp_path, env=env, program=program) as bench:
        status = bench.wait(400.0)
        printed = bench.output.read_text()

    assert status == 0, printed
    kept = json.loads((tmp_path / "build" / "bench-peers.json").read_text())
    assert set(kept["peers"]) == {peer.package for peer in PEERS}
    for measured in kept["peers"].values():
        assert len(measured["peer"]) == len(measured["warren"]) == 1
        assert measured["peer"][0]["cpu_us"].keys() >= {"sender", "workers", "Redis"}


@pytest.mark.release
@needs_services
def test_a_short_soak_under_faults_loses_and_doubles_nothing(tmp_path: Path) -> None:
    little = ("--minutes", "0.34", "--rate", "10", "--fault-seconds", "5")

    printed = soaked(tmp_path, "--seed", "4", *little)

    zeros = "lost=0 doubled=0 started_twice=0 stuck=0 orphans=0 exceeded=0"
    counts = r"ticks=\d+ runs=(\d+) skipped=\d+ flows=(\d+) filled=72"
    found = re.search(rf"^{counts} {zeros} late_p99_ms=", printed, re.MULTILINE)
    assert found is not None, printed
    assert int(found[1]) > 100
    assert int(found[2]) > 0
    assert len(re.findall(r"^ +\d+\.\d s: ", printed, re.MULTILINE)) == 3
