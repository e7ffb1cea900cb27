"""Lines of a log have times, to a look: noted beside the log, which stays as it is."""

from pathlib import Path

import pytest

from warren.executor.run_logs import LineTimes, RunLogs, notes_path

DAY = "1970-01-01"


@pytest.fixture
def logs(tmp_path: Path) -> RunLogs:
    return RunLogs(tmp_path)


class Printer:
    """A job that prints, and an executor that looks at its log."""

    def __init__(self, logs: RunLogs) -> None:
        self.path = Path(logs.path_of(0, 1))
        self.path.parent.mkdir(exist_ok=True)
        self.now_ms = 0
        self.times = LineTimes(logs.size, lambda: self.now_ms)

    def print(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def look(self, at_ms: int) -> None:
        self.now_ms = at_ms
        self.times.look([str(self.path)])


@pytest.fixture
def printer(logs: RunLogs) -> Printer:
    return Printer(logs)


def test_each_line_has_the_time_of_the_look_that_saw_it_first(
    logs: RunLogs, printer: Printer
) -> None:
    printer.print("one\ntwo\n")
    printer.look(1_000)
    printer.look(1_500)
    printer.print("three\nfour\n")
    printer.look(2_000)

    assert logs.read(1, DAY, 1).times == ((1, 1_000), (3, 2_000))
    assert logs.read(1, DAY, 2, 2).times == ((2, 1_000), (3, 2_000))


def test_what_was_printed_after_the_last_look_is_as_old_as_the_last_change(
    logs: RunLogs, printer: Printer
) -> None:
    printer.print("one\n")
    printer.look(1_000)
    printer.print("two\n")

    last = printer.path.stat().st_mtime_ns // 1_000_000

    assert logs.read(1, DAY, 1).times == ((1, 1_000), (2, last))


def test_a_log_that_nobody_looked_at_has_no_times(logs: RunLogs, printer: Printer) -> None:
    printer.print("one\n")

    assert logs.read(1, DAY, 1).times == ((1, 0),)


def test_a_line_that_took_long_has_the_time_of_its_beginning(
    logs: RunLogs, printer: Printer
) -> None:
    printer.print("half a ")
    printer.look(1_000)
    printer.print("line\n")
    printer.look(2_000)

    assert logs.read(1, DAY, 1).times == ((1, 1_000),)


def test_notes_have_a_bound_and_lines_behind_it_no_time(logs: RunLogs, printer: Printer) -> None:
    printer.times = LineTimes(logs.size, lambda: printer.now_ms, notes_bytes=10)
    for turn in range(1, 5):
        printer.print("x\n")
        printer.look(turn * 1_000)

    assert logs.read(1, DAY, 1).times == ((1, 1_000), (2, 2_000), (3, 0))


@pytest.mark.parametrize("notes", ["", "x\n", "1 2 3\n", "9" * 100 + " 1\n", "-5 7\n", "\x00\n"])
def test_notes_that_are_none_leave_the_lines(logs: RunLogs, printer: Printer, notes: str) -> None:
    printer.print("one\n")
    Path(notes_path(str(printer.path))).write_text(notes)

    assert logs.read(1, DAY, 1).times == ((1, 0),)


def test_notes_behind_a_link_are_not_written(
    logs: RunLogs, printer: Printer, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    Path(notes_path(str(printer.path))).symlink_to(other)

    printer.print("one\n")
    printer.look(1_000)

    assert other.read_text() == "mine"


def test_the_log_itself_stays_as_the_job_wrote_it(logs: RunLogs, printer: Printer) -> None:
    printer.print("one\n")
    printer.look(1_000)

    assert printer.path.read_text() == "one\n"
    assert logs.tail(str(printer.path)) == "one\n"
