"""Run logs are found, read by line, capped and cleaned."""

import fcntl
import resource
from datetime import UTC, datetime
from pathlib import Path

import pytest

from warren.broker.log_lines import CHUNK_BYTES, LINE_BYTES
from warren.executor.run_logs import RunLogs

DAY = "2026-11-20"
AT_MS = int(datetime(2026, 11, 20, 23, 59, 59, 999_000, UTC).timestamp() * 1000)


@pytest.fixture
def logs(tmp_path: Path) -> RunLogs:
    return RunLogs(tmp_path / "logs", cap_bytes=1_000)


def write(logs: RunLogs, data: bytes | str, run_id: int = 1) -> Path:
    path = Path(logs.path_of(AT_MS, run_id))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@pytest.mark.parametrize(
    ("at", "day"),
    [
        (AT_MS, "2026-11-20"),
        (AT_MS + 1, "2026-11-21"),
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
    ],
)
def test_path_is_by_the_day_of_the_due_time_in_utc(tmp_path: Path, at: int, day: str) -> None:
    assert RunLogs(tmp_path).path_of(at, 7) == f"{tmp_path}/{day}/7.log"


@pytest.mark.parametrize(
    ("line", "count"),
    [(f"{'x' * 999}\n", 1_000), (f"{'x' * (CHUNK_BYTES // 2 - 1)}\n", 7), ("x\n", 5_000)],
)
def test_last_lines_reach_to_the_end_however_long_they_are(
    logs: RunLogs, line: str, count: int
) -> None:
    write(logs, line * (count - 1) + "the end\n")

    lines = logs.read(1, DAY, 1, 1_000, at_end=True)

    assert (lines.to_line, lines.is_end) == (count, True)
    assert lines.text.endswith("\nthe end")
    assert lines.from_line >= count - 999


def test_unfinished_line_of_a_growing_log_hides_no_line_however_long_it_is(logs: RunLogs) -> None:
    write(logs, "line\n" * 50 + "x" * (CHUNK_BYTES + 1))

    lines = logs.read(1, DAY, 1, growing=True, at_end=True)

    assert (lines.from_line, lines.to_line) == (1, 50)


def test_last_line_is_read_however_long_it_is(logs: RunLogs) -> None:
    write(logs, "first\n" + "x" * (CHUNK_BYTES + 1))

    lines = logs.read(1, DAY, 1, at_end=True)

    assert (lines.from_line, lines.to_line) == (2, 2)


