"""Reports move rows: once, whoever repeats them, whatever came first, and only from whom it may."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.integration.scheduler.conftest import new_still, seat_at
from tests.support.acting import acting
from tests.support.bad_messages import BAD_BODIES
from tests.support.cluster import APP, SECRET, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from tests.support.sealed import mac
from tests.support.server_words import fail_for_want_of_room
from warren.broker.codec import VERSION
from warren.broker.messages import OpenRunsReply, Outcome, RunStateQuery
from warren.broker.signing import ClusterKeys
from warren.broker.topology import CALLBACK_KEY, HEARTBEAT_KEY, REPLY_EXCHANGE
from warren.broker.transport import Outgoing
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import Timeouts
from warren.sql.epochs import LEFT_OUT, Cause, all_epochs
from warren.sql.models import Run
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions

pytestmark = pytest.mark.both("acks, dead letters and guarded updates of many rows")


@pytest.fixture
def node(cluster: Cluster) -> SchedulerNode:
    return cluster.scheduler()


@pytest.fixture
def desk(cluster: Cluster, node: SchedulerNode) -> FakeExecutor:
    return FakeExecutor(cluster).join()


def begun(cluster: Cluster, desk: FakeExecutor, **fields: object) -> int:
    """Plan a run of a fresh job and take its trigger; return the run's id."""
    cluster.job("work", **fields)
    run_id = cluster.trigger("work")
    [trigger] = desk.take()
    assert trigger.run_id == run_id
    cluster.wait_status(run_id, RunStatus.SENT)
    return run_id


def quiet(cluster: Cluster, node: SchedulerNode, desk: FakeExecutor) -> None:
    """Wait until everything said so far has been stored."""
    before = node.counters["callbacks_rejected"]
    desk.report(desk.finished(999_999_999))
    eventually(lambda: node.counters["callbacks_rejected"] > before)


def heard_by_all(cluster: Cluster, desk: FakeExecutor) -> None:
    """Wait until every scheduler has handled a heartbeat as they are now."""

    def have_heard(started_at_ms: int) -> bool:
        members = [member for node in cluster.schedulers for member, _ in node.roster.members()]
        beats = [member.heartbeat for member in members if member.heartbeat]
        return [beat.started_at_ms for beat in beats] == [started_at_ms] * len(cluster.schedulers)

    for started_at_ms in (2, 3):  # the first one is known before all of it is handled
        desk.started_at_ms = started_at_ms
        eventually(lambda it=started_at_ms: have_heard(it))  # type: ignore[misc]


def test_a_result_ends_its_run_with_all_that_it_says(cluster: Cluster, desk: FakeExecutor) -> None:
    run_id, now_ms = begun(cluster, desk), cluster.now_ms()

    desk.report(
        desk.started(run_id, started_at_ms=now_ms - 333),
        desk.finished(run_id, message="héllo", finished_at_ms=now_ms - 111, log_tail="the end"),
    )
    run = cluster.wait_final(run_id)

    assert (run.status, run.message, run.log_tail) == ("SUCCEEDED", "héllo", "the end")
    assert (run.started_at, run.finished_at) == (now_ms - 333, now_ms - 111)
    assert (run.trigger_code, run.handle_code) == (200, 200)


@on_memory
def test_reports_gather_for_less_time_while_much_of_a_limit_is_underused(
    cluster: Cluster, still: SchedulerNode
) -> None:
    desk = FakeExecutor(cluster, boot_id=seat_at(cluster, still)())
    desk.is_beating = False

    def round_after_a_report() -> tuple[float, float]:
        """Return how long the round says to wait, and the time from its begin until then."""
        desk.report(desk.finished(999_999_999))
        began = time.monotonic()
        wait_seconds = still.callbacks.run_round(cluster.now_ms())
        return wait_seconds, time.monotonic() - began + wait_seconds

    still.dispatcher.left_out.are_limits_underused = True
    assert round_after_a_report()[0] <= 0.02
    still.dispatcher.left_out.are_limits_underused = False
    assert round_after_a_report()[1] >= 0.05


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("done", "done (its result has 50,001 characters as JSON, too many to be kept)"),
        ("", "its result has 50,001 characters as JSON, too many to be kept"),
        ("m" * 50_000, "m" * 50_000),
    ],
)
def test_a_result_that_is_too_long_to_be_kept_is_told_in_the_message(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor, message: str, words: str
) -> None:
    """Warren's own executors leave it out themselves; others may send it."""
    run_id = begun(cluster, desk)

    desk.report(desk.finished(run_id, message=message, result=f'"{"r" * 49_999}"'))
    run = cluster.wait_final(run_id)

    assert (run.status, run.message, run.result) == ("SUCCEEDED", words, None)


