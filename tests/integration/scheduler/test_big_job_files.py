"""Job files with many jobs: few statements, no lock on what stays as it is, all in order."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from tests.support.cluster import APP, Cluster
from tests.support.sql_rows import statements
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.models import AuditEntry, History, Job

COUNT = 1_400


def specs(count: int, **fields: object) -> list[JobSpec]:
    facts: dict[str, object] = {
        "handler": "noop",
        "app": APP,
        "schedule_kind": "CRON",
        "schedule_value": "0 0 2 * * ?",
        "enabled": True,
    }
    return [JobSpec(name=f"job{number}", **(facts | fields)) for number in range(count)]  # type: ignore[arg-type]


def apply(cluster: Cluster, wanted: list[JobSpec], *, dry_run: bool = False) -> list[Change]:
    changes = cluster.commands().apply([AppSpec(name=APP)], wanted, dry_run=dry_run, prune=False)
    return [change for change in changes if change.what == "job"]


def test_many_new_jobs_take_few_statements_and_each_has_its_history_and_trail(
    cluster: Cluster,
) -> None:
    with statements(cluster.database) as sent:
        changes = apply(cluster, specs(COUNT))

    # SQLite, which is asked in this process, gets a statement for each row.
    assert len(sent) < (4 * COUNT if cluster.database.dialect.is_embedded else COUNT / 10)
    assert [change.name for change in changes] == [f"{APP}/{s.name}" for s in specs(COUNT)]
    assert {change.action for change in changes} == {"create"}
    made = cluster.jobs()
    assert {(job.is_enabled, job.next_tick_at > 0) for job in made} == {(1, True)}
    history, trail = cluster.database.read(
        lambda session: (
            list(session.execute(select(History.job_id)).scalars()),
            list(session.execute(select(AuditEntry.object_id).filter_by(kind="job")).scalars()),
        )
    )
    assert sorted(history) == sorted(trail) == [job.id for job in made]


def test_many_jobs_that_stay_as_they_are_take_few_statements(cluster: Cluster) -> None:
    apply(cluster, specs(COUNT))

    with statements(cluster.database) as sent:
        changes = apply(cluster, specs(COUNT), dry_run=True)

    assert len(sent) < COUNT / 50
    assert {change.action for change in changes} == {"unchanged"}


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ({}, "create"),
        ({"param": "new", "schedule_value": "0 0 3 * * ?"}, "update"),
        ({"enabled": False}, "stop"),
        ({"handler": "", "script_language": "shell", "script_source": "echo 2"}, "update"),
    ],
)
def test_a_dry_run_of_many_jobs_takes_few_statements_whatever_it_would_do(
    cluster: Cluster, fields: dict[str, object], action: str
) -> None:
    if action != "create":
        script = {"handler": "", "script_language": "shell", "script_source": "echo 1"}
        apply(cluster, specs(COUNT, **(script if "script_source" in fields else {})))

    with statements(cluster.database) as sent:
        changes = apply(cluster, specs(COUNT, **fields), dry_run=True)

    assert len(sent) < COUNT / 50
    assert {change.action for change in changes} == {action}


def test_a_dry_run_of_a_long_chain_of_jobs_takes_few_statements(cluster: Cluster) -> None:
    *others, last = specs(COUNT)
    chain = [*(replace(one, children=(f"job{n}",)) for n, one in enumerate(others, 1)), last]
    turned = [replace(one, children=(f"job{n - 1}",) if n else ()) for n, one in enumerate(chain)]

    with statements(cluster.database) as sent_for_new:
        apply(cluster, chain, dry_run=True)
    apply(cluster, chain)
    with statements(cluster.database) as sent_for_turned:
        changes = apply(cluster, turned, dry_run=True)

    assert len(sent_for_new) < COUNT / 50
    assert len(sent_for_turned) < COUNT / 50
    assert {change.action for change in changes} == {"update"}


def test_a_job_that_stays_as_it_is_is_not_locked(cluster: Cluster) -> None:
    if cluster.database.dialect.is_embedded:
        pytest.skip("SQLite locks no single rows")
    apply(cluster, specs(3))

    def hold(session: object) -> list[Change]:
        session.execute(select(Job).with_for_update()).all()  # type: ignore[attr-defined]
        return apply(cluster, specs(3))

    changes = cluster.database.write(hold)

    assert {change.action for change in changes} == {"unchanged"}


def test_only_what_differs_of_many_jobs_is_changed(cluster: Cluster) -> None:
    apply(cluster, specs(10))
    changed = specs(10)
    changed[3] = specs(10, param="new")[3]
    changed[5] = specs(10, enabled=False)[5]

    found = {change.name: change.action for change in apply(cluster, changed)}

    assert {name: action for name, action in found.items() if action != "unchanged"} == {
        f"{APP}/job3": "update",
        f"{APP}/job5": "stop",
    }
    assert [job.param for job in cluster.jobs(name="job3")] == ["new"]


def test_a_new_job_that_can_never_fire_is_refused_with_all_the_others(cluster: Cluster) -> None:
    bad = JobSpec(name="never", app=APP, handler="noop", enabled=True)

    with pytest.raises(ValueError, match="cannot start job never: it has no schedule"):
        apply(cluster, [*specs(3), bad])

    assert cluster.jobs() == []


def test_a_job_that_is_named_twice_is_made_once_and_then_changed(cluster: Cluster) -> None:
    first, second = specs(1)[0], specs(1, param="later")[0]

    changes = apply(cluster, [first, second])

    assert [change.action for change in changes] == ["create", "update"]
    assert [job.param for job in cluster.jobs()] == ["later"]
