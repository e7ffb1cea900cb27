"""Routes that ask executors first, with executors of pyxxl behind the gateway."""

from pathlib import Path

from tests.support.remote_executors import GatewayCase
from warren.sql.run_status import RunStatus


def test_failover_passes_over_an_executor_that_has_just_died(served: GatewayCase) -> None:
    deployment = served.deployment
    (dying, dead), (_, alive) = served.pyxxl(), served.pyxxl()
    deployment.job("failover", route="FAILOVER")
    first = deployment.await_success(_trigger(served, "failover", dead, alive))

    dying.kill()
    second = deployment.await_success(_trigger(served, "failover", dead, alive))

    assert [first.address, second.address] == [dead, alive]
    assert _port_of_start(served, second.id) == alive.rpartition(":")[2]


def test_busyover_finds_the_executor_that_is_idle(served: GatewayCase) -> None:
    deployment = served.deployment
    addresses = [served.pyxxl()[1] for _ in range(2)]
    path = served.release_file("busyover")
    deployment.job("busyover", handler="until-file", param=path, route="BUSYOVER")

    runs = [_trigger(served, "busyover", *addresses) for _ in addresses]
    starts = [deployment.await_start(run_id) for run_id in runs]
    Path(path).touch()

    assert {f"127.0.0.1:{start['port']}" for start in starts} == set(addresses)
    ends = deployment.await_final(*runs)
    assert [run.status for run in ends] == [RunStatus.SUCCEEDED] * 2


def _trigger(case: GatewayCase, job: str, *addresses: str) -> int:
    """Plan a run that may go to these executors."""
    commands = case.deployment.commands
    return commands.trigger(f"{case.app}/{job}", param=None, addresses=addresses)


def _port_of_start(case: GatewayCase, run_id: int) -> str:
    [start] = [one for one in case.deployment.starts() if one["run"] == run_id]
    return str(start["port"])
