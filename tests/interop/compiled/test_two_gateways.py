"""Java's executors know two gateways, which are restarted in turn: nothing is lost or late."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.compiled.conftest import Client
from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.ports import free_port
from tests.support.rabbitmq import PrivateRabbit
from tests.support.remote_executors import GatewayCase
from warren.sql.models import Run
from warren.sql.run_status import RunStatus

#: The longest time in which no run may start.
HOLE_SECONDS = 15.0
EACH_SECOND = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}


class Pair(NamedTuple):
    """Two gateways and the executors that know both."""

    case: GatewayCase
    ports: Sequence[int]

    def start(self, number: int) -> Command:
        """Start one of the gateways."""
        port, other = self.ports[number], self.ports[1 - number]
        return self.case.gateway(
            gateway_port=port,
            gateway_peers=f"http://127.0.0.1:{other}",
            state_dir=self.case.folder / f"gateway-{port}",
            log_dir=self.case.folder / f"logs-{port}",
        )


@pytest.fixture
def pair(
    rabbitmq: PrivateRabbit,
    mariadb: PrivateMariaDB,
    tmp_path: Path,
) -> Iterator[Pair]:
    deployment = Deployment(
        tmp_path,
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    )
    with ExitStack() as held:
        case = held.enter_context(GatewayCase(held.enter_context(deployment), tmp_path))
        deployment.await_schedulers(deployment.scheduler())
        case.ports = [free_port(), free_port()]
        yield Pair(case, case.ports)


@pytest.mark.timeout(600)  # executors register each 30 s
def test_gateways_that_are_restarted_in_turn_lose_nothing(pair: Pair, java: Client) -> None:
    case, deployment = pair.case, pair.case.deployment
    first, second = pair.start(0), pair.start(1)
    for _ in range(2):
        case.compiled(java.program)
    path = case.release_file("long")
    deployment.job("long", handler="until-file", param=path)
    long_run = deployment.trigger("long")
    deployment.await_start(long_run)
    for number in range(5):
        deployment.job(f"each-second-{number}", **EACH_SECOND)

    go_on(deployment, 10)
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    go_on(deployment, 45)
    pair.start(0)
    go_on(deployment, 35)
    second.kill()
    pair.start(1)
    go_on(deployment, 35)
    deployment.stop_jobs()
    Path(path).touch()

    runs = deployment.await_final(*[run.id for run in deployment.runs()], seconds=90)
    # Those that were not due yet when their job was stopped are CANCELLED.
    assert {run.status for run in runs} <= {RunStatus.SUCCEEDED, RunStatus.CANCELLED}
    assert longest_hole(runs) < HOLE_SECONDS
    deployment.assert_sound()


def go_on(deployment: Deployment, count: int) -> None:
    """Wait until so many more runs, of one each second, have succeeded."""

    def successes() -> int:
        return len(deployment.runs("each-second-0", status=RunStatus.SUCCEEDED))

    enough = successes() + count
    eventually(lambda: successes() >= enough, count + 60, every=0.5)


def longest_hole(runs: Sequence[Run]) -> float:
    """Return the longest time, in seconds, in which no run started."""
    starts = sorted(run.started_at for run in runs if run.started_at)
    return max(later - earlier for earlier, later in pairwise(starts)) / 1000
