"""The checks of pages that name tests can fail."""

import pytest

from tests.support import documented_tests

HERE = "tests/unit/support/test_proofs.py"
HEAD = "| theirs | ours | test |\n|---|---|---|\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"| a | b | `{HERE}::test_x` |", []),
        (f"| a | b | `{HERE}::test_x`, `{HERE}::test_y` |", []),
        (f"| a | b | `{HERE}::test_x` and more |", ["a"]),
        ("| a | b | |", ["a"]),
        ("| a | b | trust us |", ["a"]),
    ],
)
def test_line_without_a_test_is_found(line: str, expected: list[str]) -> None:
    assert documented_tests.unproven(HEAD + line) == expected


def test_test_that_nobody_wrote_is_found() -> None:
    text = f"`{HERE}::test_test_that_nobody_wrote_is_found` `{HERE}::test_no` `tests/no.py::test_a`"

    assert documented_tests.gone(text) == [f"{HERE}::test_no", "tests/no.py::test_a"]


def test_line_with_a_cell_too_many_is_found() -> None:
    assert documented_tests.uneven(HEAD + "| a | b | c |") == []
    assert documented_tests.uneven(HEAD + "| a | b or | c | d |") != []
