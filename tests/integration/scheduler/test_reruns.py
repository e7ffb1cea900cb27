"""Runs that are repeated for their due time: with whose settings, what follows, what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete

from tests.integration.scheduler.family import SENT, end, tick_in_flight
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.sql_rows import put, side_by_side
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.reruns import Outcome, RerunOptions
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.registry import WAITING_KINDS
from warren.sql.accounts.idempotency import FormKey, IdempotentRequest
from warren.sql.instants import at
from warren.sql.run_status import RunStatus

FAILED, SUCCEEDED = RunStatus.FAILED, RunStatus.SUCCEEDED
FORM = FormKey(user_id=1, key="k" * 22)

pytestmark = on_memory


@pytest.fixture
def commands(cluster: Cluster) -> Commands:
    return acting(cluster.database, cluster.now_ms, who="test")


def spec(name: str, *children: str, **fields: Any) -> JobSpec:
    facts = {"app": APP, "handler": "noop", "children": children}
    return JobSpec(name=name, **(facts | fields))


def parent(cluster: Cluster, **how: Any) -> list[int]:
    """Make a parent with one child, and one tick of it in flight; return its runs' ids."""
    hourly = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
    cluster.apply(spec("parent", "child", **hourly), spec("child"))
    return tick_in_flight(cluster, "parent", **how)


def again(commands: Commands, *run_ids: int, **options: Any) -> list[int]:
    """Run runs again and let executors hold the new ones; return their ids."""
    new_ids, _ = commands.runs.rerun(run_ids, RerunOptions(**options))
    return new_ids


def sent(cluster: Cluster, *run_ids: int) -> list[int]:
    put(cluster.database, run_ids, status=SENT, routed_at=cluster.now_ms())
    return list(run_ids)


def children(cluster: Cluster) -> list[int]:
    return [run.origin_id for run in cluster.runs(kind="PARENT")]


def refusal(commands: Commands, *run_ids: int, **options: Any) -> Code:
    with pytest.raises(Problem) as caught:
        again(commands, *run_ids, **options)
    return caught.value.code


def faults(cluster: Cluster) -> list[str]:
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    return [
        f"{job.name} {kind} {fault.why or ''}"
        for job in report.jobs
        for kind, found in (("lost", job.lost), ("doubled", job.doubled))
        for fault in found
    ]


# -- the run ----------------------------------------------------------------------------------


def test_a_rerun_has_the_due_time_param_and_version_of_the_original(
    cluster: Cluster, commands: Commands
) -> None:
    [run_id] = parent(cluster, scheduled_at=77_000)
    put(cluster.database, [run_id], param="the 24th", handler="old", script_version=None)
    end(cluster, run_id, status=FAILED)
    cluster.set_job("parent", param="the 25th", handler="new", retries=2)

    [new_id] = again(commands, run_id)

    run = cluster.run(new_id)
    assert (run.kind, run.rerun_of, run.origin_id) == ("RERUN", run_id, new_id)
    assert (run.scheduled_at, run.param, run.handler) == (77_000, "the 24th", "old")
    assert (run.status, run.attempt, run.retries_left) == ("PLANNED", 0, 2)
    assert run.due_at > 77_000


def test_a_rerun_can_take_the_jobs_settings_of_now(cluster: Cluster, commands: Commands) -> None:
    [run_id] = parent(cluster, scheduled_at=77_000)
    put(cluster.database, [run_id], param="the 24th")
    end(cluster, run_id, status=FAILED)
    cluster.set_job("parent", param="the 25th", handler="new")

    [new_id] = again(commands, run_id, current=True)

    run = cluster.run(new_id)
    assert (run.scheduled_at, run.param, run.handler) == (77_000, "the 25th", "new")


def test_a_retry_of_a_rerun_is_of_the_same_origin_and_due_time(
    cluster: Cluster, commands: Commands
) -> None:
    [run_id] = parent(cluster, scheduled_at=77_000)
    end(cluster, run_id, status=FAILED)
    cluster.set_job("parent", retries=1)
    [new_id] = again(commands, run_id, children=False)

    [retry_id] = end(cluster, *sent(cluster, new_id), status=FAILED).planned

    retry = cluster.run(retry_id)
    assert (retry.kind, retry.attempt, retry.scheduled_at) == ("RETRY", 1, 77_000)
    assert (retry.origin_id, retry.rerun_of, retry.without_children) == (new_id, run_id, 1)


