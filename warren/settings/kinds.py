"""Kinds of settings: how each is read from text or TOML, and what is expected.

A reader returns the value or raises ValueError; its message, if any, is added to what is expected.
Settings need no library: executors are installed beside handlers, and must not force a version of
pydantic on them.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any

from warren.broker.durations import read_duration

Reader = Callable[[Any], Any]

_WHOLE = re.compile(r"[+-]?[0-9]+")
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """The words for what a setting is expected to be, and its reader."""

    expected: str
    read: Reader


def setting(
    read: Reader,
    expected: str,
    default: Any = None,
    *,
    make: Callable[[], Any] | None = None,
    secret: bool = False,
) -> Any:
    """Return a dataclass field; `make` computes a default that depends on the machine."""
    kind = {"kind": Kind(expected, read)}
    if make is not None:
        return field(default_factory=make, repr=not secret, metadata=kind)
    return field(default=default, repr=not secret, metadata=kind)


def kind_of(setting: Field[Any]) -> Kind | None:
    """Return the kind of a field; None if it is not a setting."""
    return setting.metadata.get("kind")


def text(check: Callable[[str], str] = str) -> Reader:
    """Return a reader of texts that pass a check."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError  # noqa: TRY004 - readers raise ValueError for any wrong value
        return check(value)

    return read


def some_text(value: str) -> str:
    """Return a text that is not empty."""
    if not value:
        raise ValueError
    return value


def folder(value: Any) -> Path:
    """Return a path."""
    return Path(text()(value))


def boolean(value: Any) -> bool:
    """Return a boolean, from any of its usual spellings."""
    try:
        return _BOOLEANS[str(value).strip().lower()]
    except KeyError:
        raise ValueError from None


def whole(minimum: int, maximum: int) -> Reader:
    """Return a reader of integers within bounds."""

    def read(value: Any) -> int:
        if not _WHOLE.fullmatch(str(value).strip()) or not minimum <= int(value) <= maximum:
            raise ValueError
        return int(value)

    return read


def whole_or_auto(minimum: int, maximum: int) -> Reader:
    """Return a reader of integers within bounds; the word `auto` gives None."""
    read = whole(minimum, maximum)
    return lambda value: None if value == "auto" else read(value)


def number(minimum: float, maximum: float, *, above: bool = False) -> Reader:
    """Return a reader of numbers within bounds; `above`: excluding the minimum itself."""

    def read(value: Any) -> float:
        try:
            number = float(str(value))
        except ValueError:
            raise ValueError from None
        if not minimum <= number <= maximum or (above and number == minimum):
            raise ValueError
        return number

    return read


def seconds(minimum: float, maximum: float) -> Reader:
    """Return a reader of durations within bounds, in seconds or with a unit: `90`, `5m`."""

    def read(value: Any) -> float:
        try:
            seconds = read_duration(str(value))
        except ValueError:
            raise ValueError from None
        if not minimum <= seconds <= maximum:
            raise ValueError
        return seconds

    return read


def one_of(words: Collection[str]) -> Reader:
    """Return a reader of one of these words."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return read
