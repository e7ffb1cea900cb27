"""Runs of jobs that share a limit: never more than it allows, and nothing is ever lost."""

from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from tests.integration.scheduler.conftest import Seat, new_still, seat_at
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import new_run, plan, put
from warren.scheduler.completion.end import End
from warren.scheduler.dispatch.peeks import RECHECK_SECONDS
from warren.scheduler.node import SchedulerNode
from warren.scheduler.problems import Problem
from warren.sql import limits
from warren.sql.models import Alarm, Hold, Limit
from warren.sql.registry import presence
from warren.sql.run_status import RunStatus
from warren.sql.runs.transitions import SentTo

pytestmark = on_memory

still_options = [{"address_limit": 1_000}]
roomy = pytest.mark.parametrize("still_options", still_options, ids=["roomy"])


def dispatch(cluster: Cluster, node: SchedulerNode, *, rounds: int = 9) -> float:
    """Make rounds until there is nothing to do at once; return the last wait."""
    for _ in range(rounds):
        wait_seconds = node.dispatcher.run_round(cluster.now_ms())
        node.confirmations.drain()
        if wait_seconds > 0.1:
            return wait_seconds
    return 0


def limited(cluster: Cluster, name: str, *limits: str, **fields: Any) -> None:
    cluster.job(name, limits=limits or ("warehouse",), route="FIRST", **fields)


def sent(cluster: Cluster) -> list[int]:
    return [run.id for run in cluster.runs(status=RunStatus.SENT)]


def planned(cluster: Cluster) -> list[int]:
    return [run.id for run in cluster.runs(status=RunStatus.PLANNED)]


def held(cluster: Cluster) -> list[tuple[str, int, int]]:
    """Return what is held: limit, run, weight."""
    rows = select(Limit.name, Hold.run_id, Hold.weight).join(Hold, Hold.limit_id == Limit.id)
    found = cluster.database.read(lambda session: session.execute(rows).all())
    return sorted(tuple(row) for row in found)


def end(
    cluster: Cluster,
    node: SchedulerNode,
    run_id: int,
    status: RunStatus = RunStatus.SUCCEEDED,
    **fields: Any,
) -> None:
    run, now_ms = cluster.run(run_id), cluster.now_ms()
    node.roles._ender.end(
        [
            End(
                run_id=run_id,
                status=status,
                message="",
                started_at=now_ms,
                finished_at=now_ms,
                sent_to=SentTo(run.app_id, run.address or "", run.boot_id or ""),
                **fields,
            )
        ]
    )


def test_no_more_runs_are_sent_than_the_limit_has_room_for(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=2)
    limited(cluster, "load")
    limited(cluster, "clean")
    runs = [cluster.trigger(name) for name in ("load", "clean", "load", "clean")]

    dispatch(cluster, still)

    assert sent(cluster) == runs[:2]
    assert planned(cluster) == runs[2:]
    assert held(cluster) == [("warehouse", runs[0], 1), ("warehouse", runs[1], 1)]


def test_what_a_run_gives_back_goes_to_the_next_at_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    first, second, third = (cluster.trigger("load") for _ in range(3))
    dispatch(cluster, still)
    awake = still.context.wakes.of("dispatcher")
    awake.clear()

    end(cluster, still, first)

    assert awake.is_set()
    dispatch(cluster, still)
    assert sent(cluster) == [second]
    assert planned(cluster) == [third]
    assert held(cluster) == [("warehouse", second, 1)]


