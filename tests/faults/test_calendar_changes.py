"""Schedulers killed while a calendar changes: each due time is decided once, by its version."""

import signal
from datetime import timedelta

import pytest

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import stop
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.instants import moment
from warren.sql.jobs import calendars
from warren.sql.jobs.calendars import VersionRow

EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "timezone": "UTC"}


@pytest.mark.release  # 10 s of it are the time until a version takes effect
def test_due_times_are_decided_once_by_the_version_in_force_while_schedulers_die(
    survivors: Deployment,
) -> None:
    _change(survivors, off=False)
    options = ScheduleOptions(calendar="company")
    survivors.job("working", enabled=True, schedule_options=options, **EVERY_SECOND)
    _die_planning(survivors, "planner:before-commit")
    closed = _change(survivors, off=True)
    _die_planning(survivors, "planner:after-commit")
    eventually(lambda: survivors.now_ms() > closed.effective_at + 1_000, every=0.1)
    survivors.stop_jobs()

    kept = [run for run in survivors.runs("working") if run.status != "CANCELLED"]
    ticks = [run.scheduled_at for run in kept]
    assert ticks == list(range(ticks[0], closed.effective_at, 1_000))
    survivors.await_final(*(run.id for run in kept))


def _die_planning(survivors: Deployment, point: str) -> None:
    """Let a scheduler plan alone, and die in it."""
    [other] = [each for each in survivors.running() if "scheduler_started" in each.text()]
    stop(other.pid)
    try:
        doomed = survivors.scheduler("SIGKILL", point)
        assert doomed.wait() == -signal.SIGKILL
    finally:
        other.send(signal.SIGCONT)


def _change(survivors: Deployment, *, off: bool) -> VersionRow:
    """Store a version of the calendar, in which today and tomorrow are off or not; return it."""
    today = moment(survivors.now_ms()).date()
    days = {str(today + timedelta(days=ahead)): "off" for ahead in (0, 1)} if off else {}
    listed = ", ".join(f"{day}: {said}" for day, said in days.items())
    text = f"calendars: [{{name: company, weekend: [], days: {{{listed}}}, until: 2099-12-31}}]"
    (survivors.folder / "company.yaml").write_text(text)
    survivors.warren("calendars", "apply", "company.yaml", "--yes")
    version = survivors.database.read(lambda session: calendars.newest(session, "company"))
    assert version is not None
    return version
