"""Sets of values as fields of a cron expression."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

#: Why a cron line has no equivalent: a cron expression has only one of the two fields.
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
        found = [value for _, value in group]
        yield str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"
