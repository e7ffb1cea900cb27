import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.broker.messages import HIGH, LOW, NORMAL, Block, Trigger
from warren.broker.reasons import Why
from warren.broker.turns import ONCE_IN
from warren.executor.lanes.lanes import (
    Age,
    Cover,
    Decision,
    Full,
    Lanes,
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


def trigger(
    run_id: int,
    job_id: int = 1,
    at: int = 0,
    block: Block = Block.SERIAL_EXECUTION,
    concurrency: int = 1,
) -> Trigger:
    return Trigger(
        run_id=run_id,
        job_id=job_id,
        boot_id="boot",
        kind="CRON",
        handler="demo.echo",
        scheduled_at_ms=at,
        block=block,
        concurrency=concurrency,
    )


def take_all(lanes: Lanes) -> list[int]:
    taken = []
    while (found := lanes.next()) is not None:
        taken.append(found.run_id)
    return taken


def test_run_of_an_idle_job_starts() -> None:
    lanes = Lanes(LANE_LIMIT)

    assert lanes.offer(trigger(1)) == Start()
    assert take_all(lanes) == [1]


def test_second_run_of_a_job_waits_for_the_first() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(1))
    lanes.next()

    assert lanes.offer(trigger(2)) == Wait()
    assert take_all(lanes) == []

    lanes.finish(1, 1)
    assert take_all(lanes) == [2]


def test_waiting_runs_go_by_tick_and_then_by_id_whatever_order_they_came_in() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(9, at=0))
    lanes.next()
    for run_id, at in [(5, 30), (4, 10), (3, 20), (2, 20)]:
        lanes.offer(trigger(run_id, at=at))

    order = []
    running = 9
    while running:
        lanes.finish(1, running)
        found = lanes.next()
        running = found.run_id if found else 0
        order.append(running)

    assert order == [4, 2, 3, 5, 0]


def test_concurrency_two_lets_two_go_and_the_third_wait() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in (1, 2, 3):
        lanes.offer(trigger(run_id, concurrency=2))

    assert take_all(lanes) == [1, 2]


def test_lanes_are_served_in_turn_however_much_waits_in_one() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in range(1, 101):
        lanes.offer(trigger(run_id, job_id=1, concurrency=100))
    lanes.offer(trigger(200, job_id=2))
    lanes.offer(trigger(300, job_id=3))

    first_four = [found.run_id for _ in range(4) if (found := lanes.next())]

    assert first_four == [1, 200, 300, 2]


def test_job_whose_run_was_assigned_early_starts_no_other() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id, job_id in ((1, 1), (2, 2), (3, 2), (4, 3)):
        lanes.offer(trigger(run_id, job_id=job_id))
    lanes.next()

    early = [taken.run_id for taken in lanes.assign_early(1, lambda _: True)]
    lanes.offer(trigger(5, job_id=2))

    assert early == [2]
    assert take_all(lanes) == [4]
    lanes.advance(2, 2)
    assert take_all(lanes) == []
    lanes.finish(2, 2)
    assert take_all(lanes) == [3]


def test_run_that_was_assigned_early_and_comes_back_is_next() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in (1, 2, 3, 4):
        lanes.offer(trigger(run_id, job_id=run_id))

    back = list(lanes.assign_early(2, lambda _: True))
    for taken in reversed(back):
        lanes.hand_back(taken)

    assert take_all(lanes) == [1, 2, 3, 4]


def test_runs_are_assigned_early_in_their_order_up_to_the_first_that_does_not_fit() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in (1, 2, 3, 4):
        lanes.offer(trigger(run_id, job_id=run_id))
    lanes.drop(1, 1)

    early = [taken.run_id for taken in lanes.assign_early(9, lambda one: one.run_id != 3)]

    assert early == [2]
    assert take_all(lanes) == [3, 4]


def test_run_that_was_assigned_early_and_dropped_holds_up_nothing() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(1))
    lanes.offer(trigger(2))
    (taken,) = lanes.assign_early(9, lambda _: True)

    lanes.drop(1, 1)
    lanes.hand_back(taken)

    assert take_all(lanes) == [2]


