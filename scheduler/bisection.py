"""Finds the one item that spoils a batch, so that it never holds up the others."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sql.errors import DatabaseUnavailable

T = TypeVar("T")


def bisect(
    items: Sequence[T],
    act: Callable[[Sequence[T]], object],
    give_up: Callable[[T, Exception], None],
) -> None:
    """Act on all items at once; when that fails, on halves, down to each item that is at fault.

    Raises:
        DatabaseUnavailable: it is nobody's fault; what was done already is done.

    """
    if not items:
        return
    try:
        act(items)
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, one of the items is at fault
        if len(items) == 1:
            give_up(items[0], error)
            return
        middle = len(items) // 2
        bisect(items[:middle], act, give_up)
        bisect(items[middle:], act, give_up)
