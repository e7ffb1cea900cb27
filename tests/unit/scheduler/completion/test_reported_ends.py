"""What executors report, and what becomes of the run's row."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from warren.broker.messages import Finished, NotStarted, Outcome
from warren.broker.reasons import Why, to_json
from warren.scheduler.completion.end import (
    AHEAD_MS,
    EARLY_MS,
    end_of,
    plausible_instant,
    with_plausible_instants,
)
from warren.sql.run_status import RunStatus
from warren.sql.runs.successes import SentTo

NOW = 1_000_000
ONE = SentTo(3, "one", "b")


def finished(outcome: Outcome, message: str, **values: Any) -> Finished:
    facts = {"run_id": 7, "boot_id": "b", "started_at_ms": 5, "finished_at_ms": 9, "log_tail": "t"}
    return Finished(outcome=outcome, message=message, **(facts | values))


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_is_a_status_with_all_that_was_told(outcome: Outcome) -> None:
    end = end_of(finished(outcome, "words"), ONE, NOW)

    assert (end.run_id, end.status, end.message) == (7, RunStatus(outcome.value), "words")
    assert (end.started_at, end.finished_at, end.log_tail) == (5, 9, "t")
    assert (end.sent_to, end.never_started) == (ONE, False)


def test_a_run_that_never_started_is_undelivered() -> None:
    end = end_of(NotStarted(run_id=7, boot_id="b", reason="too late"), ONE, NOW)

    assert (end.status, end.message, end.never_started) == (RunStatus.UNDELIVERED, "too late", True)
    assert (end.finished_at, end.sent_to) == (NOW, ONE)


@pytest.mark.parametrize(("is_full", "least_wait_seconds"), [(False, 0.0), (True, 1.0)])
def test_a_run_there_was_no_room_for_does_not_come_again_at_once(
    is_full: bool, least_wait_seconds: float
) -> None:
    report = NotStarted(run_id=7, boot_id="b", reason="full", is_full=is_full)

    assert end_of(report, ONE, NOW).least_wait_seconds == least_wait_seconds


@pytest.mark.parametrize("why", ["", '{"code": "OF_ANOTHER_VERSION"}', "{", "7", "x" * 9_000])
def test_an_executor_of_another_version_is_shown_by_its_text(why: str) -> None:
    never = NotStarted(run_id=7, boot_id="b", reason="too late", why=why)
    over = structs.replace(finished(Outcome.FAILED, "no luck"), why=why)

    assert end_of(never, ONE, NOW).message == "too late"
    assert end_of(over, ONE, NOW).message == "no luck"


def test_a_reason_is_kept_as_one() -> None:
    never = NotStarted(run_id=7, boot_id="b", reason="x", why=to_json(Why.SHUTTING_DOWN()))
    over = structs.replace(finished(Outcome.TIMED_OUT, "x"), why=to_json(Why.TIMED_OUT(seconds=3)))

    assert end_of(never, ONE, NOW).message == Why.SHUTTING_DOWN()
    assert end_of(over, ONE, NOW).message == Why.TIMED_OUT(seconds=3)


def test_what_a_block_policy_refuses_stays_refused() -> None:
    words = "DISCARD_LATER: another run of the job is running or waiting here"

    assert end_of(finished(Outcome.REFUSED, words), ONE, NOW).status is RunStatus.REFUSED


@pytest.mark.parametrize("words", ["killed by request", "replaced by run 9", "killed"])
def test_what_somebody_killed_stays_killed(words: str) -> None:
    assert end_of(finished(Outcome.KILLED, words), ONE, NOW).status is RunStatus.KILLED


def test_instants_are_believed_from_a_day_before_the_sending_to_an_hour_after_now() -> None:
    routed_at, now_ms = 10 * EARLY_MS, 30 * EARLY_MS
    edges = [routed_at - EARLY_MS, now_ms + AHEAD_MS]

    found = [
        plausible_instant(at, routed_at=routed_at, now_ms=now_ms)
        for at in (edges[0] - 1, *edges, edges[1] + 1, 0, 2**53 - 1)
    ]

    assert found == [now_ms, *edges, now_ms, now_ms, now_ms]


def test_only_what_an_executor_tells_is_doubted() -> None:
    told = end_of(finished(Outcome.FAILED, "words"), ONE, NOW)
    ours = replace(told, sent_to=None)

    assert with_plausible_instants(ours, routed_at=10 * EARLY_MS, now_ms=NOW) == ours
    doubted = with_plausible_instants(told, routed_at=10 * EARLY_MS, now_ms=NOW)
    assert (doubted.started_at, doubted.finished_at) == (NOW, NOW)


def test_a_run_without_a_process_has_no_start() -> None:
    told = end_of(finished(Outcome.REFUSED, "words", started_at_ms=0), ONE, NOW)

    assert with_plausible_instants(told, routed_at=NOW, now_ms=NOW).started_at is None
