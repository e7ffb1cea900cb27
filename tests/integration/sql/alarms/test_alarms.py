"""Alarms in the database: once for each target, claimed by one, decided by one at a time."""

import threading

from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.support.sql_rows import NOW_MS, side_by_side
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import AlarmStatus, MessageKind, NewAlarm
from warren.sql.engine import Database
from warren.sql.models import Alarm

UNTIL_MS = NOW_MS + 90_000


def new(key: str = "tick:1:2:0", **values: object) -> NewAlarm:
    facts: dict[str, object] = {
        "subject_key": key,
        "channel": alarms.MAIL,
        "target": "ops@example.com",
        "content": "{}",
        "created_at": NOW_MS,
        "job_id": 1,
        "status": AlarmStatus.READY,
    }
    return NewAlarm(**(facts | values))  # type: ignore[arg-type]


def add(database: Database, *kept: NewAlarm) -> None:
    database.write(lambda session: alarms.add(session, kept))


def everything(database: Database) -> list[Alarm]:
    statement = select(Alarm).order_by(Alarm.id)
    return database.read(lambda session: list(session.execute(statement).scalars()))


def claim(
    database: Database, kind: MessageKind = MessageKind.MAIL, *, now_ms: int = NOW_MS
) -> int | None:
    def unit(session: Session) -> int | None:
        alarm = alarms.claim(session, kind, now_ms=now_ms, until_ms=UNTIL_MS)
        return None if alarm is None else alarm.id

    return database.write(unit)


def test_the_same_subject_is_one_alarm_for_each_target(database: Database) -> None:
    add(database, new(), new(target="dev@example.com"), new(channel="slack"))
    add(database, new(content="again"), new("tick:1:3:0"))

    assert [alarm.content for alarm in everything(database)] == ["{}"] * 4


def test_two_ends_of_one_tick_at_the_same_moment_are_one_alarm(database: Database) -> None:
    targets = [new(target=f"{number}@example.com") for number in range(20)]

    side_by_side(
        lambda: add(database, *targets),
        lambda: add(database, *reversed(targets)),
        lambda: add(database, *targets),
    )

    assert len(everything(database)) == 20


def test_each_alarm_is_claimed_by_one_of_many(database: Database) -> None:
    add(database, *(new(f"tick:{number}") for number in range(30)))

    def drain() -> list[int]:
        found: list[int] = []
        while (alarm_id := claim(database)) is not None:
            found.append(alarm_id)
        return found

    claimed = [alarm_id for found in side_by_side(*[drain] * 4) for alarm_id in found]

    assert sorted(claimed) == [alarm.id for alarm in everything(database)]


def test_a_claim_runs_out(database: Database) -> None:
    add(database, new())

    first = claim(database)

    assert first is not None
    assert claim(database, now_ms=UNTIL_MS - 1) is None
    assert claim(database, now_ms=UNTIL_MS) == first
    assert [alarm.tries for alarm in everything(database)] == [2]


def test_who_was_too_slow_settles_nothing(database: Database) -> None:
    add(database, new())
    slow = database.write(
        lambda session: alarms.claim(session, MessageKind.MAIL, now_ms=NOW_MS, until_ms=UNTIL_MS)
    )
    assert slow is not None
    claim(database, now_ms=UNTIL_MS)

    settled = database.write(lambda session: alarms.settle(session, slow, status=AlarmStatus.SENT))

    assert not settled
    assert [alarm.status for alarm in everything(database)] == [AlarmStatus.READY]


def test_mails_and_webhooks_are_claimed_apart(database: Database) -> None:
    add(database, new(), new(channel="slack"))

    assert claim(database) is not None
    assert claim(database) is None
    assert claim(database, MessageKind.WEBHOOK) is not None
    assert claim(database, MessageKind.WEBHOOK) is None


def test_one_scheduler_at_a_time_holds_the_gate(mariadb_database: Database) -> None:
    mariadb_database.write(alarms.make_lock_row)
    mariadb_database.write(alarms.make_lock_row)
    held, let_go = threading.Event(), threading.Event()

    def hold() -> bool:
        def unit(session: Session) -> bool:
            found = alarms.hold_lock_row(session)
            held.set()
            assert let_go.wait(30)
            return found

        return mariadb_database.write(unit)

    def come_second() -> list[bool]:
        assert held.wait(30)
        during = mariadb_database.write(alarms.hold_lock_row)
        let_go.set()
        return [during]

    first, second = side_by_side(hold, come_second)

    assert (first, second) == (True, [False])
    assert mariadb_database.write(alarms.hold_lock_row)


def test_long_texts_of_any_kind_are_kept(database: Database) -> None:
    text = "東京 🚨 " * 1_000
    add(database, new(content=text, target="x" * 512))

    [kept] = everything(database)
    assert kept.content == text
