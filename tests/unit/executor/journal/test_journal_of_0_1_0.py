"""The journal of an executor of 0.1.0 is understood, and that of a newer version is left alone."""

import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
import structlog

from tests.support import first_release
from warren.broker.messages import Called, Finished, NotStarted, Outcome, Trigger
from warren.executor.begin_notes import OldNotes
from warren.executor.errors import NewerJournal
from warren.executor.fork_server import linux
from warren.executor.journal import file
from warren.executor.journal.file import Journal
from warren.executor.journal.run_states import RunStates, Stage


def open_run_states(path: Path, **notes: Any) -> RunStates:
    return RunStates(Journal(path), structlog.get_logger(), **notes)


def trigger(run_id: int, due_at_ms: int) -> Trigger:
    return Trigger(
        run_id=run_id,
        job_id=7,
        boot_id="boot-new",
        kind="CRON",
        handler="h",
        scheduled_at_ms=due_at_ms,
        due_at_ms=due_at_ms,
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """What an executor of 0.1.0 left when it was killed."""
    return Path(shutil.copytree(first_release.DATA / "host-1", tmp_path / "host-1"))


@pytest.mark.parametrize(
    ("host_boot", "lost"),
    [
        # The process had begun no more than its note says.
        ("host-boot-old", [103, 104, 105, 108]),
        # What was reserved may have started unsynced.
        ("host-boot-new", [103, 104, 105, 106, 107, 108]),
    ],
)
def test_a_journal_of_0_1_0_is_understood(
    state: Path, monkeypatch: pytest.MonkeyPatch, host_boot: str, lost: list[int]
) -> None:
    monkeypatch.setattr(linux, "host_boot", lambda: host_boot)
    notes = OldNotes(state / "begun")
    run_states = open_run_states(state / "journal", notes=notes)

    reports = [report for report, _ in run_states.begin("boot-new", 1_790_000_010_000)]

    [call, done, *others] = reports
    never = {one.run_id for one in others if isinstance(one, NotStarted)}
    assert isinstance(call, Called)
    assert (call.run_id, call.number) == (103, 2)
    assert isinstance(done, Finished)
    assert (done.run_id, done.outcome, done.result) == (102, Outcome.SUCCEEDED, '{"n":1}')
    assert [one.run_id for one in others if getattr(one, "outcome", "") == Outcome.LOST] == lost
    assert never == set(range(103, 110)) - set(lost)
    assert run_states.stage(101) is Stage.FINISHED
    assert run_states.highest_id == 109
    assert run_states.knows_boot("boot-older")
    assert run_states.remembers_since_ms == 1_789_996_400_000
    assert run_states.is_another(trigger(101, due_at_ms=1_790_000_020_000))
    assert not run_states.is_another(trigger(101, due_at_ms=1_790_000_001_000))


def test_the_same_boot_of_a_gateway_goes_on_with_a_run_of_0_1_0(state: Path) -> None:
    run_states = open_run_states(state / "journal")

    [resumed] = run_states.resumable("boot-old")

    assert resumed.run_id == 108
    assert resumed.trigger is not None
    assert (resumed.trigger.param, resumed.trigger.block) == ("param 中文", "COVER_EARLY")


def test_0_1_0_has_no_line_that_today_counts_as_damaged(state: Path) -> None:
    lines = (state / "journal").read_bytes().splitlines()

    understood = [file.from_line(line) for line in lines]

    assert {type(one) for one in understood} == set(get_args(file.AnyRecord))


def test_a_journal_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    newer = file.Boot(boot_id="b", at_ms=1, format=file.FORMAT + 1)
    later = b'{"t":"OF_THE_FUTURE","run_id":1}'
    before = b"".join(line + b"\n" for line in (file.to_line(newer), later))
    path = tmp_path / "journal"
    path.write_bytes(before)

    with pytest.raises(NewerJournal, match="a newer Warren wrote it, in format 2, and this one"):
        open_run_states(path)

    assert path.read_bytes() == before
