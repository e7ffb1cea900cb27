"""Five fields of a crontab, and its shortcuts, as cron expressions of six fields.

cron counts weekdays from 0 or 7 for Sunday, and runs a line with two day fields when either
matches, so that such a line needs two expressions.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

#: Why such a line has no equivalent: a cron expression has only one of the two day fields.
BOTH_DAYS = "it needs the day of the month and the weekday to match together"


def listed(values: Collection[int], count: int) -> str:
    """Return values as a field: `*` for all `count` of them, else a step, or a list with ranges."""
    if len(values) >= count:
        return "*"
    ordered = sorted(values)
    return _stepped(ordered) or ",".join(_ranges(ordered))


def _stepped(values: Sequence[int]) -> str:
    """Return three values or more at equal distances as one step; empty if they are not."""
    if len(values) < 3:  # noqa: PLR2004 - a list of two is as short
        return ""
    first, last, step = values[0], values[-1], values[1] - values[0]
    is_even = step > 1 and list(values) == list(range(first, last + 1, step))
    return f"{first}-{last}/{step}" if is_even else ""


def _ranges(values: Sequence[int]) -> Iterator[str]:
    """Yield consecutive values as ranges."""
    for _, group in groupby(enumerate(values), key=lambda pair: pair[1] - pair[0]):
        numbers = [value for _, value in group]
        yield str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


SHORTCUTS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: The five fields: name, minimum, maximum, names of the values from the minimum on.
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
FIELDS: Sequence[tuple[str, int, int, Sequence[str]]] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_PART = re.compile(r"(\*|[0-9A-Za-z]+(?:-[0-9A-Za-z]+)?)(?:/([0-9]{1,2}))?")


def meant(text: str) -> str:
    """Return the cron expression that is probably meant by five fields or a shortcut.

    Empty if it is neither, or needs two expressions.
    """
    when = SHORTCUTS.get(text.lower(), text).split()
    if len(when) != len(FIELDS):
        return ""
    try:
        candidates = list(expressions(when))
    except ValueError:
        return ""
    return candidates[0] if len(candidates) == 1 else ""


def expressions(when: Sequence[str]) -> Iterator[str]:
    """Yield one cron expression, or two if either day field suffices."""
    minute, hour, day, month, weekday = (
        values_of(text, *described) for text, described in zip(when, FIELDS, strict=True)
    )
    weekdays = listed({value % 7 + 1 for value in weekday or ()}, 7)
    time, days = f"0 {listed(minute, 60)} {listed(hour, 24)}", listed(day, 31)
    months = listed(month, 12)
    either = not (when[2].startswith("*") or when[4].startswith("*"))
    if either and "*" in (days, weekdays):
        yield f"{time} * {months} ?"
    elif weekdays == "*":
        yield f"{time} {days} {months} ?"
    elif days == "*":
        yield f"{time} ? {months} {weekdays}"
    elif not either:
        raise ValueError(BOTH_DAYS)
    else:
        yield f"{time} {days} {months} ?"
        yield f"{time} ? {months} {weekdays}"


def weekdays_and_times(fields: Sequence[str]) -> list[set[int]]:
    """Return the values of five fields, Sunday being 0; raises ValueError."""
    minute, hour, day, month, weekday = (
        values_of(text, *described) for text, described in zip(fields, FIELDS, strict=True)
    )
    return [minute, hour, day, month, {value % 7 for value in weekday}]


def values_of(text: str, what: str, least: int, most: int, names: Sequence[str]) -> set[int]:
    """Return the values of one field, which is called `what`; raises ValueError."""
    values: set[int] = set()
    for part in text.split(","):
        matched = _PART.fullmatch(part)
        if matched is None:
            raise _wrong(what, least, most, part)
        first, last = _range(matched[1], what, least, most, names)
        step = int(matched[2] or 1)
        if matched[2] and matched[1].isalnum():
            last = most
        if not step or first > last:
            raise _wrong(what, least, most, part)
        values |= set(range(first, last + 1, step))
    return values


def _range(text: str, what: str, least: int, most: int, names: Sequence[str]) -> tuple[int, int]:
    if text == "*":
        return least, min(most, 6) if names is _DAYS else most
    ends = [_value(end, what, least, most, names) for end in text.split("-")]
    return ends[0], ends[-1]


def _value(text: str, what: str, least: int, most: int, names: Sequence[str]) -> int:
    upper = text.upper()
    value = names.index(upper) + least if upper in names else -1
    if text.isascii() and text.isdecimal():
        value = int(text)
    if not least <= value <= most:
        raise _wrong(what, least, most, text)
    return value


def _wrong(what: str, least: int, most: int, got: str) -> ValueError:
    return ValueError(f"expected {what} to be {least}-{most}, got: {got[:40]!r}")
