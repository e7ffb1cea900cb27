"""One bad item never spoils the others."""

import pytest

from warren.scheduler.rounds import bisect
from warren.sql.errors import DatabaseUnavailable


class Store:
    """Takes batches whole or not at all; refuses those with a bad item."""

    def __init__(self, *bad: int) -> None:
        self.bad = set(bad)
        self.taken: list[int] = []
        self.given_up: list[tuple[int, str]] = []
        self.tries = 0

    def take(self, items: list[int]) -> None:
        self.tries += 1
        if spoiled := self.bad & set(items):
            raise ValueError(f"bad {min(spoiled)}")
        self.taken += items

    def give_up(self, item: int, error: Exception) -> None:
        self.given_up.append((item, str(error)))


@pytest.mark.parametrize("bad", [[], [0], [7], [3, 4], list(range(8))])
def test_everything_but_the_bad_items_is_taken_once_in_order(bad: list[int]) -> None:
    store = Store(*bad)

    bisect(range(8), store.take, store.give_up)

    assert store.taken == [item for item in range(8) if item not in bad]
    assert store.given_up == [(item, f"bad {item}") for item in bad]


def test_a_good_batch_is_taken_whole() -> None:
    store = Store()

    bisect(range(500), store.take, store.give_up)

    assert store.tries == 1


def test_one_bad_item_costs_few_tries() -> None:
    store = Store(123)

    bisect(range(512), store.take, store.give_up)

    assert store.tries <= 2 * 9 + 1


def test_nothing_is_asked_for_nothing() -> None:
    store = Store()

    bisect([], store.take, store.give_up)

    assert store.tries == 0


def test_a_database_that_is_away_is_no_items_fault() -> None:
    store = Store()

    def take(_items: object) -> None:
        raise DatabaseUnavailable("gone")

    with pytest.raises(DatabaseUnavailable):
        bisect(range(8), take, store.give_up)

    assert store.given_up == []
