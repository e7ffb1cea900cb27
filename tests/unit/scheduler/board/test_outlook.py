"""The starts that a simulation of the next hour expects."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from warren.scheduler.board.outlook import Expected, Needed, Rate, Resource, Start, foresee

SLOT, JOB, LIMIT = (Resource(kind, 1) for kind in (Needed.SLOT, Needed.JOB, Needed.LIMIT))
UNTIL_MS = 3_600_000


def run(due_at: int, lasts_ms: int, **takes: int) -> Expected:
    names = {"slot": SLOT, "job": JOB, "limit": LIMIT}
    resources = {names[name]: units for name, units in (takes or {"slot": 1}).items()}
    return Expected(job_id=1, app_id=1, due_at=due_at, lasts_ms=lasts_ms, takes=resources)


def starts(
    due: Sequence[Expected],
    room: dict[Resource, int],
    running: Sequence[Expected] = (),
    rates: dict[Resource, Rate] | None = None,
) -> list[Start]:
    return foresee(due, running, room, now_ms=0, until_ms=UNTIL_MS, rates=rates)


def test_runs_start_when_due_while_there_are_slots() -> None:
    found = starts([run(5, 100), run(5, 100), run(200, 100)], {SLOT: 2})

    assert [(start.starts_at, start.waited_for) for start in found] == [
        (5, None),
        (5, None),
        (200, None),
    ]


def test_a_run_without_a_slot_starts_when_the_first_one_ends() -> None:
    found = starts([run(0, 300), run(0, 100), run(10, 100)], {SLOT: 2})

    assert (found[2].starts_at, found[2].waited_for) == (100, SLOT)
    assert found[2].late_ms(UNTIL_MS) == 90


def test_a_run_waits_for_those_that_are_running_already() -> None:
    found = starts([run(10, 100)], {SLOT: 1}, running=[run(-500, 4_000)])

    assert found[0].starts_at == 4_000


def test_a_run_waits_for_its_limit_while_others_use_the_slots() -> None:
    due = [run(0, 1_000, slot=1, limit=1), run(1, 1_000, slot=1, limit=1), run(2, 50)]

    found = starts(due, {SLOT: 5, LIMIT: 1})

    assert [start.starts_at for start in found] == [0, 1_000, 2]
    assert found[1].waited_for == LIMIT


def test_a_limit_by_time_lets_runs_go_as_its_tokens_come() -> None:
    rate = Rate(size=2, per_ms=0.001, tokens=2)

    found = starts([run(0, 10, limit=1) for _ in range(4)], {}, rates={LIMIT: rate})

    assert [round(start.starts_at or 0, -2) for start in found] == [0, 0, 1_000, 2_000]


def test_a_job_that_runs_one_at_a_time_puts_its_runs_one_after_the_other() -> None:
    found = starts([run(minute, 90, slot=1, job=1) for minute in (0, 60, 120)], {SLOT: 9, JOB: 1})

    assert [start.starts_at for start in found] == [0, 90, 180]


def test_a_run_that_cannot_start_in_time_says_what_it_waits_for() -> None:
    [start] = starts([run(UNTIL_MS - 60_000, 10)], {SLOT: 1}, running=[run(0, UNTIL_MS * 2)])

    assert (start.starts_at, start.waited_for, start.late_ms(UNTIL_MS)) == (None, SLOT, 60_000)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 200), st.integers(0, 2)), max_size=40),
    st.integers(1, 4),
    st.integers(2, 4),
)
def test_no_resource_is_ever_used_beyond_its_room(
    drawn: list[tuple[int, int, int]], slots: int, units: int
) -> None:
    due = [run(at, lasts, slot=1, limit=weight) for at, lasts, weight in drawn]

    found = starts(due, {SLOT: slots, LIMIT: units})

    changes: Counter[tuple[int, int, Resource]] = Counter()
    for start in found:
        assert start.starts_at is not None
        assert start.starts_at >= start.run.due_at
        for resource, taken in start.run.takes.items():
            changes[start.starts_at, 1, resource] += taken
            changes[start.starts_at + start.run.lasts_ms, 0, resource] -= taken
    used: Counter[Resource] = Counter()
    for (_, _, resource), change in sorted(changes.items()):
        used[resource] += change
        assert used[resource] <= {SLOT: slots, LIMIT: units}[resource]