def test_shards_that_run_again_together_have_one_origin(
    cluster: Cluster, commands: Commands
) -> None:
    run_ids = parent(cluster, shards=4)
    end(cluster, run_ids[0], run_ids[2])
    end(cluster, run_ids[1], run_ids[3], status=FAILED)

    new_ids = again(commands, run_ids[3], run_ids[1])

    runs = [cluster.run(run_id) for run_id in new_ids]
    assert [(run.shard_index, run.shard_total) for run in runs] == [(1, 4), (3, 4)]
    assert {run.origin_id for run in runs} == {new_ids[0]}


def test_a_request_that_comes_twice_runs_once(cluster: Cluster, commands: Commands) -> None:
    [run_id] = parent(cluster)
    end(cluster, run_id, status=FAILED)
    once = IdempotentRequest(user_id=1, key="k", body_hash="")

    first = commands.runs.rerun([run_id], once=once)
    second = commands.runs.rerun([run_id], once=once)

    assert (second[0], first[1], second[1]) == (first[0], True, False)
    assert len(cluster.runs(kind="RERUN")) == 1


def test_two_people_who_run_the_same_again_at_once_start_it_once(
    cluster: Cluster, commands: Commands
) -> None:
    [run_id] = parent(cluster)
    end(cluster, run_id, status=FAILED)

    def one() -> str:
        try:
            return f"{len(again(commands, run_id))} planned"
        except Problem as problem:
            return problem.code.name

    assert sorted(side_by_side(one, one)) == ["1 planned", "RERUN_UNDERWAY"]


# -- what is refused --------------------------------------------------------------------------


def test_open_runs_deleted_jobs_and_lost_versions_are_refused(
    cluster: Cluster, commands: Commands
) -> None:
    [open_id] = parent(cluster)
    assert refusal(commands, open_id) is Code.RERUN_OPEN
    assert refusal(commands, 999) is Code.NO_RUN

    end(cluster, open_id, status=FAILED)
    put(cluster.database, [open_id], script_version=7)
    assert refusal(commands, open_id) is Code.RERUN_VERSION_GONE
    assert again(commands, open_id, current=True)
    assert refusal(commands, open_id, current=True) is Code.RERUN_UNDERWAY

    [other] = tick_in_flight(cluster, "child")
    end(cluster, other, status=FAILED)
    put(cluster.database, [other], job_id=4_711)
    assert refusal(commands, other) is Code.RERUN_JOB_GONE


def test_one_refusal_leaves_all_as_they_were(cluster: Cluster, commands: Commands) -> None:
    first, second = parent(cluster, shards=2)
    end(cluster, first, status=FAILED)

    assert refusal(commands, first, second) is Code.RERUN_OPEN
    assert cluster.runs(kind="RERUN") == []


# -- what follows -----------------------------------------------------------------------------


def test_children_run_when_a_rerun_makes_their_due_time_good(
    cluster: Cluster, commands: Commands
) -> None:
    run_ids = parent(cluster, shards=3)
    end(cluster, run_ids[0])
    end(cluster, *run_ids[1:], status=FAILED)
    one, other = again(commands, *run_ids[1:])
    end(cluster, *sent(cluster, one))
    assert children(cluster) == []

    end(cluster, *sent(cluster, other))

    assert children(cluster) == [one]
    [child] = cluster.runs(kind="PARENT")
    assert child.scheduled_at == cluster.run(run_ids[0]).scheduled_at


def test_a_shard_that_ends_after_the_rerun_of_another_completes_the_due_time(
    cluster: Cluster, commands: Commands
) -> None:
    first, second = parent(cluster, shards=2)
    end(cluster, first, status=FAILED)
    end(cluster, *sent(cluster, *again(commands, first)))
    assert children(cluster) == []

    end(cluster, second)

    assert children(cluster) == [first]


@pytest.mark.parametrize("status", [FAILED, RunStatus.KILLED])
def test_a_rerun_that_did_not_succeed_starts_no_children(
    cluster: Cluster, commands: Commands, status: RunStatus
) -> None:
    [run_id] = parent(cluster)
    end(cluster, run_id, status=FAILED)

    end(cluster, *sent(cluster, *again(commands, run_id)), status=status)

    assert children(cluster) == []