class TestReading:
    def test_lines_are_counted_from_one(self, logs: RunLogs) -> None:
        write(logs, "a\nb\nc\n")

        lines = logs.read(1, DAY, 1)

        assert (lines.from_line, lines.to_line, lines.text) == (1, 3, "a\nb\nc")
        assert lines.is_end
        assert not lines.missing

    def test_reading_goes_on_where_it_stopped(self, logs: RunLogs) -> None:
        write(logs, "".join(f"line {at}\n" for at in range(1, 11)))
        read: list[str] = []
        next_line = 1

        for _ in range(4):
            lines = logs.read(1, DAY, next_line, 3)
            assert lines.from_line == next_line
            read += lines.text.split("\n")
            next_line = lines.to_line + 1

        assert read == [f"line {at}" for at in range(1, 11)]
        assert lines.is_end

    @pytest.mark.parametrize("from_line", [4, 5, 1_000, 10**18])
    def test_after_the_last_line_there_is_none(self, logs: RunLogs, from_line: int) -> None:
        write(logs, "a\nb\nc\n")

        lines = logs.read(1, DAY, from_line)

        assert (lines.to_line, lines.text, lines.is_end) == (from_line - 1, "", True)

    @pytest.mark.parametrize("from_line", [0, -1, -(10**18)])
    def test_before_the_first_line_is_the_first(self, logs: RunLogs, from_line: int) -> None:
        write(logs, "a\nb\n")

        assert logs.read(1, DAY, from_line).from_line == 1

    @pytest.mark.parametrize("limit", [0, -5])
    def test_no_lines_are_no_lines(self, logs: RunLogs, limit: int) -> None:
        write(logs, "a\nb\n")

        lines = logs.read(1, DAY, 1, limit)

        assert (lines.to_line, lines.is_end) == (0, False)

    def test_limit_that_takes_the_last_line_is_the_end(self, logs: RunLogs) -> None:
        write(logs, "a\nb\n")

        assert logs.read(1, DAY, 1, 1).is_end is False
        assert logs.read(1, DAY, 1, 2).is_end is True

    def test_unfinished_line_waits_while_the_log_grows(self, logs: RunLogs) -> None:
        write(logs, "a\nhalf a li")

        assert logs.read(1, DAY, 1, growing=True).text == "a"
        assert logs.read(1, DAY, 2, growing=True).to_line == 1
        assert logs.read(1, DAY, 1).text == "a\nhalf a li"

    def test_answer_is_bounded_in_bytes(self, logs: RunLogs) -> None:
        write(logs, ("x" * 999 + "\n") * 1_000)

        lines = logs.read(1, DAY, 1)

        assert len(lines.text) <= CHUNK_BYTES + LINE_BYTES
        assert not lines.is_end
        assert logs.read(1, DAY, lines.to_line + 1).from_line == lines.to_line + 1

    def test_long_line_is_cut_and_counts_as_one(self, logs: RunLogs) -> None:
        write(logs, "a" * 500_000 + "\nsecond\n")

        first, second = logs.read(1, DAY, 1).text.split("\n")

        assert first == "a" * LINE_BYTES + " … [line cut]"
        assert second == "second"

    def test_line_that_just_fits_is_not_cut(self, logs: RunLogs) -> None:
        write(logs, "a" * (LINE_BYTES - 1) + "\nsecond\n")

        assert logs.read(1, DAY, 1).text == "a" * (LINE_BYTES - 1) + "\nsecond"

    def test_bytes_that_are_no_text_are_replaced(self, logs: RunLogs) -> None:
        write(logs, b"\xff\x00ok\r\n")

        assert logs.read(1, DAY, 1).text == "\ufffd\x00ok"

    def test_big_log_is_read_in_pieces(self, logs: RunLogs) -> None:
        write(logs, ("y" * 99 + "\n") * 500_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        lines = logs.read(1, DAY, 499_999)

        assert lines.to_line == 500_000
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 5_000

    @pytest.mark.parametrize(
        "day", ["..", "2026-11-20/../2026-11-20", "/etc", "", "2026-11-20\n", "\uff12026-11-20"]
    )
    def test_day_that_is_none_finds_nothing(self, logs: RunLogs, day: str) -> None:
        write(logs, "a\n")

        assert logs.read(1, day, 1).missing

    def test_run_that_printed_nothing_has_an_empty_log(self, logs: RunLogs) -> None:
        write(logs, "a\n")

        lines = logs.read(2, DAY, 1)

        assert (lines.text, lines.is_end, lines.missing) == ("", True, False)

    def test_log_of_a_day_that_is_gone_is_missing(self, logs: RunLogs) -> None:
        assert logs.read(1, DAY, 1).missing

    def test_link_is_not_followed(self, logs: RunLogs, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("secret\n")
        path = write(logs, "")
        path.unlink()
        path.symlink_to(tmp_path / "secret")

        assert logs.read(1, DAY, 1).text == ""
        assert logs.tail(str(path)) == ""


class TestCutting:
    def test_log_within_its_cap_is_left_alone(self, logs: RunLogs) -> None:
        path = write(logs, "x" * 1_000)

        assert logs.cut_to_cap(str(path)) is False
        assert path.stat().st_size == 1_000

    def test_log_over_its_cap_keeps_its_beginning_and_a_mark(self, logs: RunLogs) -> None:
        path = write(logs, "begin " + "x" * 5_000)

        assert logs.cut_to_cap(str(path)) is True

        assert path.stat().st_size == 1_000
        assert path.read_text().startswith("begin ")
        assert path.read_text().endswith("\n… [the log is cut here: over 1,000 bytes]\n")

    def test_writer_goes_on_after_the_mark(self, logs: RunLogs) -> None:
        path = write(logs, "")
        with path.open("a") as writer:
            writer.write("x" * 5_000)
            writer.flush()
            logs.cut_to_cap(str(path))
            writer.write("more\n")

        assert path.read_text().endswith("bytes]\nmore\n")
        assert path.stat().st_size == 1_005

    def test_what_a_job_has_linked_in_its_logs_place_is_not_cut(
        self, logs: RunLogs, tmp_path: Path
    ) -> None:
        (tmp_path / "large").write_text("x" * 5_000)
        path = write(logs, "")
        path.unlink()
        path.symlink_to(tmp_path / "large")

        assert logs.cut_to_cap(str(path)) is False
        assert (tmp_path / "large").stat().st_size == 5_000

    def test_log_that_is_not_there_is_not_cut(self, logs: RunLogs) -> None:
        assert logs.cut_to_cap(logs.path_of(AT_MS, 1)) is False
        assert not Path(logs.path_of(AT_MS, 1)).exists()

    def test_tail_is_the_end(self, logs: RunLogs) -> None:
        path = write(logs, "x" * 5_000 + "end")

        assert logs.tail(str(path), 10) == "xxxxxxxend"
        assert logs.tail(str(path)) == "x" * 4_093 + "end"
        assert logs.tail("/nowhere") == ""


class TestCleaning:
    def test_old_days_are_deleted(self, logs: RunLogs, tmp_path: Path) -> None:
        folder = tmp_path / "logs"
        for day in ("2026-10-20", "2026-10-21", "2026-11-20"):
            (folder / day).mkdir(parents=True)
            (folder / day / "1.log").touch()

        count = logs.clean(30, datetime(2026, 11, 20, 12, tzinfo=UTC))

        assert count == 1
        assert sorted(each.name for each in folder.iterdir()) == ["2026-10-21", "2026-11-20"]

    def test_a_log_that_is_held_open_stays_until_it_is_let_go(
        self, logs: RunLogs, tmp_path: Path
    ) -> None:
        day = tmp_path / "logs" / "1999-01-01"
        day.mkdir(parents=True)
        (day / "1.log").touch()
        (day / "2.log").touch()

        with (day / "1.log").open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            assert logs.clean(1) == 0
            assert [each.name for each in day.iterdir()] == ["1.log"]

        assert logs.clean(1) == 1
        assert not day.exists()

    def test_what_is_no_day_is_left_alone(self, logs: RunLogs, tmp_path: Path) -> None:
        folder = tmp_path / "logs"
        (folder / "keep").mkdir(parents=True)
        (folder / "1999-01-01").symlink_to(tmp_path)

        assert logs.clean(1) == 0
        assert sorted(each.name for each in folder.iterdir()) == ["1999-01-01", "keep"]

    def test_folder_that_is_not_there_has_nothing_to_clean(self, logs: RunLogs) -> None:
        assert logs.clean(1) == 0


@pytest.mark.parametrize(("text", "first"), [("1\n2\n3\n4\n", 3), ("1\n2\n3\n4", 3), ("1\n", 1)])
def test_the_last_lines_are_found_without_knowing_their_numbers(
    logs: RunLogs, text: str, first: int
) -> None:
    write(logs, text)

    found = logs.read(1, DAY, 99, 2, at_end=True)

    assert (found.from_line, found.to_line) == (first, text.count("\n") + (text[-1] != "\n"))
    assert found.text.startswith(str(first))
    assert found.is_end


def test_of_a_growing_log_the_end_is_before_its_unfinished_line(logs: RunLogs) -> None:
    write(logs, "one\ntwo\nthr")

    found = logs.read(1, DAY, 1, 2, growing=True, at_end=True)

    assert (found.from_line, found.to_line, found.text) == (2, 2, "two")
