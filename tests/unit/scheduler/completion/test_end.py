"""When a whole tick is over, and whether it succeeded."""

from dataclasses import replace
from datetime import date
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from warren.broker.messages import Finished, NotStarted, Outcome
from warren.broker.reasons import Why
from warren.broker.stored_reasons import to_json
from warren.scheduler.completion import end
from warren.scheduler.completion.end import (
    AHEAD_MS,
    EARLY_MS,
    REDELIVERY_SECONDS,
    End,
    end_of,
    plausible_instant,
    tick_end,
    wait_seconds,
    with_plausible_instants,
)
from warren.sql.run_status import FINAL, FINE, OPEN, Kind, RunStatus
from warren.sql.runs.ticks import Tick
from warren.sql.runs.transitions import SentTo

TICK = Tick(1, 2_000, 0)
SUCCEEDED, FAILED, SKIPPED = RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.SKIPPED


def runs(*shards: list[RunStatus], total: int | None = None) -> list[Any]:
    """Rows of a tick: for each shard the statuses of its attempts."""
    rows = [(index, at, end) for index, ends in enumerate(shards) for at, end in enumerate(ends)]
    return [
        SimpleNamespace(
            id=number,
            origin_id=0,
            run_date=None,
            shard_index=index,
            attempt=attempt,
            status=status,
            shard_total=len(shards) if total is None else total,
            finished_at=1_000 * number if status in FINAL else None,
        )
        for number, (index, attempt, status) in enumerate(rows, 1)
    ]


def succeeded(rows: list[Any]) -> bool:
    end = tick_end(TICK, rows)
    assert end is not None
    return end.succeeded


@pytest.mark.parametrize("status", sorted(OPEN))
def test_an_open_run_of_any_shard_keeps_a_tick_open(status: RunStatus) -> None:
    assert tick_end(TICK, runs([SUCCEEDED], [status], [FAILED])) is None


def test_a_further_attempt_keeps_a_tick_open() -> None:
    assert tick_end(TICK, runs([SUCCEEDED], [FAILED, RunStatus.PLANNED])) is None


def test_a_tick_succeeded_when_the_last_attempt_of_each_shard_did() -> None:
    assert succeeded(runs([SUCCEEDED], [FAILED, RunStatus.UNDELIVERED, SUCCEEDED]))


@pytest.mark.parametrize("status", sorted(FINAL - FINE))
def test_one_shard_that_did_not_succeed_spoils_its_tick(status: RunStatus) -> None:
    assert not succeeded(runs([SUCCEEDED], [status], [SUCCEEDED]))


def test_a_tick_of_which_a_shard_was_cleared_is_not_said_to_have_succeeded() -> None:
    assert not succeeded(runs([SUCCEEDED], [SUCCEEDED], total=3))


@pytest.mark.parametrize(
    ("shards", "total", "status"),
    [
        ([[FAILED, SUCCEEDED], [SUCCEEDED]], 2, SUCCEEDED),
        ([[SUCCEEDED], [FAILED, RunStatus.KILLED], [FAILED]], 3, RunStatus.KILLED),
        ([[SUCCEEDED], [SUCCEEDED]], 3, RunStatus.LOST),
        ([[SUCCEEDED], [FAILED]], 3, FAILED),
        ([[RunStatus.CANCELLED]], 0, RunStatus.CANCELLED),
        ([[SKIPPED]], 1, SKIPPED),
        ([[FAILED, SKIPPED]], 1, SKIPPED),
        ([[SKIPPED], [SUCCEEDED], [SKIPPED]], 3, SUCCEEDED),
        ([[SKIPPED], [SKIPPED]], 2, SKIPPED),
        ([[SKIPPED], [FAILED]], 2, FAILED),
    ],
)
def test_a_ticks_status_is_that_of_the_first_shard_that_did_not_succeed(
    shards: list[list[RunStatus]], total: int, status: RunStatus
) -> None:
    end = tick_end(TICK, runs(*shards, total=total))

    assert end is not None
    assert end.status is status


def test_a_broadcast_that_was_never_expanded_is_over_and_did_not_succeed() -> None:
    end = tick_end(TICK, runs([RunStatus.CANCELLED], total=0))

    assert end is not None
    assert not end.succeeded


def test_a_tick_ends_with_the_last_of_its_runs_and_is_named_by_its_first() -> None:
    rows = runs([FAILED, SUCCEEDED], [SUCCEEDED])
    rows[0].finished_at = 99_000

    end = tick_end(TICK, rows)

    assert end is not None
    assert (end.head_id, end.finished_at) == (1, 99_000)


def test_a_tick_whose_first_run_was_cleared_has_no_head() -> None:
    end = tick_end(TICK, runs([FAILED, SUCCEEDED])[1:])

    assert end is not None
    assert end.head_id is None


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
    words = "another run of the job is running or waiting here"

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


next_attempt = partial(end.next_attempt, chance=0.0)


