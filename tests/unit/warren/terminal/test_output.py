"""Tables, relative times and colours."""

import json
import unicodedata
from datetime import date
from zoneinfo import ZoneInfo

import click
import msgspec
import pytest

from warren.resources.backfills import BackfillDueTime
from warren.resources.instant import Instant, encode
from warren.sql.instants import iso
from warren.terminal.output import (
    Screen,
    coloured,
    duration,
    local,
    print_facts,
    print_json,
    print_line,
    print_struct,
    print_table,
    print_text,
    read_instant,
    relative,
    table,
    visible,
    warn,
)

PLAIN = Screen(width=None, has_colour=False)
COLOUR = Screen(width=80, has_colour=True)
NOW = 1_796_083_200_000  # 2026-12-01T00:00:00Z
SHANGHAI = ZoneInfo("Asia/Shanghai")


def test_columns_are_aligned() -> None:
    lines = table(("id", "name"), [("1", "a"), ("1000", "b")], PLAIN)

    assert lines == ["ID    NAME", "1     a", "1000  b"]


def test_wide_characters_take_two_columns() -> None:
    lines = table(("job", "app"), [("报表", "a"), ("abcd", "b")], PLAIN)

    assert lines == ["JOB   APP", "报表  a", "abcd  b"]


def test_combining_marks_take_no_column() -> None:
    lines = table(("job", "app"), [("cafe\u0301", "a"), ("four", "b")], PLAIN)

    assert lines == ["JOB   APP", "cafe\u0301  a", "four  b"]


@pytest.mark.parametrize("text", ["x" * 200, "报" * 100, "报x" * 60])
def test_last_column_is_cut_to_the_terminal(text: str) -> None:
    lines = table(("id", "message"), [("1", text)], Screen(width=40, has_colour=False))

    assert lines[1].endswith("…")
    assert sum(2 if character == "报" else 1 for character in lines[1]) in (39, 40)


def test_narrow_terminal_still_shows_something() -> None:
    lines = table(("id", "message"), [("1" * 50, "x" * 50)], Screen(width=20, has_colour=False))

    assert lines[1].endswith("xxx…")


def test_status_is_coloured_on_a_terminal_only() -> None:
    assert "\x1b[" in table(("status", "x"), [("FAILED", "x")], COLOUR)[1]
    assert "\x1b[" not in table(("status", "x"), [("FAILED", "x")], PLAIN)[1]


def test_colour_does_not_disturb_the_alignment() -> None:
    lines = table(("status", "x"), [("FAILED", "x"), ("SUCCEEDED", "x")], COLOUR)

    assert lines[1].replace("\x1b[31m", "").replace("\x1b[0m", "") == "FAILED     x"


def test_unknown_word_has_no_colour() -> None:
    assert coloured("word", "word", COLOUR) == "word"


@pytest.mark.parametrize("nasty", ["\x1b[2J", "a\nb", "a\rb", "\u202ea", "\u2028", "\x00", "\t"])
def test_what_moves_the_cursor_is_not_printed(nasty: str) -> None:
    shown = visible(f"<{nasty}>")

    assert all(character.isprintable() for character in shown)
    assert "\u202e" not in shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (12, "12 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "120 min"),
        (7_200, "2 h"),
        (172_800, "2 d"),
        (31_536_000, "365 d"),
    ],
)
def test_duration_is_in_its_one_fitting_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_relative_time_looks_both_ways() -> None:
    assert relative(NOW + 12_000, NOW) == "in 12 s"
    assert relative(NOW - 180_000, NOW) == "3 min ago"
    assert relative(None, NOW) == relative(0, NOW) == ""


def test_output_of_a_pipe_has_neither_width_nor_colour(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "message"), [("1", "x" * 500)], nothing="nothing")

    assert "x" * 500 in capsys.readouterr().out
    assert Screen.current() == PLAIN