@on_memory
def test_a_result_counts_although_its_app_was_deleted_and_made_anew(
    cluster: Cluster, still: SchedulerNode
) -> None:
    known_id = still.context.app_names.id_of(APP)
    cluster.add_app("other")
    acting(cluster.database).apps.delete(known_id)
    cluster.add_app(APP)
    # Another scheduler has sent the run.
    other = new_still(cluster)
    boot_id = seat_at(cluster, other)()
    cluster.job("work")
    run_id = cluster.trigger("work")
    other.dispatcher.run_round(cluster.now_ms())
    other.stop()
    cluster.schedulers.remove(other)
    assert cluster.run(run_id).app_id != known_id
    assert cluster.run(run_id).status == RunStatus.SENT
    desk = FakeExecutor(cluster, boot_id=boot_id)
    desk.is_beating = False

    desk.report(desk.finished(run_id))
    eventually(
        lambda: still.callbacks.run_round(cluster.now_ms()) >= 0 and cluster.run(run_id).message
    )

    assert cluster.run(run_id).status == RunStatus.SUCCEEDED
    assert not still.counters["callbacks_rejected"]


@pytest.mark.parametrize("wrong_ms", [0, 1, 2**53 - 1])
def test_instants_that_cannot_be_are_those_of_the_reports_arrival(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor, wrong_ms: int
) -> None:
    run_id, before_ms = begun(cluster, desk), cluster.now_ms()

    desk.report(desk.started(run_id, started_at_ms=wrong_ms))
    began = cluster.wait_status(run_id, RunStatus.RUNNING).started_at
    desk.report(desk.finished(run_id, started_at_ms=wrong_ms, finished_at_ms=wrong_ms))
    run = cluster.wait_final(run_id)

    assert run.status == RunStatus.SUCCEEDED
    instants = (began, run.started_at, run.finished_at)
    # However long the round has waited for it; two readings of one clock may differ a little.
    assert all(before_ms - 100 <= at <= cluster.now_ms() + 100 for at in instants)
    assert node.counters["callbacks_unstorable"] == 0


def test_a_callback_delivered_three_times_counts_once(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk, retries=3)

    desk.report(desk.finished(run_id, Outcome.FAILED), times=3)
    quiet(cluster, node, desk)

    assert cluster.run(run_id).status == RunStatus.FAILED
    assert [run.attempt for run in cluster.runs()] == [0, 1]
    assert node.counters["callbacks_ignored"] == 2


@on_memory
def test_a_result_that_overtakes_the_brokers_confirm_stays(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)

    def unconfirm(session: object) -> None:
        run = session.get(Run, run_id)  # type: ignore[attr-defined]
        run.status, run.sent_at, run.trigger_code = "ROUTED", None, 0

    cluster.database.write(unconfirm)
    desk.report(desk.finished(run_id))
    cluster.wait_final(run_id)
    marked = cluster.database.write(
        lambda session: transitions.mark_sent(session, [run_id], node=node.name, now_ms=1)
    )

    assert marked == 0
    assert cluster.run(run_id).status == RunStatus.SUCCEEDED
    assert cluster.run(run_id).trigger_code == 200


@on_memory
def test_a_start_that_comes_after_the_end_changes_nothing(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)
    desk.report(desk.finished(run_id))
    cluster.wait_final(run_id)

    desk.report(desk.started(run_id))
    quiet(cluster, node, desk)

    assert cluster.run(run_id).status == RunStatus.SUCCEEDED


@on_memory
def test_another_executors_report_on_a_run_is_rejected(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)
    stranger = FakeExecutor(cluster, "two").join()

    stranger.report(
        stranger.started(run_id), stranger.finished(run_id), stranger.not_started(run_id)
    )
    stranger.report(stranger.finished(run_id, boot_id=desk.boot_id))
    quiet(cluster, node, stranger)

    assert cluster.run(run_id).status == RunStatus.SENT


@on_memory
def test_an_earlier_boots_report_on_a_later_boots_run_is_rejected(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)

    desk.report(desk.finished(run_id, boot_id="earlier"))
    quiet(cluster, node, desk)

    assert cluster.run(run_id).status == RunStatus.SENT


@on_memory
def test_a_new_boot_reports_what_the_old_one_ran(cluster: Cluster, desk: FakeExecutor) -> None:
    run_id = begun(cluster, desk)
    desk.die()
    successor = FakeExecutor(cluster).join()

    successor.report(desk.finished(run_id))

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED


