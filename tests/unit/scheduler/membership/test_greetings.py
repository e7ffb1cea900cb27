"""Who sends heartbeats of ever new boots holds up its own app, and no other."""

from warren.broker.messages import Heartbeat, Load
from warren.scheduler.membership.registrar import OF_A_ROUND, Greeting, Greetings


def greeting(
    boot_id: str, address: str = "one", app: str = "reports", account: str = "me"
) -> Greeting:
    who = {"app": app, "address": address, "boot_id": boot_id}
    return Greeting(Heartbeat(started_at_ms=1, load=Load(), **who), account)


def test_the_newcomer_of_another_app_is_in_the_next_round() -> None:
    greetings = Greetings(1_000)
    for number in range(3_000):
        greetings.add(greeting("b", f"phantom-{number}"), is_holder=False)
    greetings.add(greeting("b", app="salaries"), is_holder=False)

    first = greetings.take()

    assert len(first) == OF_A_ROUND
    assert first[1].boot == ("salaries", "one", "b")
    rounds = 1
    while greetings:
        greetings.take()
        rounds += 1
    assert rounds == 6  # a thousand addresses and one, two hundred at a time


def test_two_boots_wait_for_one_address_and_its_holder_always_may() -> None:
    greetings = Greetings(1_000)

    let_in = [greetings.add(greeting(f"b{n}"), is_holder=n == 7) for n in range(9)]

    assert [n for n, one in enumerate(let_in) if one] == [0, 1, 7]
    assert [one.boot.boot_id for one in greetings.take()] == ["b0", "b1", "b7"]


def test_a_boot_waits_once_with_its_latest_heartbeat_and_the_account_heard_first() -> None:
    greetings = Greetings(1_000)
    greetings.add(greeting("b"), is_holder=False)
    greetings.add(greeting("b", account="thief"), is_holder=False)
    latest = greeting("b")

    greetings.add(latest, is_holder=False)

    [waiting] = greetings.take()
    assert waiting is latest
    assert not greetings


def test_what_is_put_back_is_not_put_before_what_came_later() -> None:
    greetings = Greetings(1_000)
    greetings.add(greeting("b"), is_holder=False)
    [taken] = greetings.take()
    later = greeting("b")
    greetings.add(later, is_holder=False)

    greetings.put_back([taken, greeting("c", "two")])

    assert [one.boot.boot_id for one in greetings.take()] == ["b", "c"]
