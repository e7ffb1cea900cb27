import time

import pytest

from warren.admin_web.pages.glue import COMPARED, SHOWN, Difference, difference, side_by_side


def shown(found: Difference) -> list[str]:
    signs = {"same": " ", "in": "+", "out": "-", "gap": "~"}
    return [signs[line.kind] + line.text for line in found.lines]


def text(*lines: object) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_alike_sources_differ_in_nothing() -> None:
    assert difference(text(*range(50)), text(*range(50))).lines == []
    assert difference("", "").lines == []


def test_change_stands_between_three_alike_lines_with_the_numbers_of_both() -> None:
    old, new = text(*range(20)), text(*range(9), "nine", *range(10, 20))

    found = difference(old, new)

    assert shown(found) == ["~", " 6", " 7", " 8", "-9", "+nine", " 10", " 11", " 12", "~"]
    assert [(line.old, line.new) for line in found.lines[3:6]] == [(9, 9), (10, None), (None, 10)]
    assert (found.added, found.removed, found.is_cut) == (1, 1, False)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "a\nb\n", ["+a", "+b"]),
        ("a\nb\n", "", ["-a", "-b"]),
        ("a\n", "b\n", ["-a", "+b"]),
        ("a\nb\nc\n", "a\nc\n", [" a", "-b", " c"]),
        ("x\nx\n", "x\nx\nx\n", [" x", " x", "+x"]),
    ],
)
def test_small_ones(old: str, new: str, expected: list[str]) -> None:
    assert shown(difference(old, new)) == expected


def test_distant_changes_have_one_gap_between_them() -> None:
    old = text(*range(100))
    new = text("first", *range(1, 99), "last")

    assert shown(difference(old, new)).count("~") == 1


def test_numbers_always_lead_to_the_line_that_is_shown() -> None:
    old = [str(number * number % 37) for number in range(300)]
    new = [line for place, line in enumerate(old) if place % 11] + ["end"]

    for line in difference(text(*old), text(*new)).lines:
        if line.old is not None:
            assert old[line.old - 1] == line.text
        if line.new is not None:
            assert new[line.new - 1] == line.text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (text(*["x"] * 2_900, "a"), text("b", *["x"] * 2_900)),
        (text(*["x", "y"] * 1_400, "a"), text("b", *["y", "x"] * 1_400)),
        (text(*range(250_000)), text(*range(250_000, 0, -1))),
        (text(*(n % 90 for n in range(2_990))), text(*(n * 7 % 90 for n in range(2_990)))),
    ],
)
def test_no_pair_of_sources_takes_long(old: str, new: str) -> None:
    started = time.process_time()

    found = difference(old, new)

    assert time.process_time() - started < 5
    assert len(found.lines) <= SHOWN
    assert found.lines


def test_middle_part_that_is_too_large_is_taken_out_and_put_in_as_a_whole() -> None:
    old = text("head", *(f"a{n}" for n in range(COMPARED + 1)), "tail")
    new = text("head", "b", "tail")

    found = difference(old, new)

    assert (found.removed, found.added, found.is_cut) == (COMPARED + 1, 1, False)
    assert shown(found)[0] == " head"
    assert shown(found)[-2:] == ["+b", " tail"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a\nb\nc\n", "a\nx\nc\n", [("a", "a"), ("b", "x"), ("c", "c")]),
        ("a\nb\nc\n", "a\nc\n", [("a", "a"), ("b", None), ("c", "c")]),
        ("a\n", "a\nb\nc\n", [("a", "a"), (None, "b"), (None, "c")]),
        ("a\nb\nc\n", "x\n", [("a", "x"), ("b", None), ("c", None)]),
    ],
)
def test_side_by_side_what_was_put_in_stands_beside_what_was_taken_out(
    old: str, new: str, expected: list[tuple[str | None, str | None]]
) -> None:
    pairs = list(side_by_side(difference(old, new).lines))

    texts = [
        (pair.old.text if pair.old else None, pair.new.text if pair.new else None) for pair in pairs
    ]
    assert texts == expected


def test_side_by_side_each_side_has_its_own_lines_and_gaps_are_gaps() -> None:
    old, new = text(*range(40)), text(*range(9), "nine", "more", *range(10, 40))

    pairs = list(side_by_side(difference(old, new).lines))

    assert [pair.is_gap for pair in pairs] == [True] + [False] * 8 + [True]
    assert [pair.old.old for pair in pairs if pair.old and not pair.is_gap] == list(range(7, 14))
    assert [pair.new.new for pair in pairs if pair.new and not pair.is_gap] == list(range(7, 15))
