"""The kinds of job fields: which values each allows, how it is stored and how it is shown."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.scheduler.expectations.expectations import Expectations

#: Characters shown of a changed value, and how many of them before the first difference.
SHOWN_LENGTH, BEFORE_DIFFERENCE = 60, 15


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, and the base of all kinds; NULL in a row is the empty text.

    Attributes:
        group: the mapping of the job file that holds the field; empty = the top level.
        column: the attribute of the row, if its name differs from the field's.
        custom: storing the field takes more than writing its column: a script has versions, and
            an enabled job has a next tick.
        is_secret: the audit log notes only whether the field is set.

    """

    _: KW_ONLY
    group: str = ""
    column: str = ""
    custom: bool = False
    is_secret: bool = False

    def stored(self, value: Any) -> Any:
        """Return the stored form of a value."""
        return value

    def value(self, stored: Any) -> Any:
        """Return the value of a stored form."""
        return stored or ""

    def shown(self, value: Any) -> str:
        """Return a value as people read it; empty = do not show it."""
        return str(value)

    def change(self, before: Any, after: Any) -> tuple[str, str]:
        """Return two different values as an edit summary shows them."""
        return _quoted(before, after)


@dataclass(frozen=True, slots=True)
class Line(Text):
    """One line of text without spaces at its ends, of up to `longest` characters."""

    longest: int


class TimeZone(Text):
    """The IANA name of a time zone; empty, NULL in a row, is the scheduler's zone."""

    __slots__ = ()

    def stored(self, value: str) -> str | None:
        """Return the name, or NULL for no zone."""
        return value or None


class Webhook(Text):
    """A URL that anybody who knows it can post to."""

    __slots__ = ()

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Return both without the secret part."""
        return _shown_webhook(before), _shown_webhook(after)


class Texts(Text):
    """Several texts, separated by commas in a row."""

    __slots__ = ()

    def stored(self, value: Sequence[str]) -> str:
        """Return the texts joined by commas."""
        return ",".join(value)

    def value(self, stored: str | None) -> tuple[str, ...]:
        """Return the separate texts."""
        return tuple(text for text in (stored or "").split(",") if text)

    def shown(self, value: Sequence[str]) -> str:
        """Return the texts as a list for people."""
        return ", ".join(value)

    def change(self, before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
        """Return both in their stored form."""
        return _quoted(self.stored(before), self.stored(after))


@dataclass(frozen=True, slots=True)
class Tags(Texts):
    """Up to `most` short words, each once, of up to `longest` characters with their commas."""

    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class Choice(Text):
    """One of the `known` names."""

    known: tuple[str, ...]

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Return both as they are, without quotes; one that was not chosen is the default."""
        return before or "default", after or "default"


@dataclass(frozen=True, slots=True)
class Number(Text):
    """A whole number from `least` to `most`; with a `unit`, 0 means none."""

    least: int
    most: int
    unit: str = ""

    def value(self, stored: int) -> int:
        """Return the stored number."""
        return stored

    def shown(self, value: int) -> str:
        """Return the number with its unit."""
        if not self.unit:
            return str(value)
        return f"{value} {self.unit}" if value else "none"

    def change(self, before: int, after: int) -> tuple[str, str]:
        """Return both in digits."""
        return str(before), str(after)


class Expected(Text):
    """What is expected of the job: stored as JSON with the rules that are set, or NULL."""

    __slots__ = ()

    def stored(self, value: Expectations) -> str | None:
        """Return the JSON, or NULL for nothing."""
        return value.to_json()

    def value(self, stored: str | None) -> Expectations:
        """Return the expectations in a row."""
        return Expectations.from_json(stored)

    def change(self, before: Expectations, after: Expectations) -> tuple[str, str]:
        """Return both as one line, without quotes."""
        return str(before) or "nothing", str(after) or "nothing"


class YesOrNo(Text):
    """Yes or no, stored as 1 and -1; None, stored as 0, leaves it to the executor."""

    __slots__ = ()

    def stored(self, value: bool | None) -> int:
        """Return 1, -1 or 0."""
        return {None: 0, True: 1, False: -1}[value]

    def value(self, stored: int) -> bool | None:
        """Return True, False or None."""
        return stored > 0 if stored else None

    def shown(self, value: bool | None) -> str:
        """Return "yes" or "no", or nothing if the executor decides."""
        return {None: "", True: "yes", False: "no"}[value]

    def change(self, before: bool | None, after: bool | None) -> tuple[str, str]:
        """Return both in words."""
        words = {None: "the executor's", True: "true", False: "false"}
        return words[before], words[after]


def _quoted(before: str, after: str) -> tuple[str, str]:
    """Return two texts in quotes; of long ones, only the part around the first difference."""
    if max(len(before), len(after)) <= SHOWN_LENGTH:
        return repr(before), repr(after)
    both = list(zip(before, after, strict=False))
    alike = next((at for at, (one, other) in enumerate(both) if one != other), len(both))
    start = max(0, alike - BEFORE_DIFFERENCE)
    return _cut(before, start), _cut(after, start)


def _cut(text: str, start: int) -> str:
    end = start + SHOWN_LENGTH
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if len(text) > end else ''}"


def _shown_webhook(url: str) -> str:
    """Return the part of a webhook's URL that is not secret."""
    return without_secret(url) if url else "none"