def run(**values: Any) -> Any:
    facts = {
        "id": 7,
        "app_id": 1,
        "job_id": 2,
        "handler": "h",
        "param": "p",
        "retries_left": 2,
        "scheduled_at": 900_000,
        "run_date": date(2026, 12, 1),
        "origin_id": 0,
        "shard_index": 1,
        "shard_total": 3,
        "attempt": 4,
        "starts": 3,
        "redeliveries": 0,
        "wanted_addresses": None,
        "script_version": 12,
        "traceparent": "00-trace",
        "kill_requested_at": None,
        "rerun_of": None,
        "called_by": None,
        "backfill_id": None,
        "flow_run_id": None,
        "without_children": 0,
    }
    return SimpleNamespace(**(facts | values))


def job(**values: Any) -> Any:
    facts = {"retry_delay": 30, "delivery": "AT_MOST_ONCE", "is_enabled": 1}
    facts |= {"retry_backoff": "fixed", "retry_most": 0, "retry_jitter": 0}
    return SimpleNamespace(**(facts | {"stop_reason": None, "stop_why": None} | values))


def end(status: RunStatus, **values: Any) -> End:
    return End(run_id=7, status=status, message="m", finished_at=NOW, **values)


RETRIED = [RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED]


@pytest.mark.parametrize("status", RETRIED)
def test_a_failure_is_tried_again_after_the_jobs_delay(status: RunStatus) -> None:
    again = next_attempt(run(), job(), end(status), now_ms=NOW)

    assert again is not None
    assert (again.attempt, again.retries_left, again.kind) == (5, 1, Kind.RETRY)
    assert again.due_at == NOW + 30_000


@pytest.mark.parametrize("status", sorted(FINAL - set(RETRIED)))
def test_no_other_end_is_tried_again(status: RunStatus) -> None:
    assert next_attempt(run(), job(), end(status), now_ms=NOW) is None


def test_an_attempt_inherits_tick_origin_shard_and_what_it_runs() -> None:
    again = next_attempt(
        run(origin_id=55, wanted_addresses="a,b"), job(), end(RunStatus.FAILED), now_ms=NOW
    )

    assert again is not None
    assert (again.scheduled_at, again.origin_id) == (900_000, 55)
    assert (again.shard_index, again.shard_total) == (1, 3)
    assert (again.handler, again.param, again.wanted_addresses) == ("h", "p", "a,b")
    assert (again.script_version, again.traceparent) == (12, "00-trace")


def test_without_retries_left_a_failure_is_the_end() -> None:
    failed = run(retries_left=0)

    assert next_attempt(failed, job(), end(RunStatus.FAILED), now_ms=NOW) is None


@pytest.mark.parametrize(("retry_delay", "waits"), [(0, 1_000), (7, 7_000)])
def test_a_retry_waits_at_least_as_long_as_its_end_says(retry_delay: int, waits: int) -> None:
    nobody = end(RunStatus.UNDELIVERED, least_wait_seconds=1.0)

    again = next_attempt(run(), job(retry_delay=retry_delay), nobody, now_ms=NOW)

    assert again is not None
    assert again.due_at == NOW + waits


def test_a_lost_run_is_tried_again_only_where_the_job_asks_for_it() -> None:
    lost = end(RunStatus.LOST)

    assert next_attempt(run(), job(), lost, now_ms=NOW) is None
    assert next_attempt(run(), job(delivery="AT_LEAST_ONCE"), lost, now_ms=NOW) is not None


@pytest.mark.parametrize("redeliveries", range(len(REDELIVERY_SECONDS)))
def test_a_run_that_never_started_is_planned_again_without_using_a_retry(redeliveries: int) -> None:
    never = end(RunStatus.UNDELIVERED, never_started=True)

    again = next_attempt(run(redeliveries=redeliveries, retries_left=0), job(), never, now_ms=NOW)

    assert again is not None
    assert (again.retries_left, again.redeliveries) == (0, redeliveries + 1)
    assert again.due_at == NOW + REDELIVERY_SECONDS[redeliveries] * 1000


def test_a_run_there_was_no_room_for_comes_again_after_a_second_and_then_ever_later() -> None:
    full = end(RunStatus.UNDELIVERED, never_started=True, least_wait_seconds=1.0)
    waits, turned_away = [], run()

    while (again := next_attempt(turned_away, job(), full, now_ms=NOW)) and again.redeliveries:
        waits.append((again.due_at - NOW, again.retries_left))
        turned_away = run(redeliveries=again.redeliveries)

    assert waits == [(1_000, 2), (2_000, 2), (4_000, 2), (8_000, 2)]
    assert again is not None
    assert (again.retries_left, again.due_at) == (1, NOW + 30_000)


def test_the_sixth_time_it_never_started_counts_as_a_failed_attempt() -> None:
    never = end(RunStatus.UNDELIVERED, never_started=True)
    worn = run(redeliveries=len(REDELIVERY_SECONDS))

    again = next_attempt(worn, job(), never, now_ms=NOW)

    assert again is not None
    assert (again.retries_left, again.redeliveries) == (1, 0)
    worn.retries_left = 0
    assert next_attempt(worn, job(), never, now_ms=NOW) is None