@on_memory
def test_a_run_that_runs_cannot_be_said_never_to_have_started(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)
    desk.report(desk.started(run_id))
    cluster.wait_status(run_id, RunStatus.RUNNING)

    desk.report(desk.not_started(run_id))
    quiet(cluster, node, desk)

    assert cluster.run(run_id).status == RunStatus.RUNNING
    assert len(cluster.runs()) == 1


@on_memory
def test_a_run_that_never_started_is_sent_again_at_once_as_the_same_attempt(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)

    desk.report(desk.not_started(run_id))
    [again] = desk.take()

    assert (again.attempt, again.kind) == (0, "RETRY")  # attempts are those that started
    assert cluster.run(run_id).status == RunStatus.UNDELIVERED


@on_memory
def test_reports_on_runs_that_do_not_exist_are_settled_and_counted(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)

    desk.report(desk.finished(123_456_789), desk.finished(run_id))

    cluster.wait_final(run_id)
    eventually(lambda: node.counters["callbacks_rejected"] == 1)
    assert node.connections.admin.count_messages("warren.dead") == 0


def refusing(
    monkeypatch: pytest.MonkeyPatch, is_refused: Callable[[transitions.FinalState], bool]
) -> None:
    """Let the database refuse such ends."""
    end = transitions.end

    def refuse(session: Session, ends: Sequence[transitions.FinalState]) -> None:
        if any(map(is_refused, ends)):
            raise ValueError("no column takes that")
        end(session, ends)

    monkeypatch.setattr(transitions, "end", refuse)


def reported(cluster: Cluster, desk: FakeExecutor) -> tuple[int, list[int]]:
    """Report twenty successes, the eighth with a result; return its run, and all of them."""
    cluster.job("work", concurrency=50)
    ids = [cluster.trigger("work") for _ in range(20)]
    desk.take(20)
    poison = ids[7]
    desk.report(*(desk.finished(each, result="7" if each == poison else "") for each in ids))
    return poison, ids


def test_a_report_whose_texts_cannot_be_stored_is_stored_without_them(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, lambda end: end.result == "7")

    poison, ids = reported(cluster, desk)
    for run_id in ids:
        cluster.wait_final(run_id)

    assert len(cluster.runs(status=RunStatus.SUCCEEDED)) == 20
    assert cluster.run(poison).message == "its result could not be stored: no column takes that"
    eventually(lambda: node.connections.admin.count_messages("warren.dead") == 1)
    assert node.counters["callbacks_unstorable"] == 1


