"""Children run once for each tick of their parent that succeeded whole, whatever ends when."""

import threading
from typing import Any

import pytest
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from tests.integration.scheduler.conftest import Seat
from tests.integration.scheduler.family import (
    SENT,
    completion,
    end,
    ender,
    ends,
    tick_in_flight,
)
from tests.support.acting import NamedCommands
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound
from tests.support.sql_rows import put, side_by_side
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.problems import Refused
from warren.sql.jobs import job_links
from warren.sql.listings import job_search
from warren.sql.listings.job_search import JobFilter
from warren.sql.models import JobChild, Run
from warren.sql.run_status import FINAL, RunStatus


@pytest.fixture
def commands(cluster: Cluster) -> NamedCommands:
    return cluster.commands()


def spec(name: str, *children: str, **fields: Any) -> JobSpec:
    facts = {"app": APP, "handler": "noop", "children": children}
    return JobSpec(name=name, **(facts | fields))


def children(cluster: Cluster) -> list[Run]:
    return cluster.runs(kind="PARENT")


def parent_in_flight(cluster: Cluster, **how: Any) -> list[int]:
    """Make a parent with one child, and one tick of it; return its runs' ids."""
    hourly = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
    retries = how.pop("retries", 0)
    cluster.apply(spec("parent", "child", retries=retries, **hourly), spec("child"))
    return tick_in_flight(cluster, "parent", **how)


# -- firing -----------------------------------------------------------------------------------


def test_a_tick_that_succeeded_fires_each_child_with_its_own_settings(cluster: Cluster) -> None:
    cluster.apply(
        spec("parent", "first", "other/second", param="mine"),
        spec("first", handler="echo", param="own", retries=3),
        spec("second", app="other"),
    )
    [run_id] = tick_in_flight(cluster, "parent", scheduled_at=77_000)

    tally = end(cluster, run_id)

    first, second = children(cluster)
    assert tally.planned == [first.id, second.id]
    assert (first.handler, first.param) == ("echo", "own")
    assert (first.retries_left, second.retries_left) == (3, 0)
    assert {(run.status, run.scheduled_at, run.origin_id) for run in (first, second)} == {
        ("PLANNED", 77_000, run_id)
    }
    assert first.app_id != second.app_id


@on_memory
@pytest.mark.parametrize("status", sorted(FINAL - {RunStatus.SUCCEEDED, RunStatus.CANCELLED}))
def test_a_tick_that_did_not_succeed_fires_no_child(cluster: Cluster, status: RunStatus) -> None:
    end(cluster, *parent_in_flight(cluster), status=status)

    assert children(cluster) == []


@on_memory
def test_a_success_after_retries_fires_the_child_in_the_name_of_the_first_attempt(
    cluster: Cluster,
) -> None:
    [first] = parent_in_flight(cluster, retries=1)
    [again] = end(cluster, first, status=RunStatus.FAILED).planned
    assert children(cluster) == []

    put(cluster.database, [again], status=SENT)
    end(cluster, again)

    assert [run.origin_id for run in children(cluster)] == [first]


@on_memory
def test_a_run_by_hand_fires_children_too(cluster: Cluster) -> None:
    cluster.apply(spec("parent", "child"), spec("child"))
    run_id = cluster.trigger("parent")
    put(cluster.database, [run_id], status=SENT)

    end(cluster, run_id)

    assert [run.origin_id for run in children(cluster)] == [run_id]


