"""Which runs of a flow open beside its others, by its block strategy."""

from types import SimpleNamespace
from typing import Any

import pytest

from warren.broker.messages import Block
from warren.broker.reasons import Why, Words
from warren.scheduler.dispatch.decisions import Decision, Ends, Opens, Waits, decide_flow

SERIAL, DISCARD, COVER = Block.SERIAL_EXECUTION, Block.DISCARD_LATER, Block.COVER_EARLY


def run(number: int) -> Any:
    return SimpleNamespace(id=number, scheduled_at=number * 10)


def said(decision: Decision) -> str | Words:
    match decision:
        case Opens():
            return "opens"
        case Waits():
            return "waits"
        case Ends():
            return decision.end.message
    raise AssertionError(decision)


@pytest.mark.parametrize(
    ("block", "most", "running", "claimed", "expected", "killed"),
    [
        (SERIAL, 1, [], [7, 8], ["opens", "waits"], []),
        (SERIAL, 1, [1], [7], ["waits"], []),
        (SERIAL, 3, [1], [7, 8, 9], ["opens", "opens", "waits"], []),
        (DISCARD, 1, [1], [7], [Why.FLOW_RUNS(id=1)], []),
        (DISCARD, 1, [], [7, 8], ["opens", Why.FLOW_RUNS(id=7)], []),
        (COVER, 1, [1], [7], ["waits"], [1]),
        (COVER, 1, [8], [7], [Why.FLOW_OUTDATED(id=8)], []),
        (COVER, 1, [], [7, 8, 9], [Why.FLOW_OUTDATED(id=9), Why.FLOW_OUTDATED(id=9), "opens"], []),
        (COVER, 1, [], [8, 7], ["opens", Why.FLOW_OUTDATED(id=8)], []),
        (COVER, 2, [1, 2], [7], ["waits"], [1]),
        (COVER, 2, [1], [7, 8], ["opens", "waits"], [1]),
        (COVER, 2, [], [7, 8, 9], [Why.FLOW_OUTDATED(id=9), "opens", "opens"], []),
    ],
)
def test_a_flow_opens_as_many_runs_as_may_run_at_once(
    *,
    block: Block,
    most: int,
    running: list[int],
    claimed: list[int],
    expected: list[str | Words],
    killed: list[int],
) -> None:
    job: Any = SimpleNamespace(id=1, block=block, concurrency=most)
    ages = [(number * 10, number) for number in running]

    decisions, covered = decide_flow(job, [run(number) for number in claimed], ages, 1_000)

    assert [said(decision) for decision in decisions] == expected
    assert covered == killed