def test_an_error_of_the_server_decides_no_run(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        refused: list[int] = []
        refusing(broken, lambda end: end.run_id in refused or end.result == "7")
        cluster.job("work")
        poison = cluster.trigger("work")
        desk.take()
        refused.append(poison)

        desk.report(desk.finished(poison))
        eventually(lambda: node.counters["callbacks_unstorable"] == 1)
        eventually(lambda: node.connections.admin.count_messages("warren.dead") == 1)
        assert cluster.run(poison).status in (RunStatus.SENT, RunStatus.ROUTED)

    desk.report(desk.finished(poison))

    assert cluster.wait_final(poison).status == RunStatus.SUCCEEDED


def test_results_wait_while_the_server_cannot_store_them(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(session: Session, _ends: Sequence[transitions.FinalState]) -> None:
        fail_for_want_of_room(session, cluster.database)

    cluster.job("work", concurrency=50)
    ids = [cluster.trigger("work") for _ in range(6)]
    desk.take(6)
    with monkeypatch.context() as broken:
        broken.setattr(transitions, "end", fail)
        desk.report(*(desk.finished(each, result="7") for each in ids))
        eventually(lambda: "callbacks" in node.failing_roles)

    rows = [cluster.wait_final(each) for each in ids]

    assert {(row.status, row.result) for row in rows} == {(RunStatus.SUCCEEDED, "7")}
    assert node.counters["callbacks_unstorable"] == 0
    assert node.connections.admin.count_messages("warren.dead") == 0


def test_reports_wait_for_a_database_that_is_away(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)
    mortal = cluster.mortals[id(node)]
    mortal.is_dead = True

    desk.report(desk.finished(run_id))
    eventually(lambda: "callbacks" in node.failing_roles)
    assert cluster.run(run_id).status == RunStatus.SENT
    mortal.is_dead = False

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED


@on_memory
def test_no_report_is_given_up_while_the_database_refuses_every_write(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)
    statement = (
        "CREATE TRIGGER no_writes BEFORE UPDATE ON xxl_job_log BEGIN SELECT RAISE(ABORT, 'x'); END"
    )
    cluster.database.write(lambda session: session.execute(text(statement)))

    desk.report(desk.finished(run_id))
    eventually(lambda: "callbacks" in node.failing_roles)
    cluster.database.write(lambda session: session.execute(text("DROP TRIGGER no_writes")))

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    assert node.counters["callbacks_unstorable"] == 0
    assert node.connections.admin.count_messages("warren.dead") == 0


@on_memory
def test_a_result_after_lost_is_kept_beside_it_and_fires_nothing(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk, retries=3)
    desk.report(desk.finished(run_id, Outcome.LOST))
    cluster.wait_final(run_id)

    desk.report(desk.finished(run_id, Outcome.FAILED))
    desk.report(desk.finished(run_id))
    quiet(cluster, node, desk)

    run = cluster.run(run_id)
    assert (run.status, run.late_status) == (RunStatus.LOST, RunStatus.FAILED)
    assert len(cluster.runs()) == 1


@on_memory
def test_an_executor_that_was_out_of_contact_learns_which_runs_are_still_open(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    cluster.job("work", concurrency=5)
    ended, still_open, of_another = (cluster.trigger("work") for _ in range(3))
    asked = (ended, still_open, of_another, 987_654)
    identity_of = {trigger.run_id: trigger.identity for trigger in desk.take(3)}
    desk.report(desk.finished(ended))
    cluster.wait_final(ended)

    desk.which_open(*asked)
    from_0_1_0 = desk.expect(OpenRunsReply)
    desk.heard.clear()
    identity_of[of_another] += 1
    desk.which_open(*asked, identities=tuple(identity_of.get(it, 5) for it in asked))
    answer = desk.expect(OpenRunsReply)

    assert answer.asked == from_0_1_0.asked == asked
    assert set(from_0_1_0.open_ids) == {still_open, of_another}
    assert answer.open_ids == (still_open,)


@on_memory
def test_forged_and_foreign_callbacks_are_given_up_and_change_nothing(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)
    good = desk.sealer
    desk.sealer = type(good)(
        ClusterKeys("another secret of thirty-two characters"), good.cluster, cluster.now_ms
    )
    desk.report(desk.finished(run_id))
    desk.sealer = type(good)(ClusterKeys(SECRET), "another cluster", cluster.now_ms)
    desk.report(desk.finished(run_id))

    desk.sealer = good
    quiet(cluster, node, desk)

    assert cluster.run(run_id).status == RunStatus.SENT
    assert node.counters["messages_rejected"] >= 2


@on_memory
def test_a_killed_run_that_never_started_ends_killed(cluster: Cluster, desk: FakeExecutor) -> None:
    run_id = begun(cluster, desk, retries=3)
    cluster.commands().kill(run_id)

    desk.report(desk.not_started(run_id))

    assert cluster.wait_final(run_id).status == RunStatus.KILLED
    assert len(cluster.runs()) == 1


@on_memory
def test_a_run_that_is_at_work_is_asked_about_and_left_alone(cluster: Cluster) -> None:
    cluster.timeouts = Timeouts(silence=0.8, answer=0.5)
    cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    run_id = begun(cluster, desk)
    desk.report(desk.started(run_id))

    eventually(lambda: desk.of(RunStateQuery)[1:])

    assert cluster.run(run_id).status == RunStatus.RUNNING


@on_memory
@pytest.mark.parametrize("key", [CALLBACK_KEY, HEARTBEAT_KEY])
def test_messages_that_say_nonsense_in_the_right_hand_are_given_up_one_by_one(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor, key: str
) -> None:
    run_id = begun(cluster, desk)

    for body in BAD_BODIES.values():
        desk.publisher.publish([_signed(desk, body, key)])
    desk.report(desk.finished(run_id))
    desk.beat()

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    eventually(lambda: _bad_messages(node) >= len(BAD_BODIES))
    assert node.failing_roles == []
    assert node.roster.routable("demo") == {"one": desk.boot_id}


@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize(
    ("body", "more"),
    [(b"x" * 4_000_000, {}), (b"x", {"more": "x" * 100_000})],
    ids=["body", "headers"],
)
def test_oversized_callbacks_are_dropped_and_not_kept(
    cluster: Cluster,
    node: SchedulerNode,
    desk: FakeExecutor,
    *,
    is_signed: bool,
    body: bytes,
    more: dict[str, str],
) -> None:
    run_id = begun(cluster, desk)
    huge = _signed(desk, body, CALLBACK_KEY)
    signed = huge.headers if is_signed else {}

    desk.publisher.publish([replace(huge, headers={**signed, **more})])
    desk.report(desk.finished(run_id))
    cluster.wait_final(run_id)

    assert node.counters["messages_dropped"] == 1
    assert node.connections.admin.count_messages("warren.dead") == 0


def _bad_messages(node: SchedulerNode) -> int:
    return node.counters["messages_rejected"] + node.counters["messages_dropped"]


def _signed(desk: FakeExecutor, body: bytes, key: str) -> Outgoing:
    headers = {
        "v": VERSION,
        "type": "Callback" if key == CALLBACK_KEY else "Heartbeat",
        "cluster": desk.sealer.cluster,
        "expiry": str(2**52),
        "app": desk.app,
        "address": desk.address,
    }
    headers["mac"] = mac(headers, key, body)
    return Outgoing(exchange=REPLY_EXCHANGE, routing_key=key, body=body, headers=headers)


# -- reports on other runs ----------------------------------------------------------------------


@on_memory
def test_the_result_of_another_run_of_the_same_id_is_refused(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("work")
    run_id = cluster.trigger("work")
    [trigger] = desk.take()
    cluster.wait_status(run_id, RunStatus.SENT)
    due = {"started_at_ms": cluster.now_ms(), "finished_at_ms": cluster.now_ms()}
    others = [
        desk.finished(run_id, identity=trigger.identity + 1),
        # As 0.1.0 reports the only run of a tick: by its job and when it was due.
        desk.finished(run_id, alone_of_job=trigger.job_id, due_at_ms=trigger.due_at_ms - 1, **due),
        desk.finished(run_id, alone_of_job=trigger.job_id + 1, due_at_ms=trigger.due_at_ms, **due),
        desk.not_started(run_id, identity=trigger.identity + 1),
        desk.started(run_id, identity=trigger.identity + 1),
    ]

    for report in others:
        desk.report(report)
    quiet(cluster, node, desk)

    assert cluster.run(run_id).status == RunStatus.SENT
    assert node.counters["callbacks_refused"]
    epoch = eventually(lambda: cluster.database.read(all_epochs))[0]
    assert (epoch.cause, epoch.told_by) == (Cause.EXECUTOR, f"{APP}/one")
    desk.report(desk.finished(run_id, identity=trigger.identity, message="its own"))
    assert cluster.wait_final(run_id).message == "its own"


@on_memory
def test_what_follows_a_run_is_planned_although_the_counter_went_back(
    cluster: Cluster, desk: FakeExecutor
) -> None:
    def turn_back() -> None:
        older = text("UPDATE warren_sequence SET next_id = 1")
        cluster.database.write(lambda session: session.execute(older))

    cluster.job("child")
    run_id = begun(cluster, desk, retries=1, children=("child",))

    turn_back()
    desk.report(desk.finished(run_id, Outcome.FAILED))
    [retry] = desk.take()
    turn_back()
    desk.report(desk.finished(retry.run_id))
    [child] = desk.take()

    assert [run.id for run in cluster.runs()] == sorted({run_id, retry.run_id, child.run_id})
    assert child.kind == "PARENT"


@on_memory
def test_an_executor_that_knows_of_later_ids_moves_the_counter(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("work")
    desk.last_run_id = 5_000
    eventually(lambda: cluster.database.read(all_epochs))

    run_id = cluster.trigger("work")

    assert run_id > LEFT_OUT
    assert [trigger.run_id for trigger in desk.take()] == [run_id]


@on_memory
def test_an_executor_that_met_an_id_twice_moves_the_counter_once(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    cluster.job("work")
    run_id = cluster.trigger("work")
    cluster.scheduler()

    desk.repeated_id = run_id
    eventually(lambda: cluster.database.read(all_epochs))
    cluster.scheduler()
    heard_by_all(cluster, desk)

    assert cluster.trigger("work") > LEFT_OUT
    [epoch] = cluster.database.read(all_epochs)
    assert (epoch.cause, epoch.told_by) == (Cause.EXECUTOR, f"{APP}/one")
    assert epoch.found_id == run_id


@on_memory
def test_an_id_that_nobody_gave_out_was_not_met_twice(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    desk.repeated_id = 5_000
    heard_by_all(cluster, desk)

    assert cluster.database.read(all_epochs) == []


@on_memory
def test_an_executor_of_0_1_0_gets_nothing_once_the_counter_went_back(
    cluster: Cluster, node: SchedulerNode, desk: FakeExecutor
) -> None:
    run_id = begun(cluster, desk)
    desk.last_run_id = None
    cluster.database.begin_epoch(Cause.RESTORED)

    eventually(lambda: not cluster.is_online())
    desk.report(desk.finished(run_id))

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    desk.last_run_id = 0
    eventually(cluster.is_online)