def test_refused_run_leaves_no_trace() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(1, block=Block.DISCARD_LATER))

    decision = lanes.offer(trigger(2, block=Block.DISCARD_LATER))

    assert isinstance(decision, Refuse)
    assert lanes.waiting_count == 1
    assert take_all(lanes) == [1]


def test_covering_run_starts_when_the_covered_one_is_gone() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(1, at=1, block=Block.COVER_EARLY))
    lanes.next()

    assert lanes.offer(trigger(2, at=2, block=Block.COVER_EARLY)) == Cover(kill=(1,), drop=())
    lanes.mark_stopping(1, 1)
    assert take_all(lanes) == []

    lanes.finish(1, 1)
    assert take_all(lanes) == [2]


def test_third_cover_drops_the_second_that_still_waits_and_kills_nobody_twice() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(1, at=1, block=Block.COVER_EARLY))
    lanes.next()
    lanes.offer(trigger(2, at=2, block=Block.COVER_EARLY))
    lanes.mark_stopping(1, 1)

    decision = lanes.offer(trigger(3, at=3, block=Block.COVER_EARLY))

    assert decision == Cover(kill=(), drop=(2,))
    lanes.drop(1, 2)
    lanes.finish(1, 1)
    assert take_all(lanes) == [3]


def test_dropped_run_never_starts_and_those_behind_it_do() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in (1, 2, 3):
        lanes.offer(trigger(run_id))
    lanes.next()

    lanes.drop(1, 2)
    lanes.finish(1, 1)

    assert take_all(lanes) == [3]


def test_dropping_the_only_waiting_run_of_a_lane_in_line_is_harmless() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(1))
    lanes.drop(1, 1)

    lanes.offer(trigger(2))

    assert take_all(lanes) == [2]


def test_job_is_here_from_its_first_run_to_its_last() -> None:
    lanes = Lanes(LANE_LIMIT)
    assert not lanes.has(1)

    lanes.offer(trigger(1))
    assert lanes.has(1)
    lanes.next()
    assert lanes.has(1)
    lanes.finish(1, 1)

    assert not lanes.has(1)


def test_run_killed_while_it_stops_is_finished_once() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.offer(trigger(1))
    lanes.next()

    lanes.mark_stopping(1, 1)
    lanes.mark_stopping(1, 1)
    lanes.finish(1, 1)

    assert not lanes.has(1)


def test_event_in_one_lane_does_not_look_at_ten_thousand_others() -> None:
    lanes = Lanes(LANE_LIMIT)
    for job_id in range(10_000):
        lanes.offer(trigger(job_id * 2 + 1, job_id=job_id))
        lanes.next()
        lanes.offer(trigger(job_id * 2 + 2, job_id=job_id))

    started_at = time.process_time()
    for job_id in range(10_000):
        lanes.finish(job_id, job_id * 2 + 1)
        lanes.next()
    seconds = time.process_time() - started_at

    # 10,000 scans of 10,000 lanes would take a minute or more.
    assert seconds < 2
    assert lanes.waiting_count == 0


steps = st.lists(
    st.tuples(
        st.sampled_from(["offer", "offer", "start", "finish", "drop", "stop"]),
        st.integers(1, 3),
        st.integers(0, 5),
        st.sampled_from(list(Block)),
        st.integers(1, 3),
    ),
    max_size=60,
)


class Model:
    """What must be true of lanes, kept beside them."""

    def __init__(self) -> None:
        self.lanes = Lanes(LANE_LIMIT)
        self.concurrency = {1: 1, 2: 2, 3: 3}
        self.waiting: dict[int, int] = {}
        self.running: dict[int, int] = {}

    def offer(self, offered: Trigger) -> None:
        decision = self.lanes.offer(offered)
        if isinstance(decision, Refuse):
            return
        self.waiting[offered.run_id] = offered.job_id
        if isinstance(decision, Cover):
            for run_id in decision.drop:
                self.lanes.drop(self.waiting.pop(run_id), run_id)
            for run_id in decision.kill:
                self.lanes.mark_stopping(self.running[run_id], run_id)

    def start(self) -> bool:
        found = self.lanes.next()
        if found is not None:
            self.running[found.run_id] = self.waiting.pop(found.run_id)
        return found is not None

    def finish(self, pick: int) -> None:
        run_id = sorted(self.running)[pick % len(self.running)]
        self.lanes.finish(self.running.pop(run_id), run_id)

    def stop(self, pick: int) -> None:
        run_id = sorted(self.running)[pick % len(self.running)]
        self.lanes.mark_stopping(self.running[run_id], run_id)

    def drop(self, pick: int) -> None:
        run_id = sorted(self.waiting)[pick % len(self.waiting)]
        self.lanes.drop(self.waiting.pop(run_id), run_id)

    def check(self) -> None:
        at_work = list(self.running.values())
        assert all(at_work.count(job) <= most for job, most in self.concurrency.items())
        assert self.lanes.waiting_count == len(self.waiting)
        here = {*self.running.values(), *self.waiting.values()}
        assert {job for job in self.concurrency if self.lanes.has(job)} == here


