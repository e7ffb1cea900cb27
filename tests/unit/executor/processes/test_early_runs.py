import asyncio
from pathlib import Path
from typing import cast

from warren.executor.begin_notes import Batch, BeginNote
from warren.executor.processes.job_processes import EarlyRuns

NO_TIMERS = cast("asyncio.AbstractEventLoop", None)


def handed(folder: Path, *run_ids: int) -> tuple[Batch, BeginNote]:
    """Return a batch and the process's side of its note, which tells of run 1 until then."""
    early_runs = EarlyRuns(NO_TIMERS, folder, 0.005, lambda _run: None)
    note = early_runs.assign_note()
    assert note is not None
    process = BeginNote(note)
    process.write(1)
    batch = early_runs.new_batch(note, run_ids)
    assert batch is not None
    return batch, process


def test_nothing_of_a_batch_has_begun_while_the_note_is_of_the_one_before(tmp_path: Path) -> None:
    batch, _ = handed(tmp_path, 5, 6, 7)

    assert not any(batch.has_begun(run_id, batch.begun()) for run_id in (5, 6, 7))


def test_a_noted_run_and_those_before_it_have_begun(tmp_path: Path) -> None:
    batch, process = handed(tmp_path, 5, 6, 7)

    process.write(6)

    assert [batch.has_begun(run_id, batch.begun()) for run_id in (5, 6, 7)] == [True, True, False]


def test_runs_that_have_not_begun_are_taken_back_the_last_one_first(tmp_path: Path) -> None:
    batch, process = handed(tmp_path, 5, 6, 7, 8)
    process.write(6)

    assert batch.take_back(5, batch.withdraw()) == [8, 7]
    assert list(batch.followers) == [6]


def test_run_that_was_only_believed_to_be_reached_is_taken_back_too(tmp_path: Path) -> None:
    batch, process = handed(tmp_path, 5, 6, 7)
    process.write(5)

    assert batch.reach_next() == 6
    assert batch.take_back(6, batch.withdraw()) == [7, 6]


def test_process_begins_nothing_of_a_batch_that_was_withdrawn(tmp_path: Path) -> None:
    batch, process = handed(tmp_path, 5, 6)
    process.write(5)
    batch.withdraw()

    assert not process.begin(batch.number, 6)
    assert batch.begun() == 5


def test_a_head_is_never_taken_back(tmp_path: Path) -> None:
    batch, _ = handed(tmp_path, 5, 6)

    assert batch.take_back(5, batch.withdraw()) == [6]
    assert batch.take_back(None, batch.withdraw()) == []