@pytest.mark.parametrize(
    ("status", "facts"),
    [
        (RunStatus.SUCCEEDED, {}),
        (RunStatus.SUCCEEDED, {"is_alone": True}),
        (RunStatus.FAILED, {}),
        (RunStatus.KILLED, {}),
        (RunStatus.LOST, {}),
        (RunStatus.UNDELIVERED, {"never_started": True}),
        (RunStatus.REFUSED, {"never_started": True}),
        (RunStatus.SKIPPED, {}),
    ],
    ids=["success", "alone", "failure", "kill", "loss", "undelivered", "refusal", "skip"],
)
def test_however_a_run_ends_it_gives_back_what_it_held(
    cluster: Cluster, still: SchedulerNode, seat: Seat, status: RunStatus, facts: dict[str, bool]
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    run_id = cluster.trigger("load")
    dispatch(cluster, still)
    others = dict(facts)
    more = {"alone_of_job": cluster.run(run_id).job_id} if others.pop("is_alone", False) else {}

    end(cluster, still, run_id, status, **others, **more)

    assert cluster.run(run_id).status == status
    assert held(cluster) == []


def test_a_retry_takes_anew(cluster: Cluster, still: SchedulerNode, seat: Seat) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load", retries=1)
    limited(cluster, "clean")
    first, second = cluster.trigger("load"), cluster.trigger("clean")
    dispatch(cluster, still)

    end(cluster, still, first, RunStatus.FAILED)
    dispatch(cluster, still)

    [retry] = cluster.runs(attempt=1)
    assert sent(cluster) == [second]
    assert retry.status == RunStatus.PLANNED
    end(cluster, still, second)
    dispatch(cluster, still)
    assert held(cluster) == [("warehouse", retry.id, 1)]


def test_jobs_without_limits_are_not_held_up(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    cluster.job("free", route="FIRST")
    loads = [cluster.trigger("load") for _ in range(120)]
    free = cluster.trigger("free")

    dispatch(cluster, still)

    assert sent(cluster) == [loads[0], free]


def test_a_run_that_waits_for_a_limit_delays_none_that_is_due_soon(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    cluster.job("free", route="FIRST")
    [free] = cluster.jobs(name="free")
    cluster.trigger("load")
    cluster.trigger("load")
    soon = cluster.now_ms() + 450
    plan(cluster.database, new_run(app_id=free.app_id, job_id=free.id, due_at=soon))

    assert dispatch(cluster, still) <= 0.45


def test_a_run_that_is_due_while_a_limit_is_found_full_is_sent_at_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    cluster.job("free", route="FIRST")
    running, _ = cluster.trigger("load"), cluster.trigger("load")
    peek, late = still.dispatcher.peeks.due, list[int]()

    def peek_and_be_late(*args: Any, **options: Any) -> list[int]:
        found = peek(*args, **options)
        if not found and not late:
            late.append(cluster.trigger("free"))
            due_at = cluster.run(late[0]).due_at
            assert eventually(lambda: cluster.now_ms() > due_at)
        return found

    monkeypatch.setattr(still.dispatcher.peeks, "due", peek_and_be_late)
    dispatch(cluster, still)

    assert sent(cluster) == [running, *late]


def test_a_limit_that_is_taken_again_costs_one_round(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    first, second, _ = (cluster.trigger("load") for _ in range(3))
    dispatch(cluster, still)
    end(cluster, still, first)

    wait_seconds = still.dispatcher.run_round(cluster.now_ms())

    still.confirmations.drain()
    assert sent(cluster) == [second]
    assert wait_seconds > 0.1


def test_ends_are_stored_sooner_while_much_of_a_limit_is_underused(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=4)
    limited(cluster, "load")
    runs = [cluster.trigger("load") for _ in range(9)]
    left_out = still.dispatcher.left_out
    dispatch(cluster, still)
    assert sent(cluster) == runs[:4]

    end(cluster, still, runs[0])
    dispatch(cluster, still)
    assert not left_out.are_limits_underused
    for run_id in runs[1:3]:
        end(cluster, still, run_id)
    dispatch(cluster, still)
    assert left_out.are_limits_underused

    for run_id in runs[3:]:
        end(cluster, still, run_id)
        dispatch(cluster, still)
    cluster.pass_time(still, RECHECK_SECONDS)
    seat()
    dispatch(cluster, still)
    assert not left_out.are_limits_underused


@roomy
def test_a_job_takes_as_much_as_it_says(cluster: Cluster, still: SchedulerNode, seat: Seat) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=5)
    limited(cluster, "load", "warehouse:2")
    runs = [cluster.trigger("load") for _ in range(4)]

    dispatch(cluster, still)

    assert held(cluster) == [("warehouse", runs[0], 2), ("warehouse", runs[1], 2)]


def test_a_run_takes_all_its_limits_or_none(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=3)
    cluster.commands().limit("partner-api", at_once=1)
    limited(cluster, "load", "warehouse", "partner-api")
    limited(cluster, "clean", "warehouse")
    first, second, clean = (
        cluster.trigger("load"),
        cluster.trigger("load"),
        cluster.trigger("clean"),
    )

    dispatch(cluster, still)

    assert planned(cluster) == [second]
    assert held(cluster) == [
        ("partner-api", first, 1),
        ("warehouse", first, 1),
        ("warehouse", clean, 1),
    ]


def test_a_broadcast_takes_for_all_its_shards_at_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.commands().limit("warehouse", at_once=2)
    limited(cluster, "load")
    cluster.job("everywhere", limits=("warehouse",), route="SHARDING_BROADCAST")
    load, everywhere = cluster.trigger("load"), cluster.trigger("everywhere")
    dispatch(cluster, still)
    assert (sent(cluster), planned(cluster)) == ([load], [everywhere])

    end(cluster, still, load)
    dispatch(cluster, still)

    shards = [run.id for run in cluster.runs(status=RunStatus.SENT)]
    assert len(shards) == 2
    assert held(cluster) == [("warehouse", run_id, 1) for run_id in sorted(shards)]
    for run_id in shards:
        end(cluster, still, run_id)
    assert held(cluster) == []


def test_a_broadcast_that_never_fits_ends_with_the_reason(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.commands().limit("warehouse", at_once=1)
    cluster.job("everywhere", limits=("warehouse",), route="SHARDING_BROADCAST", retries=3)
    run_id = cluster.trigger("everywhere")

    dispatch(cluster, still)

    assert [(run.id, run.status) for run in cluster.runs()] == [(run_id, RunStatus.UNDELIVERED)]
    message = "it takes 2 of limit warehouse, which never has more than 1"
    assert cluster.run(run_id).message == message


def test_a_run_whose_limit_is_gone_ends_with_the_reason(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    first = cluster.trigger("load")
    dispatch(cluster, still)
    end(cluster, still, first)
    cluster.database.write(lambda session: session.execute(delete(Limit)))
    run_id = cluster.trigger("load")

    dispatch(cluster, still)

    assert cluster.run(run_id).status == RunStatus.UNDELIVERED
    assert cluster.run(run_id).message == "there is no limit named warehouse"


def test_a_limit_that_was_made_again_counts_anew(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    end(cluster, still, _sent_one(cluster, still))
    cluster.job("load", route="FIRST")
    cluster.commands().delete_limit("warehouse")
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")

    run_id = _sent_one(cluster, still)

    assert held(cluster) == [("warehouse", run_id, 1)]


def test_a_lowered_limit_starts_no_other_run_until_it_has_room(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=2)
    limited(cluster, "load")
    first, second, third = (cluster.trigger("load") for _ in range(3))
    dispatch(cluster, still)

    cluster.commands().limit("warehouse", at_once=1)

    end(cluster, still, first)
    dispatch(cluster, still)
    assert sent(cluster) == [second]
    end(cluster, still, second)
    dispatch(cluster, still)
    assert sent(cluster) == [third]


@roomy
def test_a_raised_limit_is_noticed_by_itself(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    runs = [cluster.trigger("load") for _ in range(4)]
    dispatch(cluster, still)

    cluster.commands().limit("warehouse", at_once=3)
    cluster.pass_time(still, 1.0)
    seat()
    dispatch(cluster, still)

    assert sent(cluster) == runs[:3]


@roomy
def test_a_rate_lets_as_many_through_as_its_bucket_has(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("partner-api", rate=3, per=3_600)
    limited(cluster, "load", "partner-api")
    runs = [cluster.trigger("load") for _ in range(5)]

    dispatch(cluster, still)

    assert sent(cluster) == runs[:3]
    assert held(cluster) == []
    refilled = update(Limit).values(refilled_at=Limit.refilled_at - 1_300_000)
    cluster.database.write(lambda session: session.execute(refilled))
    cluster.pass_time(still, 1.0)
    seat()
    dispatch(cluster, still)
    assert sent(cluster) == runs[:4]


def damages(cluster: Cluster) -> list[tuple[str, int | None]]:
    return [(one.what, one.run_id) for one in cluster.database.read(limits.find_damage)]


@roomy
def test_runs_that_are_going_count_when_a_rate_becomes_a_number_at_once(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("wh", rate=100, per=60)
    limited(cluster, "load", "wh")
    going = [cluster.trigger("load") for _ in range(4)]
    dispatch(cluster, still)
    assert sent(cluster) == going

    cluster.commands().limit("wh", at_once=2)
    waiting = [cluster.trigger("load") for _ in range(2)]
    dispatch(cluster, still)

    assert (sent(cluster), planned(cluster)) == (going, waiting)
    assert held(cluster) == [("wh", run_id, 1) for run_id in going]
    assert damages(cluster) == []
    for run_id in going[:3]:
        end(cluster, still, run_id)
    dispatch(cluster, still)
    assert sent(cluster) == [going[3], waiting[0]]


@roomy
@pytest.mark.parametrize(
    ("fields", "most"),
    [({"limits": ("wh",)}, 3), ({"limits": ("wh:3",)}, 1), ({"scope": "cluster"}, 1)],
    ids=["limit", "weight", "scope"],
)
def test_runs_that_are_going_count_when_their_job_takes_of_a_limit(
    cluster: Cluster, still: SchedulerNode, seat: Seat, fields: dict[str, Any], most: int
) -> None:
    seat()
    cluster.commands().limit("wh", at_once=3)
    limited(cluster, "other", "wh")
    cluster.job("load", route="FIRST", concurrency=1)
    going = [cluster.trigger("load") for _ in range(most)]
    dispatch(cluster, still)
    assert sent(cluster) == going

    cluster.job("load", route="FIRST", concurrency=1, **fields)
    named = "load" if "scope" in fields else "other"
    waiting = cluster.trigger(named)
    dispatch(cluster, still)

    assert (sent(cluster), planned(cluster)) == (going, [waiting])
    assert damages(cluster) == []
    end(cluster, still, going[0])
    dispatch(cluster, still)
    assert sent(cluster) == [*going[1:], waiting]


def test_runs_that_another_version_sent_count_as_soon_as_a_scheduler_starts(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("wh", at_once=1)
    limited(cluster, "load", "wh")
    going = cluster.trigger("load")
    dispatch(cluster, still)
    cluster.database.write(lambda session: session.execute(delete(Hold)))
    put(cluster.database, [going], holds=None)

    waiting = cluster.trigger("load")
    still.dispatcher._has_counted = False  # as after its start
    dispatch(cluster, still)

    assert (sent(cluster), planned(cluster)) == ([going], [waiting])
    assert held(cluster) == [("wh", going, 1)]
    assert damages(cluster) == []


def test_a_run_that_takes_no_limit_is_marked_so(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    cluster.job("free", route="FIRST")

    run_id = _sent_one(cluster, still, "free")

    assert cluster.run(run_id).holds is None


def _sent_one(cluster: Cluster, node: SchedulerNode, name: str = "load") -> int:
    run_id = cluster.trigger(name)
    dispatch(cluster, node)
    assert cluster.run(run_id).status == RunStatus.SENT
    return run_id


def test_one_run_in_the_whole_cluster(cluster: Cluster, still: SchedulerNode, seat: Seat) -> None:
    seat("one")
    seat("two")
    cluster.job("load", scope="cluster", route="ROUND")
    first, second, third = (cluster.trigger("load") for _ in range(3))
    dispatch(cluster, still)
    assert (sent(cluster), planned(cluster)) == ([first], [second, third])

    end(cluster, still, first)
    dispatch(cluster, still)

    assert (sent(cluster), planned(cluster)) == ([second], [third])


def test_as_many_run_in_the_cluster_as_the_job_says(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("load", scope="cluster", concurrency=2, route="ROUND")
    runs = [cluster.trigger("load") for _ in range(3)]

    dispatch(cluster, still)

    assert sent(cluster) == runs[:2]


def test_a_later_run_is_discarded_wherever_the_other_one_runs(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("load", scope="cluster", block="DISCARD_LATER", route="ROUND")
    first = cluster.trigger("load")
    dispatch(cluster, still)

    second = cluster.trigger("load")
    dispatch(cluster, still)

    assert cluster.run(first).status == RunStatus.SENT
    assert cluster.run(second).status == RunStatus.REFUSED
    assert cluster.run(second).message.startswith("another run of the job")


def test_a_later_run_covers_an_earlier_one_wherever_that_runs(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one")
    seat("two")
    cluster.job("load", scope="cluster", block="COVER_EARLY", route="ROUND")
    first = cluster.trigger("load")
    dispatch(cluster, still)

    second = cluster.trigger("load")
    dispatch(cluster, still, rounds=3)

    assert cluster.run(first).kill_requested_at is not None
    assert cluster.run(second).status == RunStatus.PLANNED
    end(cluster, still, first, RunStatus.KILLED)
    cluster.pass_time(still, 1.0)
    seat("two")
    dispatch(cluster, still)
    assert cluster.run(second).status == RunStatus.SENT


def test_a_job_that_is_deleted_takes_its_own_limit_with_it(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("load", scope="cluster", route="FIRST")
    run_id = _sent_one(cluster, still)

    cluster.commands().delete("load")

    assert held(cluster) == []
    limits = select(Limit.id)
    assert cluster.database.read(lambda s: s.execute(limits).scalars().all()) == []
    end(cluster, still, run_id)
    assert cluster.run(run_id).status == RunStatus.SUCCEEDED


def test_what_has_a_higher_priority_goes_first_when_more_is_due_than_can_be_sent(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    for name in ("low", "normal", "high"):
        cluster.job(name, priority=name, route="FIRST")
    runs = {name: [cluster.trigger(name) for _ in range(3)] for name in ("low", "normal", "high")}

    dispatch(cluster, still)

    assert sent(cluster) == sorted([*runs["high"], *runs["normal"][:2]])


@pytest.mark.parametrize("most", [1, 4, 30])
def test_one_of_twenty_is_low_however_few_a_limit_lets_through(
    cluster: Cluster, still: SchedulerNode, most: int
) -> None:
    nodes = [still, new_still(cluster)]
    seats = [seat_at(cluster, node) for node in nodes]
    for node in nodes:
        node.self_health.run_round(cluster.now_ms())
    assert cluster.database.read(presence.schedulers_alive) == 2
    cluster.commands().limit("warehouse", at_once=most)
    limited(cluster, "high", priority="high")
    limited(cluster, "low", priority="low")
    low = {cluster.trigger("low") for _ in range(2)}
    for _ in range(45):
        cluster.trigger("high")

    order: list[int] = []
    for _ in range(60):
        for node, seat in zip(nodes, seats, strict=True):
            cluster.pass_time(node, 0.6)
            seat()
            node.dispatcher.run_round(cluster.now_ms())
            node.confirmations.drain()
            going = sent(cluster)
            order += going
            for run_id in going:
                end(cluster, node, run_id)
        if low <= {*order}:
            break

    at = [-1, *(number for number, run_id in enumerate(order) if run_id in low)]
    assert max(later - sooner for sooner, later in pairwise(at)) <= 20


def test_a_limit_goes_to_the_higher_priority(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    limited(cluster, "urgent", priority="high")
    first, second = cluster.trigger("load"), cluster.trigger("load")
    dispatch(cluster, still)
    urgent = cluster.trigger("urgent")
    dispatch(cluster, still)

    end(cluster, still, first)
    dispatch(cluster, still)

    assert (sent(cluster), planned(cluster)) == ([urgent], [second])


def test_due_times_beyond_what_may_wait_are_skipped_with_an_alarm(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    hourly = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
    alarmed = {"alarm_emails": ("a@b.org",), **hourly}
    cluster.job("load", scope="cluster", max_waiting=2, route="FIRST", **alarmed)
    [job] = cluster.jobs(name="load")
    now_ms = cluster.now_ms()
    for number in range(5):
        tick = now_ms - 1_000 * (5 - number)
        ticks = {"scheduled_at": tick, "due_at": tick, "handler": "noop"}
        plan(cluster.database, new_run(job_id=job.id, app_id=job.app_id, **ticks))

    dispatch(cluster, still)
    cluster.pass_time(still, 2.0)
    seat()
    dispatch(cluster, still)

    statuses = [run.status for run in sorted(cluster.runs(), key=lambda run: run.due_at)]
    assert statuses == ["SENT", "PLANNED", "PLANNED", "CANCELLED", "CANCELLED"]
    assert {skip.reason for skip in cluster.skips()} == {
        "the maximum number of runs of the job was already waiting: 2"
    }
    alarms = select(Alarm.subject_key)
    keys = cluster.database.read(lambda session: session.execute(alarms).scalars().all())
    assert len(keys) == 1


def test_a_trigger_is_refused_while_as_many_wait_as_may(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("load", scope="cluster", max_waiting=1, route="FIRST")
    first = _sent_one(cluster, still)
    second = cluster.trigger("load")

    with pytest.raises(
        Problem, match="demo/load already has the maximum number of waiting runs: 1"
    ):
        cluster.trigger("load")

    end(cluster, still, first)
    dispatch(cluster, still)
    assert sent(cluster) == [second]
    cluster.trigger("load")


def test_the_audit_finds_holds_that_somebody_made_or_deleted(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    run_id = _sent_one(cluster, still)
    limit_id = cluster.database.read(lambda session: session.execute(select(Limit.id)).scalar())
    wrong = {}

    assert damages(cluster) == []
    cluster.database.write(lambda session: session.execute(delete(Hold)))
    wrong["deleted"] = damages(cluster)
    for of_run in (run_id, 77):
        hold = {"limit_id": limit_id, "run_id": of_run, "weight": 1}
        cluster.database.write(lambda session, hold=hold: session.add(Hold(**hold)))
    wrong["unknown"] = damages(cluster)
    cluster.database.write(lambda s: s.execute(delete(Hold).where(Hold.run_id == 77)))
    put(cluster.database, [run_id], status=RunStatus.SUCCEEDED)
    wrong["ended"] = damages(cluster)
    put(cluster.database, [run_id], status=RunStatus.RUNNING)
    cluster.database.write(lambda session: session.execute(update(Hold).values(weight=2)))
    wrong["overfull"] = damages(cluster)

    assert wrong == {
        "deleted": [("missing", run_id)],
        "unknown": [("ended", 77)],
        "ended": [("ended", run_id)],
        "overfull": [("overfull", None)],
    }


def test_a_job_that_takes_a_full_limit_no_more_is_sent_after_a_while(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.commands().limit("warehouse", at_once=1)
    limited(cluster, "load")
    first, second = cluster.trigger("load"), cluster.trigger("load")
    dispatch(cluster, still)
    cluster.job("load", route="FIRST")

    cluster.pass_time(still, RECHECK_SECONDS)
    seat()
    dispatch(cluster, still)

    assert sent(cluster) == [first, second]


def test_runs_of_a_job_that_are_due_together_do_not_wait_for_each_other_forever(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    cluster.job("load", scope="cluster", route="FIRST")
    [job] = cluster.jobs(name="load")
    now_ms = cluster.now_ms()
    together = {"job_id": job.id, "app_id": job.app_id, "handler": "noop", "due_at": now_ms}
    run_ids = plan(
        cluster.database,
        *(new_run(scheduled_at=now_ms - n, origin_id=None, **together) for n in range(3)),
    )

    for _ in run_ids:
        dispatch(cluster, still)
        [run_id] = sent(cluster)
        end(cluster, still, run_id)

    assert {cluster.run(run_id).status for run_id in run_ids} == {RunStatus.SUCCEEDED}