@given(steps)
def test_whatever_happens_no_job_exceeds_its_concurrency_and_no_run_is_forgotten(
    steps: list[tuple[str, int, int, Block, int]],
) -> None:
    model = Model()

    for number, (verb, job_id, at, block, pick) in enumerate(steps, start=1):
        if verb == "offer":
            model.offer(trigger(number, job_id, at, block, model.concurrency[job_id]))
        elif verb == "start":
            model.start()
        elif verb == "drop" and model.waiting:
            model.drop(pick)
        elif verb in {"finish", "stop"} and model.running:
            getattr(model, verb)(pick)
        model.check()

    while model.running or model.start():
        model.finish(0)
    assert not model.waiting


def test_upcoming_are_the_oldest_of_each_lane_those_in_line_first() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id, job_id in ((3, 1), (1, 1), (2, 1), (4, 1), (5, 2), (6, 3), (7, 3)):
        lanes.offer(trigger(run_id, job_id=job_id, at=run_id))
    lanes.next()
    lanes.next()

    upcoming = list(dict.fromkeys(lanes.upcoming(2)))

    assert upcoming == [6, 7, 2, 3]


def test_what_was_dropped_is_not_upcoming() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in (1, 2, 3):
        lanes.offer(trigger(run_id, at=run_id))
    lanes.drop(1, 2)

    assert set(lanes.upcoming(3)) == {1, 3}


def test_resumed_run_keeps_the_next_one_waiting_until_it_ends() -> None:
    lanes = Lanes(LANE_LIMIT)
    lanes.resume(trigger(1))
    lanes.offer(trigger(2))
    before = take_all(lanes)

    lanes.finish(1, 1)

    assert (before, take_all(lanes)) == ([], [2])


def test_run_that_a_process_went_on_with_runs_in_the_place_of_the_one_before() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in (1, 2, 3):
        lanes.offer(trigger(run_id))
    take_all(lanes)
    assert [found.run_id for found in lanes.following(1, 7)] == [2, 3]

    lanes.finish(1, 1)
    lanes.advance(1, 2)

    assert take_all(lanes) == []
    assert lanes.waiting_count == 1
    lanes.finish(1, 2)
    assert take_all(lanes) == [3]


def test_run_that_is_given_back_waits_in_its_old_place() -> None:
    lanes = Lanes(LANE_LIMIT)
    for run_id in (1, 2, 3):
        lanes.offer(trigger(run_id))
    take_all(lanes)
    lanes.finish(1, 1)
    lanes.advance(1, 2)

    lanes.give_back(trigger(2))

    assert lanes.waiting_count == 2
    assert take_all(lanes) == [2]
    assert [found.run_id for found in lanes.following(1, 7)] == [3]


def test_lanes_of_a_higher_priority_go_first_and_no_lane_starves() -> None:
    lanes = Lanes(LANE_LIMIT)
    for number in range(100):
        lanes.offer(prior(number + 1, job_id=number + 1, priority=HIGH))
    lanes.offer(prior(500, job_id=500, priority=LOW))
    lanes.offer(prior(600, job_id=600, priority=NORMAL))

    taken = take_all(lanes)

    assert taken[:19] == list(range(1, 20))
    assert taken.index(500) < ONCE_IN
    assert taken.index(600) <= ONCE_IN


def prior(run_id: int, *, job_id: int, priority: int) -> Trigger:
    return msgspec.structs.replace(trigger(run_id, job_id=job_id), priority=priority)
