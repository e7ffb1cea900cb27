"""Callbacks that come too often, too early or too late: the first final state stays."""

from pathlib import Path

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.broker.messages import Callback, Finished, Outcome, Report
from warren.broker.signing import Direction
from warren.broker.topology import CALLBACK_KEY, REPLY_EXCHANGE
from warren.broker.transport import Confirm
from warren.sql.models import Run
from warren.sql.run_status import RunStatus


def test_callback_delivered_three_times_is_stored_once_and_retried_once(
    fleet: Deployment, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    fleet.job("reported", handler="until-file", param=str(release), retries=5)
    run_id = fleet.trigger("reported")
    run = fleet.await_status(run_id, RunStatus.RUNNING)

    _report(fleet, run, *[_finished(run, Outcome.FAILED, "by hand")] * 3)
    eventually(lambda: len(fleet.runs("reported")) == 2)
    _report(fleet, run, _finished(run, Outcome.TIMED_OUT, "too late"))
    release.touch()  # now the executor itself says SUCCEEDED of the first attempt, also too late

    eventually(lambda: fleet.runs("reported", status=RunStatus.SUCCEEDED))
    first, second = fleet.runs("reported")
    assert (first.status, first.message, first.late_status) == ("FAILED", "by hand", None)
    assert (second.attempt, second.status) == (1, "SUCCEEDED")


def test_callback_that_overtakes_the_confirm_is_not_undone_by_it(
    deployment: Deployment, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    scheduler = deployment.scheduler(str(release), "triggers-published")
    executor = deployment.executor()
    deployment.await_schedulers(scheduler)
    deployment.await_executors(executor)
    deployment.job("quick")

    run_id = deployment.trigger("quick")
    early = deployment.await_status(run_id, RunStatus.SUCCEEDED)
    release.touch()
    deployment.await_status(deployment.trigger("quick"), RunStatus.SUCCEEDED)

    assert early.sent_at is None
    assert (early.trigger_code, early.handle_code) == (200, 200)
    late = deployment.run(run_id)
    assert (late.status, late.trigger_code, late.handle_code) == ("SUCCEEDED", 200, 200)
    assert late.finished_at == early.finished_at


def test_callback_of_another_boot_moves_no_run(fleet: Deployment, tmp_path: Path) -> None:
    release = tmp_path / "release"
    fleet.job("guarded", handler="until-file", param=str(release))
    run = fleet.await_status(fleet.trigger("guarded"), RunStatus.RUNNING)

    _report(fleet, run, _finished(run, Outcome.FAILED, "not mine", boot_id="another-boot"))
    _report(fleet, run, _finished(run, Outcome.FAILED, "not mine"), address="elsewhere")
    release.touch()

    assert fleet.await_final(run.id)[0].status == RunStatus.SUCCEEDED


def _finished(run: Run, outcome: Outcome, message: str, boot_id: str = "") -> Finished:
    return Finished(
        run_id=run.id,
        boot_id=boot_id or run.boot_id or "",
        outcome=outcome,
        message=message,
        finished_at_ms=run.routed_at or 0,
    )


def _report(deployment: Deployment, run: Run, *reports: Report, address: str = "") -> None:
    """Say something in the executor's name: each report in a callback of its own."""
    sender = address or run.address or ""
    messages = [
        deployment.sealer().seal(
            Callback(app="demo", address=sender, boot_id=run.boot_id or "", reports=(report,)),
            exchange=REPLY_EXCHANGE,
            routing_key=CALLBACK_KEY,
            app="demo",
            address=sender,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=60,
        )
        for report in reports
    ]
    assert set(deployment.publish(*messages)) == {Confirm.CONFIRMED}
