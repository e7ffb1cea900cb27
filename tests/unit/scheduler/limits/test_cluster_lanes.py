"""Which run of a job may start beside its others in the whole cluster."""

from types import SimpleNamespace
from typing import Any

from warren.broker.messages import Block
from warren.broker.reasons import Why
from warren.scheduler.limits import ClusterLane, Refuse, Wait

DISCARDED = Refuse(Why.DISCARDED_IN_CLUSTER())
OUTDATED = Refuse(Why.OUTDATED_IN_CLUSTER())


def run(number: int) -> Any:
    return SimpleNamespace(id=number, scheduled_at=number * 10)


def age(number: int) -> tuple[int, int]:
    return number * 10, number


def lane(block: Block, most: int = 1, *, claimed: int = 0, **state: Any) -> ClusterLane:
    """Return a lane with the claimed runs 7, 8, …"""
    ages = {age(7 + number) for number in range(claimed)}
    return ClusterLane(block=block, most=most, claimed=ages, **state)


def test_serial_runs_start_in_order_as_far_as_there_is_room() -> None:
    serial = lane(Block.SERIAL_EXECUTION, 2, claimed=3, running={age(1)})

    first = serial.decide(run(7))
    serial.send(run(7))

    assert (first, serial.decide(run(8))) == (None, Wait(is_full=True))


def test_a_serial_run_does_not_pass_one_that_is_due_before_it() -> None:
    serial = lane(Block.SERIAL_EXECUTION, 2, claimed=1, ahead=1)

    assert serial.decide(run(7)) == Wait(is_full=False)


def test_a_serial_run_waits_for_one_that_could_start_but_was_not_sent() -> None:
    serial = lane(Block.SERIAL_EXECUTION, claimed=2)

    assert serial.decide(run(7)) is None
    assert serial.decide(run(8)) == Wait(is_full=False)


def test_a_later_run_is_discarded_while_another_runs_or_waits() -> None:
    assert lane(Block.DISCARD_LATER, running={age(1)}, claimed=1).decide(run(7)) == DISCARDED
    assert lane(Block.DISCARD_LATER, stopping=1, claimed=1).decide(run(7)) == DISCARDED
    assert lane(Block.DISCARD_LATER, ahead=1, claimed=1).decide(run(7)) == DISCARDED
    both = lane(Block.DISCARD_LATER, claimed=2)
    assert (both.decide(run(7)), both.decide(run(8))) == (None, DISCARDED)


def test_a_newer_run_covers_an_older_one_and_waits_until_that_has_ended() -> None:
    cover = lane(Block.COVER_EARLY, claimed=1, running={age(1)})

    assert cover.covered() == [1]
    assert cover.decide(run(7)) == Wait(is_full=True)


def test_an_older_run_never_covers_a_newer_one() -> None:
    cover = lane(Block.COVER_EARLY, claimed=1, running={age(9)})

    assert cover.covered() == []
    assert cover.decide(run(7)) == OUTDATED


def test_of_several_runs_only_the_newest_stay() -> None:
    cover = lane(Block.COVER_EARLY, 2, claimed=3, running={age(1)})

    assert cover.covered() == [1]
    assert cover.decide(run(7)) == OUTDATED
    assert cover.decide(run(8)) is None
    cover.send(run(8))
    assert cover.decide(run(9)) == Wait(is_full=True)


def test_a_run_that_is_being_killed_is_not_killed_again_but_still_at_work() -> None:
    cover = lane(Block.COVER_EARLY, claimed=1, stopping=1)

    assert cover.covered() == []
    assert cover.decide(run(7)) == Wait(is_full=True)
