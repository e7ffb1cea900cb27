"""Executors of pyxxl behind the gateway: nobody here wrote them, and they run as they are."""

from http.client import RemoteDisconnected
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.remote_executors import OTHER_TOKEN, GatewayCase
from warren.sql.models import Run
from warren.sql.run_status import RunStatus


def end_of(case: GatewayCase, name: str, **fields: object) -> Run:
    case.deployment.job(name, **{"handler": name, **fields})
    return case.deployment.await_final(case.deployment.trigger(name))[0]


@pytest.mark.parametrize(
    ("handler", "status", "message"),
    [
        ("noop", RunStatus.SUCCEEDED, "done"),
        ("dict", RunStatus.SUCCEEDED, '{"answer":42}'),
        ("none", RunStatus.SUCCEEDED, ""),
        ("long", RunStatus.SUCCEEDED, "x" * 49_973 + "\n… [cut, 60,000 characters]"),
        ("boom", RunStatus.FAILED, "not today"),
    ],
)
def test_end_of_a_run_comes_back(
    served: GatewayCase, handler: str, status: RunStatus, message: str
) -> None:
    run = end_of(served, handler)

    assert (run.status, run.message or "") == (status, message)


def test_unknown_handler_fails_with_the_words_of_the_executor(served: GatewayCase) -> None:
    run = end_of(served, "nowhere")

    assert run.status == RunStatus.FAILED
    assert run.message.startswith(f"http://{run.address} refused it: handler nowhere")


def test_a_hundred_jobs_run_once_each(served: GatewayCase) -> None:
    deployment = served.deployment
    names = [f"one-of-many-{number}" for number in range(100)]
    for name in names:
        deployment.job(name)

    runs = deployment.await_final(*[deployment.trigger(name) for name in names], seconds=60)

    assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
    ids = [run.id for run in runs]
    assert sorted(start["run"] for start in deployment.starts() if start["run"] in ids) == ids


def test_run_that_takes_too_long_is_timed_out(served: GatewayCase) -> None:
    run = end_of(served, "sleep", timeout=1)

    assert (run.status, run.message) == (RunStatus.TIMED_OUT, "timed out after 1 s")


@pytest.mark.parametrize("handler", ["until-file", "sleep"])
def test_run_is_killed(served: GatewayCase, handler: str) -> None:
    deployment = served.deployment
    deployment.job("killed", handler=handler, param="/nowhere" if handler != "sleep" else "60")
    run_id = deployment.trigger("killed")
    deployment.await_start(run_id)

    deployment.warren("runs", "kill", str(run_id))

    run = deployment.await_final(run_id)[0]
    assert (run.status, run.message) == (RunStatus.KILLED, "killed by request")


def test_kill_of_a_run_that_does_not_listen_says_that_its_end_is_not_known(
    served: GatewayCase,
) -> None:
    deployment = served.deployment
    path = served.release_file("deaf")
    deployment.job("deaf", handler="thread", param=path)
    run_id = deployment.trigger("deaf")
    deployment.await_start(run_id)

    deployment.warren("runs", "kill", str(run_id))

    try:
        run = deployment.await_final(run_id)[0]
    finally:
        Path(path).touch()
    assert run.status == RunStatus.KILLED
    assert run.message.startswith("killed by request")


class TestBlockStrategies:
    def two(self, case: GatewayCase, block: str) -> tuple[int, int, str]:
        deployment = case.deployment
        path = case.release_file(block)
        deployment.job(block, handler="until-file", param=path, block=block)
        first = deployment.trigger(block)
        deployment.await_start(first)
        return first, deployment.trigger(block), path

    def test_serial_execution_waits(self, served: GatewayCase) -> None:
        first, second, path = self.two(served, "SERIAL_EXECUTION")
        served.deployment.await_status(second, RunStatus.SENT, RunStatus.RUNNING)
        was_started = served.deployment.start_of(second)

        Path(path).touch()

        assert was_started is None
        runs = served.deployment.await_final(first, second)
        assert [run.status for run in runs] == [RunStatus.SUCCEEDED] * 2

    def test_discard_later_refuses(self, served: GatewayCase) -> None:
        first, second, path = self.two(served, "DISCARD_LATER")

        [run] = served.deployment.await_final(second)
        Path(path).touch()

        assert run.status == RunStatus.REFUSED
        assert served.deployment.await_final(first)[0].status == RunStatus.SUCCEEDED

    def test_cover_early_kills(self, served: GatewayCase) -> None:
        first, second, path = self.two(served, "COVER_EARLY")

        [run] = served.deployment.await_final(first)
        served.deployment.await_start(second)
        Path(path).touch()

        assert (run.status, run.message) == (RunStatus.KILLED, f"replaced by run {second}")
        assert served.deployment.await_final(second)[0].status == RunStatus.SUCCEEDED


