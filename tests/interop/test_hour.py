"""The hour: a team's jobs and executors leave XXL-JOB for Warren, on time and on record."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.api import make_token
from tests.support.command import Command
from tests.support.console import Clock, add_user
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.ports import free_port
from tests.support.rabbitmq import PrivateRabbit
from tests.support.remote_executors import GatewayCase, environment, shared_folder
from tests.support.xxl_job_tables import XxlJobDatabase
from warren import Client
from warren.client import Run
from warren.sql.accounts.users import Role
from warren.sql.clock import database_now_ms
from warren.sql.models import Job
from warren.sql.run_status import RunStatus

THERE, HERE = "Shop_Jobs", "shop-jobs"


@pytest.fixture
def xxl(mysql_server: PrivateMariaDB) -> Iterator[XxlJobDatabase]:
    """What an admin of 3.4 leaves behind that was stopped ten seconds ago."""
    database = XxlJobDatabase(mysql_server)
    now_ms = int(datetime.now(UTC).timestamp() * 1_000)
    database.group(THERE, id=7)
    common = {"job_group": 7, "trigger_status": 1, "executor_route_strategy": "ROUND"}
    every = {"schedule_type": "FIX_RATE", "schedule_conf": "2"}
    database.job(
        "often",
        id=41,
        executor_handler="noop",
        trigger_last_time=now_ms - 12_000,
        trigger_next_time=now_ms - 10_000,
        **every,
        **common,
    )
    database.job(
        "asked",
        id=42,
        schedule_type="NONE",
        schedule_conf="",
        executor_handler="dict",
        **common | {"trigger_status": 0},
    )
    database.add("log", id=9_000, job_group=7, job_id=41, trigger_code=200, handle_code=200)
    yield database
    database.close()


@pytest.fixture
def case(
    rabbitmq: PrivateRabbit,
    mariadb: PrivateMariaDB,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GatewayCase]:
    """A Warren with a database and no job, and the programs of pyxxl."""
    programs = environment(shared_folder(tmp_path_factory))
    deployment = Deployment(
        tmp_path_factory.mktemp("hour"),
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    )
    deployment.app = HERE
    with deployment, GatewayCase(deployment, programs) as case:
        yield case


def run_by_api(deployment: Deployment, job: str) -> Run:
    """Trigger a job by the HTTP API, and wait for its end."""
    add_user(deployment.database, "admin", Role.ADMINISTRATOR)
    now_ms = deployment.database.read(database_now_ms)
    token = make_token(deployment.database, Clock(now_ms))
    api = Command("api", folder=deployment.folder, env=deployment.env | {"WARREN_API_PORT": "0"})
    try:
        api.wait_for("api: ")
        found = re.search(r"^api: (http://\S+)/api/v1$", api.text(), re.MULTILINE)
        assert found is not None
        return Client(found[1], token).run(job, timeout=60)
    finally:
        api.close()


@pytest.mark.timeout(600)  # on a busy machine the programs take minutes to be installed
def test_jobs_and_executors_of_xxl_job_go_on_here(
    case: GatewayCase, xxl: XxlJobDatabase, tmp_path: Path
) -> None:
    deployment = case.deployment
    password = tmp_path / "password"
    password.write_text(xxl.password)
    command = ("import", "xxl-job", xxl.url, "--password-file", str(password), "--timezone", "UTC")

    # The day before: see what would come, and let it come, stopped.
    assert "jobs: 2 create" in deployment.warren(*command, "--dry-run")
    deployment.warren(*command)
    deployment.await_schedulers(deployment.scheduler())
    case.gateway()
    # The executors are given the gateway's address instead of the admin's.
    for port in (free_port(), free_port()):
        case.program("pyxxl_app.py", str(port), app=THERE)
        case.await_registered(port)
    before = deployment.runs()
    # The admin is stopped; Warren takes over.
    said = deployment.warren(*command, "--take-over")

    assert before == []
    assert f"start     job {HERE}/often" in said
    job = deployment.database.read(lambda session: session.get_one(Job, 41))
    assert (job.name, job.is_enabled) == ("often", 1)

    def both_have_run() -> bool:
        done = [run for run in deployment.runs("often") if run.status == RunStatus.SUCCEEDED]
        return len({run.address for run in done}) == 2

    assert eventually(both_have_run, 60)
    assert deployment.skips("often"), "the due times of the gap are on record"
    assert min(run.id for run in deployment.runs()) > 1_009_000
    asked = run_by_api(deployment, f"{HERE}/asked")
    assert (asked.status, asked.message) == ("SUCCEEDED", '{"answer":42}')
    deployment.assert_sound()
