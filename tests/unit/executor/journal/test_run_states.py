"""Each test leaves a journal as a killed process would have left it, and opens it again."""

import os
import shutil
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from warren.broker.messages import Called, Finished, NotStarted, Outcome, Trigger
from warren.broker.reasons import Why
from warren.broker.stored_reasons import to_json
from warren.executor.begin_notes import BeginNote, OldNotes, make_note
from warren.executor.errors import JournalFailed, NewerJournal
from warren.executor.fork_server import linux
from warren.executor.journal import file
from warren.executor.journal.file import Final, Journal
from warren.executor.journal.run_states import MEMORY_MS, SETTLED_MS, FinishedRuns, RunStates, Stage


def finished(run_id: int, boot_id: str = "boot-1", message: str = "done") -> Finished:
    return Finished(
        run_id=run_id,
        boot_id=boot_id,
        outcome=Outcome.SUCCEEDED,
        message=message,
        started_at_ms=5,
        finished_at_ms=6,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def open_run_states(path: Path, **limits: Any) -> RunStates:
    return RunStates(Journal(path), structlog.get_logger(), **limits)


def begin(run_states: RunStates, boot_id: str, now_ms: int = 1_000) -> list[Final | Called]:
    return [report for report, _ in run_states.begin(boot_id, now_ms)]


def boot(path: Path, boot_id: str, now_ms: int = 1_000) -> tuple[RunStates, list[Final | Called]]:
    run_states = open_run_states(path)
    return run_states, begin(run_states, boot_id, now_ms)


def write(path: Path, lines: Sequence[file.AnyRecord | bytes]) -> None:
    path.write_bytes(
        b"".join(
            (line if isinstance(line, bytes) else file.to_line(line)) + b"\n" for line in lines
        )
    )


REMOTE = {
    "run_id": 1,
    "job_id": 5,
    "boot_id": "boot-1",
    "kind": "CRON",
    "handler": "h",
    "scheduled_at_ms": 1,
}
BOOT = file.Boot(boot_id="boot-1", at_ms=500)
NEVER_STARTED = NotStarted(
    run_id=1,
    boot_id="boot-1",
    reason="the executor stopped before it started",
    why=to_json(Why.EXECUTOR_ENDED_BEFORE()),
)


def test_new_journal_has_nothing_to_report(path: Path) -> None:
    run_states, reports = boot(path, "boot-1", now_ms=700)

    assert reports == []
    assert run_states.stage(1) is Stage.UNKNOWN
    assert run_states.remembers_since_ms == 700


def test_run_goes_through_its_stages(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")

    stages, open_at = [], []
    for step in (
        lambda: run_states.accept(1),
        lambda: run_states.start(file.Starting(run_id=1, at_ms=5)),
        lambda: run_states.finish(finished(1)),
        lambda: run_states.confirm((1,), 9),
    ):
        step()
        stages.append(run_states.stage(1))
        open_at.append(run_states.has_open)

    assert stages == [Stage.ACCEPTED, Stage.STARTING, Stage.FINISHED, Stage.FINISHED]
    assert open_at == [True, True, True, False]


def test_killed_after_accepted_the_run_is_reported_not_started_in_the_old_boots_name(
    path: Path,
) -> None:
    write(path, [BOOT, file.Accepted(run_id=1)])

    _, reports = boot(path, "boot-2")

    assert reports == [NEVER_STARTED]


def test_killed_after_starting_the_run_is_reported_lost_in_the_old_boots_name(path: Path) -> None:
    write(path, [BOOT, file.Accepted(run_id=1), file.Starting(run_id=1, at_ms=600)])

    _, reports = boot(path, "boot-2", now_ms=900)

    assert reports == [
        Finished(
            run_id=1,
            boot_id="boot-1",
            outcome=Outcome.LOST,
            message=str(Why.EXECUTOR_ENDED()),
            why=to_json(Why.EXECUTOR_ENDED()),
            started_at_ms=600,
            finished_at_ms=900,
        )
    ]


def test_killed_after_a_reservation_the_run_is_reported_not_started(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    run_states.accept(1)
    run_states.reserve((1,))
    run_states.commit()

    _, reports = boot(path, "boot-2")

    assert reports == [NEVER_STARTED]


def test_start_of_a_reserved_run_outlives_the_process_without_a_sync(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    run_states.accept(1)
    run_states.reserve((1,))
    run_states.commit()
    run_states.start(file.Starting(run_id=1, at_ms=600))
    run_states.write()

    _, (report,) = boot(path, "boot-2")

    assert isinstance(report, Finished)
    assert (report.outcome, report.started_at_ms) == (Outcome.LOST, 600)


def test_host_that_went_down_leaves_reserved_runs_lost_and_others_not_started(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "host_boot", lambda: "host-boot-1")
    run_states, _ = boot(path, "boot-1")
    run_states.accept(1)
    run_states.accept(2)
    run_states.reserve((1,))
    run_states.commit()

    monkeypatch.setattr(linux, "host_boot", lambda: "host-boot-2")
    _, reports = boot(path, "boot-2")

    assert [type(report) for report in reports] == [Finished, NotStarted]
    assert [report.run_id for report in reports] == [1, 2]


@pytest.mark.parametrize("now", ["", "host-boot-1"])
def test_host_that_cannot_be_told_counts_as_one_that_went_down(
    path: Path, monkeypatch: pytest.MonkeyPatch, now: str
) -> None:
    write(path, [BOOT, file.Accepted(run_id=1), file.Reserved(run_ids=(1,))])
    monkeypatch.setattr(linux, "host_boot", lambda: now)

    _, (report,) = boot(path, "boot-2")

    assert isinstance(report, Finished)
    assert report.outcome is Outcome.LOST


def test_reservation_and_host_outlive_a_compaction(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "host_boot", lambda: "host-boot-1")
    run_states, _ = boot(path, "boot-1")
    run_states.accept(1)
    run_states.reserve((1,))
    run_states.compact(1_100)

    kept = [file.from_line(line) for line in Journal(path).read()]

    assert kept == [
        file.Boot(boot_id="boot-1", at_ms=1_000, host_boot="host-boot-1"),
        file.Accepted(run_id=1),
        file.Reserved(run_ids=(1,)),
    ]


def hand_over(path: Path, old: OldNotes, *, begun: int, is_compacted: bool = False) -> None:
    """Leave runs 1 to 4 as a killed executor would; a process was handed three of them at once."""
    run_states = open_run_states(path, notes=old)
    begin(run_states, "boot-1")
    for run_id in (1, 2, 3, 4):
        run_states.accept(run_id)
    run_states.reserve((1, 2, 3, 4))
    run_states.commit()
    run_states.start(file.Starting(run_id=1, at_ms=600))
    run_states.hand_over((1, 2, 3))
    run_states.write()
    old.path_of("boot-1").mkdir(parents=True)
    note = make_note(old.path_of("boot-1") / "0")
    assert note is not None
    assert not begun or BeginNote(note).begin(1, begun)
    os.close(note)
    if is_compacted:
        run_states.finish(finished(1))
        run_states.confirm((1,), 700)
        run_states.compact(800)


@pytest.mark.parametrize(
    ("begun", "lost"), [(0, {1}), (1, {1}), (2, {1, 2}), (3, {1, 2, 3}), (99, {1})]
)
def test_of_runs_handed_over_at_once_those_are_lost_that_the_process_had_begun(
    path: Path, begun: int, lost: set[int]
) -> None:
    old = OldNotes(path.parent / "begun")
    hand_over(path, old, begun=begun)

    reports = begin(open_run_states(path, notes=old), "boot-2")

    assert {one.run_id for one in reports if isinstance(one, Finished)} == lost
    assert {one.run_id for one in reports} == {1, 2, 3, 4}


def test_handing_over_outlives_a_compaction(path: Path) -> None:
    old = OldNotes(path.parent / "begun")
    hand_over(path, old, begun=2, is_compacted=True)

    reports = begin(open_run_states(path, notes=old), "boot-2")

    assert [type(report) for report in reports] == [Finished, NotStarted, NotStarted]
    assert [report.run_id for report in reports] == [2, 3, 4]


def test_runs_handed_over_are_lost_where_their_notes_are_gone(path: Path) -> None:
    old = OldNotes(path.parent / "begun")
    hand_over(path, old, begun=1)
    shutil.rmtree(old.path_of("boot-1"))

    reports = begin(open_run_states(path, notes=old), "boot-2")

    assert {one.run_id for one in reports if isinstance(one, Finished)} == {1, 2, 3}


def test_run_handed_over_again_is_judged_by_the_last_time(path: Path) -> None:
    old = OldNotes(path.parent / "begun")
    hand_over(path, old, begun=1)
    run_states = open_run_states(path, notes=old)
    run_states.hand_over((4, 3))
    run_states.write()
    with (old.path_of("boot-1") / "0").open("r+b") as note:
        assert BeginNote(note.fileno()).begin(2, 4)

    reports = begin(open_run_states(path, notes=old), "boot-2")

    assert {one.run_id for one in reports if isinstance(one, Finished)} == {1, 4}


def test_notes_stay_until_the_verdict_on_them_is_in_the_journal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = OldNotes(path.parent / "begun")
    hand_over(path, old, begun=2)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "rewrite", _fail)
        patch.setattr(Journal, "commit", _fail)
        with pytest.raises(JournalFailed):
            begin(open_run_states(path, notes=old), "boot-2")
    assert old.path_of("boot-1").exists()

    begin(open_run_states(path, notes=old), "boot-3")

    assert not old.path_of("boot-1").exists()


def _fail(*_: object) -> None:
    raise JournalFailed("no space")


def test_killed_after_finished_the_result_is_reported_again(path: Path) -> None:
    write(
        path,
        [
            BOOT,
            file.Accepted(run_id=1),
            file.Starting(run_id=1, at_ms=600),
            file.Ended(report=finished(1)),
        ],
    )

    _, reports = boot(path, "boot-2")

    assert reports == [finished(1)]


def test_killed_after_confirmed_nothing_is_reported_but_the_run_is_known(path: Path) -> None:
    write(
        path,
        [
            BOOT,
            file.Accepted(run_id=1),
            file.Starting(run_id=1, at_ms=600),
            file.Ended(report=finished(1)),
            file.Confirmed(run_ids=(1,), at_ms=700),
        ],
    )

    run_states, reports = boot(path, "boot-2")

    assert reports == []
    assert run_states.stage(1) is Stage.FINISHED
    assert run_states.report(1, "boot-1", now_ms=1_000)[0] == finished(1)


def test_verdict_on_a_crash_is_repeated_by_every_boot_until_it_is_confirmed(path: Path) -> None:
    write(path, [BOOT, file.Accepted(run_id=1), file.Starting(run_id=1, at_ms=600)])

    _, second = boot(path, "boot-2", now_ms=900)
    third_states, third = boot(path, "boot-3", now_ms=950)
    third_states.confirm((1,), 960)
    third_states.commit()
    _, fourth = boot(path, "boot-4", now_ms=990)

    assert third == second
    assert second[0].boot_id == "boot-1"
    assert fourth == []


def test_torn_last_line_was_never_acted_upon(path: Path) -> None:
    write(path, [BOOT, file.Accepted(run_id=1)])
    whole = path.read_bytes()
    path.write_bytes(whole + file.to_line(file.Starting(run_id=1, at_ms=600))[:-3])

    run_states, reports = boot(path, "boot-2")

    assert [type(report) for report in reports] == [NotStarted]
    assert run_states.remembers_since_ms == 500


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"\xff\xfe", b'{"t":"OTHER"}', b"[]", b'{"t":"ACCEPTED","run_id":"x"}', b"\0" * 40],
)
def test_damaged_line_in_the_middle_is_skipped_and_makes_the_memory_younger(
    path: Path, damage: bytes
) -> None:
    write(path, [BOOT, file.Accepted(run_id=1), damage, file.Accepted(run_id=2)])

    run_states, reports = boot(path, "boot-2", now_ms=900)

    assert [report.run_id for report in reports] == [1, 2]
    assert run_states.remembers_since_ms == 900


def test_horizon_of_a_damaged_journal_outlives_the_next_boot(path: Path) -> None:
    write(path, [BOOT, b"damage"])
    boot(path, "boot-2", now_ms=900)

    run_states, _ = boot(path, "boot-3", now_ms=2_000)

    assert run_states.remembers_since_ms == 900


def test_everything_said_survives_a_compaction(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    for run_id in (1, 2, 3, 4):
        run_states.accept(run_id)
    for run_id in (2, 3, 4):
        run_states.start(file.Starting(run_id=run_id, at_ms=5))
    run_states.finish(finished(3))
    run_states.finish(finished(4))
    run_states.confirm((4,), 9)
    run_states.commit()

    run_states.compact(1_100)
    reopened, reports = boot(path, "boot-2", now_ms=1_200)

    kinds = {report.run_id: type(report) for report in reports}
    assert kinds == {1: NotStarted, 2: Finished, 3: Finished}
    assert {report.boot_id for report in reports} == {"boot-1"}
    assert reopened.report(4, "boot-1", now_ms=1_000)[0] == finished(4)


def test_compaction_makes_the_file_small(path: Path) -> None:
    run_states = open_run_states(path, growth_limit=10_000, results_limit=1_000)
    begin(run_states, "boot-1")
    run_id = 0
    while not run_states.is_due_for_compaction:
        run_id += 1
        run_states.accept(run_id)
        run_states.start(file.Starting(run_id=run_id, at_ms=5))
        run_states.finish(finished(run_id))
        run_states.confirm((run_id,), 9)
        run_states.commit()

    run_states.compact(1_100)

    assert path.stat().st_size < 3_000
    assert not run_states.is_due_for_compaction
    assert run_states.stage(1) is Stage.FINISHED


def test_result_that_is_no_longer_kept_is_lost_once_its_report_cannot_be_on_its_way(
    path: Path,
) -> None:
    run_states = open_run_states(path, results_limit=0)
    begin(run_states, "boot-1", now_ms=800)
    run_states.accept(1)
    run_states.finish(finished(1))
    run_states.confirm((1,), 900)

    on_its_way = run_states.report(1, "boot-1", now_ms=900 + SETTLED_MS - 1)
    report, _ = run_states.report(1, "boot-1", now_ms=900 + SETTLED_MS)

    assert run_states.stage(1) is Stage.FINISHED
    assert on_its_way is None
    assert isinstance(report, Finished)
    assert (report.outcome, report.why) == (Outcome.LOST, to_json(Why.REPORT_FORGOTTEN()))


def test_memory_for_kept_reports_is_bounded_with_all_that_python_adds(path: Path) -> None:
    limit, count = 500_000, 5_000
    tracemalloc.start()
    try:
        finished_runs = FinishedRuns(limit)
        before, _ = tracemalloc.get_traced_memory()
        for number in range(count):
            run_id = 1_000_000 + number
            finished_runs.add(run_id, 2_000_000 + number, file.line_of(finished(run_id)))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    kept = [run_id for run_id in range(1_000_000, 1_000_000 + count) if finished_runs.line(run_id)]
    assert used < 1.2 * limit
    assert kept == list(range(kept[0], 1_000_000 + count))  # the latest
    assert limit / 1_000 < len(kept) < limit / 300


def test_reports_of_over_an_hour_ago_are_dropped_without_a_compaction() -> None:
    finished_runs = FinishedRuns()
    finished_runs.add(1, 5_000, b"a line")

    finished_runs.add(2, 5_000 + MEMORY_MS, b"a line")
    assert finished_runs.line(1)
    finished_runs.add(3, 5_001 + MEMORY_MS, b"a line")

    assert not finished_runs.line(1)
    assert finished_runs.line(2)
    assert 1 in finished_runs  # its id is kept until the horizon moves


def test_id_is_remembered_for_an_hour_and_then_the_horizon_moves(path: Path) -> None:
    run_states, _ = boot(path, "boot-1", now_ms=1_000)
    run_states.accept(1)
    run_states.finish(finished(1))
    run_states.confirm((1,), 2_000)

    run_states.compact(2_000 + MEMORY_MS)
    assert run_states.stage(1) is Stage.FINISHED
    run_states.compact(2_001 + MEMORY_MS)

    assert run_states.stage(1) is Stage.UNKNOWN
    assert run_states.remembers_since_ms == 2_001
    assert open_run_states(path).remembers_since_ms == 2_001


def test_result_of_a_run_of_another_boot_is_kept_like_any_other(path: Path) -> None:
    run_states, _ = boot(path, "boot-2")
    run_states.finish(NotStarted(run_id=7, boot_id="boot-1", reason="other boot"))
    run_states.commit()

    _, reports = boot(path, "boot-3")

    assert reports == [NotStarted(run_id=7, boot_id="boot-1", reason="other boot")]


def test_boots_of_the_journal_are_known_and_others_not(path: Path) -> None:
    boot(path, "boot-1")
    run_states, _ = boot(path, "boot-2")

    assert run_states.knows_boot("boot-1")
    assert run_states.knows_boot("boot-2")
    assert not run_states.knows_boot("boot-3")


def test_only_what_was_given_to_a_known_boot_since_the_horizon_cannot_be_forgotten(
    path: Path,
) -> None:
    write(path, [BOOT, file.Horizon(since_ms=600)])

    run_states, _ = boot(path, "boot-2", now_ms=1_000)

    assert run_states.may_have_forgotten("boot-1", 599)
    assert not run_states.may_have_forgotten("boot-1", 600)
    assert not run_states.may_have_forgotten("boot-2", 700)
    assert run_states.may_have_forgotten("boot-9", 700)


def test_journal_that_forgot_nothing_covers_its_boots_from_their_first_moment(path: Path) -> None:
    run_states, _ = boot(path, "boot-1", now_ms=1_000)

    assert not run_states.may_have_forgotten("boot-1", 0)


def test_oldest_of_very_many_boots_are_forgotten_and_memory_begins_later(path: Path) -> None:
    write(path, [file.Boot(boot_id=f"boot-{n}", at_ms=n) for n in range(1_500)])

    run_states, _ = boot(path, "boot-now", now_ms=9_000)

    assert not run_states.knows_boot("boot-500")
    assert run_states.knows_boot("boot-501")
    assert run_states.remembers_since_ms == 501


def test_begin_on_a_full_disk_may_be_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, [BOOT, file.Accepted(run_id=1)])
    run_states = open_run_states(path)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "rewrite", _fail)
        patch.setattr(Journal, "commit", _fail)
        for _ in range(3):
            with pytest.raises(JournalFailed):
                begin(run_states, "boot-2")

        patch.undo()
        patch.setattr(Journal, "rewrite", _fail)
        reports = begin(run_states, "boot-2")

    assert [report.run_id for report in reports] == [1]
    assert [line.partition(b",")[0] for line in path.read_bytes().splitlines()] == [
        b'{"t":"BOOT"',
        b'{"t":"ACCEPTED"',
        b'{"t":"BOOT"',
        b'{"t":"FINISHED"',
    ]


