"""How much room a limit has, by what runs hold and what its bucket has."""

import pytest

from warren.broker.reasons import Why
from warren.scheduler.limits import FullLimit, LimitNeed, LimitRoom, LimitState, NeverFits
from warren.sql.limits import Bucket, LimitRow, NewHold

NOW_MS = 1_000_000
LOAD, SEND = 5, 6


def row(**values: object) -> LimitRow:
    empty = dict.fromkeys(LimitRow._fields)
    return LimitRow(**(empty | {"id": 1, "name": "warehouse"} | values))  # type: ignore[arg-type]


def room(limits: dict[int, LimitState], **needs: tuple[LimitNeed, ...]) -> LimitRoom:
    ids = {"load": LOAD, "send": SEND}
    return LimitRoom(
        now_ms=NOW_MS, limits=limits, needs={ids[name]: listed for name, listed in needs.items()}
    )


@pytest.mark.parametrize(
    ("tokens", "since_ms", "left"),
    [
        (None, None, 60),
        (0.0, 0, 0),
        (0.0, 1_500, 1),
        (10.0, 30_000, 40),
        (59.0, 3_600_000, 60),
        (3.0, -5_000, 3),
    ],
    ids=["new", "just emptied", "a bit later", "half a minute", "never above", "clock set back"],
)
def test_a_bucket_fills_up_evenly(tokens: float | None, since_ms: int | None, left: int) -> None:
    refilled = None if since_ms is None else NOW_MS - since_ms
    stored = row(rate=60, per_ms=60_000, tokens=tokens, refilled_at=refilled)

    assert LimitState.at(stored, 0, NOW_MS).room == left


def test_runs_of_one_claim_share_what_is_left() -> None:
    need = LimitNeed("warehouse", 1, 1)
    claim = room({1: LimitState(at_once=3, held=1)}, load=(need,), send=(need,))

    claim.take(LOAD)
    claim.take(SEND)

    assert claim.obstacle(LOAD) == FullLimit(1, 1)
    assert claim.holds([(LOAD, 70), (SEND, 71)]) == [NewHold(1, 70, 1), NewHold(1, 71, 1)]


def test_a_full_limit_stops_only_the_jobs_that_take_it() -> None:
    claim = room({1: LimitState(at_once=1, held=1)}, load=(LimitNeed("warehouse", 1, 1),))

    assert claim.obstacle(LOAD) == FullLimit(1, 1)
    assert claim.obstacle(SEND) is None
    assert claim.count(SEND) is None


def test_all_limits_of_a_job_must_have_room() -> None:
    limits = {1: LimitState(at_once=3, held=0), 2: LimitState(at_once=4, held=3)}
    claim = room(limits, load=(LimitNeed("warehouse", 1, 1), LimitNeed("partner-api", 2, 2)))

    assert claim.obstacle(LOAD) == FullLimit(2, 2)


def test_a_broadcast_takes_as_much_as_all_its_shards() -> None:
    claim = room({1: LimitState(at_once=3, held=1)}, load=(LimitNeed("warehouse", 1, 1),))

    assert claim.obstacle(LOAD, 2) is None
    assert claim.obstacle(LOAD, 3) == FullLimit(1, 3)
    never = Why.NEVER_FITS(name="warehouse", n=4, most=3)
    assert claim.obstacle(LOAD, 4) == NeverFits(never)


def test_a_limit_that_is_gone_never_has_room() -> None:
    claim = room({}, load=(LimitNeed("warehouse", None, 1),))

    assert claim.obstacle(LOAD) == NeverFits(Why.LIMIT_GONE(name="warehouse"))


def test_an_empty_bucket_says_when_it_has_enough() -> None:
    bucket = LimitState(at_once=None, held=0, rate=60, per_ms=60_000, tokens=0.5)
    claim = room({1: bucket}, load=(LimitNeed("partner-api", 1, 2),))

    assert claim.obstacle(LOAD) == FullLimit(1, 2, ready_ms=NOW_MS + 1_500)


def test_what_a_bucket_gives_is_not_held_but_stored() -> None:
    bucket = LimitState(at_once=None, held=0, rate=60, per_ms=60_000, tokens=2.0)
    claim = room({1: bucket}, load=(LimitNeed("partner-api", 1, 2),))

    claim.take(LOAD)

    assert claim.count(LOAD) is None
    assert claim.holds([(LOAD, 70)]) == []
    assert claim.buckets() == [Bucket(1, 0.0, NOW_MS)]
    assert claim.obstacle(LOAD) == FullLimit(1, 2, ready_ms=NOW_MS + 2_000)
