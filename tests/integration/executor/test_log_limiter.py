"""Logs on a disk that fills: they stop while some of it is still free, and say so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import DAY, SlotHarness
from tests.support.small_disk import fill, small_disk
from warren.broker.messages import Outcome
from warren.executor.disk import space_of

DISK_BYTES = 6_000_000
RESERVE_BYTES = 300_000
INCOMPLETE = "(its log is incomplete: the disk is nearly full)"

SOURCE = r"""
import os, subprocess, sys, time
from pathlib import Path

@job("prints")
def prints(context):
    if context.param == "close":
        return sys.stdout.close()
    for at in range(int(context.param)):
        print("%06d" % at + "x" * 992)
    return "done"

@job("programs.print")
def programs_print(context):
    subprocess.run("head -c 20000000 /dev/zero | tr '\\0' x", shell=True)
    return "done"
    return "done"

@job("pours.until")
def pours_until(context):
    while not Path(context.param).exists():
        os.write(1, b"y" * 19_999 + b"\n")
        time.sleep(0.01)
    return "done"

@job("fails")
def fails(context):
    raise ValueError("no such account")
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        yield disk


@pytest.fixture
def harness(tmp_path: Path, disk: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(
        tmp_path,
        SOURCE,
        log_folder=disk / "logs",
        script_folder=tmp_path / "scripts",
        script_languages=["shell"],
    ).open()
    yield harness
    harness.close()


def free(disk: Path) -> int:
    return space_of(str(disk)).free


def has_stopped(harness: SlotHarness, run_id: int) -> bool:
    return harness.log_of(run_id).endswith("bytes free]\n")


def test_what_a_job_prints_stops_at_the_reserve_and_says_so(
    harness: SlotHarness, disk: Path
) -> None:
    finished = harness.run("prints", "20000")

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == f"done {INCOMPLETE}"
    assert free(disk) >= RESERVE_BYTES - 10_000
    assert harness.log_of(finished.run_id).startswith("000000xxx")
    assert has_stopped(harness, finished.run_id)
    assert "the log stops here: the disk has less than" in finished.log_tail


def test_run_after_one_that_closed_its_output_stops_at_the_reserve_too(
    harness: SlotHarness, disk: Path
) -> None:
    harness.run("prints", "close")

    finished = harness.run("prints", "20000")

    assert finished.message == f"done {INCOMPLETE}"
    assert free(disk) >= RESERVE_BYTES - 10_000


def test_what_a_script_prints_is_cut_off_and_its_message_says_so(harness: SlotHarness) -> None:
    source = "head -c 20000000 /dev/zero | tr '\\0' x; exit 0"

    finished = harness.run("", script_language="shell", script_source=source)

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, INCOMPLETE)
    assert has_stopped(harness, finished.run_id)


def test_what_programs_print_is_cut_off_down_to_the_reserve(
    harness: SlotHarness, disk: Path
) -> None:
    finished = harness.run("programs.print")

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == f"done {INCOMPLETE}"
    assert free(disk) >= RESERVE_BYTES - 10_000
    assert harness.log_path(finished.run_id).stat().st_size > 5_000_000
    assert has_stopped(harness, finished.run_id)


def test_log_that_was_stopped_stays_so_while_its_run_goes_on(
    harness: SlotHarness, disk: Path
) -> None:
    end = harness.folder / "end"
    run_id = harness.start("pours.until", str(end))
    harness.turn(lambda: "the log stops here" in harness.log_of(run_id)[-200_000:], 30)
    size = harness.log_path(run_id).stat().st_size

    harness.turn_for(1.5)
    grown = harness.log_path(run_id).stat().st_size - size
    end.touch()
    finished = harness.wait(run_id)

    assert "(its log is incomplete: " in finished.message
    assert grown < RESERVE_BYTES
    assert free(disk) >= RESERVE_BYTES - 10_000
    assert harness.log_of(run_id).count("the log stops here") == 1
    assert has_stopped(harness, run_id)


def test_first_lines_of_a_log_are_kept_on_a_disk_without_its_reserve(
    harness: SlotHarness, disk: Path
) -> None:
    harness.run("prints", "20000")

    finished = harness.run("fails")

    assert "no such account" in harness.log_of(finished.run_id)
    assert not has_stopped(harness, finished.run_id)


def test_log_that_grew_before_somebody_else_filled_the_disk_is_left_alone(
    harness: SlotHarness, disk: Path
) -> None:
    (disk / "logs" / DAY).mkdir(parents=True)
    run_id = harness.start("pours.until", str(harness.folder / "end"))
    harness.turn(lambda: len(harness.log_of(run_id)) > 200_000)
    harness.turn_for(1.0)
    before = len(harness.log_of(run_id)) // 2

    others = fill(disk)
    harness.turn_for(1.0)
    (harness.folder / "end").touch()
    harness.wait(run_id)
    others.unlink()

    assert len(harness.log_of(run_id)) >= before


def test_logs_are_whole_again_once_there_is_room(harness: SlotHarness) -> None:
    full = harness.run("prints", "20000").run_id
    harness.log_path(full).unlink()

    finished = harness.run("prints", "1000")

    assert finished.message == "done"
    assert len(harness.log_of(finished.run_id)) == 999_000
