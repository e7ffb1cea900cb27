"""A run through the real gateway, executed by a stand-in that speaks XXL-JOB's protocol.

The executors that people have are tested in `tests/interop`, before a release: they come from PyPI.
"""

import gzip
import json
import sys
from pathlib import Path

from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.remote_executors import TOKEN, GatewayCase
from warren.sql.run_status import RunStatus

ROOT = Path(__file__).parents[2]


def test_run_goes_to_an_executor_that_registered_and_its_end_comes_back(
    tmp_path: Path, sqlite_schema_url: str, vhost: str
) -> None:
    python, starts = Path(sys.executable), tmp_path / "starts"
    with (
        Deployment(tmp_path, database_url=sqlite_schema_url, broker_url=vhost) as deployment,
        GatewayCase(deployment, python.parent) as case,
    ):
        deployment.cold = True
        scheduler = deployment.scheduler()
        case.gateway()
        deployment.await_schedulers(scheduler)
        deployment.job("remote", handler="any")
        url = f"http://127.0.0.1:{case.port}"
        stand_in = ("-m", "benchmarks.gateway.remotes", url, deployment.app, TOKEN, "1")
        env = {"PYTHONPATH": str(ROOT), "BENCH_STARTS": str(starts)}

        with Command(*stand_in, folder=tmp_path, env=env, program=python):
            [address] = eventually(case.listed)
            [run] = deployment.await_final(deployment.trigger("remote"))

        assert (run.status, run.message) == (RunStatus.SUCCEEDED, "done")
        assert run.address == address
        assert starts.read_text().split() == [str(run.id)]
        deployment.assert_nothing_left()


def test_logs_of_its_runs_are_printed_and_stored_in_a_shared_folder(
    tmp_path: Path, sqlite_schema_url: str, vhost: str
) -> None:
    store = tmp_path / "store"
    with (
        Deployment(tmp_path, database_url=sqlite_schema_url, broker_url=vhost) as deployment,
        GatewayCase(deployment, Path(sys.executable).parent) as case,
    ):
        deployment.cold = True
        scheduler = deployment.scheduler(log_store=store)
        gateway = case.gateway(log_store=store, log_stdout="json")
        deployment.await_schedulers(scheduler)
        deployment.job("remote", handler="any")
        url = f"http://127.0.0.1:{case.port}"
        stand_in = ("-m", "benchmarks.gateway.remotes", url, deployment.app, TOKEN, "1")
        env = {"PYTHONPATH": str(ROOT), "BENCH_STARTS": str(tmp_path / "starts")}
        env["BENCH_LOG"] = "first\nlast\n"

        with Command(*stand_in, folder=tmp_path, env=env, program=Path(sys.executable)):
            eventually(case.listed)
            [run] = deployment.await_final(deployment.trigger("remote"))
            [log] = eventually(lambda: list(store.glob("demo/*/*.log.gz")))
            printed = gateway.wait_for('"line":"last"')

    assert gzip.decompress(log.read_bytes()) == b"first\nlast\n"
    assert json.loads(printed)["run"] == run.id


def test_address_that_is_not_allowed_is_listed_with_the_setting_that_lacks_it(
    tmp_path: Path, sqlite_schema_url: str, vhost: str
) -> None:
    with (
        Deployment(tmp_path, database_url=sqlite_schema_url, broker_url=vhost) as deployment,
        GatewayCase(deployment, tmp_path) as case,
    ):
        deployment.await_schedulers(deployment.scheduler())
        case.gateway(gateway_allow="10.0.0.0/8")
        executor = {
            "registryGroup": "EXECUTOR",
            "registryKey": deployment.app,
            "registryValue": "http://127.0.0.1:9999/",
        }

        answer = case.call("registry", executor)
        eventually(lambda: case.listed() == {"127.0.0.1:9999": "draining"}, every=0.2)
        listed = deployment.warren("executors", "list")

    advice = "is not listed in WARREN_GATEWAY_ALLOW; add it there and restart the gateway"
    assert answer["msg"] == f"127.0.0.1:9999 {advice}"
    assert "problems: address" in listed
    assert f"no new runs start on demo/127.0.0.1:9999: its address {advice}" in listed
