"""Values are read as people write them in variables and in TOML, and nothing else is guessed."""

from pathlib import Path
from typing import Any

import pytest

from warren.settings.kinds import (
    Reader,
    boolean,
    folder,
    number,
    one_of,
    some_text,
    text,
    whole,
    whole_or_auto,
)


@pytest.mark.parametrize(
    ("read", "value", "meant"),
    [
        (whole(0, 9), " 7 ", 7),
        (whole_or_auto(0, 9), "auto", None),
        (whole_or_auto(0, 9), "7", 7),
        (whole(0, 9), 0, 0),
        (whole(-3, 9), "-3", -3),
        (number(0, 9), "0.5", 0.5),
        (number(0, 9), 9, 9.0),
        (number(0, 9, above=True), "1e-3", 0.001),
        (boolean, "Yes", True),
        (boolean, "1", True),
        (boolean, 0, False),
        (boolean, False, False),
        (boolean, "off", False),
        (folder, "logs", Path("logs")),
        (text(), " x", " x"),
        (text(some_text), "x", "x"),
        (one_of(("a", "b")), "b", "b"),
    ],
)
def test_value_is_read_as_it_is_meant(read: Reader, value: Any, meant: Any) -> None:
    found = read(value)

    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (whole(0, 9), "10"),
        (whole(0, 9), "1.0"),
        (whole(0, 9), "٣٣"),
        (whole(0, 9), "1_0"),
        (whole(0, 9), True),
        (whole(0, 9), [1]),
        (number(0, 9), "nan"),
        (number(0, 9), "inf"),
        (number(0, 9), "-0.1"),
        (number(0, 9, above=True), 0),
        (number(0, 9), True),
        (number(0, 9), None),
        (boolean, "perhaps"),
        (boolean, ""),
        (boolean, 2),
        (folder, 7),
        (text(), 7),
        (text(), ["x"]),
        (text(some_text), ""),
        (one_of(("a", "b")), "c"),
        (one_of(("a", "b")), ["a"]),
    ],
)
def test_anything_else_is_refused_without_words(read: Reader, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        read(value)
