from warren.broker.messages import Kill, Trigger
from warren.executor.requests import EARLY_KILL_LIMIT, EARLY_KILL_SECONDS, EarlyKills


class Watch:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def kill(run_id: int, reason: str, **values: int) -> Kill:
    return Kill(run_id=run_id, reason=reason, **values)


def run(run_id: int, job_id: int = 1) -> Trigger:
    return Trigger(
        run_id=run_id, job_id=job_id, boot_id="b", kind="CRON", handler="h", scheduled_at_ms=1
    )


def test_tombstone_gives_its_reason_once() -> None:
    stones = EarlyKills(Watch())
    stones.put(kill(1, "killed by ann"))

    assert stones.take(run(1)) == "killed by ann"
    assert stones.take(run(1)) is None


def test_tombstone_of_another_run_of_the_same_id_kills_nothing() -> None:
    stones = EarlyKills(Watch())
    stones.put(kill(1, "killed by ann", identity=run(1).identity))

    assert stones.take(run(1, job_id=2)) is None


def test_run_that_nobody_killed_has_no_tombstone() -> None:
    assert EarlyKills(Watch()).take(run(1)) is None


def test_tombstone_is_forgotten_after_an_hour() -> None:
    watch = Watch()
    stones = EarlyKills(watch)
    stones.put(kill(1, "killed by ann"))

    watch.now += EARLY_KILL_SECONDS

    assert stones.take(run(1)) is None


def test_old_tombstones_make_room_when_a_new_one_comes() -> None:
    watch = Watch()
    stones = EarlyKills(watch)
    stones.put(kill(1, "first"))
    watch.now += EARLY_KILL_SECONDS

    stones.put(kill(2, "second"))

    assert len(stones) == 1


def test_second_kill_renews_the_tombstone() -> None:
    watch = Watch()
    stones = EarlyKills(watch)
    stones.put(kill(1, "first"))
    watch.now += EARLY_KILL_SECONDS / 2
    stones.put(kill(1, "second"))
    watch.now += EARLY_KILL_SECONDS / 2 + 1

    assert stones.take(run(1)) == "second"


def test_very_many_kills_push_the_oldest_out() -> None:
    stones = EarlyKills(Watch())

    for run_id in range(EARLY_KILL_LIMIT + 1):
        stones.put(kill(run_id, "killed"))

    assert len(stones) == EARLY_KILL_LIMIT
    assert stones.take(run(0)) is None
    assert stones.take(run(EARLY_KILL_LIMIT)) == "killed"