def test_boot_that_has_no_room_for_a_new_file_begins_in_the_old_one(path: Path) -> None:
    write(path, [BOOT, file.Accepted(run_id=1), file.Accepted(run_id=2)])
    blocker = path.with_suffix(".tmp")
    blocker.mkdir()
    first = open_run_states(path)

    reports = begin(first, "boot-2")
    first.accept(3)
    first.confirm((1,), 1_200)
    first.commit()
    first.close()

    assert {report.run_id for report in reports} == {1, 2}
    second = open_run_states(path)
    assert second.knows_boot("boot-2")
    assert [second.stage(run_id) for run_id in (1, 2, 3)] == [
        Stage.FINISHED,
        Stage.FINISHED,
        Stage.ACCEPTED,
    ]
    assert {report.run_id for report in begin(second, "boot-3")} == {2, 3}


def test_failed_compaction_waits_for_the_next_growth(path: Path) -> None:
    run_states = open_run_states(path, growth_limit=100)
    begin(run_states, "boot-1")
    while not run_states.is_due_for_compaction:
        run_states.accept(path.stat().st_size)
        run_states.commit()
    path.with_suffix(".tmp").mkdir()

    with pytest.raises(JournalFailed):
        run_states.compact(1_100)

    assert not run_states.is_due_for_compaction


