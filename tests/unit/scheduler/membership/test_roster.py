"""Who lives, who is dead, and when nobody may say so."""

import pytest

from tests.support.moved_clock import MovedClock
from warren.broker.messages import Boot, HealthIssue, Heartbeat, Load
from warren.scheduler.membership.roster import Roster, Standing


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def roster(clock: MovedClock) -> Roster:
    roster = Roster(clock)
    roster.set_health(True)
    return roster


def beat(address: str = "one", boot: str = "b1", **values: object) -> Heartbeat:
    facts = {"app": "demo", "address": address, "boot_id": boot, "started_at_ms": 1, "load": Load()}
    return Heartbeat(**(facts | values))


def join(roster: Roster, address: str = "one", boot: str = "b1", **values: object) -> None:
    roster.admit(beat(address, boot, **values))


def live(roster: Roster, clock: MovedClock, seconds: float, *beating: Heartbeat) -> None:
    """Let time pass for a healthy scheduler that hears these heartbeats all the while."""
    end = clock.now + seconds
    while clock.now < end:
        clock.now = min(end, clock.now + 0.5)
        roster.set_health(True)
        for heartbeat in beating:
            roster.hear(heartbeat)


def standing(roster: Roster, boot: str = "b1", address: str = "one") -> Standing:
    return roster.standing("demo", address, boot)


def test_a_newcomer_is_alive_and_takes_triggers(roster: Roster) -> None:
    join(roster)

    assert standing(roster) is Standing.ALIVE
    assert roster.routable("demo") == {"one": "b1"}
    assert roster.routable("other") == {}


def test_an_executor_that_beats_stays_alive(roster: Roster, clock: MovedClock) -> None:
    join(roster)

    live(roster, clock, 60, beat())

    assert standing(roster) is Standing.ALIVE


@pytest.mark.parametrize(("seconds", "expected"), [(15, Standing.ALIVE), (15.5, Standing.DEAD)])
def test_an_executor_is_dead_after_fifteen_seconds_of_silence(
    roster: Roster, clock: MovedClock, seconds: float, expected: Standing
) -> None:
    join(roster)

    live(roster, clock, seconds)

    assert standing(roster) is expected


def test_a_dead_executor_that_beats_again_is_alive(roster: Roster, clock: MovedClock) -> None:
    join(roster)
    live(roster, clock, 100)

    assert roster.hear(beat())

    assert standing(roster) is Standing.ALIVE


def test_an_unhealthy_scheduler_calls_nobody_dead(roster: Roster, clock: MovedClock) -> None:
    join(roster)
    live(roster, clock, 100)

    roster.set_health(False)

    assert standing(roster) is Standing.UNCLEAR


def test_a_gap_in_its_health_starts_all_deadlines_anew(roster: Roster, clock: MovedClock) -> None:
    join(roster)
    live(roster, clock, 14)
    roster.set_health(False)
    clock.now += 30

    roster.set_health(True)
    live(roster, clock, 15)

    assert standing(roster) is Standing.UNCLEAR
    live(roster, clock, 1)
    assert standing(roster) is Standing.DEAD


def test_a_scheduler_frozen_for_a_minute_calls_nobody_dead_when_it_thaws(
    roster: Roster, clock: MovedClock
) -> None:
    join(roster)
    live(roster, clock, 20, beat())

    clock.now += 60

    assert standing(roster) is Standing.UNCLEAR
    assert not roster.is_healthy


def test_a_thawed_scheduler_listens_for_fifteen_seconds_before_it_judges(
    roster: Roster, clock: MovedClock
) -> None:
    join(roster)
    join(roster, "two", "b2")
    live(roster, clock, 20, beat(), beat("two", "b2"))
    clock.now += 60

    live(roster, clock, 15, beat())

    assert standing(roster) is Standing.ALIVE
    assert standing(roster, "b2", "two") is Standing.UNCLEAR
    live(roster, clock, 1, beat())
    assert standing(roster, "b2", "two") is Standing.DEAD


def test_a_thawed_scheduler_has_not_missed_anybody_yet(roster: Roster, clock: MovedClock) -> None:
    join(roster)
    live(roster, clock, 20)
    clock.now += 60

    assert roster.absent_seconds("demo") == 0
    roster.set_health(True)

    assert roster.absent_seconds("demo") == 0


