"""Consoles that freeze or die in the middle of what they do; schedules go on as if nothing were."""

import signal

from sql.accounts.users import Role
from sql.dialects.mysql import WRITING_IDLE_LIMIT_SECONDS
from sql.run_status import Kind
from tests.support.acting import NamedUsers
from tests.support.caller import Caller
from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import identify

PASSWORD = "a password for the tests"
EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}
#: Ticks that are looked at, from the moment on at which nothing but what is frozen is left.
TICKS = 5
#: How late a run may start on a busy machine; 20 ms is usual.
LATE_MS = 2_000


def test_jobs_fire_on_time_while_consoles_are_frozen_and_killed(survivors: Deployment) -> None:
    NamedUsers(survivors.database, who="the tests").add(
        "alice", PASSWORD, role=Role.ADMINISTRATOR, app_names=()
    )
    reading = survivors.console("SIGSTOP", "page-read")
    writing = survivors.console("SIGSTOP", "waitress:before-commit")
    doomed = survivors.console("SIGKILL", "waitress:before-commit")
    visits = {console: _visit(console) for console in (reading, writing, doomed)}
    for name in ("free", "held", "dropped"):
        survivors.job(name, **EVERY_SECOND)
    eventually(lambda: all(map(survivors.runs, ("free", "held", "dropped"))))

    # Who stops a job cancels what is planned of it: those rows are locked until the commit.
    since_ms = survivors.now_ms()
    page = visits[reading].open("/runs")
    stopping = visits[writing].send("/jobs/stop", id=survivors.job_row("held").id)
    visits[doomed].send("/jobs/stop", id=survivors.job_row("dropped").id)
    eventually(lambda: {identify(one.pid).state for one in (reading, writing)} == {"T"})
    assert doomed.wait(30) == -signal.SIGKILL
    late = {name: _late_ms(survivors, name, since_ms) for name in ("free", "held", "dropped")}
    for console in (reading, writing):
        console.send(signal.SIGCONT)
    survivors.stop_jobs()

    assert max(late["free"] + late["dropped"]) < LATE_MS, late
    # Only the job that was being changed waits, until the database undoes the change.
    assert max(late["held"]) < WRITING_IDLE_LIMIT_SECONDS * 1000 + LATE_MS
    assert visits[reading].hear(page).status == 200
    assert visits[writing].hear(stopping).status == 503


def _visit(console: Command) -> Caller:
    web = Caller(console.wait_for("console: ").split()[1])
    web.sign_in("alice", PASSWORD)
    return web


def _late_ms(survivors: Deployment, name: str, since_ms: int) -> list[int]:
    """Wait for a job's ticks from an instant on, none left out; return how late each started."""
    first_ms = since_ms // 1000 * 1000 + 1000
    wanted = range(first_ms, first_ms + TICKS * 1000, 1000)
    job_id = survivors.job_row(name).id

    def look() -> dict[int, int]:
        started = {s["tick"]: s["at"] for s in survivors.starts() if s["job"] == job_id}
        missing = [tick for tick in wanted if tick not in started]
        assert missing == [], f"{name}: {missing}"
        return started

    started = eventually(look, TICKS + 15, every=0.05)
    assert {run.kind for run in survivors.runs(name)} == {Kind.SCHEDULE}
    assert survivors.skips(name) == []
    return [started[tick] - tick for tick in wanted]
