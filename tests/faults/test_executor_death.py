"""An executor ended by SIGKILL, at any instruction, that comes back: what it left is settled."""

import contextlib
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import Process, descendants
from tests.support.sql_rows import trigger_at_once, trigger_each
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import Run
from warren.sql.run_status import RunStatus

SLOTS = 4


def test_f08_f09_executor_that_returns_tells_what_became_of_its_runs(
    survivors: Deployment, tmp_path: Path
) -> None:
    survivors.app = "returning-app"
    release = tmp_path / "release"
    executor = survivors.executor("returning")
    survivors.await_executors(executor)
    survivors.job("once", handler="until-file", param=str(release), retries=3)
    survivors.job(
        "at-least-once",
        handler="until-file",
        param=str(release),
        delivery="AT_LEAST_ONCE",
        retries=1,
    )
    survivors.job("hangs", handler="stubborn", retries=3)
    at_work = [survivors.trigger(job) for job in ("once", "at-least-once", "hangs")]
    for run_id in at_work:
        survivors.await_start(run_id)
    waiting = [survivors.trigger("once") for _ in range(5)]
    for run_id in waiting:
        survivors.await_status(run_id, RunStatus.SENT)
    eventually(lambda: len(survivors.processes_of_runs()) > 5)

    executor.kill()

    eventually(lambda: not survivors.strays())
    assert survivors.processes_of_runs() == []
    release.touch()
    survivors.await_executors(survivors.executor("returning"))
    once, at_least_once, hangs = survivors.await_final(*at_work)
    assert {once.status, at_least_once.status, hangs.status} == {RunStatus.LOST}
    assert [run.status for run in survivors.runs("hangs")] == [RunStatus.LOST]
    eventually(lambda: _statuses(survivors, "at-least-once") == ["LOST", "SUCCEEDED"])
    for run_id in waiting:
        again = eventually(lambda it=run_id: _succeeded_again(survivors, it), 60)
        assert again.attempt == 1
        assert survivors.status(run_id) == RunStatus.UNDELIVERED


def test_executor_killed_while_runs_are_assigned_early_loses_only_the_one_that_had_begun(
    survivors: Deployment, tmp_path: Path
) -> None:
    survivors.app = "ahead-app"
    files = [tmp_path / name for name in ("blocker", "head")]
    executor = survivors.executor("ahead")
    survivors.await_executors(executor)
    survivors.job("line", handler="until-file", param=str(files[1]))
    first = survivors.trigger("line", param=str(files[0]))
    survivors.await_start(first)
    head, *others = [survivors.trigger("line") for _ in range(7)]
    for run_id in (head, *others):
        survivors.await_status(run_id, RunStatus.SENT)
    files[0].touch()
    survivors.await_start(head)

    executor.kill()

    eventually(lambda: not survivors.strays())
    files[1].touch()
    survivors.await_executors(survivors.executor("ahead"))
    assert [run.status for run in survivors.await_final(head)] == [RunStatus.LOST]
    for run_id in others:
        assert eventually(lambda it=run_id: _succeeded_again(survivors, it), 60).attempt == 1


@pytest.mark.parametrize(
    ("point", "seen"),
    [
        pytest.param("trigger-accepted", None, id="f09-before-ack"),
        pytest.param("run-started", None, id="f08-after-start", marks=pytest.mark.release),
        pytest.param("run-ended", RunStatus.LOST, id="f10-after-exit-before-journal"),
        pytest.param(
            "run-reported", RunStatus.SUCCEEDED, id="f11-after-callback", marks=pytest.mark.release
        ),
    ],
)
def test_executor_killed_at_an_instruction_loses_at_most_what_was_at_work(
    survivors: Deployment, point: str, seen: RunStatus | None
) -> None:
    survivors.app = f"{point}-app"
    doomed = survivors.executor(point, fate=("SIGKILL", point), slots=SLOTS)
    survivors.await_executors(doomed)
    survivors.job("work", concurrency=SLOTS)

    # Due at once, they come in one message.
    row = survivors.job_row("work")
    run_ids = trigger_at_once(survivors.database, row, 10, now_ms=survivors.now_ms())
    assert doomed.wait() == -signal.SIGKILL
    eventually(lambda: not survivors.strays())
    survivors.await_executors(survivors.executor(point))
    survivors.await_all_final()

    runs = survivors.runs("work")
    last = {run.origin_id: run.status for run in runs}
    assert set(last) == set(run_ids)
    assert set(last.values()) <= {RunStatus.SUCCEEDED, RunStatus.LOST}
    assert list(last.values()).count(RunStatus.LOST) <= SLOTS
    assert seen in {None, *(run.status for run in runs if run.attempt == 0)}


def test_storm_in_which_spares_zygote_and_executor_are_killed_starts_each_run_at_most_once(
    survivors: Deployment,
) -> None:
    survivors.app = "stormy-app"
    doomed = survivors.executor("stormy", slots=SLOTS, spare_processes=SLOTS)
    survivors.await_executors(doomed)
    names = [f"storm-{number}" for number in range(60)]
    app = survivors.app
    survivors.jobs(*(JobSpec(name=name, app=app, handler="brief") for name in names))
    jobs = [survivors.job_row(name) for name in names]
    eventually(lambda: len(_named(doomed, "warren-spare")) == SLOTS)

    run_ids = trigger_each(survivors.database, jobs, now_ms=survivors.now_ms())
    _await_starts(survivors, run_ids, 1)
    _kill_all(doomed, "warren-spare")
    _await_starts(survivors, run_ids, 15)
    _kill_all(doomed, "warren-zygote")
    _await_starts(survivors, run_ids, 30)
    doomed.kill()
    eventually(lambda: not survivors.strays())
    survivors.await_executors(survivors.executor("stormy"))
    survivors.await_all_final()

    statuses = [run.status for run in survivors.runs() if run.origin_id in run_ids]
    assert statuses.count(RunStatus.SUCCEEDED) >= len(names) - 3 * SLOTS
    started = Counter(start["run"] for start in survivors.starts())
    assert max(started.values()) == 1


def _await_starts(survivors: Deployment, run_ids: list[int], count: int) -> None:
    def started() -> int:
        return len({start["run"] for start in survivors.starts()} & set(run_ids))

    eventually(lambda: started() >= count, 60)


def _named(command: Command, name: str) -> list[Process]:
    return [process for process in descendants(command.pid) if process.name == name]


def _kill_all(command: Command, name: str) -> None:
    for process in _named(command, name):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(process.pid, signal.SIGKILL)


def _statuses(survivors: Deployment, job: str) -> list[str]:
    return [str(run.status) for run in survivors.runs(job)]


def _succeeded_again(survivors: Deployment, run_id: int) -> Run | None:
    found = survivors.runs(origin_id=run_id, status=RunStatus.SUCCEEDED)
    return found[0] if found else None
