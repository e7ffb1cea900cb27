"""Runs that runs have called: each is planned once, whatever is repeated and whoever dies."""

from typing import Any

import pytest
from sqlalchemy import select

from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.invariants import assert_sound
from warren.broker.messages import Outcome
from warren.scheduler.alarms.events import AlarmPolicy, AlarmTargets, RefusedCall, from_text
from warren.scheduler.node import SchedulerNode
from warren.sql.models import Alarm, Call, Run
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs import purges

pytestmark = pytest.mark.both("a unique key lets no call be planned twice")


CALLING = """

@job("call")
def call(context):
    note(context)
    context.call("mail", param="from a run")

@job("ask")
def ask(context):
    note(context)
    answer = context.call("mail", param="from a run").result()
    if not context.attempt:
        raise RuntimeError("after the call")
    try:
        context.call("nobody").result()
    except Exception as refused:
        return f"{answer}; {refused}"
"""


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    return FakeExecutor(cluster).join()


def begun(cluster: Cluster, desk: FakeExecutor, **fields: Any) -> int:
    """Plan a run of a fresh job that may call another, and take its trigger; return its id."""
    cluster.job("caller", **fields)
    run_id = cluster.trigger("caller")
    [trigger] = desk.take()
    assert trigger.run_id == run_id
    return run_id


def called(cluster: Cluster) -> list[Run]:
    [job] = cluster.jobs(name="mail")
    return cluster.runs(job_id=job.id)


def quiet(node: SchedulerNode, desk: FakeExecutor) -> None:
    """Wait until everything said so far has been stored."""
    before = node.counters["callbacks_rejected"]
    desk.report(desk.finished(999_999_999))
    eventually(lambda: node.counters["callbacks_rejected"] > before)