def test_children_stay_out_if_told_so(cluster: Cluster, commands: Commands) -> None:
    [run_id] = parent(cluster)
    end(cluster, run_id, status=FAILED)

    end(cluster, *sent(cluster, *again(commands, run_id, children=False)))

    assert children(cluster) == []
    assert faults(cluster) == []


def test_children_that_have_run_for_the_due_time_run_again_only_if_told(
    cluster: Cluster, commands: Commands
) -> None:
    [run_id] = parent(cluster)
    end(cluster, run_id)
    assert children(cluster) == [run_id]
    assert refusal(commands, run_id) is Code.RERUN_CHILDREN

    [without] = again(commands, run_id, children=False)
    end(cluster, *sent(cluster, without))
    assert children(cluster) == [run_id]

    [with_them] = again(commands, without, children=True)
    end(cluster, *sent(cluster, with_them))
    assert children(cluster) == [run_id, with_them]


def test_a_rerun_leaves_a_fixed_delay_alone(cluster: Cluster, commands: Commands) -> None:
    delay = {"schedule_kind": min(WAITING_KINDS), "schedule_value": "60", "enabled": True}
    cluster.apply(spec("slow", **delay))
    [run_id] = tick_in_flight(cluster, "slow")
    end(cluster, run_id, status=FAILED, finished_at=cluster.now_ms())
    [before] = cluster.jobs(name="slow")

    end(cluster, *sent(cluster, *again(commands, run_id)), finished_at=cluster.now_ms())

    [after] = cluster.jobs(name="slow")
    assert (after.next_tick_at, after.last_tick_at) == (before.next_tick_at, before.last_tick_at)


# -- the audit --------------------------------------------------------------------------------


def test_a_rerun_is_no_doubled_tick_and_needs_no_missing_shards(
    cluster: Cluster, commands: Commands
) -> None:
    run_ids = parent(cluster, shards=3)
    cluster.set_job("parent", update_time=at(cluster.now_ms()) - timedelta(hours=1))
    now = cluster.now_ms()
    end(cluster, *run_ids[:2], finished_at=now)
    end(cluster, run_ids[2], status=FAILED, finished_at=now)
    before = faults(cluster)
    [new_id] = again(commands, run_ids[2])
    end(cluster, *sent(cluster, new_id), finished_at=now + 1)

    assert faults(cluster) == before

    cluster.database.write(
        lambda session: session.execute(delete(type(cluster.run(new_id))).filter_by(kind="PARENT"))
    )
    assert [fault for fault in faults(cluster) if fault not in before] == [
        f"{APP}/child lost {APP}/parent succeeded"
    ]


# -- many at once -----------------------------------------------------------------------------


def test_many_run_again_by_what_is_failed_now(cluster: Cluster, commands: Commands) -> None:
    hourly = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
    cluster.apply(spec("nightly", retries=1, **hourly))
    mended, still, failed_twice = (
        tick_in_flight(cluster, "nightly", scheduled_at=at)[0] for at in (1_000, 2_000, 3_000)
    )
    retries = [
        *end(cluster, mended, still, failed_twice, status=FAILED).planned,
    ]
    end(cluster, *sent(cluster, retries[0]))
    end(cluster, *sent(cluster, retries[2]), status=FAILED)
    chosen = [mended, still, failed_twice, retries[2]]

    [preview] = cluster.database.read(lambda session: commands.bulk_runs.preview(session, chosen))
    [part] = commands.bulk_runs.again(chosen, FORM)

    told = {Outcome.DONE: 1, Outcome.RECOVERED: 1, Outcome.OPEN: 1, Outcome.REPEATED: 1}
    assert (preview.name, +preview.counts, +part.counts) == (f"{APP}/nightly", told, told)
    [rerun] = cluster.runs(kind="RERUN")
    assert (rerun.rerun_of, rerun.scheduled_at) == (retries[2], 3_000)


def test_children_that_ran_do_not_run_again_with_many(cluster: Cluster, commands: Commands) -> None:
    [run_id] = parent(cluster)
    end(cluster, run_id)
    [new_id] = again(commands, run_id, children=False)
    end(cluster, *sent(cluster, new_id), status=FAILED)

    list(commands.bulk_runs.again([new_id], FORM))

    [_, rerun] = cluster.runs(kind="RERUN")
    assert rerun.without_children == 1
