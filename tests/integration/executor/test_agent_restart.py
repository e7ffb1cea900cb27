"""What a new boot makes of the journal that a killed one left."""

import queue
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.fake_scheduler import now_ms
from warren.broker.messages import Finished, KnownState, NotStarted, Outcome, RunKey, RunStateQuery
from warren.executor.errors import StateFolderInUse
from warren.executor.journal import file

OLD = "boot-of-old"


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    case = AgentCase(tmp_path)
    yield case
    case.close()


def finished(run_id: int) -> Finished:
    return Finished(
        run_id=run_id,
        boot_id=OLD,
        outcome=Outcome.SUCCEEDED,
        message="done",
        started_at_ms=1,
        finished_at_ms=2,
    )


def leave_journal(case: AgentCase, *lines: file.AnyRecord, tail: bytes = b"") -> None:
    """Leave the journal of a boot that was killed after these lines."""
    folder = case.state_dir / "exec-1"
    folder.mkdir(parents=True)
    boot = file.Boot(boot_id=OLD, at_ms=now_ms() - 60_000)
    text = b"".join(file.to_line(line) + b"\n" for line in (boot, *lines))
    (folder / "journal").write_bytes(text + tail)


def accepted_and_starting(run_id: int) -> tuple[file.AnyRecord, file.AnyRecord]:
    return file.Accepted(run_id=run_id), file.Starting(run_id=run_id, at_ms=5)


def test_killed_between_ack_and_start_the_run_is_given_back(case: AgentCase) -> None:
    leave_journal(case, file.Accepted(run_id=1))

    case.boot()

    assert case.desk.expect(1, NotStarted).boot_id == OLD


def test_killed_while_it_ran_the_run_is_lost(case: AgentCase) -> None:
    leave_journal(case, *accepted_and_starting(1))

    case.boot()

    lost = case.desk.expect(1, Finished)
    assert (lost.outcome, lost.boot_id, lost.started_at_ms) == (Outcome.LOST, OLD, 5)
    assert lost.message == "the executor stopped while it was running"


def test_killed_before_the_callback_was_confirmed_the_result_is_sent_again(
    case: AgentCase,
) -> None:
    leave_journal(case, *accepted_and_starting(1), file.Ended(report=finished(1)))

    case.boot()

    assert case.desk.expect(1, Finished) == finished(1)


def test_killed_after_the_confirm_nothing_is_sent_again(case: AgentCase) -> None:
    leave_journal(
        case,
        *accepted_and_starting(1),
        file.Ended(report=finished(1)),
        file.Confirmed(run_ids=(1,), at_ms=3),
    )

    case.boot()
    case.settle()

    assert case.desk.reports_on(1, Finished) == []


def test_torn_starting_line_means_that_nothing_was_started(case: AgentCase) -> None:
    leave_journal(case, file.Accepted(run_id=1), tail=b'{"t":"STARTING","run_id":1,"at')

    case.boot()

    case.desk.expect(1, NotStarted)


def test_earlier_reports_wait_for_the_welcome(case: AgentCase) -> None:
    leave_journal(case, file.Accepted(run_id=1))
    case.desk.welcomes = False
    case.boot(welcomed=False)
    eventually(lambda: case.desk.heard)

    assert case.desk.reports == []

    case.desk.welcomes = True
    case.desk.expect(1, NotStarted)


def test_trigger_that_comes_back_after_the_crash_is_not_started_again(case: AgentCase) -> None:
    leave_journal(case, *accepted_and_starting(1))
    case.boot()
    case.desk.expect(1, Finished)

    case.desk.send_trigger(1, boot_id=OLD)
    case.desk.send_trigger(1)
    case.settle()

    assert case.starts_of(1) == 0
    assert case.desk.reports_on(1, NotStarted) == []


def test_trigger_of_a_boot_that_never_saw_it_is_given_back(case: AgentCase) -> None:
    leave_journal(case)
    case.boot()

    case.desk.send_trigger(1, boot_id=OLD)

    case.desk.expect(1, NotStarted)