def test_broadcast_reaches_each_executor_once_and_none_that_has_left(served: GatewayCase) -> None:
    deployment = served.deployment
    others = [served.pyxxl() for _ in range(2)]
    deployment.job("everywhere", route="SHARDING_BROADCAST")

    deployment.trigger("everywhere")
    eventually(lambda: len(deployment.runs("everywhere")) == 3)
    runs = deployment.await_final(*[run.id for run in deployment.runs("everywhere")])

    starts = [deployment.start_of(run.id) for run in runs]
    assert sorted(start["shard"] for start in starts if start) == [[0, 3], [1, 3], [2, 3]]
    assert len({start["port"] for start in starts if start}) == 3

    served.end([command for command, _ in others])
    for _, address in others:
        served.await_gone(address)
    deployment.trigger("everywhere")
    eventually(lambda: len(deployment.runs("everywhere")) == 4)
    deployment.await_all_final()


def test_callback_of_another_app_changes_nothing(served: GatewayCase) -> None:
    deployment = served.deployment
    path = served.release_file("forged")
    deployment.job("forged", handler="until-file", param=path)
    run_id = deployment.trigger("forged")
    deployment.await_start(run_id)
    forged = [{"logId": run_id, "logDateTim": 0, "handleCode": 500, "handleMsg": "forged"}]

    with pytest.raises(RemoteDisconnected):  # its own app has no such run, another gateway may
        served.call("callback", forged, token=OTHER_TOKEN)
    replies = [
        served.call("callback", forged, token=token)["code"]
        for token in ("a-token-of-nobody", "default_token")
    ]
    Path(path).touch()

    assert replies == [500, 500]
    [run] = deployment.await_final(run_id)
    assert (run.status, run.message) == (RunStatus.SUCCEEDED, "released")


def test_second_callback_does_not_change_the_first(served: GatewayCase) -> None:
    run = end_of(served, "noop")

    reply = served.call(
        "callback", [{"logId": run.id, "logDateTim": 0, "handleCode": 500, "handleMsg": "no"}]
    )

    assert reply["code"] == 200
    assert served.deployment.run(run.id).message == "done"


class TestRegistration:
    @pytest.mark.parametrize(
        ("group", "key", "value", "words"),
        [
            ("EXECUTOR", "another", "http://127.0.0.1:9999", "is not that of app another"),
            ("ADMIN", "demo", "http://127.0.0.1:9999", "expected registryGroup EXECUTOR"),
            ("EXECUTOR", "demo", "http://10.1.2.3:9999", "is not listed in WARREN_GATEWAY_ALLOW"),
            ("EXECUTOR", "d", "http://127.0.0.1:9999", "to be an app's name"),
        ],
    )
    def test_it_is_refused(
        self, served: GatewayCase, group: str, key: str, value: str, words: str
    ) -> None:
        body = {"registryGroup": group, "registryKey": key, "registryValue": value}

        reply = served.call("registry", body)

        assert reply["code"] == 500
        assert words in reply["msg"]

    def test_what_is_no_json_is_refused(self, served: GatewayCase) -> None:
        reply = served.call("registry", b"{")

        assert reply["code"] == 500
        assert reply["msg"].startswith("cannot read the request")


def test_each_line_of_a_log_is_here_once_after_the_end(served: GatewayCase) -> None:
    deployment = served.deployment
    deployment.job("talk", param="1500")
    run = end_of(served, "talk", param="1500")

    def lines() -> list[str]:
        text = deployment.warren("runs", "log", str(run.id))
        return [line.rpartition("line-")[2] for line in text.splitlines() if "line-" in line]

    assert run.status == RunStatus.SUCCEEDED
    expected = [f"{number}-" for number in range(1_500)]
    assert eventually(lambda: lines() == expected, every=0.2)
