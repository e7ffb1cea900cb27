"""The syntax of one cron field: checks it, and says which numbers it means.

Quartz has three rules of its own here: a range may wrap around (`22-2`), `7/6` means from 7 to the
field's end, and a step above the field's size is an error. What Quartz accepts and then ignores
(`MON-FRI/2`, `1-15W`, a step of 0) is refused, because it never does what it says.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from warren.scheduler.problems import Code, Problem, Word

#: The most characters of a user's text that an error message repeats.
_ECHO_LIMIT = 60

_PLAIN = re.compile(
    r"(?:(?P<all>\*)|(?P<first>[A-Z]{3}|[0-9]{1,4})(?:-(?P<last>[A-Z]{3}|[0-9]{1,4}))?)?"
    r"(?:/(?P<step>[0-9]{1,4}))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """One of the seven fields: what it is called and which numbers it takes."""

    name: Word
    low: int
    high: int
    names: tuple[str, ...] = ()
    wraps: bool = True

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.high - self.low + 1

    @property
    def max_step(self) -> int:
        """The longest step: 59 seconds, 23 hours, 31 days, 12 months, 7 weekdays."""
        return self.high

    def refusal(self, text: str) -> Problem:
        """Return the error for a text that is not a number of this field."""
        numbers = {"what": self.name, "least": self.low, "most": self.high, "got": echo(text)}
        if not self.names:
            return Problem(Code.CRON_NUMBER, **numbers)
        return Problem(
            Code.CRON_NUMBER_OR_NAME, first=self.names[0], last=self.names[-1], **numbers
        )


@dataclass(frozen=True, slots=True)
class Span:
    """From `first` to `last` in steps; wraps around the field's end if `last` is smaller."""

    first: int
    last: int
    step: int

    def numbers(self, field: Field) -> Iterator[int]:
        """Yield the numbers, beginning with `first`."""
        last = self.last if self.last >= self.first else self.last + field.size
        for number in range(self.first, last + 1, self.step):
            yield (number - field.low) % field.size + field.low


SECOND = Field(Word.SECOND, 0, 59)
MINUTE = Field(Word.MINUTE, 0, 59)
HOUR = Field(Word.HOUR, 0, 23)
DAY_OF_MONTH = Field(Word.DAY_OF_MONTH, 1, 31)
MONTH = Field(
    Word.MONTH,
    1,
    12,
    ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
DAY_OF_WEEK = Field(Word.DAY_OF_WEEK, 1, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
#: Quartz gives up searching after 2999.
YEAR = Field(Word.YEAR, 1970, 2999, wraps=False)


class _Cut(str):
    """The beginning of a text, marked as cut."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{super().__repr__()}..."


def echo(text: str) -> str:
    """Return the offending text, cut if it is long."""
    return text if len(text) <= _ECHO_LIMIT else _Cut(text[:_ECHO_LIMIT])


def spans(field: Field, text: str) -> tuple[Span, ...]:
    """Read a whole field of plain items: numbers, names, ranges, steps, `*`, joined by commas.

    Raises `Problem` naming the field for anything else. An empty text has no spans.
    """
    if not text:
        return ()
    return tuple(dict.fromkeys(span(field, item) for item in text.split(",")))


def span(field: Field, item: str) -> Span:
    """Read one plain item of a field."""
    match = _PLAIN.fullmatch(item)
    if match is None or not item:
        raise field.refusal(item)
    start, step = match["first"], _step(field, item, match["step"])
    if start is None:
        return Span(field.low, field.high, step)
    if start.isalpha() and match["step"]:
        raise Problem(Code.CRON_STEP_OF_NAME, what=field.name, got=echo(item))
    first = number(field, start)
    if match["last"] is None:
        return Span(first, field.high if match["step"] else first, step)
    last = number(field, match["last"])
    if start.isalpha() != match["last"].isalpha() or (last < first and not field.wraps):
        raise field.refusal(item)
    return Span(first, last, step)


def number(field: Field, text: str) -> int:
    """Read one number or name of a field."""
    if text in field.names:
        return field.names.index(text) + field.low
    if not text.isdecimal() or not field.low <= int(text) <= field.high:
        raise field.refusal(text)
    return int(text)


def _step(field: Field, item: str, text: str | None) -> int:
    step = 1 if text is None else int(text)
    if not 1 <= step <= field.max_step:
        raise Problem(Code.CRON_STEP, what=field.name, most=field.max_step, got=echo(item))
    return step
