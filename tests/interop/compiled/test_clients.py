"""Executors in Java and Go behind the gateway: nobody here wrote them, and they run as they are."""

import signal
from pathlib import Path

from tests.interop.compiled.conftest import Client
from tests.support.eventually import eventually
from tests.support.remote_executors import GatewayCase
from warren.sql.models import Run
from warren.sql.run_status import RunStatus


def end_of(case: GatewayCase, name: str, **fields: object) -> Run:
    case.deployment.job(name, **{"handler": name, **fields})
    return case.deployment.await_final(case.deployment.trigger(name), seconds=60)[0]


def test_success_comes_back(case: GatewayCase) -> None:
    run = end_of(case, "noop")

    assert (run.status, run.message) == (RunStatus.SUCCEEDED, "done")


def test_exception_comes_back_in_its_own_words(case: GatewayCase) -> None:
    run = end_of(case, "boom")

    assert run.status == RunStatus.FAILED
    assert "not today" in run.message


def test_unknown_handler_fails(case: GatewayCase) -> None:
    run = end_of(case, "nowhere")

    assert run.status == RunStatus.FAILED
    assert run.message.startswith(f"http://{run.address}")


def test_a_hundred_runs_start_once_each(case: GatewayCase) -> None:
    deployment = case.deployment
    deployment.job("often", handler="noop")

    runs = deployment.await_final(*[deployment.trigger("often") for _ in range(100)], seconds=120)

    assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
    ids = [run.id for run in runs]
    assert sorted(start["run"] for start in deployment.starts() if start["run"] in ids) == ids


def test_a_hundred_jobs_with_one_handler_run_once_each(case: GatewayCase, java: Client) -> None:
    deployment = case.deployment
    names = [f"one-of-many-{number}" for number in range(100)]
    for name in names:
        deployment.job(name)

    runs = deployment.await_final(*[deployment.trigger(name) for name in names], seconds=120)

    assert java.is_java
    assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
    ids = [run.id for run in runs]
    assert sorted(start["run"] for start in deployment.starts() if start["run"] in ids) == ids


def test_run_that_takes_too_long_is_timed_out(case: GatewayCase, java: Client) -> None:
    run = end_of(case, "sleep", timeout=1)

    assert java.is_java
    assert run.status == RunStatus.TIMED_OUT


def test_run_is_killed(case: GatewayCase) -> None:
    deployment = case.deployment
    deployment.job("killed", handler="sleep")
    run_id = deployment.trigger("killed")
    deployment.await_start(run_id)

    deployment.warren("runs", "kill", str(run_id))

    [run] = deployment.await_final(run_id, seconds=60)
    assert run.status == RunStatus.KILLED
    assert run.message.startswith("killed by request")


def test_second_run_of_a_job_waits_for_the_first(case: GatewayCase) -> None:
    deployment = case.deployment
    path = case.release_file("serial")
    deployment.job("serial", handler="until-file", param=path)
    first = deployment.trigger("serial")
    deployment.await_start(first)
    second = deployment.trigger("serial")
    deployment.await_status(second, RunStatus.SENT, RunStatus.RUNNING)
    was_started = deployment.start_of(second)

    Path(path).touch()

    assert was_started is None
    runs = deployment.await_final(first, second, seconds=60)
    assert [run.status for run in runs] == [RunStatus.SUCCEEDED] * 2


def test_broadcast_reaches_each_executor_once_and_none_that_has_left(
    case: GatewayCase, client: Client
) -> None:
    deployment = case.deployment
    other, address = case.compiled(client.program)
    deployment.job("everywhere", handler="noop", route="SHARDING_BROADCAST")

    deployment.trigger("everywhere")
    eventually(lambda: len(deployment.runs("everywhere")) == 2)
    runs = deployment.await_final(*[run.id for run in deployment.runs("everywhere")], seconds=60)
    starts = [deployment.start_of(run.id) for run in runs]
    case.end([other])
    case.await_gone(address)

    assert sorted(start["shard"] for start in starts if start) == [[0, 2], [1, 2]]
    assert len({start["port"] for start in starts if start}) == 2


def test_failover_goes_past_one_that_was_killed(case: GatewayCase, client: Client) -> None:
    deployment = case.deployment
    other, address = case.compiled(client.program)
    deployment.job("failover", handler="noop", route="FAILOVER")
    other.send(signal.SIGKILL)

    for _ in range(10):
        deployment.trigger("failover")

    def succeeded() -> list[Run]:
        runs = deployment.runs("failover")
        return [run for run in runs if run.status == RunStatus.SUCCEEDED]

    ends = eventually(lambda: len(succeeded()) == 10 and succeeded(), 90, every=0.2)
    case.await_gone(address)
    assert address not in {run.address for run in ends}


def test_run_of_a_client_that_was_killed_is_lost(case: GatewayCase, client: Client) -> None:
    deployment = case.deployment
    path = case.release_file("killed")
    other, address = case.compiled(client.program)
    deployment.job("killed-client", handler="until-file", param=path, route="SHARDING_BROADCAST")
    deployment.trigger("killed-client")
    eventually(lambda: len(deployment.runs("killed-client")) == 2)
    runs = {run.address: run.id for run in deployment.runs("killed-client")}
    for run_id in runs.values():
        deployment.await_start(run_id)

    other.send(signal.SIGKILL)

    [lost] = deployment.await_final(runs.pop(address), seconds=180)
    Path(path).touch()
    [kept] = deployment.await_final(*runs.values(), seconds=60)
    assert (lost.status, kept.status) == (RunStatus.LOST, RunStatus.SUCCEEDED)


def test_each_line_of_a_log_is_here_once_after_the_end(case: GatewayCase, java: Client) -> None:
    deployment = case.deployment
    run = end_of(case, "talk", param="1500")

    def lines() -> list[str]:
        text = deployment.warren("runs", "log", str(run.id))
        return [line.rpartition("line-")[2] for line in text.splitlines() if "line-" in line]

    assert java.is_java
    assert run.status == RunStatus.SUCCEEDED
    expected = [f"{number}-" for number in range(1_500)]
    assert eventually(lambda: lines() == expected, every=0.2)
