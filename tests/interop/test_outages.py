"""The gateway while what is around it ends: no run starts twice, and no result is turned over."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.rabbitmq import PrivateRabbit
from tests.support.remote_executors import GatewayCase, environment, shared_folder
from warren.sql.run_status import RunStatus


@pytest.fixture
def case(
    mariadb_url: str,
    own_rabbitmq: PrivateRabbit,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GatewayCase]:
    """A scheduler on a broker that may be stopped; afterwards the oracle must be content."""
    programs = environment(shared_folder(tmp_path_factory))
    folder = tmp_path_factory.mktemp("gateway")
    url = own_rabbitmq.vhost_url(own_rabbitmq.add_vhost())
    deployment = Deployment(folder, database_url=mariadb_url, broker_url=url)
    with deployment, GatewayCase(deployment, programs) as case:
        deployment.await_schedulers(deployment.scheduler())
        yield case
        deployment.assert_sound()


def test_gateway_that_is_killed_in_a_run_goes_on_with_it(case: GatewayCase) -> None:
    deployment = case.deployment
    gateway = case.gateway()
    case.pyxxl()
    path = case.release_file("kill")
    deployment.job("survivor", handler="until-file", param=path)
    deployment.job("stopped", handler="sleep")
    survivor, stopped = deployment.trigger("survivor"), deployment.trigger("stopped")
    for run_id in (survivor, stopped):
        deployment.await_start(run_id)

    gateway.kill()
    case.gateway().wait_for("executor_welcomed")
    Path(path).touch()
    deployment.warren("runs", "kill", str(stopped))

    runs = deployment.await_final(survivor, stopped)
    assert [run.status for run in runs] == [RunStatus.SUCCEEDED, RunStatus.KILLED]
    assert len(deployment.starts()) == 2


def test_gateway_that_ends_in_order_leaves_runs_to_the_next_one(case: GatewayCase) -> None:
    deployment = case.deployment
    gateway = case.gateway(drain_seconds=0)
    case.pyxxl()
    path = case.release_file("order")
    deployment.job("left", handler="until-file", param=path)
    run_id = deployment.trigger("left")
    deployment.await_start(run_id)

    gateway.send(signal.SIGTERM)
    status = gateway.wait()
    case.gateway().wait_for("executor_welcomed")
    Path(path).touch()

    assert status == 0
    [run] = deployment.await_final(run_id)
    assert (run.status, run.message) == (RunStatus.SUCCEEDED, "released")


def test_result_that_comes_while_the_broker_is_away_is_kept(
    case: GatewayCase, own_rabbitmq: PrivateRabbit
) -> None:
    deployment = case.deployment
    gateway = case.gateway()
    case.pyxxl()
    path = case.release_file("away")
    deployment.job("away", handler="until-file", param=path)
    run_id = deployment.trigger("away")
    deployment.await_status(run_id, RunStatus.RUNNING)

    own_rabbitmq.stop()
    Path(path).touch()
    gateway.wait_for("callbacks_delayed")
    gateway.kill()
    own_rabbitmq.start()
    case.gateway()

    [run] = deployment.await_final(run_id, seconds=60)
    assert (run.status, run.message) == (RunStatus.SUCCEEDED, "released")
    assert len(deployment.starts()) == 1


@pytest.mark.timeout(600)  # executors register each 30 s
def test_executor_of_a_gateway_that_died_is_served_by_the_other_one(case: GatewayCase) -> None:
    deployment = case.deployment
    gateway = case.gateway()
    other = free_port()
    case.gateway(gateway_port=other, state_dir=deployment.folder / "other-gateway")
    case.ports.append(other)
    port = free_port()
    case.program("flask_app.py", str(port))
    eventually(lambda: "alive" in case.listed().values(), 60, every=0.2)
    path = case.release_file("two")
    deployment.job("under-way", handler="flask", param=path)
    deployment.job("waiting", handler="flask")
    under_way = deployment.trigger("under-way")
    deployment.await_status(under_way, RunStatus.RUNNING)

    gateway.kill()
    waiting = deployment.trigger("waiting")
    served = deployment.await_success(waiting, seconds=200)
    # The killed gateway may come back for 120 s after the takeover.
    [lost] = deployment.await_final(under_way, seconds=180)
    Path(path).touch()
    eventually(lambda: deployment.logged("remote_request_refused", "call back again"), 60)

    assert lost.status == RunStatus.LOST
    assert deployment.status(under_way) == RunStatus.LOST
    assert sorted(start["run"] for start in deployment.starts()) == sorted([under_way, served.id])
