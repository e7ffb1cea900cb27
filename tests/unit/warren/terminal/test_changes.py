"""How a change is said."""

import pytest

from warren.resources.job_files import ChangeAnswer
from warren.terminal.changes import change_lines, warning_lines

EDIT = ChangeAnswer(
    action="update",
    what="job",
    name="reports/nightly",
    details=["param: 'a' -> 'b'", "script: shell, 1 bytes -> shell, 1 bytes"],
    diff=["--- stored", "+++ new", "@@ -1 +1 @@", "-a\x1b[2J", "+b"],
)


def test_an_edit_has_a_line_for_each_field_and_the_scripts_difference() -> None:
    assert [text for text, _ in change_lines(EDIT, dry_run=True)] == [
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
        ("create", ("+ created job x", "+")),
        ("delete", ("- deleted job x", "-")),
        ("stop", ("~ stopped job x", "~")),
    ],
)
def test_each_change_has_its_sign(action: str, line: tuple[str, str]) -> None:
    change = ChangeAnswer(action=action, what="job", name="x", details=[], diff=[])

    assert list(change_lines(change, dry_run=False)) == [line]


def test_the_lines_of_a_difference_have_their_signs() -> None:
    signs = [sign for _, sign in change_lines(EDIT, dry_run=False)]

    assert signs == ["~", "", "", "-", "+", "@", "-", "+"]


def test_jobs_of_one_warning_share_a_line() -> None:
    pairs = [("a/x", "odd"), ("a/y", "odd"), ("a/x", "other"), ("a/z", "odd")]

    assert warning_lines(pairs) == ["job 'a/x' and 2 more: odd", "job 'a/x': other"]
