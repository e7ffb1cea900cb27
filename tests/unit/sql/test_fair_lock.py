"""Threads get their turn in the order in which they asked."""

import threading
from collections.abc import Callable
from contextlib import suppress

from tests.support.eventually import eventually
from warren.sql.engine import FairLock


def test_one_thread_is_in_at_a_time() -> None:
    turns, inside, most = FairLock(), [0], [0]

    def work() -> None:
        for _ in range(300):
            with turns:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    run(*[work] * 4)

    assert most == [1]


def test_threads_are_let_in_in_the_order_of_their_coming() -> None:
    turns, order = FairLock(), list[object]()
    threads = []
    with turns:
        for number in range(5):
            thread = threading.Thread(target=note, args=(turns, order, number))
            thread.start()
            threads.append(thread)
            eventually(lambda: turns.waiting == len(threads))
    for thread in threads:
        thread.join(30)

    assert order == [0, 1, 2, 3, 4]


def test_who_comes_back_at_once_stands_behind_who_waited() -> None:
    turns, order = FairLock(), list[object]()
    with turns:
        thread = threading.Thread(target=note, args=(turns, order, "waited"))
        thread.start()
        eventually(lambda: turns.waiting)

    note(turns, order, "came back")

    thread.join(30)
    assert order == ["waited", "came back"]


def test_an_error_inside_hands_the_turn_on() -> None:
    turns, order = FairLock(), list[object]()
    with suppress(RuntimeError), turns:
        raise RuntimeError

    note(turns, order, "next")

    assert order == ["next"]


def note(turns: FairLock, order: list[object], what: object) -> None:
    with turns:
        order.append(what)


def run(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