def test_only_the_first_copy_of_a_trigger_is_provably_unstarted_without_a_journal(
    case: AgentCase, tmp_path: Path
) -> None:
    first = case.boot()
    first.stop(hurry=True)
    assert first.join(60)
    case.desk.send_trigger(1)
    thief = case.broker.transport().consumer("thief", [case.desk.run_queue], prefetch=10)
    assert len(thief.take(10, 5)) == 1
    thief.close()
    case.desk.send_trigger(2, resent=True)
    case.desk.send_trigger(3)

    case.boot(state_dir=tmp_path / "another disk")

    case.desk.expect(3, NotStarted)
    case.settle()
    for run_id in (1, 2):
        assert case.desk.reports_on(run_id, NotStarted) == []
        assert case.starts_of(run_id) == 0


def test_result_survives_a_broker_that_is_away_until_the_next_boot(case: AgentCase) -> None:
    first = case.boot()
    old_boot = first.identity.boot_id
    case.desk.send_trigger(1, param="hold")
    eventually(lambda: case.starts_of(1))

    case.broker.stop()
    case.slots.finish(1)
    eventually(lambda: any(isinstance(record, file.Ended) for record in case.records()))
    first.stop(hurry=True)
    assert first.join(60)
    case.broker.start()
    case.boot()

    report = case.desk.expect(1, Finished)
    assert (report.boot_id, report.outcome) == (old_boot, Outcome.SUCCEEDED)


@dataclass(frozen=True)
class Frozen:
    """A copy of the state folder, and what was known to be true just before it was made."""

    folder: Path
    reported: set[int]
    started: set[int]


def freeze_under_load(case: AgentCase, folder: Path, runs: int) -> list[Frozen]:
    case.desk.publish(*[case.desk.seal_trigger(run_id) for run_id in range(1, runs + 1)])
    copies: list[Frozen] = []
    while len(case.desk.reports) < runs:
        reported = {report.run_id for report in list(case.desk.reports)}
        started = {trigger.run_id for trigger in list(case.slots.started)}
        copies.append(
            Frozen(case.freeze_journal(folder / f"frozen-{len(copies)}"), reported, started)
        )
    return copies


def test_state_folder_frozen_at_any_time_under_load_tells_the_truth(
    case: AgentCase, tmp_path: Path
) -> None:
    case.boot()
    copies = freeze_under_load(case, tmp_path, 2_000)

    for number, frozen in enumerate(copies[:: max(1, len(copies) // 5)]):
        lines = case.records(frozen.folder)
        accepted = {line.run_id for line in lines if isinstance(line, file.Accepted)}
        confirmed = {
            run_id for line in lines if isinstance(line, file.Confirmed) for run_id in line.run_ids
        }
        heir = AgentCase(tmp_path / f"heir-{number}")
        heir.boot(state_dir=frozen.folder)
        eventually(
            lambda heir=heir, said=accepted - confirmed: (
                {report.run_id for report in heir.desk.reports} >= said
            )
        )
        heir.close()
        unstarted = {r.run_id for r in heir.desk.reports if isinstance(r, NotStarted)}
        lost = {
            r.run_id
            for r in heir.desk.reports
            if isinstance(r, Finished) and r.outcome is Outcome.LOST
        }
        # What had been started is not called unstarted, what had been reported is not called lost.
        assert not unstarted & frozen.started
        assert not lost & frozen.reported


def test_second_executor_on_one_state_folder_ends_in_one_line(case: AgentCase) -> None:
    case.boot()

    with pytest.raises(StateFolderInUse, match="cannot start executor exec-1"):
        case.make().start()


def test_damaged_journal_is_read_as_far_as_it_goes_and_admits_what_it_may_have_lost(
    case: AgentCase,
) -> None:
    leave_journal(case, file.Accepted(run_id=1))
    with (case.state_dir / "exec-1" / "journal").open("ab") as journal:
        journal.write(b"\x00\x01damage\n" + file.to_line(file.Accepted(run_id=2)) + b"\n")
    before = now_ms()

    case.boot()

    case.desk.expect(1, NotStarted)
    case.desk.expect(2, NotStarted)
    answer = case.desk.ask(RunStateQuery, runs=())
    assert answer.remembers_since_ms >= before - 2_000
    # Its lines may be the damaged ones: a copy of it proves nothing.
    case.desk.send_trigger(3, boot_id=OLD, resent=True, routed_at_ms=before - 10_000)
    case.settle()
    assert case.desk.reports_on(3, NotStarted) == []
    assert case.executors[0].counts["unprovable"] == 1


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), KnownState.NEVER_STARTED),
        ((file.Accepted(run_id=1),), KnownState.NEVER_STARTED),
        (accepted_and_starting(1), KnownState.FINISHED),
        ((*accepted_and_starting(1), file.Ended(report=finished(1))), KnownState.FINISHED),
        (
            (
                *accepted_and_starting(1),
                file.Ended(report=finished(1)),
                file.Confirmed(run_ids=(1,), at_ms=now_ms()),
            ),
            KnownState.FINISHED,
        ),
    ],
)
def test_new_boot_knows_what_became_of_the_old_ones_runs(
    case: AgentCase, lines: tuple[file.AnyRecord, ...], expected: KnownState
) -> None:
    leave_journal(case, *lines)
    case.boot()

    answer = case.desk.ask(RunStateQuery, runs=(RunKey(run_id=1, boot_id=OLD),))

    assert answer.runs == {1: expected}
    if expected is KnownState.FINISHED:
        assert case.desk.expect(1, Finished).boot_id == OLD


