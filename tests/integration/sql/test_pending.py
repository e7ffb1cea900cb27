"""What waits for a scheduler, by one statement, on each database."""

from typing import Any

import pytest
from sqlalchemy import delete
from sqlalchemy.orm import Session

from tests.support.sql_rows import NOW_MS, add_job, plan, planned_in, put, ticks
from warren.sql import pending
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import AlarmStatus, NewAlarm
from warren.sql.engine import Database
from warren.sql.models import Backfill, Uptime
from warren.sql.pending import Pending
from warren.sql.registry import pauses, presence
from warren.sql.run_status import RunStatus
from warren.sql.runs.queries import KILL_MS

NOTHING = Pending(
    has_pauses=False,
    next_tick=None,
    next_due=None,
    uptime_until=0,
    has_downtimes=False,
    has_kills=False,
    has_drains=False,
    has_backfills=False,
    has_open_flows=False,
    has_routed=False,
    has_in_flight=False,
    has_new_alarms=False,
    has_mails=False,
    has_webhooks=False,
    has_run_ends=False,
    next_id=1,
)


@pytest.fixture(autouse=True)
def _silence(database: Database) -> None:
    """Forget that a new schema counts as a scheduler's word."""
    database.write(lambda session: session.execute(delete(Uptime)))


def look(database: Database, *, since_ms: int = 0) -> Pending:
    found = pending.look(database, since_ms=since_ms, now_ms=NOW_MS)
    # Each run that a test plans takes one.
    return found._replace(next_id=1)


def expect(database: Database, **values: Any) -> None:
    assert look(database) == NOTHING._replace(**values)


def test_nothing_is_pending_in_a_new_database(database: Database) -> None:
    expect(database)


def test_a_pause_is_seen_even_when_it_has_just_ended(database: Database) -> None:
    database.write(
        lambda session: pauses.begin(session, 5, now_ms=NOW_MS, until_ms=NOW_MS, by="me", reason="")
    )

    expect(database, has_pauses=True)


def test_the_earliest_tick_of_an_enabled_job_is_seen(database: Database) -> None:
    add_job(database, "off", is_enabled=0, next_tick_at=1)
    add_job(database, "late", is_enabled=1, next_tick_at=9)
    add_job(database, "soon", is_enabled=1, next_tick_at=5)

    expect(database, next_tick=5)


def test_the_earliest_due_run_of_all_apps_is_seen(database: Database) -> None:
    runs = plan(database, *ticks(3))
    for number, run_id in enumerate(runs):
        put(database, [run_id], app_id=9 - number, due_at=100 + number)

    assert look(database).next_due == 100
    assert look(database, since_ms=101).next_due == 101
    assert look(database, since_ms=103).next_due is None


def test_the_last_word_of_a_scheduler_and_an_unsettled_downtime_are_seen(
    database: Database,
) -> None:
    def stretch(since_at: int, until_at: int, *, settled: bool) -> None:
        row = Uptime(
            down_since=since_at - 6, since_at=since_at, until_at=until_at, is_settled=int(settled)
        )
        database.write(lambda session: session.add(row))

    stretch(10, 20, settled=True)
    expect(database, uptime_until=20)
    stretch(30, 40, settled=False)
    expect(database, uptime_until=40, has_downtimes=True)


@pytest.mark.parametrize(
    ("values", "is_seen"),
    [
        ({"state": "OPEN"}, True),
        ({"state": "PAUSED", "open_ticks": "[5]"}, True),
        ({"state": "PAUSED"}, False),
        ({"state": "CANCELLED", "open_ticks": "[5]"}, True),
        ({"state": "DONE", "ended_at": NOW_MS}, False),
    ],
)
def test_a_backfill_with_something_to_plan_or_to_wait_for_is_seen(
    database: Database, values: dict[str, Any], is_seen: bool
) -> None:
    row = Backfill(
        id=1, job_id=1, schedule="", spans="", ticks=1, made_at=1, made_by="", moved_at=1, **values
    )
    database.write(lambda session: session.add(row))

    expect(database, has_backfills=is_seen)


@pytest.mark.parametrize(
    ("status", "is_routed"),
    [(RunStatus.ROUTED, True), (RunStatus.SENT, False), (RunStatus.RUNNING, False)],
)
def test_a_run_in_flight_is_seen(database: Database, status: RunStatus, is_routed: bool) -> None:
    planned_in(database, status)

    expect(database, has_in_flight=True, has_routed=is_routed)


def test_a_run_that_is_over_is_nobodys_work(database: Database) -> None:
    put(database, planned_in(database, RunStatus.KILLED), kill_requested_at=NOW_MS)

    expect(database)


@pytest.mark.parametrize(("asked_at", "is_seen"), [(NOW_MS, True), (NOW_MS - KILL_MS - 1, False)])
def test_a_wish_to_kill_is_seen_unless_it_is_old(
    database: Database, asked_at: int, is_seen: bool
) -> None:
    put(database, planned_in(database, RunStatus.RUNNING), kill_requested_at=asked_at)

    expect(database, has_in_flight=True, has_kills=is_seen)


def test_a_wish_to_drain_is_seen(database: Database) -> None:
    beat = presence.Beat(kind="EXECUTOR", app="demo", address="a", boot_id="b", beat_at=1)
    database.write(lambda session: presence.hold(session, beat))
    expect(database)

    def ask(session: Session) -> None:
        executor_id = presence.executor_id(session, "a")
        presence.request(session, presence.lock_executor(session, executor_id), 5)

    database.write(ask)

    expect(database, has_drains=True)


@pytest.mark.parametrize(
    ("status", "channel", "next_at", "seen"),
    [
        (AlarmStatus.NEW, alarms.MAIL, NOW_MS, "has_new_alarms"),
        (AlarmStatus.HELD, alarms.MAIL, NOW_MS, "has_new_alarms"),
        (AlarmStatus.HELD, alarms.MAIL, NOW_MS + 1, ""),
        (AlarmStatus.READY, alarms.MAIL, NOW_MS, "has_mails"),
        (AlarmStatus.READY, "GENERIC", NOW_MS, "has_webhooks"),
        (AlarmStatus.READY, alarms.RUN_END, NOW_MS, "has_run_ends"),
        (AlarmStatus.READY, alarms.RUN_END, NOW_MS + 1, ""),
        (AlarmStatus.READY, "GENERIC", NOW_MS + 1, ""),
        (AlarmStatus.SENT, alarms.MAIL, NOW_MS, ""),
    ],
)
def test_an_alarm_is_seen_by_who_has_to_act(
    database: Database, status: AlarmStatus, channel: str, next_at: int, seen: str
) -> None:
    alarm = NewAlarm(
        subject_key="run:1",
        channel=channel,
        target="ops@example.com",
        content="{}",
        created_at=next_at,
        status=status,
    )
    database.write(lambda session: alarms.add(session, [alarm]))

    expect(database, **({seen: True} if seen else {}))
