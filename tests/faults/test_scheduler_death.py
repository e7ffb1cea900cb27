"""A scheduler ended or frozen at the worst instructions, with another one beside it."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import identify, stop
from warren.database_access import registrations
from warren.scheduler.board.keeper import LEASE
from warren.sql.board import job_states
from warren.sql.models import Lease
from warren.sql.registry import presence
from warren.sql.registry.presence import state
from warren.sql.run_status import FINAL, RunStatus

EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            "planner:before-commit", id="f01-planner-before-commit", marks=pytest.mark.release
        ),
        pytest.param("planner:after-commit", id="f01-planner-after-commit"),
        pytest.param(
            "dispatcher:before-commit", id="f01-dispatcher-before-commit", marks=pytest.mark.release
        ),
        pytest.param("dispatcher:after-commit", id="f02-between-commit-and-publish"),
        pytest.param("triggers-published", id="f03-between-publish-and-confirm"),
        pytest.param(
            "callbacks:before-commit", id="f39-callbacks-before-commit", marks=pytest.mark.release
        ),
        pytest.param("callbacks:after-commit", id="f39-between-commit-and-ack"),
    ],
)
def test_sigkill_of_a_scheduler_loses_no_run_and_starts_none_twice(
    survivors: Deployment, point: str
) -> None:
    doomed = survivors.scheduler("SIGKILL", point)
    survivors.await_schedulers(doomed)

    with _frozen_beside(survivors, doomed):
        survivors.job("ticking", **EVERY_SECOND)
        run_ids = _trigger_until(survivors, lambda: not doomed.is_running)
    survivors.stop_jobs()
    assert doomed.wait() == -signal.SIGKILL
    survivors.await_final(*run_ids)

    assert {survivors.status(run_id) for run_id in run_ids} == {RunStatus.SUCCEEDED}
    assert [run_id for run_id in run_ids if len(survivors.runs(origin_id=run_id)) > 1] == []


def test_f03_triggers_of_a_scheduler_killed_before_it_wrote_sent_come_twice_and_start_once(
    survivors: Deployment,
) -> None:
    doomed = survivors.scheduler("SIGKILL", "triggers-confirmed")
    survivors.await_schedulers(doomed)
    before = len(survivors.logged("duplicate_trigger_answered"))

    with _frozen_beside(survivors, doomed):
        # Those that wait for a slot are still ROUTED when they are taken over.
        run_ids = _trigger_until(survivors, lambda: not doomed.is_running, seconds=2.0)
    survivors.await_final(*run_ids)

    assert {survivors.status(run_id) for run_id in run_ids} == {RunStatus.SUCCEEDED}
    assert len(survivors.logged("duplicate_trigger_answered")) > before


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            "dispatcher:before-commit", id="f04-inside-the-claim", marks=pytest.mark.release
        ),
        pytest.param("dispatcher:after-commit", id="f05-between-commit-and-publish"),
        pytest.param(
            "triggers-published", id="f05-between-publish-and-confirm", marks=pytest.mark.release
        ),
    ],
)
def test_frozen_scheduler_holds_nothing_up_for_long_and_wakes_up_harmless(
    survivors: Deployment, point: str
) -> None:
    frozen = survivors.scheduler("SIGSTOP", point)
    survivors.await_schedulers(frozen)

    with _frozen_beside(survivors, frozen):
        survivors.job("ticking", **EVERY_SECOND)
        run_ids = _trigger_until(survivors, lambda: identify(frozen.pid).state == "T")
    node = json.loads(frozen.wait_for("scheduler_started"))["node"]
    # Its locks in the database end with its session, by `wait_timeout`.
    eventually(lambda: _is_taken_over(survivors, node, run_ids), every=0.1)
    survivors.stop_jobs()
    frozen.send(signal.SIGCONT)

    eventually(lambda: _is_beating(survivors, node), every=0.1)
    more = [survivors.trigger("load") for _ in range(5)]
    survivors.await_final(*run_ids, *more)
    assert {survivors.status(i) for i in [*run_ids, *more]} == {RunStatus.SUCCEEDED}


@pytest.mark.release  # a lease lasts 15 s, and the test waits for it twice
def test_another_scheduler_keeps_the_board_after_a_sigkill(survivors: Deployment) -> None:
    doomed = survivors.scheduler()
    survivors.await_schedulers(doomed)
    node = json.loads(doomed.wait_for("scheduler_started"))["node"]
    survivors.job("failing", handler="brief", param="no number")
    with _frozen_beside(survivors, doomed):
        eventually(lambda: _keeper(survivors) == node, every=0.1)
        first = survivors.trigger("failing")
        survivors.await_final(first)
        doomed.send(signal.SIGKILL)
        assert doomed.wait() == -signal.SIGKILL

    second = survivors.trigger("failing")
    survivors.await_final(second)

    eventually(lambda: _failures(survivors, "failing") == 2, every=0.1)
    assert _keeper(survivors) != node


def _keeper(survivors: Deployment) -> str | None:
    holder = select(Lease.holder).where(Lease.lock_name == LEASE)
    return survivors.database.read(lambda session: session.execute(holder).scalar())


def _failures(survivors: Deployment, job: str) -> int:
    job_id = survivors.job_row(job).id
    states = survivors.database.read(lambda session: job_states.rows(session, [job_id]))
    return states[job_id]["failing_count"] if job_id in states else 0


def _trigger_until(
    survivors: Deployment, is_struck: Callable[[], bool], *, seconds: float = 0
) -> list[int]:
    """Give all schedulers work until it has happened to one; return the runs asked for."""
    survivors.job("load", handler="brief", param=str(seconds), concurrency=10)
    run_ids: list[int] = []

    def work() -> bool:
        open_ids = [run_id for run_id in run_ids[-40:] if survivors.status(run_id) not in FINAL]
        if len(open_ids) < 5:
            # Let go all at once, so that one scheduler takes them all.
            survivors.commands.pause()
            run_ids.extend(survivors.trigger("load") for _ in range(12))
            survivors.commands.resume()
        return is_struck()

    eventually(work, every=0.02)
    return run_ids


@contextmanager
def _frozen_beside(survivors: Deployment, scheduler: Command) -> Iterator[None]:
    """Freeze the other scheduler, so that this one gets all the work."""
    [other] = [
        command
        for command in survivors.running()
        if command is not scheduler and "scheduler_started" in command.text()
    ]
    stop(other.pid)
    try:
        yield
    finally:
        other.send(signal.SIGCONT)


def _is_taken_over(survivors: Deployment, node: str, run_ids: list[int]) -> bool:
    """Whether no run waits for the frozen scheduler to publish or to commit."""
    runs = [run for run in survivors.runs() if run.id in run_ids]
    return not [
        run
        for run in runs
        if run.status == RunStatus.PLANNED
        or (run.status == RunStatus.ROUTED and run.routed_by == node)
    ]


def _is_beating(survivors: Deployment, node: str) -> bool:
    rows, now_ms = registrations(survivors.database, presence.ADMIN)
    return any(row.address == node and state(row, now_ms) == "alive" for row in rows)