def test_a_call_plans_an_ordinary_run_that_names_its_caller(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("mail", param="own", retries=2)
    run_id = begun(cluster, desk)

    desk.report(desk.called(run_id, "mail"), desk.called(run_id, "mail", number=2, param="given"))
    eventually(lambda: len(called(cluster)) == 2)

    first, second = called(cluster)
    assert [first.param, second.param] == ["own", "given"]
    for run in (first, second):
        assert (run.kind, run.called_by, run.origin_id) == (Kind.API, run_id, run.id)
        assert (run.retries_left, run.shard_total, run.attempt) == (2, 1, 0)
    taken = {trigger.run_id for trigger in desk.take(2)}
    assert taken == {first.id, second.id}


def test_a_call_that_is_reported_again_plans_nothing_twice(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("mail")
    run_id = begun(cluster, desk)

    desk.report(desk.called(run_id, "mail"), desk.called(run_id, "mail"), times=3)
    desk.report(desk.finished(run_id), desk.called(run_id, "mail"))
    quiet(node, desk)

    assert len(called(cluster)) == 1


def test_a_retry_of_the_caller_calls_nothing_twice(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("mail")
    run_id = begun(cluster, desk, retries=1)
    desk.report(desk.called(run_id, "mail"), desk.finished(run_id, Outcome.FAILED))
    cluster.wait_final(run_id)
    eventually(lambda: len(cluster.runs(kind=Kind.RETRY)) == 1)
    [retry] = cluster.runs(kind=Kind.RETRY)
    eventually(lambda: retry.id in {trigger.run_id for trigger in desk.take()})

    for number in (1, 2):
        desk.report(desk.called(retry.id, "mail", number=number))
    quiet(node, desk)

    assert [run.called_by for run in called(cluster)] == [run_id, retry.id]


def test_each_shard_calls_for_itself(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    other = FakeExecutor(cluster, "two").join()
    cluster.job("mail")
    cluster.job("caller", route="SHARDING_BROADCAST")
    cluster.trigger("caller")
    for each in (desk, other):
        [trigger] = each.take()
        each.report(each.called(trigger.run_id, "mail", param=str(trigger.shard_index)))
    eventually(lambda: len(called(cluster)) == 2)

    assert sorted(str(run.param) for run in called(cluster)) == ["0", "1"]


def test_a_rerun_does_not_repeat_what_was_called_for_its_due_time(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("mail")
    run_id = begun(cluster, desk)
    desk.report(desk.called(run_id, "mail"), desk.finished(run_id))
    cluster.wait_final(run_id)
    eventually(lambda: called(cluster))
    [again], _ = acting(cluster.database).runs.rerun([run_id])
    eventually(lambda: again in {trigger.run_id for trigger in desk.take()})

    desk.report(desk.called(again, "mail"), desk.called(again, "mail", number=2))
    quiet(node, desk)

    assert [run.called_by for run in called(cluster)] == [run_id, again]


def test_a_scheduler_that_dies_before_it_acknowledges_a_call_leaves_one_run(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("mail")
    run_id = begun(cluster, desk)
    cluster.wait_status(run_id, RunStatus.SENT)
    consumer = node.roles.callbacks._consumer  # to stop between commit and ack
    consumer.ack = lambda _deliveries: cluster.cables[id(node)].die()

    desk.report(desk.called(run_id, "mail"))
    eventually(lambda: called(cluster))
    cluster.crash(node)
    second = cluster.scheduler()
    eventually(desk.is_routable)
    quiet(second, desk)

    assert len(called(cluster)) == 1
    [kept] = cluster.database.read(lambda session: list(session.execute(select(Call)).scalars()))
    assert (kept.called_by, kept.run_id) == (run_id, called(cluster)[0].id)


def test_a_call_of_somebody_elses_run_is_not_planned(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("mail")
    run_id = begun(cluster, desk)
    stranger = FakeExecutor(cluster, "two").join()

    stranger.report(stranger.called(run_id, "mail"), desk.called(run_id, "mail"))
    quiet(node, stranger)

    assert called(cluster) == []


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("unknown", "there is no such job in its app"),
        ("foreign", "there is no such job in its app"),
        ("stopped", "that job is stopped"),
        (
            "mail",
            "its param does not fit: expected param to be up to 65536 bytes, got: 65537 bytes",
        ),
    ],
)
def test_a_refused_call_is_told_on_the_callers_page_and_by_an_alarm(
    cluster: Cluster, job: str, why: str
) -> None:
    told = AlarmTargets(emails=("ops@example.com",))
    node = cluster.scheduler(alarms=AlarmPolicy(defaults=told))
    desk = FakeExecutor(cluster).join()
    cluster.add_app("other")
    cluster.job("foreign", app="other")
    cluster.job("stopped", schedule_kind="FIX_RATE", schedule_value="60", enabled=False)
    cluster.job("mail")
    run_id = begun(cluster, desk)

    report = desk.called(run_id, job, number=3, param="x" * 65_537 if job == "mail" else None)
    desk.report(report, desk.called(run_id, "mail", number=4), times=2)
    desk.report(desk.finished(run_id))

    run = cluster.wait_final(run_id)
    assert run.status == RunStatus.SUCCEEDED
    line = f"its call no. 3, of job '{job}', was refused: {why}"
    assert run.trigger_message.count(line) == 1
    assert [run.called_by for run in called(cluster)] == [run_id]
    [alarm] = cluster.database.read(lambda session: list(session.execute(select(Alarm)).scalars()))
    news = from_text(alarm.content)
    assert isinstance(news, RefusedCall)
    assert (news.app, news.job, news.run_id, news.called) == (APP, "caller", run_id, job)
    assert news.message == why
    assert node.counters["callbacks_unstorable"] == 0


@on_memory
def test_what_a_deleted_run_has_called_is_forgotten_with_it(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("mail")
    run_id = begun(cluster, desk)
    desk.report(desk.called(run_id, "mail"), desk.finished(run_id))
    cluster.wait_final(run_id)
    eventually(lambda: called(cluster))

    cluster.database.write(
        lambda session: purges.clear(
            session, [run_id], by="test", now_ms=cluster.now_ms(), day_of=lambda at: at.date()
        )
    )

    assert cluster.database.read(lambda session: session.execute(select(Call)).first()) is None


@on_memory
def test_a_handler_in_a_process_calls_and_its_run_is_planned(cluster: Cluster) -> None:
    with cluster.handlers.open("a") as source:
        source.write(CALLING)
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    cluster.job("mail", handler="echo")
    cluster.job("caller", handler="call")

    run_id = cluster.trigger("caller")

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    eventually(lambda: called(cluster))
    assert cluster.wait_final(called(cluster)[0].id).message == "from a run"
    assert_sound(cluster)


@on_memory
def test_a_run_waits_for_what_it_has_called_and_its_retry_gets_the_same(cluster: Cluster) -> None:
    with cluster.handlers.open("a") as source:
        source.write(CALLING)
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    cluster.job("mail", handler="echo")
    cluster.job("caller", handler="ask", retries=1)

    first = cluster.trigger("caller")

    assert cluster.wait_final(first).message.startswith("RuntimeError: after the call")
    eventually(lambda: cluster.runs(kind=Kind.RETRY))
    [retry] = cluster.runs(kind=Kind.RETRY)
    assert cluster.wait_final(retry.id).message == (
        "from a run; the call of job nobody was refused: there is no such job in its app"
    )
    assert len(called(cluster)) == 1
    assert_sound(cluster)
