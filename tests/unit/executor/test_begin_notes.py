"""What a job process may begin of the runs that it was handed at once, and who can tell later."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warren.executor.begin_notes import BatchPermit, BeginNote, OldNotes, begun, make_note, withdraw

BATCH = 7
LONG = 600.0


@pytest.fixture
def old(tmp_path: Path) -> OldNotes:
    return OldNotes(tmp_path / "begun")


@pytest.fixture
def file(old: OldNotes) -> Iterator[int]:
    """The executor's descriptor of the note."""
    folder = old.path_of("boot-1")
    folder.mkdir(parents=True)
    file = make_note(folder / "0")
    assert file is not None
    yield file
    os.close(file)


@pytest.fixture
def note(file: int) -> Iterator[BeginNote]:
    own = os.dup(file)
    yield BeginNote(own)
    os.close(own)


def test_run_is_noted_before_it_begins(file: int, note: BeginNote) -> None:
    assert note.begin(BATCH, 1)
    assert note.begin(BATCH, 2)

    assert begun(file) == 2


def test_run_of_a_withdrawn_batch_does_not_begin_and_leaves_no_note(
    file: int, note: BeginNote
) -> None:
    assert note.begin(BATCH, 1)

    assert withdraw(file, BATCH) == 1

    assert not note.begin(BATCH, 2)
    assert begun(file) == 1


def test_withdrawing_a_batch_leaves_the_next_one_alone(file: int, note: BeginNote) -> None:
    withdraw(file, BATCH)

    assert note.begin(BATCH + 1, 2)


def test_nothing_is_written_into_a_file_that_took_the_number_of_the_closed_one(
    file: int, tmp_path: Path
) -> None:
    own = os.dup(file)
    note = BeginNote(own)
    theirs = tmp_path / "theirs"
    other = os.open(theirs, os.O_RDWR | os.O_CREAT)
    os.dup2(other, own)

    assert not note.write(1)

    assert theirs.read_bytes() == b""
    os.close(own)
    os.close(other)


def test_what_was_begun_can_be_read_after_its_executor_is_gone_and_nothing_begins_then(
    note: BeginNote, old: OldNotes
) -> None:
    assert note.begin(BATCH, 5)

    assert old.revoke("boot-1") == {5}

    assert not note.begin(BATCH, 6)
    assert not note.begin(BATCH + 1_000, 7)


def test_boot_without_notes_is_not_known(old: OldNotes) -> None:
    assert old.revoke("boot-1") is None


def test_note_that_was_cut_short_leaves_its_boot_unknown(file: int, old: OldNotes) -> None:
    os.ftruncate(file, 3)

    assert old.revoke("boot-1") is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_note_is_not_written_to_and_leaves_its_boot_unknown(
    old: OldNotes, make: Callable[[Path], None]
) -> None:
    path = old.path_of("boot-1") / "0"
    path.parent.mkdir(parents=True)
    make(path)

    assert make_note(path) is None
    assert old.revoke("boot-1") is None


def test_note_without_a_place_on_the_disk_is_none(tmp_path: Path) -> None:
    assert make_note(tmp_path / "no such folder" / "0") is None
    assert make_note(Path("/dev/full")) is None


def test_notes_of_other_boots_are_deleted(file: int, old: OldNotes) -> None:
    old.delete(but="boot-1")
    assert old.revoke("boot-1") == {0}

    old.delete(but="boot-2")
    assert old.revoke("boot-1") is None
    assert begun(file) == 0


class _Permits:
    """A job process's permits, and the batches that it withheld."""

    def __init__(self, note: BeginNote) -> None:
        self.withheld: list[int] = []
        self.permit = BatchPermit(note, self.withheld.append)

    def takes(self, run_id: int, *, batch: int = BATCH, seconds: float = 0.0) -> bool:
        return self.permit.takes(run_id, batch=batch, seconds=seconds)


def test_runs_of_a_batch_begin_one_after_the_other(file: int, note: BeginNote) -> None:
    permits = _Permits(note)

    assert [permits.takes(1, seconds=LONG), permits.takes(2), permits.takes(3)] == [True] * 3

    assert begun(file) == 3
    assert permits.withheld == []


def test_rest_of_a_withdrawn_batch_is_withheld_once(file: int, note: BeginNote) -> None:
    permits = _Permits(note)
    assert permits.takes(1, seconds=LONG)

    withdraw(file, BATCH)

    assert [permits.takes(2), permits.takes(3)] == [False, False]
    assert permits.withheld == [BATCH]
    assert begun(file) == 1
    assert permits.takes(4, batch=BATCH + 1, seconds=LONG)
    assert permits.takes(5, batch=BATCH + 1)


def test_rest_of_a_batch_is_withheld_after_its_time(note: BeginNote) -> None:
    permits = _Permits(note)

    assert permits.takes(1, seconds=1e-9)

    assert not permits.takes(2)
    assert permits.withheld == [BATCH]


def test_process_that_cannot_note_its_first_run_begins_none() -> None:
    permits = _Permits(BeginNote(None))

    assert not permits.takes(1, seconds=LONG)

    assert permits.permit.is_unable


def test_run_that_came_alone_needs_no_note() -> None:
    assert _Permits(BeginNote(None)).takes(1, batch=0)
