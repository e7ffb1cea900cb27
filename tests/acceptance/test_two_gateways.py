"""Two gateways share executors of XXL-JOB's protocol, and one of them is killed."""

from pathlib import Path

from benchmarks.gateway.two_gateways import Losses, TwoGateways
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import RunStatus

RUN_SECONDS = 1.0
#: How long a gateway may be silent before another takes over its executors.
SILENT_SECONDS = 15.0
RUNS = 12


def test_runs_of_a_killed_gateway_go_on_at_the_one_that_takes_over(
    tmp_path: Path, sqlite_schema_url: str, vhost: str
) -> None:
    with Deployment(tmp_path, database_url=sqlite_schema_url, broker_url=vhost) as deployment:
        deployment.await_schedulers(deployment.scheduler())
        pair = TwoGateways(deployment, count=1, run_seconds=RUN_SECONDS, register_seconds=1.0)
        with pair:
            deployment.job("remote", handler="any")
            run_ids = [deployment.trigger("remote") for _ in range(RUNS)]
            # One is running there, the others wait in the gateway.
            eventually(lambda: [deployment.status(run_id) for run_id in run_ids[1:]] == SENT)
            killed_ms = deployment.now_ms()
            pair.kill(0)
            in_queue = deployment.trigger("remote")
            pair.gateways[1].wait_for("executor_welcomed")
            taken_over_ms = deployment.now_ms()
            deployment.await_success(in_queue)
            # By then, the schedulers have asked about the runs of the first one.
            for _ in range(3):
                deployment.await_success(deployment.trigger("remote"))
            pair.restart(0)

            deployment.await_all_final()

            losses = Losses.of(deployment.runs(), pair.called())
        assert losses.statuses[RunStatus.LOST] == 0, str(losses)
        assert losses.doubled == losses.unrun == []
        assert (taken_over_ms - killed_ms) / 1000 >= SILENT_SECONDS - 6
        for run_id in run_ids:
            deployment.await_success(run_id)


SENT = [RunStatus.SENT] * (RUNS - 1)
