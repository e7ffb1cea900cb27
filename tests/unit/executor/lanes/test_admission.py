import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.broker.messages.values import Block
from warren.broker.reasons.codes import Why
from warren.executor.lanes.lanes import (
    Age,
    Cover,
    Decision,
    Full,
    LaneState,
    Refuse,
    Start,
    Wait,
    decide,
)

SERIAL, DISCARD, COVER = Block.SERIAL_EXECUTION, Block.DISCARD_LATER, Block.COVER_EARLY
LANE_LIMIT = 1_000
ME: Age = (50, 5)
OLD: Age = (10, 1)
OLDER_BY_ID: Age = (50, 4)
NEWER_BY_ID: Age = (50, 6)
NEW: Age = (90, 9)


def lane(
    running: tuple[Age, ...] = (), waiting: tuple[Age, ...] = (), stopping: tuple[Age, ...] = ()
) -> LaneState:
    return LaneState(running=running, stopping=stopping, waiting=waiting)


@pytest.mark.parametrize("block", Block)
@pytest.mark.parametrize("concurrency", [0, 1, 3])
def test_run_in_an_empty_lane_starts(block: Block, concurrency: int) -> None:
    assert decide(block, concurrency, lane(), ME, lane_limit=LANE_LIMIT) == Start()


@pytest.mark.parametrize(
    ("block", "state", "expected"),
    [
        (SERIAL, lane(running=(OLD,)), Wait()),
        (SERIAL, lane(running=(NEW,)), Wait()),
        (SERIAL, lane(waiting=(OLD,)), Wait()),
        (SERIAL, lane(stopping=(OLD,)), Wait()),
        (COVER, lane(running=(OLD,)), Cover(kill=(1,), drop=())),
        (COVER, lane(waiting=(OLD,)), Cover(kill=(), drop=(1,))),
        (COVER, lane(running=(OLD,), waiting=((20, 2), (30, 3))), Cover(kill=(1,), drop=(2, 3))),
        (COVER, lane(stopping=(OLD,)), Cover(kill=(), drop=())),
        (COVER, lane(stopping=(OLD,), waiting=((20, 2),)), Cover(kill=(), drop=(2,))),
        (COVER, lane(running=(OLDER_BY_ID,)), Cover(kill=(4,), drop=())),
    ],
)
def test_run_behind_another_of_its_job(block: Block, state: LaneState, expected: Decision) -> None:
    assert decide(block, 1, state, ME, lane_limit=LANE_LIMIT) == expected


@pytest.mark.parametrize(
    "state",
    [lane(running=(OLD,)), lane(running=(NEW,)), lane(waiting=(OLD,)), lane(stopping=(OLD,))],
)
def test_discard_later_refuses_while_another_runs_or_waits(state: LaneState) -> None:
    decision = decide(DISCARD, 1, state, ME, lane_limit=LANE_LIMIT)

    assert decision == Refuse(Why.DISCARDED())


@pytest.mark.parametrize(
    "state",
    [
        lane(running=(NEW,)),
        lane(waiting=(NEW,)),
        lane(running=(NEWER_BY_ID,)),
        lane(running=(OLD,), waiting=(NEW,)),
        lane(stopping=(OLD,), waiting=(NEW,)),
    ],
)
def test_older_run_never_covers_a_newer_one(state: LaneState) -> None:
    decision = decide(COVER, 1, state, ME, lane_limit=LANE_LIMIT)

    assert decision == Refuse(Why.OUTDATED())


def test_serial_lane_takes_a_thousand_and_sends_back_more() -> None:
    almost = lane(running=(OLD,), waiting=tuple((100, n) for n in range(LANE_LIMIT - 1)))
    full = lane(running=(OLD,), waiting=tuple((100, n) for n in range(LANE_LIMIT)))

    assert decide(SERIAL, 1, almost, ME, lane_limit=LANE_LIMIT) == Wait()
    assert decide(SERIAL, 1, full, ME, lane_limit=LANE_LIMIT) == Full(Why.LANE_FULL(n=1000))


@pytest.mark.parametrize(
    ("block", "state", "expected"),
    [
        (SERIAL, lane(running=(OLD, (20, 2))), Start()),
        (SERIAL, lane(running=(OLD, (20, 2), (30, 3))), Wait()),
        (DISCARD, lane(running=(OLD,), waiting=((20, 2),)), Start()),
        (COVER, lane(running=(OLD, (20, 2))), Start()),
        (COVER, lane(running=(OLD, (20, 2), (30, 3))), Cover(kill=(1,), drop=())),
        (COVER, lane(running=(OLD, (20, 2), NEW)), Cover(kill=(1,), drop=())),
    ],
)
def test_concurrency_three_lets_three_of_a_job_go(
    block: Block, state: LaneState, expected: Decision
) -> None:
    assert decide(block, 3, state, ME, lane_limit=LANE_LIMIT) == expected


def test_discard_later_refuses_the_fourth_of_three() -> None:
    assert isinstance(
        decide(DISCARD, 3, lane(running=(OLD, (20, 2), NEW)), ME, lane_limit=LANE_LIMIT), Refuse
    )


ages = st.integers(0, 30).map(lambda number: (number // 3, number))


@given(
    st.lists(ages, unique=True, max_size=8),
    st.lists(st.sampled_from(["running", "waiting", "stopping"]), min_size=8, max_size=8),
    ages,
    st.integers(1, 4),
)
def test_after_a_cover_the_newest_of_the_lane_remain(
    there: list[Age], places: list[str], mine: Age, concurrency: int
) -> None:
    parts: dict[str, list[Age]] = {"running": [], "waiting": [], "stopping": []}
    for age, place in zip(there, places, strict=False):
        if age != mine:
            parts[place].append(age)
    state = lane(*(tuple(parts[name]) for name in ("running", "waiting", "stopping")))

    decision = decide(COVER, concurrency, state, mine, lane_limit=LANE_LIMIT)

    alive = {*state.running, *state.waiting}
    if isinstance(decision, Cover):
        gone = {*decision.kill, *decision.drop}
        kept = {age for age in alive if age[1] not in gone}
        covered = alive - kept
        assert all(age < mine for age in covered)
        assert len(kept) < concurrency
        assert max(covered, default=(-1, -1)) < min(kept, default=(99, 99))
    elif isinstance(decision, Refuse):
        assert sum(age > mine for age in alive) >= concurrency
    else:
        assert isinstance(decision, Start)
        assert len(alive) + len(state.stopping) < concurrency
