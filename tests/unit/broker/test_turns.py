"""The highest class goes first, and none starves."""

from itertools import groupby, pairwise

import pytest

from warren.broker.messages import HIGH, LOW, NORMAL
from warren.broker.turns import ONCE_IN, Turns


def test_the_highest_class_that_waits_goes_first() -> None:
    turns = Turns()

    assert turns.next([True, True, True]) == HIGH
    assert turns.next([False, True, True]) == NORMAL
    assert turns.next([False, False, True]) == LOW
    assert turns.next([False, False, False]) is None


def test_a_low_class_is_served_once_in_twenty_turns() -> None:
    turns = Turns()

    served = [turns.next([True, False, True]) for _ in range(10 * ONCE_IN)]

    runs = [len(list(group)) for rank, group in groupby(served) if rank == HIGH]
    assert max(runs) == ONCE_IN - 1
    assert served.count(LOW) == 10


def test_neither_of_two_lower_classes_starves() -> None:
    turns = Turns()

    served = [turns.next([True, True, True]) for _ in range(10 * ONCE_IN)]

    for rank in (NORMAL, LOW):
        at = [number for number, one in enumerate(served) if one == rank]
        assert all(later - sooner <= ONCE_IN + 1 for sooner, later in pairwise(at))


def test_several_who_give_turns_together_pass_nobody_more_than_one_would() -> None:
    together = [Turns() for _ in range(3)]
    for turns in together:
        turns.sharers = len(together)

    served = [turns.next([True, False, True]) for _ in range(50) for turns in together]

    assert all(LOW in served[at : at + ONCE_IN] for at in range(len(served) - ONCE_IN))


@pytest.mark.parametrize("schedulers", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("room", [1, 4, 30])
def test_of_twenty_that_go_one_is_low_whoever_sends_and_however_many_at_once(
    schedulers: int, room: int
) -> None:
    low = set(range(1_000, 1_050))
    waiting: list[list[int]] = [list(range(900)), [], sorted(low)]
    together = [Turns() for _ in range(schedulers)]
    for turns in together:
        turns.sharers = schedulers
    gone: list[int] = []
    while waiting[HIGH] and waiting[LOW]:
        turns = together[len(gone) % 31 % schedulers]
        # A peek sees the first of each class, and there may be room for some of them only.
        seen = [ids[:room] for ids in waiting]
        sent = turns.shared(seen, room)[: 1 + len(gone) % room]
        turns.serve(seen, sent)
        gone += sent
        waiting = [[run_id for run_id in ids if run_id not in sent] for ids in waiting]

    assert all(low.intersection(gone[at : at + ONCE_IN]) for at in range(len(gone) - ONCE_IN))


def test_a_turn_that_was_given_and_not_taken_is_given_again() -> None:
    turns = Turns()
    high, low = list(range(100)), [100, 101]

    for at in range(0, 60, 5):
        turns.serve([high[at:], [], low], high[at : at + 5])  # there was room for no other
    assert turns.shared([high, [], low], 5) == [100, *high[:4]]

    turns.serve([high, [], low], [100])
    assert turns.shared([high, [], low[1:]], 5) == high[:5]


def test_a_batch_is_shared_among_the_classes() -> None:
    high, normal, low = list(range(100)), list(range(100, 200)), list(range(200, 300))

    chosen = Turns().shared([high, normal, low], 40)

    assert chosen[:19] == high[:19]
    assert [number for number in chosen if number >= 200] == [200, 201]
    assert [number for number in chosen if 100 <= number < 200] == [100]
    assert Turns().shared([[], [7, 8], []], 40) == [7, 8]
