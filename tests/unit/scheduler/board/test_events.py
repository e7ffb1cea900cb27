"""Outages are one error in many jobs; an event that goes on stays the same event."""

from warren.scheduler.board.events import EventKind, Happening, matched, outages
from warren.sql.board.live import EventRow, SpellRow
from warren.sql.instants import HOUR_MS, MINUTE_MS

START = 1_800_000_000_000


def spell(
    minute: int, last: int, *, key: str = "refused", app_id: int = 1, **more: str
) -> SpellRow:
    since_at, last_at = START + minute * MINUTE_MS, START + last * MINUTE_MS
    return SpellRow(app_id, key, f"{key} by pg-main", since_at, last_at, more.get("still", ""))


def test_one_error_in_five_jobs_is_an_outage() -> None:
    few = [spell(minute, 40) for minute in range(4)]

    assert outages(few) == []
    [outage] = outages([*few, spell(30, 55)])
    assert (outage.kind, outage.count, outage.subject) == (
        EventKind.OUTAGE,
        5,
        "refused by pg-main",
    )
    assert (outage.since_at, outage.until_at) == (START, START + 55 * MINUTE_MS)


def test_an_outage_lasts_while_one_of_its_jobs_fails_with_that_error() -> None:
    some = [spell(minute, 40) for minute in range(4)]

    [outage] = outages([*some, spell(5, 40, still="refused")])
    [over] = outages([*some, spell(5, 40, still="wrong password")])

    assert outage.until_at is None
    assert over.until_at == START + 40 * MINUTE_MS


def test_an_outage_over_several_apps_has_a_part_in_each() -> None:
    spells = [spell(minute, 40, app_id=1 + minute // 3) for minute in range(8)]

    parts = outages(spells)

    assert [(part.app_id, part.count, part.since_at - START) for part in parts] == [
        (1, 3, 0),
        (2, 3, 3 * MINUTE_MS),
        (3, 2, 6 * MINUTE_MS),
    ]
    assert {part.error_key for part in parts} == {"refused"}
    assert outages(spells[:4]) == []


def test_an_outage_keeps_the_end_of_a_long_error() -> None:
    text = f"{'x' * 300}: connection refused"

    [outage] = outages([spell(minute, 40)._replace(error_text=text) for minute in range(5)])

    assert len(outage.subject) == 255
    assert outage.subject.endswith("x: connection refused")


def test_other_errors_and_other_times_are_no_outage() -> None:
    errors = [spell(0, 9, key=key) for key in "abcde"]
    times = [spell(minute, minute + 1) for minute in range(0, 100, 20)]

    for spells in (errors, times):
        assert outages(spells) == []


def test_an_outage_whose_first_job_is_another_one_now_is_the_same_event() -> None:
    one = Happening(
        kind=EventKind.OUTAGE, app_id=1, subject="refused by 2", since_at=START, error_key="refused"
    )
    known = [EventRow(1, "OUTAGE", 1, "refused by 1", START, None, 5, "refused")]

    assert [event and event.id for _, event in matched([one], known)] == [1]


def test_what_goes_on_is_the_same_event() -> None:
    one = Happening(kind=EventKind.PAUSE, app_id=1, subject="ops", since_at=START)
    known = [
        EventRow(1, "PAUSE", 1, "ops", START - HOUR_MS, START - MINUTE_MS, 0),
        EventRow(2, "PAUSE", 1, "ops", START, None, 0),
        EventRow(3, "PAUSE", 2, "ops", START, None, 0),
    ]

    assert [(found, event and event.id) for found, event in matched([one], known)] == [
        (one, 2),
        (None, 1),
        (None, 3),
    ]
