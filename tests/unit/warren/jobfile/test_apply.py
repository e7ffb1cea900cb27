"""How a change is said."""

import pytest

from warren.jobfile.apply import change_line, change_lines
from warren.scheduler.commands.job_changes import ChangeAction
from warren.scheduler.commands.job_files.preview import Change
from warren.views.terminal import Screen

PLAIN, COLOURED = Screen(None, has_colour=False), Screen(80, has_colour=True)
EDIT = Change(
    action=ChangeAction.UPDATE,
    what="job",
    name="reports/nightly",
    details=("param: 'a' -> 'b'", "script: shell, 1 bytes -> shell, 1 bytes"),
    diff=("--- stored", "+++ new", "@@ -1 +1 @@", "-a\x1b[2J", "+b"),
)


def test_an_edit_has_a_line_for_each_field_and_the_scripts_difference() -> None:
    assert change_lines(EDIT, dry_run=True, screen=PLAIN) == [
        "~ would update job reports/nightly",
        "    param: 'a' -> 'b'",
        "    script: shell, 1 bytes -> shell, 1 bytes",
        "      --- stored",
        "      +++ new",
        "      @@ -1 +1 @@",
        "      -a [2J",
        "      +b",
    ]


@pytest.mark.parametrize(
    ("action", "line"),
    [
        ("create", "+ created job x"),
        ("delete", "- deleted job x"),
        ("stop", "~ stopped job x"),
    ],
)
def test_each_change_has_its_sign(action: str, line: str) -> None:
    change = Change(action=action, what="job", name="x")

    assert change_lines(change, dry_run=False, screen=PLAIN) == [line]


def test_only_a_terminal_gets_colours() -> None:
    lines = change_lines(EDIT, dry_run=False, screen=COLOURED)

    assert lines[0].startswith("\x1b[33m~ updated")
    assert lines[-1].startswith("\x1b[32m      +b")
    assert lines[1] == "    param: 'a' -> 'b'"


def test_one_line_holds_all_of_a_change_but_its_diff() -> None:
    words = "param: 'a' -> 'b', script: shell, 1 bytes -> shell, 1 bytes"

    assert change_line(EDIT, dry_run=False) == f"updated job reports/nightly  ({words})"
