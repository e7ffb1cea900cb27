from warren.executor.requests.intake import EARLY_KILL_LIMIT, EARLY_KILL_SECONDS, EarlyKills


class Watch:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_tombstone_gives_its_reason_once() -> None:
    stones = EarlyKills(Watch())
    stones.put(1, "killed by ann")

    assert stones.take(1) == "killed by ann"
    assert stones.take(1) is None


def test_run_that_nobody_killed_has_no_tombstone() -> None:
    assert EarlyKills(Watch()).take(1) is None


def test_tombstone_is_forgotten_after_an_hour() -> None:
    watch = Watch()
    stones = EarlyKills(watch)
    stones.put(1, "killed by ann")

    watch.now += EARLY_KILL_SECONDS

    assert stones.take(1) is None


def test_old_tombstones_make_room_when_a_new_one_comes() -> None:
    watch = Watch()
    stones = EarlyKills(watch)
    stones.put(1, "first")
    watch.now += EARLY_KILL_SECONDS

    stones.put(2, "second")

    assert len(stones) == 1


def test_second_kill_renews_the_tombstone() -> None:
    watch = Watch()
    stones = EarlyKills(watch)
    stones.put(1, "first")
    watch.now += EARLY_KILL_SECONDS / 2
    stones.put(1, "second")
    watch.now += EARLY_KILL_SECONDS / 2 + 1

    assert stones.take(1) == "second"


def test_very_many_kills_push_the_oldest_out() -> None:
    stones = EarlyKills(Watch())

    for run_id in range(EARLY_KILL_LIMIT + 1):
        stones.put(run_id, "killed")

    assert len(stones) == EARLY_KILL_LIMIT
    assert stones.take(0) is None
    assert stones.take(EARLY_KILL_LIMIT) == "killed"
