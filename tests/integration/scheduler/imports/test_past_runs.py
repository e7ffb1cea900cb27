"""Finished runs that arrive: none takes the id of a run to come."""

from tests.support.cluster import APP, Cluster
from tests.support.sql_rows import new_run, plan
from warren.scheduler.actor import Actor
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.imports.importer import Importer, ImportOptions
from warren.scheduler.imports.items import ImportedApp, ImportedJob, ImportedRun, ImportItems
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.ids import RunIds
from warren.sql.instants import at
from warren.sql.run_status import RunStatus


def importer(cluster: Cluster) -> Importer:
    context = CommandContext(
        database=cluster.database, now_ms=cluster.now_ms, actor=Actor(who="test")
    )
    today = at(cluster.now_ms()).date()
    return Importer(context, ImportOptions(source="elsewhere", overwrite=False, today=today))


def items(highest_run_id: int) -> ImportItems:
    return ImportItems(
        apps=[ImportedApp(source_id=9, spec=AppSpec(name=APP))],
        jobs=[ImportedJob(source_id=1, spec=JobSpec(name="old", app=APP, handler="noop"))],
        highest_run_id=highest_run_id,
    )


def run(run_id: int, at_ms: int) -> ImportedRun:
    return ImportedRun(
        source_id=run_id,
        job_id=1,
        status=RunStatus.SUCCEEDED,
        codes=(200, 200),
        address="",
        handler="noop",
        param="",
        sharding="",
        triggered_ms=at_ms,
        finished_ms=at_ms,
        trigger_message="",
        message="",
    )


def test_imported_run_takes_no_id_that_a_process_holds_for_a_run_to_come(cluster: Cluster) -> None:
    held, now_ms = RunIds(cluster.database), cluster.now_ms()
    held.reserve()
    one = importer(cluster)
    one.write(items(3_000))

    counts = one.write_runs([run(run_id, now_ms - 60_000) for run_id in range(1, 3_001)])

    taken = held.take_one()
    plan(cluster.database, new_run(run_id=taken, job_id=7, scheduled_at=now_ms, due_at=now_ms))
    assert [found.id for found in cluster.runs() if found.job_id == 7] == [taken]
    assert counts.added + counts.taken == 3_000
    assert 0 < counts.taken < 3_000


def test_second_source_brings_its_runs_beside_those_given_since(cluster: Cluster) -> None:
    now_ms = cluster.now_ms()
    one = importer(cluster)
    one.write(items(100))
    given = plan(cluster.database, new_run(job_id=7, scheduled_at=now_ms, due_at=now_ms))
    one.write(items(given[0] + 10_000))

    counts = one.write_runs([run(5, now_ms), run(given[0], now_ms - 1), run(1_009_000, now_ms)])

    assert (counts.added, counts.known, counts.taken) == (2, 0, 1)
