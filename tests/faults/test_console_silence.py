"""Consoles that freeze or die in the middle of what they do; schedules go on as if nothing were."""

import signal

from tests.support.acting import NamedUsers
from tests.support.caller import Caller
from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import identify
from warren.sql.accounts.users import Role
from warren.sql.dialects.mysql import WRITING_IDLE_LIMIT_SECONDS
from warren.sql.run_status import Kind

PASSWORD = "a password for the tests"
EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}
#: Ticks that are looked at, of those after the last console froze.
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
    visits[doomed].send("/jobs/stop", id=survivors.job_row("dropped").id)
    eventually(lambda: identify(reading.pid).state == "T")
    assert doomed.wait(30) == -signal.SIGKILL
    stopping = visits[writing].send("/jobs/stop", id=survivors.job_row("held").id)
    eventually(lambda: identify(writing.pid).state == "T")
    frozen_ms = survivors.now_ms()
    late = {
        name: _late_ms(survivors, name, since_ms, frozen_ms) for name in ("free", "held", "dropped")
    }
    for console in (reading, writing):
        console.send(signal.SIGCONT)
    survivors.stop_jobs()

    # Only the job that was being changed waits, until the database undoes the change.
    first = min(tick for tick in late["held"] if tick > frozen_ms)
    assert max(late["free"][first], late["dropped"][first]) < late["held"][first], late
    most_ms = WRITING_IDLE_LIMIT_SECONDS * 1000 + LATE_MS
    assert max(ms for of_job in late.values() for ms in of_job.values()) < most_ms, late
    assert visits[reading].hear(page).status == 200
    assert visits[writing].hear(stopping).status == 503


def _visit(console: Command) -> Caller:
    web = Caller(console.wait_for("console: ").split()[1])
    web.sign_in("alice", PASSWORD)
    return web


def _late_ms(survivors: Deployment, name: str, since_ms: int, frozen_ms: int) -> dict[int, int]:
    """Wait for a job's ticks from an instant on, none left out; return how late each started."""
    first_ms, frozen_tick_ms = (ms // 1000 * 1000 + 1000 for ms in (since_ms, frozen_ms))
    wanted = range(first_ms, frozen_tick_ms + TICKS * 1000, 1000)
    job_id = survivors.job_row(name).id

    def look() -> dict[int, int]:
        started = {s["tick"]: s["at"] for s in survivors.starts() if s["job"] == job_id}
        missing = [tick for tick in wanted if tick not in started]
        assert missing == [], f"{name}: {missing}"
        return started

    started = eventually(look, TICKS + 15, every=0.05)
    assert {run.kind for run in survivors.runs(name)} == {Kind.SCHEDULE}
    assert survivors.skips(name) == []
    return {tick: started[tick] - tick for tick in wanted}