def test_runs_that_were_sent_to_a_boot_before_it_was_welcome_are_remembered(
    case: AgentCase,
) -> None:
    """What has waited for an executor is sent as soon as a scheduler has admitted it."""
    case.desk.welcomes = False
    case.boot(welcomed=False)
    eventually(lambda: case.desk.heard)
    admitted_ms = now_ms()
    case.skip_seconds(20)
    case.desk.ahead_ms = 20_000
    case.desk.welcomes = True
    eventually(lambda: case.executors[0].is_taking)

    answer = case.desk.ask(RunStateQuery, runs=())

    assert answer.remembers_since_ms <= admitted_ms


def test_nothing_is_known_of_a_boot_that_the_journal_does_not_know(case: AgentCase) -> None:
    case.boot()

    answer = case.desk.ask(RunStateQuery, runs=(RunKey(run_id=1, boot_id="boot-elsewhere"),))

    assert answer.runs == {1: KnownState.UNKNOWN}


def test_boot_that_took_over_waits_for_what_the_one_before_may_still_say(case: AgentCase) -> None:
    case.limits = replace(case.limits, bequest_seconds=60.0)
    case.boot()
    case.skip_seconds(61)  # it has had the address before the other one, and has it again
    key = RunKey(run_id=1, boot_id="boot-elsewhere")

    early = case.desk.ask(RunStateQuery, runs=(key,))
    case.skip_seconds(61)
    late = case.desk.ask(RunStateQuery, runs=(key,))

    assert (early.runs, late.runs) == ({1: KnownState.WAITING}, {1: KnownState.UNKNOWN})


def test_boot_that_took_over_knows_what_it_adopts(case: AgentCase) -> None:
    case.limits = replace(case.limits, bequest_seconds=60.0)
    executor = case.boot()
    lines = (
        file.Boot(boot_id=OLD, at_ms=now_ms() - 60_000),
        file.Accepted(run_id=1),
        file.Accepted(run_id=2),
        file.Ended(report=finished(2)),
    )
    told: queue.Queue[str] = queue.Queue()

    executor.adopt(b"".join(file.to_line(line) + b"\n" for line in lines), told.put)

    assert told.get(timeout=30) == ""
    assert case.desk.expect(1, NotStarted).boot_id == OLD
    assert case.desk.expect(2, Finished) == finished(2)
    keys = tuple(RunKey(run_id=run_id, boot_id=OLD) for run_id in (1, 2, 3))
    known = case.desk.ask(RunStateQuery, runs=keys).runs
    assert known[1] is known[3] is KnownState.NEVER_STARTED
    assert known[2] is KnownState.FINISHED


def test_boot_that_is_replaced_gives_back_what_an_earlier_process_never_started(
    case: AgentCase,
) -> None:
    leave_journal(case, file.Accepted(run_id=1))
    case.desk.refuses = True

    executor = case.boot(welcomed=False, boot_id=OLD)

    assert executor.join(30)
    assert executor.was_replaced
    assert case.desk.expect(1, NotStarted).boot_id == OLD


def test_boot_that_is_refused_says_nothing_of_others_that_its_journal_may_be_a_copy_of(
    case: AgentCase,
) -> None:
    leave_journal(case, file.Accepted(run_id=1))
    case.desk.refuses = True

    executor = case.boot(welcomed=False)

    assert executor.join(30)
    assert not executor.was_replaced
    assert case.desk.reports_on(1, NotStarted) == []