def test_times_that_an_api_answered_are_printed_as_it_wrote_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    due = BackfillDueTime(
        number=1,
        scheduled_at=Instant.of(1_772_416_800_000),
        run_date=date(2026, 3, 2),
        state="OPEN",
        run_id=None,
    )
    answered = msgspec.json.decode(encode(due), type=BackfillDueTime)

    print_struct(due)
    print_struct(answered)

    made, read = map(json.loads, capsys.readouterr().out.splitlines())
    assert made == read == json.loads(encode(due))
    assert made["scheduled_at"] == "2026-03-02T02:00:00.000+00:00"


def test_nothing_is_said_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id",), [], nothing="no runs yet")

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "no runs yet\n")


HOSTILE = "first\x00\x1b[2J\r\n\tsecond \x9b31m\u202e報表\n\n"


def test_text_of_several_lines_is_shown_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_text("message", HOSTILE)

    assert capsys.readouterr().out == "\nmessage:\nfirst  [2J\n        second  31m 報表\n"


def test_json_has_no_control_characters_and_means_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_json({"message": HOSTILE})

    out = capsys.readouterr().out
    assert json.loads(out) == {"message": HOSTILE}
    assert not [c for c in out[:-1] if unicodedata.category(c) == "Cc"]


def test_facts_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"run": "1", "param": "", "status": "FAILED"})

    assert capsys.readouterr().out == "run     1\nstatus  FAILED\n"


def test_one_long_cell_widens_its_own_line_only() -> None:
    rows = [("short", "ok")] * 20 + [("x" * 90, "ok")]

    lines = table(("name", "status"), rows, Screen(width=None, has_colour=False))

    assert lines[1] == "short  ok"
    assert lines[-1] == f"{'x' * 90}  ok"


def test_long_cells_that_are_usual_widen_all_lines() -> None:
    rows = [("short", "ok"), ("x" * 90, "ok"), ("y" * 90, "ok")]

    lines = table(("name", "status"), rows, Screen(width=None, has_colour=False))

    assert lines[1] == f"short{' ' * 85}  ok"


def test_what_is_printed_goes_where_it_belongs_and_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_line("+ created job x", "+")
    print_line("-a\x1b[2J", "-")
    print_table(("name",), [["x\n"]], nothing="nothing")
    print_table(("name",), [], nothing="no such jobs")
    print_json({"id": 1})
    warn("late\x07")

    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "+ created job x",
        "-a [2J",
        "NAME",
        "x",
        '{"id": 1}',
    ]
    assert said.err.splitlines() == ["no such jobs", "warning: late"]


def test_only_a_terminal_gets_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)

    print_line("~ updated", "~")
    print_line("plain")

    assert capsys.readouterr().out == "\x1b[33m~ updated\x1b[0m\nplain\n"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("30s", NOW - 30_000),
        ("10m", NOW - 600_000),
        (" 2h ", NOW - 7_200_000),
        ("1d", NOW - 86_400_000),
        ("1w", NOW - 604_800_000),
        ("0s", NOW),
        ("999999999w", 0),
        ("2026-12-01T08:00:00+08:00", NOW),
        ("2026-12-01T00:00:00Z", NOW),
        ("2026-12-01T08:00:00", NOW),
        ("2026-12-01 08:00", NOW),
        ("2026-12-01", NOW - 28_800_000),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_instant_is_read(text: str, instant: int) -> None:
    assert read_instant(text, now_ms=NOW, zone=SHANGHAI) == instant


@pytest.mark.parametrize("text", ["", "x", "10", "10y", "-5m", "1.5h", "yesterday", "2026-13-01"])
def test_what_is_no_instant_is_named(text: str) -> None:
    with pytest.raises(click.UsageError, match="expected a time like") as refused:
        read_instant(text, now_ms=NOW, zone=SHANGHAI)

    assert repr(text) in str(refused.value)


def test_instant_is_written_with_its_offset() -> None:
    assert iso(NOW + 7) == "2026-12-01T00:00:00.007+00:00"
    assert iso(None) is iso(0) is None


def test_instant_is_read_back_as_it_was_written() -> None:
    written = iso(NOW + 7)

    assert written is not None
    assert read_instant(written, now_ms=0, zone=SHANGHAI) == NOW + 7


def test_people_read_their_own_zone() -> None:
    assert local(NOW, SHANGHAI) == "2026-12-01 08:00:00 CST"
    assert local(None, SHANGHAI) == ""
