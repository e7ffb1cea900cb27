"""What an errand prints, on a terminal and elsewhere."""

import pytest

from warren.views.output import Document, Line, Output, Record, Table, Warned, print_output

PARTS = Output(
    parts=[
        Line("+ created job x", "+"),
        Line("-a\x1b[2J", "-"),
        Table(("name",), [["x\n"]], "nothing"),
        Table(("name",), [], "no such jobs"),
        Document("jobs: []\n"),
        Record({"id": 1}),
        Warned("late\x07"),
    ]
)


def test_each_part_goes_where_it_belongs_and_cannot_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_output(PARTS)

    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "+ created job x",
        "-a [2J",
        "NAME",
        "x",
        "jobs: []",
        '{"id": 1}',
    ]
    assert said.err.splitlines() == ["no such jobs", "warning: late"]


def test_only_a_terminal_gets_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)

    print_output(Output(parts=[Line("~ updated", "~"), Line("plain")]))

    assert capsys.readouterr().out == "\x1b[33m~ updated\x1b[0m\nplain\n"