def test_an_executor_known_from_the_registry_only_takes_no_triggers(roster: Roster) -> None:
    roster.recall("demo", "one", "b1")

    assert roster.routable("demo") == {}
    assert standing(roster) is Standing.UNCLEAR
    assert roster.hear(beat())
    assert roster.routable("demo") == {"one": "b1"}


def test_an_executor_of_the_registry_that_stays_silent_is_dead(
    roster: Roster, clock: MovedClock
) -> None:
    roster.recall("demo", "one", "b1")

    live(roster, clock, 15.5)

    assert standing(roster) is Standing.DEAD


def test_a_boot_nobody_knows_is_dead_once_it_was_listened_for(
    roster: Roster, clock: MovedClock
) -> None:
    assert standing(roster, "unheard") is Standing.UNCLEAR

    live(roster, clock, 15.5)

    assert standing(roster, "unheard") is Standing.DEAD


def test_a_boot_whose_address_has_a_living_successor_is_superseded(roster: Roster) -> None:
    join(roster, boot="old")

    join(roster, boot="new")

    assert standing(roster, "old") is Standing.SUPERSEDED
    assert standing(roster, "new") is Standing.ALIVE
    assert not roster.hear(beat(boot="old"))


def test_a_boot_whose_successor_is_dead_too_is_dead(roster: Roster, clock: MovedClock) -> None:
    join(roster, boot="old")
    join(roster, boot="new")

    live(roster, clock, 15.5)

    assert standing(roster, "old") is Standing.DEAD


def test_a_goodbye_is_a_death_at_once(roster: Roster) -> None:
    join(roster)

    roster.dismiss("demo", "one", "b1")

    assert standing(roster) is Standing.DEAD
    assert roster.routable("demo") == {}
    assert not roster.hear(beat())


def test_a_goodbye_of_an_older_boot_changes_nothing(roster: Roster) -> None:
    join(roster, boot="new")

    roster.dismiss("demo", "one", "old")

    assert standing(roster, "new") is Standing.ALIVE


def test_a_draining_executor_lives_and_takes_no_triggers(roster: Roster) -> None:
    join(roster, draining=True)

    assert standing(roster) is Standing.ALIVE
    assert roster.routable("demo") == {}


def test_absence_counts_from_the_start_of_this_schedulers_health(
    roster: Roster, clock: MovedClock
) -> None:
    live(roster, clock, 7)

    assert roster.absent_seconds("demo") == 7


def test_absence_counts_from_when_an_executor_last_took_triggers(
    roster: Roster, clock: MovedClock
) -> None:
    live(roster, clock, 60)
    join(roster)
    live(roster, clock, 10, beat())

    live(roster, clock, 4, beat(draining=True))

    assert roster.absent_seconds("demo") == 4


def test_an_executor_of_0_1_0_counts_as_absent_once_runs_need_identities(
    roster: Roster, clock: MovedClock
) -> None:
    join(roster)
    live(roster, clock, 60, beat())
    assert roster.outdated() == []
    roster.needs_identities = True

    live(roster, clock, 4, beat())

    assert roster.absent_seconds("demo") == 4
    assert roster.routable("demo") == {}
    assert roster.outdated() == ["demo/one"]
    roster.hear(beat(last_run_id=0))
    assert roster.absent_seconds("demo") == 0
    assert roster.outdated() == []


def test_absence_counts_from_a_goodbye(roster: Roster, clock: MovedClock) -> None:
    live(roster, clock, 60)
    join(roster)
    live(roster, clock, 30, beat(draining=True))

    roster.dismiss("demo", "one", "b1")
    live(roster, clock, 2)

    assert roster.absent_seconds("demo") == 2


def test_absence_of_wanted_addresses_does_not_look_at_others(
    roster: Roster, clock: MovedClock
) -> None:
    join(roster)
    live(roster, clock, 9, beat())

    assert roster.absent_seconds("demo", ["two"]) == 9
    assert roster.absent_seconds("demo", ["one", "two"]) == 0


def test_a_forgotten_executor_is_not_there(roster: Roster) -> None:
    join(roster)

    roster.forget("demo", "one", "b1")

    assert roster.holder("demo", "one") is None
    assert roster.members() == []


def test_the_newer_boot_is_not_forgotten_with_the_older_one(roster: Roster) -> None:
    join(roster, boot="new")

    roster.forget("demo", "one", "old")

    assert roster.holder("demo", "one") == "new"


