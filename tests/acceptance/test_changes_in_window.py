"""Changes of a job whose next ticks are rows already: no tick is lost, none fires twice."""

from collections import Counter

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import RunStatus

EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}


def test_stop_and_start_within_the_window_fire_no_tick_twice(fleet: Deployment) -> None:
    fleet.job("ticking", **EVERY_SECOND)
    eventually(lambda: len(_planned(fleet, "ticking")) >= 3 and _succeeded(fleet, "ticking"))

    fleet.warren("jobs", "stop", "demo/ticking")
    assert _planned(fleet, "ticking") == []
    cancelled = fleet.runs("ticking", status=RunStatus.CANCELLED)
    fleet.warren("jobs", "start", "demo/ticking")
    last_cancelled = max(run.scheduled_at for run in cancelled)
    eventually(lambda: _succeeded(fleet, "ticking")[-1].scheduled_at > last_cancelled)

    _stop_and_settle(fleet)
    ticks = Counter(run.scheduled_at for run in fleet.runs("ticking"))
    assert set(ticks.values()) == {1}
    started = {start["run"] for start in fleet.starts()}
    assert started.isdisjoint(run.id for run in cancelled)


def test_edit_within_the_window_fires_by_the_new_schedule_and_loses_no_tick(
    fleet: Deployment,
) -> None:
    fleet.job("edited", **EVERY_SECOND)
    eventually(lambda: len(_planned(fleet, "edited")) >= 3 and _succeeded(fleet, "edited"))

    fleet.job("edited", **EVERY_SECOND | {"schedule_value": "0/3 * * * * ?"})
    cancelled = fleet.runs("edited", status=RunStatus.CANCELLED)
    last_cancelled = max(run.scheduled_at for run in cancelled)
    eventually(lambda: _succeeded(fleet, "edited")[-1].scheduled_at > last_cancelled)

    _stop_and_settle(fleet)
    runs = fleet.runs("edited")
    assert set(Counter(run.scheduled_at for run in runs).values()) == {1}
    later = [run.scheduled_at for run in runs if run.scheduled_at > last_cancelled]
    assert later
    assert {tick % 3_000 for tick in later} == {0}


def _planned(fleet: Deployment, job: str) -> list:
    return fleet.runs(job, status=RunStatus.PLANNED)


def _succeeded(fleet: Deployment, job: str) -> list:
    return fleet.runs(job, status=RunStatus.SUCCEEDED)


def _stop_and_settle(fleet: Deployment) -> None:
    fleet.stop_jobs()
    fleet.await_all_final()
