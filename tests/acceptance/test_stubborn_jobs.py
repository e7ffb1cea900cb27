"""Jobs that ignore SIGTERM and hide processes in other sessions: nothing of them is left."""

import pytest

from tests.support.deployment import GRACE_SECONDS, Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import RunStatus

# A daemon and its child, two of each; a shell and two that sleep.
HIDDEN_PROCESSES = 7
#: In which all of them have started, on a busy machine too.
TIMEOUT_SECONDS = 10


def test_timeout_ends_a_stubborn_job_with_its_daemons_in_other_sessions(fleet: Deployment) -> None:
    fleet.job("hangs", handler="stubborn", timeout=TIMEOUT_SECONDS)

    run_id = fleet.trigger("hangs")
    fleet.await_start(run_id)
    hidden = eventually(lambda: _all_hidden(fleet, run_id), TIMEOUT_SECONDS)
    run = fleet.await_status(run_id, RunStatus.TIMED_OUT)

    assert [process for process in hidden if process.is_alive] == []
    assert fleet.processes_of_runs(run_id) == []
    assert (run.trigger_code, run.handle_code) == (200, 502)
    assert (run.finished_at - run.started_at) / 1000 >= TIMEOUT_SECONDS
    words = f"still running {GRACE_SECONDS:.0f} s after SIGTERM, killed with SIGKILL"
    assert words in run.message


@pytest.mark.release
def test_kill_ends_a_stubborn_job_with_its_daemons_in_other_sessions(fleet: Deployment) -> None:
    fleet.job("hangs-on", handler="stubborn")
    run_id = fleet.trigger("hangs-on")
    fleet.await_start(run_id)
    hidden = eventually(lambda: _all_hidden(fleet, run_id))

    said = fleet.warren("runs", "kill", str(run_id))

    run = fleet.await_status(run_id, RunStatus.KILLED)
    assert said == f"run {run_id}: kill requested\n"
    assert [process for process in hidden if process.is_alive] == []
    assert fleet.processes_of_runs(run_id) == []
    assert run.handle_code == 500


def _all_hidden(fleet: Deployment, run_id: int) -> list:
    found = fleet.processes_of_runs(run_id)
    return found if len(found) >= HIDDEN_PROCESSES else []