def test_health_is_counted_from_its_start_and_is_none_after_a_gap(
    roster: Roster, clock: MovedClock
) -> None:
    live(roster, clock, 12)
    assert roster.healthy_seconds == pytest.approx(12, abs=1)

    clock.now += 60
    assert roster.healthy_seconds == 0
    roster.set_health(True)

    assert roster.healthy_seconds == 0


def test_boot_that_is_to_be_drained_lives_and_gets_nothing_new(roster: Roster) -> None:
    join(roster)
    join(roster, "two", "b2")

    roster.set_drained([Boot("demo", "one", "b1")])

    assert standing(roster) is Standing.ALIVE
    assert roster.routable("demo") == {"two": "b2"}


def test_wish_to_drain_is_about_one_boot_only(roster: Roster) -> None:
    join(roster, boot="b1")
    roster.set_drained([Boot("demo", "one", "b1")])

    join(roster, boot="b2")

    assert roster.routable("demo") == {"one": "b2"}


def test_wish_that_was_taken_back_counts_no_more(roster: Roster) -> None:
    join(roster)
    roster.set_drained([Boot("demo", "one", "b1")])

    roster.set_drained([])

    assert roster.routable("demo") == {"one": "b1"}


@pytest.mark.parametrize(("told", "seconds"), [(0, 15), (120, 120), (10**9, 120)])
def test_executor_that_may_come_back_with_its_runs_is_dead_later(
    roster: Roster, clock: MovedClock, told: int, seconds: float
) -> None:
    join(roster, returns_seconds=told)
    live(roster, clock, seconds)
    before = standing(roster), roster.routable("demo")

    live(roster, clock, 1)

    assert before[0] is not Standing.DEAD
    assert standing(roster) is Standing.DEAD
    assert roster.routable("demo") == {}


def test_an_executor_whose_queue_cannot_be_reached_gets_nothing_and_is_not_absent(
    roster: Roster, clock: MovedClock
) -> None:
    join(roster)
    join(roster, "two", "b2")
    roster.set_reachable("demo", "one", is_reachable=False)

    live(roster, clock, 60, beat())

    assert roster.routable("demo") == {}
    assert roster.unreachable() == {("demo", "one"): "b1"}
    assert roster.absent_seconds("demo") == 0
    assert roster.absent_seconds("demo", ["two"]) == 60
    assert roster.absent_seconds("other") == 60

    roster.set_reachable("demo", "one", is_reachable=True)

    assert roster.routable("demo") == {"one": "b1"}
    assert roster.unreachable() == {}


def test_an_address_that_is_new_while_its_queue_cannot_be_reached_is_not_absent_while_it_beats(
    roster: Roster, clock: MovedClock
) -> None:
    for _ in range(4):
        live(roster, clock, 15)
        roster.set_reachable("demo", "new", is_reachable=False)
    assert roster.unreachable("demo") == {("demo", "new"): ""}
    assert (roster.absent_seconds("demo"), roster.absent_seconds("demo", ["new"])) == (0, 0)

    join(roster, "new")
    assert roster.routable("demo") == {}
    roster.set_reachable("demo", "new", is_reachable=True)

    assert roster.routable("demo") == {"new": "b1"}


def test_an_address_that_was_never_admitted_is_absent_once_its_heartbeats_end(
    roster: Roster, clock: MovedClock
) -> None:
    roster.set_reachable("demo", "new", is_reachable=False)

    live(roster, clock, 20)

    assert roster.unreachable() == {}
    assert roster.absent_seconds("demo") == 20


def test_a_dead_executor_whose_queue_cannot_be_reached_is_absent(
    roster: Roster, clock: MovedClock
) -> None:
    join(roster)
    roster.set_reachable("demo", "one", is_reachable=False)

    live(roster, clock, 20)

    assert (roster.unreachable(), roster.absent_seconds("demo")) == ({}, 20)
    assert standing(roster) is Standing.DEAD


def test_routes_pass_over_no_executor_whose_logs_are_not_stored(roster: Roster) -> None:
    join(roster, log_fault="it is full")
    join(roster, "two", "b2", log_fault="it is full", health_issues=(HealthIssue.DISK,))

    assert roster.unhealthy("demo") == {
        "one": (HealthIssue.LOG_STORE,),
        "two": (HealthIssue.DISK, HealthIssue.LOG_STORE),
    }
    assert roster.hindered("demo") == {"two": (HealthIssue.DISK,)}