@on_memory
def test_a_child_that_is_stopped_runs_all_the_same(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat()
    end(cluster, *parent_in_flight(cluster))

    still.dispatcher.run_round(still.clock.now_ms())

    [child] = children(cluster)
    assert child.status in {RunStatus.ROUTED, RunStatus.SENT}


@on_memory
def test_a_child_that_is_gone_is_left_out_and_told(
    cluster: Cluster, events: list[dict[str, object]]
) -> None:
    run_ids = parent_in_flight(cluster)
    cluster.database.write(lambda session: session.execute(delete(JobChild)))
    cluster.set_job("parent", child_ids="999, x,2")

    end(cluster, *run_ids)

    assert len(children(cluster)) == 1
    assert [e["child_id"] for e in events if e["event"] == "child_skipped"] == [999]


@on_memory
def test_children_wait_for_every_shard(cluster: Cluster) -> None:
    run_ids = parent_in_flight(cluster, shards=3, retries=1)

    end(cluster, run_ids[2])
    [again] = end(cluster, run_ids[0], status=RunStatus.TIMED_OUT).planned
    end(cluster, run_ids[1])
    assert children(cluster) == []
    put(cluster.database, [again], status=SENT)
    end(cluster, again)

    assert [run.origin_id for run in children(cluster)] == [run_ids[0]]


@on_memory
def test_shards_that_end_in_one_transaction_fire_a_child_once(cluster: Cluster) -> None:
    run_ids = parent_in_flight(cluster, shards=3)

    end(cluster, *run_ids)

    assert len(children(cluster)) == 1


@on_memory
def test_a_shard_that_failed_fires_no_child_even_when_it_ended_first(cluster: Cluster) -> None:
    run_ids = parent_in_flight(cluster, shards=3)

    end(cluster, run_ids[1], status=RunStatus.KILLED)
    end(cluster, run_ids[0])
    end(cluster, run_ids[2])

    assert children(cluster) == []


# -- races, repetitions, crashes --------------------------------------------------------------


def test_two_last_shards_that_end_at_the_same_time_fire_one_child(cluster: Cluster) -> None:
    cluster.apply(spec("parent", "child"), spec("child"))
    now_ms = cluster.now_ms()
    ticks = [tick_in_flight(cluster, "parent", shards=2, scheduled_at=now_ms + n) for n in range(9)]

    for left, right in ticks:
        side_by_side(ender(cluster, left), ender(cluster, right))

    assert sorted(run.origin_id for run in children(cluster)) == [left for left, _ in ticks]


def test_crosswise_batches_of_shards_all_end_and_fire_each_child_once(cluster: Cluster) -> None:
    cluster.apply(spec("parent", "child"), spec("child"))
    now_ms = cluster.now_ms()
    ticks = [tick_in_flight(cluster, "parent", shards=2, scheduled_at=now_ms + n) for n in range(6)]
    mine = [tick[n % 2] for n, tick in enumerate(ticks)]
    theirs = [tick[1 - n % 2] for n, tick in enumerate(ticks)]

    side_by_side(ender(cluster, *mine), ender(cluster, *theirs))

    assert sorted(run.origin_id for run in children(cluster)) == [head for head, _ in ticks]


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
def test_whoever_ends_the_second_last_shard_keeps_the_other_waiting(cluster: Cluster) -> None:
    left, right = parent_in_flight(cluster, shards=2)
    one, done = completion(cluster), threading.Event()

    def end_right() -> None:
        end(cluster, right)
        done.set()

    def end_left(session: Session) -> threading.Thread:
        one.end(session, ends(left))
        other = threading.Thread(target=end_right)
        other.start()
        assert not done.wait(0.3)
        return other

    cluster.database.write(end_left).join(30)

    assert done.is_set()
    assert [run.origin_id for run in children(cluster)] == [left]


def test_an_end_that_is_told_three_times_fires_a_child_once(cluster: Cluster) -> None:
    run_ids = parent_in_flight(cluster)

    for _ in range(3):
        end(cluster, *run_ids, *run_ids)

    assert len(children(cluster)) == 1


@on_memory
def test_a_success_that_comes_after_the_run_was_given_up_fires_no_child(cluster: Cluster) -> None:
    run_ids = parent_in_flight(cluster)

    end(cluster, *run_ids, status=RunStatus.LOST)
    end(cluster, *run_ids)

    assert children(cluster) == []
    assert cluster.run(run_ids[0]).late_status == RunStatus.SUCCEEDED


def test_a_crash_before_the_commit_leaves_run_and_child_to_whoever_comes_next(
    cluster: Cluster,
) -> None:
    run_ids = parent_in_flight(cluster)
    one = completion(cluster)

    def crash(session: Session) -> None:
        assert one.end(session, ends(*run_ids)).planned
        raise InterruptedError

    with pytest.raises(InterruptedError):
        cluster.database.write(crash)
    assert children(cluster) == []
    end(cluster, *run_ids)

    assert len(children(cluster)) == 1


# -- saving -----------------------------------------------------------------------------------


def apply(commands: NamedCommands, *specs: JobSpec, **options: bool) -> dict[str, tuple[str, ...]]:
    changes = commands.apply([], specs, **({"dry_run": False, "prune": False} | options))
    return {c.name: (c.action, *c.details) for c in changes if c.what == "job"}


def test_children_are_kept_as_ids_and_applying_twice_changes_nothing(
    cluster: Cluster, commands: NamedCommands
) -> None:
    family = (spec("parent", "b", "other/c", "a"), spec("a"), spec("b"), spec("c", app="other"))
    assert apply(commands, *family)["demo/parent"] == ("create",)

    again = apply(commands, *family)

    ids = {job.name: str(job.id) for job in cluster.jobs()}
    [parent] = cluster.jobs(name="parent")
    assert parent.child_ids == ",".join([ids["b"], ids["c"], ids["a"]])
    assert set(again.values()) == {("unchanged",)}


@on_memory
def test_a_change_of_children_is_told_by_name(commands: NamedCommands) -> None:
    apply(commands, spec("parent", "a"), spec("a"), spec("b", app="other"))

    said = apply(commands, spec("parent", "a", "other/b"))
    gone = apply(commands, spec("parent", param="new"))

    assert said["demo/parent"] == ("update", "children: a -> a, other/b")
    assert gone["demo/parent"] == (
        "update",
        "children: a, other/b -> none",
        "param: '' -> 'new'",
    )


@on_memory
def test_an_unknown_child_is_refused_by_name_and_nothing_is_changed(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("elsewhere", app="other"))

    with pytest.raises(Refused) as refused:
        apply(commands, spec("p", "elsewhere", "no/x"), spec("q", "zz"))

    assert [(problem.field, str(problem)) for problem in refused.value.problems] == [
        (
            "jobs/0/children",
            "cannot save job p: unknown child 'elsewhere', did you mean 'other/elsewhere'?",
        ),
        ("jobs/0/children", "cannot save job p: unknown child 'no/x'"),
        ("jobs/1/children", "cannot save job q: unknown child 'zz'"),
    ]
    assert [job.name for job in cluster.jobs()] == ["elsewhere"]


@on_memory
def test_misspelt_children_and_nodes_are_all_told_with_the_jobs_that_were_meant(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("extract"), spec("load", app="other"))
    flow = parse({"e": {"job": "extrct"}, "l": {"job": "other/laod", "after": ["e"]}})

    with pytest.raises(Refused) as refused:
        apply(
            commands,
            spec("exract", "extracts", "newst"),
            spec("newest"),
            spec("all", handler="", flow=flow),
        )

    assert [str(problem).partition("unknown ")[2] for problem in refused.value.problems] == [
        "child 'extracts', did you mean 'extract'?",
        "child 'newst', did you mean 'newest'?",
        "job 'extrct', did you mean 'extract'?",
        "job 'other/laod', did you mean 'other/load'?",
    ]


@on_memory
@pytest.mark.parametrize(
    ("specs", "path"),
    [
        ([spec("a", "a")], "a -> a"),
        ([spec("a", "b"), spec("b", "a")], "a -> b -> a"),
        (
            [spec("a", "other/b"), spec("b", "c", app="other"), spec("c", "demo/a", app="other")],
            "a -> other/b -> other/c -> a",
        ),
    ],
)
def test_a_circle_is_refused_by_its_path(
    cluster: Cluster, commands: NamedCommands, specs: list[JobSpec], path: str
) -> None:
    with pytest.raises(ValueError, match=f"job a: its children form a cycle: {path}$"):
        apply(commands, *specs)

    assert cluster.jobs() == []


@on_memory
def test_a_circle_through_jobs_that_were_there_is_refused(commands: NamedCommands) -> None:
    apply(commands, spec("a", "b"), spec("b", "c"), spec("c"))

    with pytest.raises(ValueError, match=r"job c: .* c -> a -> b -> c"):
        apply(commands, spec("c", "a"))


def test_two_who_save_at_the_same_time_close_no_circle(cluster: Cluster) -> None:
    def save(one: JobSpec) -> str:
        try:
            cluster.apply(one)
        except ValueError as error:
            return str(error)
        return "saved"

    for number in range(5):
        a, b = f"a{number}", f"b{number}"
        cluster.apply(spec(a), spec(b))

        said = side_by_side(lambda a=a, b=b: save(spec(a, b)), lambda a=a, b=b: save(spec(b, a)))

        assert sorted(word.startswith("saved") for word in said) == [False, True], said


def test_a_thousand_children_are_kept_and_each_runs_once(
    cluster: Cluster, commands: NamedCommands
) -> None:
    names = [f"child{number}" for number in range(1_000)]
    family = (spec("parent", *names), *map(spec, names))
    apply(commands, *family)

    again = apply(commands, *family)
    [parent] = cluster.jobs(name="parent")
    kept = cluster.database.read(lambda s: job_search.children(s, [parent.id], JobFilter()))
    [run_id] = tick_in_flight(cluster, "parent")
    end(cluster, run_id)
    end(cluster, run_id)

    assert set(again.values()) == {("unchanged",)}
    assert kept[parent.id] == [f"demo/{name}" for name in names]
    assert parent.child_ids == ""  # they do not fit
    assert len({run.job_id for run in children(cluster)}) == len(children(cluster)) == 1_000


@on_memory
def test_more_than_a_thousand_children_are_refused(commands: NamedCommands) -> None:
    names = [f"child{number}" for number in range(1_001)]

    with pytest.raises(ValueError, match="job parent: expected up to 1000 children, got: 1001"):
        apply(commands, spec("parent", *names), *map(spec, names))


def test_ids_come_back_to_the_column_as_soon_as_they_fit(
    cluster: Cluster, commands: NamedCommands
) -> None:
    names = [f"child{number}" for number in range(200)]
    apply(commands, spec("parent", *names), *map(spec, names))

    said = apply(commands, spec("parent", *names[:2]))

    ids = {job.name: str(job.id) for job in cluster.jobs()}
    assert said["demo/parent"][1].endswith(" -> child0, child1")
    assert cluster.jobs(name="parent")[0].child_ids == f"{ids['child0']},{ids['child1']}"


def test_a_circle_through_the_last_of_two_hundred_children_is_refused(
    commands: NamedCommands,
) -> None:
    names = [f"child{number}" for number in range(200)]
    apply(commands, spec("parent", *names), *map(spec, names))

    with pytest.raises(ValueError, match="cycle: child199 -> parent -> child199"):
        apply(commands, spec("child199", "parent"))
    with pytest.raises(ValueError, match="child150: it is still a child of demo/parent"):
        commands.delete("child150")


def test_a_job_that_was_copied_with_its_column_alone_has_those_children(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("parent"), spec("a"), spec("b"))
    ids = {job.name: job.id for job in cluster.jobs()}
    cluster.set_job("parent", child_ids=f"{ids['b']},{ids['a']}")

    copied = cluster.database.read(lambda s: job_links.children(s, [ids["parent"]]))
    parents = cluster.database.read(lambda s: job_links.parent_ids(s, [ids["a"]]))
    said = apply(commands, spec("parent", "a"))

    assert copied == {ids["parent"]: (ids["b"], ids["a"])}
    assert parents == {ids["parent"]}
    assert said["demo/parent"] == ("update", "children: b, a -> a")


def test_a_job_that_is_deleted_leaves_no_row_of_a_child(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("parent", "a"), spec("a"))

    commands.delete("parent")
    commands.delete("a")

    count = select(func.count()).select_from(JobChild)
    assert cluster.database.read(lambda s: s.execute(count).scalar_one()) == 0


@on_memory
def test_a_child_cannot_be_deleted_while_it_is_one(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("p", "c"), spec("q", "demo/c", app="other"), spec("c"))

    with pytest.raises(
        ValueError, match="cannot delete job demo/c: it is still a child of demo/p, other/q"
    ):
        commands.delete("c")

    apply(commands, spec("p"), spec("q", app="other"))
    commands.delete("c")
    assert {job.name for job in cluster.jobs()} == {"p", "q"}


@on_memory
def test_pruning_takes_parents_and_children_together_and_no_child_of_who_stays(
    cluster: Cluster, commands: NamedCommands
) -> None:
    apply(commands, spec("c"), spec("p", "c"), spec("stays"))

    with pytest.raises(ValueError, match=r"demo/c: it is still a child of demo/p"):
        apply(commands, spec("stays"), spec("p", "c"), prune=True)
    apply(commands, spec("stays"), prune=True)

    assert [job.name for job in cluster.jobs()] == ["stays"]


# -- the whole --------------------------------------------------------------------------------


@on_memory
def test_a_chain_of_ten_runs_to_its_end(cluster: Cluster) -> None:
    names = [f"link{number}" for number in range(10)]
    followers = [*([name] for name in names[1:]), []]
    cluster.apply(*(spec(name, *after) for name, after in zip(names, followers, strict=True)))
    cluster.scheduler()
    cluster.executor()
    cluster.wait_online()

    cluster.trigger(names[0])

    eventually(lambda: len(cluster.runs(status="SUCCEEDED")) == 10)
    found = cluster.runs()
    assert [run.kind for run in found] == ["MANUAL", *["PARENT"] * 9]
    assert len({run.scheduled_at for run in found}) == 1
    assert_sound(cluster)
