"""Sets of values as fields of a cron expression."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

#: Why a cron line has no equivalent: a cron expression has only one of the two fields.
BOTH_DAYS = "it needs the day of the month and the weekday to match together"


def listed(values: Collection[int], count: int) -> str:
    """Return values as a field: `*` for all `count` of them, else a list with ranges."""
    return "*" if len(values) >= count else ",".join(_ranges(sorted(values)))


def _ranges(values: Sequence[int]) -> Iterator[str]:
    """Yield consecutive values as ranges."""
    for _, group in groupby(enumerate(values), key=lambda pair: pair[1] - pair[0]):
        found = [value for _, value in group]
        yield str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"
