"""Finds the items that make a batch fail, so that they do not block the others."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from warren.sql.errors import DatabaseUnavailable

T = TypeVar("T")


def bisect(
    items: Sequence[T],
    act: Callable[[Sequence[T]], object],
    give_up: Callable[[T, Exception], None],
) -> None:
    """Act on all items at once; if that fails, on halves, down to single items.

    `give_up` is called for each item that fails on its own, with its error.

    Raises:
        DatabaseUnavailable: no item is at fault; parts that succeeded stay done.

    """
    if not items:
        return
    try:
        act(items)
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - any other error is the fault of an item
        if len(items) == 1:
            give_up(items[0], error)
            return
        middle = len(items) // 2
        bisect(items[:middle], act, give_up)
        bisect(items[middle:], act, give_up)
