"""Reading the log of a run that may still write it."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from warren.command_line.runs import LogReader, log_path
from warren.executor.run_logs import RunLogs
from warren.resources.instant import Instant

TICKS = [0, 1_796_083_199_999, 1_796_083_200_000]


@pytest.mark.parametrize("tick", TICKS)
def test_file_is_looked_for_where_an_executor_writes_it(tmp_path: Path, tick: int) -> None:
    run = SimpleNamespace(id=4711, scheduled_at=Instant.of(tick))

    assert str(log_path(tmp_path, run)) == RunLogs(tmp_path).path_of(tick, 4711)  # type: ignore[arg-type]


def test_only_what_is_new_is_copied(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "1.log"
    reader = LogReader(path)

    path.write_bytes(b"one\n")
    reader.copy_new()
    path.write_bytes(b"one\ntwo\n")
    reader.copy_new()
    reader.copy_new()

    assert capfdbinary.readouterr().out == b"one\ntwo\n"


def test_bytes_are_copied_as_they_are(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    content = bytes(range(256)) * 1_000
    (tmp_path / "1.log").write_bytes(content)

    LogReader(tmp_path / "1.log").copy_new()

    assert capfdbinary.readouterr().out == content


def test_file_that_comes_later_is_found_later(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    reader = LogReader(tmp_path / "1.log")

    reader.copy_new()
    assert not reader.found

    (tmp_path / "1.log").write_bytes(b"late\n")
    reader.copy_new()
    assert reader.found
    assert capfdbinary.readouterr().out == b"late\n"


def test_file_that_was_cut_back_is_read_on_from_its_new_end(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(b"x" * 1_000)
    reader = LogReader(path)
    reader.copy_new()
    capfdbinary.readouterr()

    path.write_bytes(b"y" * 10)
    reader.copy_new()
    with path.open("ab") as file:
        file.write(b"after\n")
    reader.copy_new()

    assert capfdbinary.readouterr().out == b"after\n"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_a_job_put_in_its_logs_place_is_an_error_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "1.log")

    with pytest.raises(OSError, match="Not a regular file"):
        LogReader(tmp_path / "1.log").copy_new()
