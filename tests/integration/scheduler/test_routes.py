"""All ten routes through real queues, with three executors: where runs go, and what is told."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.faults import TRIGGERS
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import Timeouts
from warren.scheduler.routing.routes import consistent_hash
from warren.sql.models import Run
from warren.sql.run_status import RunStatus

NAMES = ("one", "three", "two")


@pytest.fixture(autouse=True)
def _patient(cluster: Cluster) -> None:
    """A busy machine is not silent."""
    cluster.timeouts = Timeouts(probe=15.0)


def start(cluster: Cluster, *, slots: int = 8, hot: str = "") -> SchedulerNode:
    """Start a scheduler and three executors; `hot` has little memory left by its own measure."""
    node = cluster.scheduler()
    for address in NAMES:
        limit = 0.1 if address == hot else 100.0
        cluster.executor(address, slots=slots, memory_limit=limit)
    cluster.wait_online(*NAMES)
    return node


def went(cluster: Cluster, job: str, count: int) -> list[str | None]:
    """Trigger a job, each time when the last run is over; return where the runs went."""
    return [cluster.wait_final(trigger(cluster, job)).address for _ in range(count)]


def trigger(cluster: Cluster, job: str, addresses: tuple[str, ...] = ()) -> int:
    """Trigger a job, and let nobody sleep on it."""
    run_id = cluster.trigger(job, addresses=addresses)
    for node in cluster.schedulers:
        node.context.wakes.wake("dispatcher")
    return run_id


def shards(cluster: Cluster, first: int, count: int) -> list[Run]:
    """Wait until a broadcast has so many rows and all of them are over; return them by shard."""

    def look() -> list[Run] | None:
        rows = cluster.runs(origin_id=first)
        if len(rows) == count and all(row.finished_at for row in rows):
            return sorted(rows, key=lambda row: (row.attempt, row.shard_index))
        return None

    return eventually(look) or []


def test_each_route_chooses_by_its_rule(cluster: Cluster, tmp_path: Path) -> None:
    start(cluster)
    for route in ("FIRST", "LAST", "ROUND", "RANDOM", "CONSISTENT_HASH", "FAILOVER", "BUSYOVER"):
        cluster.job(route.lower(), route=route)
    cluster.job("lfu", route="LEAST_FREQUENTLY_USED")
    cluster.job("lru", route="LEAST_RECENTLY_USED")
    cluster.job("all", route="SHARDING_BROADCAST")
    release = tmp_path / "release"

    assert went(cluster, "first", 2) == ["one", "one"]
    assert went(cluster, "last", 2) == ["two", "two"]
    assert Counter(went(cluster, "round", 6)) == dict.fromkeys(NAMES, 2)
    assert set(went(cluster, "random", 3)) <= set(NAMES)
    [job] = cluster.jobs(name="consistent_hash")
    assert went(cluster, "consistent_hash", 2) == [consistent_hash(job.id, NAMES)] * 2
    # It begins at random below three; from then on nobody is more than three behind.
    used = Counter(went(cluster, "lfu", 12))
    assert set(used) == set(NAMES)
    assert max(used.values()) - min(used.values()) <= 3
    turns = went(cluster, "lru", 6)
    assert turns == [*NAMES, *NAMES]
    assert went(cluster, "failover", 2) == ["one", "one"]

    cluster.set_job("busyover", handler="until-file", param=str(release))
    busy = [trigger(cluster, "busyover") for _ in range(3)]
    eventually(lambda: len(cluster.runs(status=RunStatus.RUNNING)) == 3)
    nobody = cluster.wait_final(trigger(cluster, "busyover"))
    release.touch()
    chosen = [cluster.wait_final(run_id) for run_id in busy]
    assert sorted(run.address or "" for run in chosen) == sorted(NAMES)
    assert nobody.status == RunStatus.UNDELIVERED
    assert nobody.message is not None
    assert nobody.message.startswith("busyover: one is busy: ")
    assert nobody.message.endswith("; none left")
    assert nobody.message in (nobody.trigger_message or "")

    rows = shards(cluster, trigger(cluster, "all"), 3)
    assert [row.address for row in rows] == list(NAMES)
    assert [row.sharding for row in rows] == ["0/3", "1/3", "2/3"]
    assert {row.status for row in rows} == {RunStatus.SUCCEEDED}

    said = {run.job_id: run.trigger_message or "" for run in cluster.runs()}
    names = {job.name: job.id for job in cluster.jobs()}
    assert said[names["first"]].endswith("online: one, three, two; first of 3")
    assert "least recently used of 3" in said[names["lru"]]
    assert "failover: one answered in " in said[names["failover"]]
    assert [(row.trigger_message or "").rpartition("; ")[2] for row in rows] == [
        f"sharding broadcast, shard {index} of 3" for index in range(3)
    ]


def test_what_routes_remember_holds_across_schedulers_and_restarts(cluster: Cluster) -> None:
    first = start(cluster)
    cluster.job("lru", route="LEAST_RECENTLY_USED")
    cluster.job("lfu", route="LEAST_FREQUENTLY_USED")
    before = went(cluster, "lru", 2)
    counted = Counter(went(cluster, "lfu", 5))

    second = cluster.scheduler()
    cluster.wait_online(*NAMES)
    cluster.job("many", route="LEAST_RECENTLY_USED")
    for _ in range(30):
        cluster.trigger("many")
    [many] = cluster.jobs(name="many")
    eventually(lambda: all(run.finished_at for run in cluster.runs(job_id=many.id)))
    spread = Counter(run.address for run in cluster.runs(job_id=many.id))
    first.stop()
    cluster.schedulers.remove(first)
    cluster.wait_online(*NAMES)

    assert spread == dict.fromkeys(NAMES, 10)
    assert [*before, *went(cluster, "lru", 4)] == [*NAMES, *NAMES]
    counted += Counter(went(cluster, "lfu", 7))
    assert max(counted.values()) - min(counted.values()) <= 3
    assert second.name in (cluster.runs()[-1].trigger_message or "")


def test_an_executor_that_joins_or_leaves_between_two_ticks_changes_the_shards(
    cluster: Cluster,
) -> None:
    start(cluster)
    cluster.job("all", route="SHARDING_BROADCAST")
    shards(cluster, trigger(cluster, "all"), 3)

    cluster.executor("zulu")
    cluster.wait_online("zulu")
    four = shards(cluster, trigger(cluster, "all"), 4)
    leaver = next(e for e in cluster.executors if e.identity.address == "one")
    leaver.stop()
    eventually(lambda: not cluster.is_online("one"))
    three = shards(cluster, trigger(cluster, "all"), 3)

    assert [row.address for row in four] == [*NAMES, "zulu"]
    assert [row.address for row in three] == ["three", "two", "zulu"]
    assert [row.sharding for row in three] == ["0/3", "1/3", "2/3"]


def test_a_shard_that_fails_is_tried_again_as_the_same_shard(cluster: Cluster) -> None:
    start(cluster)
    cluster.job("lucky", route="SHARDING_BROADCAST", handler="third-time-lucky", retries=2)

    rows = shards(cluster, trigger(cluster, "lucky"), 9)

    assert [(row.attempt, row.sharding) for row in rows] == [
        (attempt, f"{index}/3") for attempt in range(3) for index in range(3)
    ]
    assert [row.address for row in rows] == list(NAMES) * 3
    assert [row.status for row in rows] == [RunStatus.FAILED] * 6 + [RunStatus.SUCCEEDED] * 3


def test_ticks_of_a_broadcast_each_give_one_row_for_each_shard(cluster: Cluster) -> None:
    start(cluster)
    cluster.scheduler()
    cluster.wait_online(*NAMES)

    cluster.job(
        "all",
        route="SHARDING_BROADCAST",
        schedule_kind="CRON",
        schedule_value="* * * * * ?",
        enabled=True,
    )
    eventually(lambda: len(cluster.runs(status=RunStatus.SUCCEEDED)) >= 9)
    cluster.stop_jobs()
    eventually(lambda: all(run.finished_at for run in cluster.runs()))

    fired = [run for run in cluster.runs() if run.status != RunStatus.CANCELLED]
    assert {run.status for run in fired} == {RunStatus.SUCCEEDED}
    by_tick = Counter(run.scheduled_at for run in fired)
    assert set(by_tick.values()) == {3}
    assert len(cluster.starts()) == len(fired)


@on_memory
def test_failover_passes_over_an_executor_that_died_a_moment_ago(cluster: Cluster) -> None:
    cluster.timeouts = Timeouts(probe=3.0)
    start(cluster)
    cluster.job("fail", route="FAILOVER")
    cluster.job("other", route="LAST")
    cluster.kill(next(e for e in cluster.executors if e.identity.address == "one"))

    slow, quick = trigger(cluster, "fail"), trigger(cluster, "other")
    after, before = cluster.wait_final(slow), cluster.wait_final(quick)

    assert after.address == "three"
    assert "failover: one did not answer within 3 s; three answered in" in after.trigger_message
    assert after.routed_at - after.due_at >= 2_900
    assert before.routed_at < after.routed_at - 500
    # Its silence is known for a while: the next run does not wait for it again.
    again = cluster.wait_final(trigger(cluster, "fail"))
    assert again.address == "three"
    assert again.routed_at - again.due_at < 2_900


@on_memory
def test_failover_ends_a_run_that_nobody_answers_for_only_after_a_while(cluster: Cluster) -> None:
    cluster.timeouts = Timeouts(probe=0.1, no_executor=0.8)
    start(cluster)
    cluster.job("fail", route="FAILOVER")
    cluster.job("other", route="FIRST")
    cluster.wait_final(trigger(cluster, "other"))  # so that their handlers are known
    for executor in list(cluster.executors):
        cluster.kill(executor)

    run = cluster.wait_final(trigger(cluster, "fail"))

    assert run.status == RunStatus.UNDELIVERED
    assert run.finished_at - run.due_at >= 800
    assert run.message == (
        "failover: one did not answer within 0.1 s; three did not answer within 0.1 s; "
        "two did not answer within 0.1 s; none left"
    )


@on_memory
def test_busyover_looks_at_slots_and_at_the_load_of_the_host(
    cluster: Cluster, tmp_path: Path
) -> None:
    start(cluster, slots=1, hot="three")
    release = tmp_path / "release"
    cluster.job("long", handler="until-file", param=str(release))
    cluster.job("idle", route="BUSYOVER")
    long = trigger(cluster, "long", addresses=("one",))
    cluster.wait_status(long, RunStatus.RUNNING)

    run = cluster.wait_final(trigger(cluster, "idle"))
    release.touch()

    assert run.address == "two"
    assert (
        "busyover: one is busy: every slot is taken; three is busy: memory at"
        in run.trigger_message
    )
    assert "two is idle, free slots: 1" in run.trigger_message


@on_memory
def test_busyover_takes_the_best_when_none_is_idle_by_all_measures(
    cluster: Cluster, tmp_path: Path
) -> None:
    start(cluster, slots=1, hot="three")
    release = tmp_path / "release"
    cluster.job("long", handler="until-file", param=str(release))
    cluster.job("longer", handler="until-file", param=str(release))
    cluster.job("idle", route="BUSYOVER")
    full = [trigger(cluster, "long", ("one",)), trigger(cluster, "longer", ("two",))]
    for run_id in full:
        cluster.wait_status(run_id, RunStatus.RUNNING)

    run = cluster.wait_final(trigger(cluster, "idle"))
    release.touch()

    assert (run.status, run.address) == (RunStatus.SUCCEEDED, "three")
    assert (
        "two is busy: every slot is taken; none is idle, the best is three" in run.trigger_message
    )


@on_memory
def test_busyover_spreads_a_batch_over_the_slots_that_are_free_and_refuses_none(
    cluster: Cluster, tmp_path: Path
) -> None:
    start(cluster, slots=2)
    release = tmp_path / "release"
    jobs = [f"job-{number}" for number in range(8)]
    for name in jobs:
        cluster.job(name, route="BUSYOVER", handler="until-file", param=str(release))
    cluster.commands().pause()
    ids = [trigger(cluster, name) for name in jobs]
    cluster.commands().resume()

    eventually(lambda: len(cluster.runs(status=RunStatus.RUNNING)) == 6)
    assert {run.status for run in cluster.runs()} <= {RunStatus.RUNNING, RunStatus.SENT}
    release.touch()

    done = [cluster.wait_final(run_id) for run_id in ids]
    assert {run.status for run in done} == {RunStatus.SUCCEEDED}
    used = Counter(run.address for run in done)
    assert sorted(used.values()) == [2, 3, 3]


def test_busyover_finds_an_idle_executor_idle_however_lately_the_job_ran_there(
    cluster: Cluster,
) -> None:
    cluster.scheduler()
    cluster.executor("one")
    cluster.wait_online("one")
    cluster.job("brief", route="BUSYOVER")

    assert went(cluster, "brief", 20) == ["one"] * 20


def test_busyover_sends_twenty_brief_jobs_of_one_second_to_eight_slots(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor("one", slots=8)
    cluster.wait_online("one")
    names = [f"brief-{number}" for number in range(20)]
    for name in names:
        cluster.job(name, route="BUSYOVER")

    done = [cluster.wait_final(run_id) for run_id in [trigger(cluster, name) for name in names]]

    assert [run.status for run in done] == [RunStatus.SUCCEEDED] * 20


@on_memory
def test_busyover_passes_over_an_executor_to_which_another_scheduler_has_sent_the_job(
    cluster: Cluster, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    slow = cluster.scheduler()
    for address in ("one", "two"):
        cluster.executor(address)
    cluster.wait_online("one", "two")
    cluster.job("long", route="BUSYOVER", handler="until-file", param=str(release))
    # What it sends is long on its way, and then it stands still.
    cable = cluster.cables[id(slow)]
    cable.loses_messages.add(TRIGGERS)
    first = trigger(cluster, "long")
    cluster.wait_status(first, RunStatus.ROUTED)
    cable.is_cut = True
    quick = cluster.scheduler()
    eventually(lambda: {"one", "two"} <= quick.roster.routable(APP).keys())

    second = trigger(cluster, "long")
    eventually(lambda: cluster.run(second).address)
    release.touch()

    assert {cluster.run(first).address, cluster.run(second).address} == {"one", "two"}
    assert "a run of the job is " in cluster.run(second).trigger_message
    assert cluster.wait_final(second).status == RunStatus.SUCCEEDED


def test_busyover_refuses_only_a_job_that_runs_on_every_executor(
    cluster: Cluster, tmp_path: Path
) -> None:
    start(cluster)
    release = tmp_path / "release"
    cluster.job("long", route="BUSYOVER", handler="until-file", param=str(release))
    # All at once: the last ones are asked about while the first ones are still on their way.
    cluster.commands().pause()
    ids = [trigger(cluster, "long") for _ in range(5)]
    cluster.commands().resume()

    eventually(lambda: len(cluster.runs(status=RunStatus.RUNNING)) == 3)
    eventually(lambda: len(cluster.runs(status=RunStatus.UNDELIVERED)) == 2)
    release.touch()

    done = [cluster.wait_final(run_id) for run_id in ids]
    went_to = [run.address for run in done if run.status == RunStatus.SUCCEEDED]
    assert sorted(address or "" for address in went_to) == sorted(NAMES)
    for run in done:
        if run.status == RunStatus.UNDELIVERED:
            assert "one is busy: " in (run.message or "")
            assert (run.message or "").endswith("; none left")