@pytest.mark.parametrize(("retry_delay", "waits"), [(0, 1_000), (7, 7_000)])
def test_a_refused_retry_of_a_failure_uses_up_a_retry_and_the_next_one_waits(
    retry_delay: int, waits: int
) -> None:
    refused = end(RunStatus.REFUSED)

    again = next_attempt(run(), job(retry_delay=retry_delay), refused, now_ms=NOW, has_failed=True)

    assert again is not None
    assert (again.attempt, again.retries_left, again.due_at) == (5, 1, NOW + waits)
    none_left = run(retries_left=0)
    assert next_attempt(none_left, job(), refused, now_ms=NOW, has_failed=True) is None


def test_a_killed_retry_of_a_failure_is_not_tried_again() -> None:
    covered = end(RunStatus.KILLED)

    assert next_attempt(run(), job(), covered, now_ms=NOW, has_failed=True) is None


def test_a_refused_retry_of_a_failure_is_not_tried_again_when_somebody_asked_to_kill_it() -> None:
    killed, refused = run(kill_requested_at=NOW - 1), end(RunStatus.REFUSED)

    assert next_attempt(killed, job(), refused, now_ms=NOW, has_failed=True) is None


def test_a_run_somebody_asked_to_kill_is_not_tried_again() -> None:
    killed = run(kill_requested_at=NOW - 1)

    assert next_attempt(killed, job(), end(RunStatus.FAILED), now_ms=NOW) is None


def test_a_deleted_job_starts_nothing_more() -> None:
    assert next_attempt(run(), None, end(RunStatus.FAILED), now_ms=NOW) is None


def test_a_job_that_a_person_stopped_tries_nothing_of_its_schedule_again() -> None:
    stopped = job(is_enabled=0)

    assert next_attempt(run(), stopped, end(RunStatus.FAILED), now_ms=NOW) is None
    assert next_attempt(run(origin_id=7), stopped, end(RunStatus.FAILED), now_ms=NOW) is not None


def test_a_job_whose_schedule_has_ended_still_tries_again_unless_a_person_stops_it() -> None:
    reasons = [
        (Why.NO_FURTHER_TIME(), True),
        (Why.SCHEDULE_CHANGED_BY(who="ann"), True),
        (Why.STOPPED_BY(who="ann"), False),
    ]

    for reason, is_retried in reasons:
        ended = job(is_enabled=0, stop_reason=str(reason), stop_why=to_json(reason))
        again = next_attempt(run(), ended, end(RunStatus.FAILED), now_ms=NOW)
        assert (again is not None) is is_retried


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({"retry_delay": 10}, [10, 10, 10, 10]),
        ({"retry_delay": 10, "retry_backoff": "exponential"}, [10, 20, 40, 80]),
        ({"retry_delay": 10, "retry_backoff": "exponential", "retry_most": 30}, [10, 20, 30, 30]),
        ({"retry_delay": 20_000, "retry_backoff": "exponential"}, [20_000, 40_000, 80_000, 86_400]),
        ({"retry_delay": 90_000, "retry_backoff": "exponential"}, [90_000] * 4),
        ({"retry_delay": 10, "retry_jitter": 20}, [10, 10, 10, 10]),
    ],
)
def test_an_exponential_backoff_doubles_the_delay_with_each_start(
    fields: dict[str, Any], waits: list[int]
) -> None:
    assert [wait_seconds(job(**fields), starts, 0.0) for starts in (1, 2, 3, 4)] == waits


def test_a_thousandth_start_waits_no_longer_than_the_most() -> None:
    slow = job(retry_delay=1, retry_backoff="exponential", retry_most=600)

    assert wait_seconds(slow, 1_000, 0.0) == 600


def test_jitter_shortens_a_wait_by_up_to_its_share() -> None:
    jittered = job(retry_delay=100, retry_jitter=20)

    assert [wait_seconds(jittered, 1, chance) for chance in (0.0, 0.5, 1.0)] == [100, 90, 80]


@pytest.mark.parametrize(
    ("ended", "starts"),
    [
        (end(RunStatus.FAILED), 4),
        (end(RunStatus.TIMED_OUT), 4),
        (end(RunStatus.LOST), 4),
        (end(RunStatus.REFUSED), 3),
        (end(RunStatus.UNDELIVERED), 3),
        (end(RunStatus.UNDELIVERED, never_started=True), 3),
    ],
)
def test_only_attempts_that_may_have_started_count(ended: End, starts: int) -> None:
    safe = job(delivery="AT_LEAST_ONCE")

    again = next_attempt(run(), safe, ended, now_ms=NOW, has_failed=True)

    assert again is not None
    assert (again.attempt, again.starts) == (5, starts)


def test_a_handler_may_say_when_it_is_tried_again() -> None:
    later = end(RunStatus.FAILED, retry_seconds=300.0)

    again = next_attempt(run(), job(retry_delay=7), later, now_ms=NOW)

    assert again is not None
    assert (again.due_at, again.retries_left) == (NOW + 300_000, 1)
    assert next_attempt(run(retries_left=0), job(), later, now_ms=NOW) is None


def test_a_handler_may_say_that_trying_again_is_useless() -> None:
    useless = end(RunStatus.FAILED, may_retry=False)

    assert next_attempt(run(), job(), useless, now_ms=NOW) is None