def test_text_that_is_no_unicode_is_reported_with_question_marks(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    run_states.accept(1)

    report, size = run_states.finish(finished(1, message="file \udcff.txt"))

    assert isinstance(report, Finished)
    assert report.message == "file ?.txt"
    assert size > 0
    assert run_states.report(1, "boot-1", now_ms=1_000)[0] == report


def test_reason_that_is_no_unicode_is_reported_with_question_marks(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")

    report, _ = run_states.finish(NotStarted(run_id=1, boot_id="boot-0", reason="\udcff"))

    assert report == NotStarted(run_id=1, boot_id="boot-0", reason="?")


def test_reports_of_an_older_boot_come_with_their_size(path: Path) -> None:
    write(path, [BOOT, file.Ended(report=finished(1, message="x" * 5_000))])

    ((_, size),) = open_run_states(path).begin("boot-2", 1_000)

    assert 5_000 < size < 5_500


class TestRemoteRuns:
    """Runs that go on elsewhere when this process ends."""

    def remote(self, run_id: int) -> Trigger:
        return Trigger(
            run_id=run_id, job_id=1, boot_id="boot-1", kind="CRON", handler="h", scheduled_at_ms=1
        )

    def starting(self, run_id: int) -> file.Starting:
        return file.Starting(run_id=run_id, at_ms=5, trigger=self.remote(run_id), host_at_ms=7)

    def start(self, path: Path, run_id: int) -> RunStates:
        run_states, _ = boot(path, "boot-1")
        run_states.accept(run_id)
        run_states.start(self.starting(run_id))
        run_states.commit()
        return run_states

    def test_one_that_was_starting_is_resumed_and_not_reported(self, path: Path) -> None:
        self.start(path, 1).close()

        run_states, reports = boot(path, "boot-1")

        assert reports == []
        assert run_states.resumable("boot-1") == [self.starting(1)]
        assert run_states.stage(1) is Stage.STARTING

    def test_one_of_an_older_boot_is_lost(self, path: Path) -> None:
        self.start(path, 1).close()

        run_states = open_run_states(path)
        resumed = run_states.resumable("boot-2")
        reports = begin(run_states, "boot-2")

        assert resumed == []
        assert [(type(report), report.boot_id) for report in reports] == [(Finished, "boot-1")]
        assert getattr(reports[0], "outcome", None) is Outcome.LOST

    def test_one_survives_compactions_and_restarts(self, path: Path) -> None:
        self.start(path, 1).close()
        for _ in range(2):
            run_states, _ = boot(path, "boot-1", 2_000)
            run_states.compact(3_000)
            run_states.close()

        run_states, reports = boot(path, "boot-1")

        assert (reports, run_states.resumable("boot-1")) == ([], [self.starting(1)])
        assert run_states.remembers_since_ms == 1_000

    def test_result_from_before_the_boot_is_reported(self, path: Path) -> None:
        self.start(path, 1).close()
        run_states = open_run_states(path)
        run_states.finish(finished(1))
        run_states.commit()

        assert begin(run_states, "boot-1") == [finished(1)]
        assert run_states.resumable("boot-1") == []

    def test_one_that_was_only_accepted_never_started(self, path: Path) -> None:
        run_states, _ = boot(path, "boot-1")
        run_states.accept(1)
        run_states.commit()
        run_states.close()

        run_states, reports = boot(path, "boot-1")

        assert [type(report) for report in reports] == [NotStarted]


# -- calls ------------------------------------------------------------------------------------


def called(number: int = 1, param: str | None = "p") -> Called:
    return Called(run_id=7, boot_id="boot-1", number=number, job="mail", param=param)


def test_calls_are_reported_again_by_the_next_boot_until_the_broker_has_them(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    for number in (1, 2):
        run_states.call(called(number))
    run_states.commit()
    run_states.confirm_calls(((7, 1),))
    run_states.commit()

    again, reports = boot(path, "boot-2")

    assert reports == [called(2)]
    assert again.has_open
    again.confirm_calls(((7, 2),))
    again.compact(2_000)
    last, reports = boot(path, "boot-3")
    assert (reports, last.has_open) == ([], False)


def test_a_call_survives_that_its_run_is_lost_and_comes_before_that_end(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    run_states.accept(7)
    run_states.start(file.Starting(run_id=7, at_ms=5))
    run_states.call(called(param=None))
    run_states.commit()

    _, reports = boot(path, "boot-2")

    first, end = reports
    assert first == called(param=None)
    assert isinstance(end, Finished)
    assert end.outcome is Outcome.LOST


def test_what_is_not_unicode_in_a_call_becomes_a_question_mark(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")

    report, _ = run_states.call(called(param="caf\udce9"))

    assert report.param == "caf?"


# -- runs of the same id ----------------------------------------------------------------------


def trigger(run_id: int, job_id: int = 1, due_at_ms: int = 5_000) -> Trigger:
    return Trigger(
        run_id=run_id,
        job_id=job_id,
        boot_id="boot-1",
        kind="CRON",
        handler="h",
        scheduled_at_ms=due_at_ms,
        due_at_ms=due_at_ms,
    )


def run(run_states: RunStates, it: Trigger, message: str, at_ms: int = 6_000) -> None:
    """Let a run be accepted, end, and be reported."""
    run_states.accept(it.run_id, it.identity)
    run_states.finish(
        msgspec.structs.replace(finished(it.run_id, message=message), identity=it.identity)
    )
    run_states.confirm((it.run_id,), at_ms)
    run_states.commit()


def test_a_run_takes_the_place_of_a_finished_one_of_its_id(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    old, new = trigger(7), trigger(7, job_id=2)
    run(run_states, old, "old")
    assert run_states.is_another(new)
    assert not run_states.is_another(old)

    run_states.displace(7)
    assert run_states.stage(7) is Stage.UNKNOWN
    run(run_states, new, "new")

    for states in (run_states, open_run_states(path)):
        known = states.report(7, "boot-1", now_ms=7_000)
        assert known is not None
        assert isinstance(known[0], Finished)
        assert known[0].message == "new"
        assert states.is_another(old)
        assert not states.is_another(new)


def test_a_run_that_was_displaced_is_not_reported_after_a_restart(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    run(run_states, trigger(7), "old")
    run_states.displace(7)
    new = trigger(7, job_id=2)
    run_states.accept(7, new.identity)
    run_states.commit()
    run_states.close()

    _, [report] = boot(path, "boot-2")

    assert isinstance(report, NotStarted)
    assert report.identity == new.identity


def test_a_report_that_is_confirmed_again_is_kept(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    run(run_states, trigger(7), "done")
    run_states.confirm((7,), 6_500)
    run_states.commit()

    for states in (run_states, open_run_states(path)):
        assert states.report(7, "boot-1", now_ms=7_000) is not None
        assert states.is_another(trigger(7, job_id=2))


def test_a_repeated_id_outlives_a_restart(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    for run_id in (7, 8):
        run(run_states, trigger(run_id), "old")
    assert run_states.repeated_id == 0
    run_states.displace(7)
    run(run_states, trigger(7, job_id=2), "new")
    run_states.close()

    again, _ = boot(path, "boot-2")

    assert run_states.repeated_id == again.repeated_id == 7


def test_a_run_of_which_only_the_id_is_kept_is_another_than_one_due_after_its_end(
    path: Path,
) -> None:
    run_states = open_run_states(path, results_limit=0)
    begin(run_states, "boot-1")
    run(run_states, trigger(7), "old", at_ms=6_000)

    assert run_states.stage(7) is Stage.FINISHED
    assert run_states.is_another(trigger(7, job_id=2, due_at_ms=6_001))
    assert not run_states.is_another(trigger(7))


def test_the_highest_id_outlives_a_restart_and_a_compaction(path: Path) -> None:
    run_states, _ = boot(path, "boot-1")
    for run_id in (70, 700, 7):
        run(run_states, trigger(run_id), "done")
    run_states.compact(7_000)
    run_states.close()

    assert open_run_states(path).highest_id == 700


class TestAdopting:
    """A journal that another gateway kept is added to the one of the boot that took over."""

    @pytest.fixture
    def own(self, path: Path) -> RunStates:
        return boot(path, "boot-2", now_ms=1_000)[0]

    @pytest.fixture
    def theirs(self, tmp_path: Path) -> bytes:
        started = file.Starting(run_id=1, at_ms=5, trigger=Trigger(**REMOTE), host_at_ms=5)
        ended = file.Ended(report=finished(2))
        write(tmp_path / "theirs", [BOOT, *map(_accepted, (1, 2, 3)), started, ended])
        return (tmp_path / "theirs").read_bytes()

    def test_runs_without_a_start_go_back_and_others_go_on(
        self, own: RunStates, theirs: bytes
    ) -> None:
        reports, starts = own.adopt(theirs, 2_000)

        assert [start.run_id for start in starts] == [1]
        ended, never = sorted((report for report, _ in reports), key=lambda one: one.run_id)
        assert ended == finished(2)
        assert never == msgspec.structs.replace(NEVER_STARTED, run_id=3)
        assert own.stage(4) is Stage.UNKNOWN
        assert own.knows_boot("boot-1")
        assert own.remembers_since_ms == BOOT.at_ms

    def test_it_is_as_well_known_after_a_restart(
        self, own: RunStates, theirs: bytes, path: Path
    ) -> None:
        own.adopt(theirs, 2_000)
        own.accept(5)
        own.commit()

        _, reports = boot(path, "boot-2", now_ms=3_000)

        assert {report.run_id: report.boot_id for report in reports} == {
            1: "boot-1",
            2: "boot-1",
            3: "boot-1",
            5: "boot-2",
        }

    def test_it_counts_once(self, own: RunStates, theirs: bytes) -> None:
        own.adopt(theirs, 2_000)

        assert own.adopt(theirs, 3_000) == ([], [])

    def test_it_opens_no_run_again_that_has_ended_here(
        self, own: RunStates, theirs: bytes, path: Path
    ) -> None:
        own.adopt(theirs, 2_000)
        own.finish(finished(1))
        own.confirm((1, 2, 3), 2_500)

        _, starts = own.adopt(theirs, 3_000)

        assert starts == []
        own.commit()
        assert open_run_states(path).stage(1) is Stage.FINISHED

    def test_it_is_refused_if_a_newer_version_wrote_it(self, own: RunStates) -> None:
        newer = file.Boot(boot_id="boot-1", at_ms=500, format=file.FORMAT + 1)

        with pytest.raises(NewerJournal):
            own.adopt(file.to_line(newer) + b"\n", 2_000)

        assert not own.knows_boot("boot-1")

    def test_damage_admits_what_may_be_missing(self, own: RunStates, theirs: bytes) -> None:
        own.adopt(b"damage\n" + theirs, 2_000)

        assert own.remembers_since_ms == 2_000


def _accepted(run_id: int) -> file.Accepted:
    return file.Accepted(run_id=run_id)
