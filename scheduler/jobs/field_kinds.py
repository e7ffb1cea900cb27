"""The kinds of a job's fields: what each may be, how it is stored, and how it is shown."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any
from urllib.parse import urlsplit

#: How much of a changed value is shown, and how much of that before the first difference.
SHOWN_LENGTH, BEFORE_DIFFERENCE = 60, 15


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, and what all kinds have in common; NULL in a row is the empty text.

    `group` is the mapping of a job file in which it is. `column` is the attribute of the row, where
    it is not called like the field. A field `apart` is more than a column: a script has
    versions, and a job that is enabled has a next tick. What `is_secret` opens something elsewhere;
    the audit log says only that it is there.
    """

    _: KW_ONLY
    group: str = ""
    column: str = ""
    apart: bool = False
    is_secret: bool = False

    def stored(self, value: Any) -> Any:
        """Return what a row holds for a value."""
        return value

    def value(self, stored: Any) -> Any:
        """Return the value for what a row holds."""
        return stored or ""

    def shown(self, value: Any) -> str:
        """Return a value as people read it; "" = there is nothing to show."""
        return str(value)

    def change(self, before: Any, after: Any) -> tuple[str, str]:
        """Return how two values that differ are shown."""
        return _texts(before, after)


@dataclass(frozen=True, slots=True)
class Line(Text):
    """A text of one line, without spaces at its ends."""

    longest: int


class TimeZone(Text):
    """The IANA name of a time zone; none, NULL in a row, is the scheduler's."""

    __slots__ = ()

    def stored(self, value: str) -> str | None:
        """Return NULL for no zone, which is not UTC."""
        return value or None


class Webhook(Text):
    """A URL that lets anybody who has it post to it."""

    __slots__ = ()

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Leave out the secret part."""
        return _origin(before), _origin(after)


class Texts(Text):
    """Several texts, with commas between them in a row."""

    __slots__ = ()

    def stored(self, value: Sequence[str]) -> str:
        """Join them."""
        return ",".join(value)

    def value(self, stored: str | None) -> tuple[str, ...]:
        """Split them."""
        return tuple(text for text in (stored or "").split(",") if text)

    def shown(self, value: Sequence[str]) -> str:
        """List them."""
        return ", ".join(value)

    def change(self, before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
        """Show them as they are stored."""
        return _texts(self.stored(before), self.stored(after))


@dataclass(frozen=True, slots=True)
class Tags(Texts):
    """A few short words, each once; `longest` characters together with their commas."""

    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class Choice(Text):
    """One of some names."""

    known: tuple[str, ...]

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Leave out the quotes, which no name needs."""
        return before, after


@dataclass(frozen=True, slots=True)
class Number(Text):
    """A whole number; 0 of a `unit` is none."""

    least: int
    most: int
    unit: str = ""

    def value(self, stored: int) -> int:
        """Return it as it is."""
        return stored

    def shown(self, value: int) -> str:
        """Add the unit."""
        if not self.unit:
            return str(value)
        return f"{value} {self.unit}" if value else "none"

    def change(self, before: int, after: int) -> tuple[str, str]:
        """Show it in digits."""
        return str(before), str(after)


class YesOrNo(Text):
    """Yes or no, 1 and -1 in a row; None, 0 in a row, leaves it to the executor."""

    __slots__ = ()

    def stored(self, value: bool | None) -> int:
        """Return 1, -1 or 0."""
        return {None: 0, True: 1, False: -1}[value]

    def value(self, stored: int) -> bool | None:
        """Return True, False or None."""
        return stored > 0 if stored else None

    def shown(self, value: bool | None) -> str:
        """Show nothing where it is left to the executor."""
        return {None: "", True: "yes", False: "no"}[value]

    def change(self, before: bool | None, after: bool | None) -> tuple[str, str]:
        """Say whose choice it is."""
        words = {None: "the executor's", True: "true", False: "false"}
        return words[before], words[after]


def _texts(before: str, after: str) -> tuple[str, str]:
    """Return two texts in quotes; of long ones, the part where they begin to differ."""
    if max(len(before), len(after)) <= SHOWN_LENGTH:
        return repr(before), repr(after)
    both = list(zip(before, after, strict=False))
    alike = next((at for at, (one, other) in enumerate(both) if one != other), len(both))
    start = max(0, alike - BEFORE_DIFFERENCE)
    return _cut(before, start), _cut(after, start)


def _cut(text: str, start: int) -> str:
    end = start + SHOWN_LENGTH
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if len(text) > end else ''}"


def _origin(url: str) -> str:
    """Return the part of a webhook that is no secret."""
    if not url:
        return "none"
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}/…"
