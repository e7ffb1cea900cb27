"""How a change is said."""

import pytest

from warren.jobfile.apply import change_line, change_lines
from warren.scheduler.commands.job_edits import ChangeAction
from warren.scheduler.commands.job_files.preview import Change
from warren.terminal.output import Line

EDIT = Change(
    action=ChangeAction.UPDATE,
    what="job",
    name="reports/nightly",
    details=("param: 'a' -> 'b'", "script: shell, 1 bytes -> shell, 1 bytes"),
    diff=("--- stored", "+++ new", "@@ -1 +1 @@", "-a\x1b[2J", "+b"),
)


def test_an_edit_has_a_line_for_each_field_and_the_scripts_difference() -> None:
    assert [line.text for line in change_lines(EDIT, dry_run=True)] == [
        "~ would update job reports/nightly",
        "    param: 'a' -> 'b'",
        "    script: shell, 1 bytes -> shell, 1 bytes",
        "      --- stored",
        "      +++ new",
        "      @@ -1 +1 @@",
        "      -a\x1b[2J",
        "      +b",
    ]


@pytest.mark.parametrize(
    ("action", "line"),
    [
        ("create", Line("+ created job x", "+")),
        ("delete", Line("- deleted job x", "-")),
        ("stop", Line("~ stopped job x", "~")),
    ],
)
def test_each_change_has_its_sign(action: str, line: Line) -> None:
    change = Change(action=action, what="job", name="x")

    assert list(change_lines(change, dry_run=False)) == [line]


def test_the_lines_of_a_difference_have_their_signs() -> None:
    signs = [line.sign for line in change_lines(EDIT, dry_run=False)]

    assert signs == ["~", "", "", "-", "+", "@", "-", "+"]


def test_one_line_holds_all_of_a_change_but_its_diff() -> None:
    words = "param: 'a' -> 'b', script: shell, 1 bytes -> shell, 1 bytes"

    assert change_line(EDIT, dry_run=False) == f"updated job reports/nightly  ({words})"
