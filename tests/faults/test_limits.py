"""Schedulers and executors ended by SIGKILL: a limit is never exceeded, and nothing leaks."""

from sqlalchemy import select

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.models import Hold
from warren.sql.run_status import FINAL, RunStatus

AT_ONCE, RUNS = 3, 40


def test_a_limit_holds_while_schedulers_and_executors_die(survivors: Deployment) -> None:
    survivors.app = "limited-app"
    company = survivors.folder / "company" / "counts"
    survivors.commands.limit("warehouse", at_once=AT_ONCE)
    second, third = survivors.scheduler(), survivors.scheduler()
    executors = {name: survivors.executor(name) for name in ("first", "second")}
    survivors.await_schedulers(second, third)
    survivors.await_executors(*executors.values())
    fields = {"handler": "counts-company", "route": "ROUND", "concurrency": 10}
    for name in ("load", "clean"):
        delivery = {"delivery": "AT_LEAST_ONCE", "retries": 3}
        survivors.job(name, limits=("warehouse",), **fields, **delivery)

    run_ids = [survivors.trigger(name) for _ in range(RUNS // 2) for name in ("load", "clean")]
    _await_ended(survivors, run_ids, RUNS // 4)
    second.kill()
    _await_ended(survivors, run_ids, RUNS // 3)
    executors["first"].kill()
    survivors.executor("first")
    _await_ended(survivors, run_ids, RUNS // 2)
    third.kill()

    for run_id in run_ids:
        survivors.await_success(run_id)
    counts = [int(line) for line in company.read_text().splitlines()]
    assert len(counts) >= RUNS
    assert max(counts) <= AT_ONCE
    eventually(lambda: not _holds(survivors))


def _await_ended(survivors: Deployment, run_ids: list[int], count: int) -> None:
    def have_ended() -> bool:
        runs = [run for run in survivors.runs() if run.id in run_ids]
        return sum(run.status in FINAL for run in runs) >= count

    eventually(have_ended)


def _holds(survivors: Deployment) -> list[int]:
    """Return the runs that hold limits although all have ended."""
    open_runs = [run for run in survivors.runs() if run.status not in FINAL]
    assert [run.status for run in open_runs] in ([], [RunStatus.PLANNED])
    held = select(Hold.run_id)
    return list(survivors.database.read(lambda session: session.execute(held).scalars()))
