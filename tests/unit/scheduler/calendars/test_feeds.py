"""What events of an iCalendar feed come to: days off, moved working days, or a note."""

import time
from datetime import date

import pytest

from warren.scheduler.calendars.feeds import read_ical
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.reading import CalendarDays

TODAY = date(2026, 11, 28)


def feed(*events: str, header: str = "") -> str:
    """Return a feed of events whose lines are separated by spaces; `_` is a space in a value."""
    blocks = [
        "\r\n".join(
            ("BEGIN:VEVENT", *(line.replace("_", " ") for line in event.split()), "END:VEVENT")
        )
        for event in events
    ]
    return "\r\n".join(("BEGIN:VCALENDAR", *header.split(), *blocks, "END:VCALENDAR", ""))


def read(*events: str, header: str = "") -> CalendarDays:
    return read_ical(feed(*events, header=header), "x.ics", TODAY)


def days(of: CalendarDays) -> str:
    """Return days off, and working days with a `+`; without those of a listed holiday."""
    said = [f"{'+' if what == 'work' else ''}{day:%m-%d}" for day, what in sorted(of.days.items())]
    return " ".join(said)


D = "DTSTART;VALUE=DATE:2026"
WEEKLY = f"UID:w {D}0601 SUMMARY:Off RRULE:FREQ=WEEKLY;COUNT=4"
SHANGHAI = "DTSTART;TZID=Asia/Shanghai:2026"
#: What a feed says, and its days; a row for each thing that iCalendar can say.
SAID: dict[str, tuple[str, str]] = {
    "a day": (f"{D}0501 SUMMARY:x", "05-01"),
    "its end is not part of it": (f"{D}0501 DTEND;VALUE=DATE:20260503", "05-01 05-02"),
    "an end that equals the start": (f"{D}0501 DTEND;VALUE=DATE:20260501", "05-01"),
    "a duration": (f"{D}0501 DURATION:P2D", "05-01 05-02"),
    "a duration in hours": (f"{D}0501 DURATION:PT48H", "05-01 05-02"),
    "midnight to midnight": (
        f"{SHANGHAI}0501T000000 DTEND;TZID=Asia/Shanghai:20260503T000000",
        "05-01 05-02",
    ),
    "midnight without a zone": ("DTSTART:20260501T000000 DTEND:20260502T000000", "05-01"),
    "an unknown zone": (
        "DTSTART;TZID=Mars:20260501T000000 DTEND;TZID=Mars:20260502T000000",
        "05-01",
    ),
    "Microsoft's mark": (
        "DTSTART:20260501T080000 DTEND:20260501T170000 X-MICROSOFT-CDO-ALLDAYEVENT:TRUE",
        "05-01",
    ),
    "Microsoft's mark of a day in Berlin, in UTC": (
        "DTSTART:20260430T220000Z DTEND:20260501T220000Z X-MICROSOFT-CDO-ALLDAYEVENT:TRUE",
        "05-01",
    ),
    "Microsoft's mark of two days in New York, in UTC": (
        "DTSTART:20260501T040000Z DTEND:20260503T040000Z X-MICROSOFT-CDO-ALLDAYEVENT:TRUE",
        "05-01 05-02",
    ),
    "a moved working day with hours": (
        f"{SHANGHAI}0214T090000 DTEND;TZID=Asia/Shanghai:20260214T180000 SUMMARY:春节_补班",
        "+02-14",
    ),
    "Apple's mark": (f"{D}0214 SUMMARY:x X-APPLE-SPECIAL-DAY:ALTERNATE-WORKDAY", "+02-14"),
    "a rule": (WEEKLY, "06-01 06-08 06-15 06-22"),
    "EXDATE": (f"{WEEKLY} EXDATE;VALUE=DATE:20260608,20260615", "06-01 06-22"),
    "RDATE": (f"{D}0501 RDATE;VALUE=DATE:20260703,20260704", "05-01 07-03 07-04"),
    "UNTIL": (f"{D}0501 RRULE:FREQ=DAILY;UNTIL=20260503", "05-01 05-02 05-03"),
}
#: The same for events that belong together.
TOGETHER: dict[str, tuple[tuple[str, ...], str]] = {
    "a moved instance": (
        (WEEKLY, f"UID:w {D}0609 RECURRENCE-ID;VALUE=DATE:20260608"),
        "06-01 06-09 06-15 06-22",
    ),
    "a cancelled instance": (
        (WEEKLY, f"UID:w {D}0608 RECURRENCE-ID;VALUE=DATE:20260608 STATUS:CANCELLED"),
        "06-01 06-15 06-22",
    ),
    "a cancelled instance without a start": (
        (WEEKLY, "UID:w RECURRENCE-ID;VALUE=DATE:20260608 STATUS:CANCELLED"),
        "06-01 06-15 06-22",
    ),
    "all after one, moved": (
        (WEEKLY, f"UID:w {D}0616 RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20260615"),
        "06-01 06-08 06-16 06-23",
    ),
    "all after one, cancelled": (
        (
            WEEKLY,
            f"UID:w {D}0615 RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20260615 STATUS:CANCELLED",
        ),
        "06-01 06-08",
    ),
    "a newer version, whatever comes first": (
        (f"UID:a {D}0502 SEQUENCE:2", f"UID:a {D}0501 SEQUENCE:1"),
        "05-02",
    ),
    "a cancelled event": ((f"UID:a {D}0501 STATUS:CANCELLED", f"UID:b {D}0502"), "05-02"),
    "one cancelled later": (
        (f"UID:a {D}0501", f"UID:b {D}0502", f"UID:a {D}0501 SEQUENCE:1 STATUS:CANCELLED"),
        "05-02",
    ),
    "all events with one UID": (
        (f"UID:a {D}0501", f"UID:a {D}0502", f"UID:a {D}0503"),
        "05-01 05-02 05-03",
    ),
    "no UID": ((f"{D}0501", f"{D}0502"), "05-01 05-02"),
    "a working day is not hidden by a day off": (
        (f"{D}1010 SUMMARY:国庆节_班", f"{D}1010 SUMMARY:Holidays"),
        "+10-10",
    ),
    "what Apple does not mark is an observance": (
        (f"{D}0501 X-APPLE-SPECIAL-DAY:WORK-HOLIDAY", f"{D}0510 SUMMARY:母亲节"),
        "05-01",
    ),
}


def test_a_feed_means_what_icalendar_says() -> None:
    wrong = []
    for what, (given, expected) in (
        *((what, ((event,), wanted)) for what, (event, wanted) in SAID.items()),
        *TOGETHER.items(),
    ):
        got = days(read(*given))
        if got != expected:
            wrong.append(f"{what}: expected {expected}, got {got}")

    assert wrong == []


def test_a_calendar_that_cancels_takes_its_events_away() -> None:
    published = feed(f"UID:a {D}0501", f"UID:b {D}0502", WEEKLY)
    cancelled = feed(
        "UID:a SEQUENCE:1",
        f"UID:w {D}0601 RECURRENCE-ID;VALUE=DATE:20260601",
        header="METHOD:CANCEL",
    )

    assert days(read_ical(published + cancelled, "x", TODAY)) == "05-02 06-08 06-15 06-22"


def test_a_utc_time_is_midnight_where_the_feed_is() -> None:
    given = "DTSTART:20260430T160000Z DTEND:20260501T160000Z"

    assert days(read(given, header="X-WR-TIMEZONE:Asia/Shanghai")) == "05-01"
    unknown = read(given, f"{D}0502", header="X-WR-TIMEZONE:Mars/Base")
    assert days(unknown) == "05-02"


#: What is not taken beside a day that is, and what is said of it.
NOT_TAKEN: list[tuple[str, str, str]] = [
    ("DTSTART:20260601T080000Z SUMMARY:A_meeting", "timed", "A meeting"),
    (
        f"{D}0510 SUMMARY:Mother DESCRIPTION:Observance\\nTo_hide_observances",
        "observances",
        "Mother",
    ),
    (
        f"{D}0510 SUMMARY:母親節 DESCRIPTION:慶典\\n前往_Google_日曆設定_>_台灣的節慶假日",
        "observances",
        "母親節",
    ),
    (f"{D}0510 SUMMARY:Mother CATEGORIES:Fun,Observance", "observances", "Mother"),
    (f"{D}0510 SUMMARY:Mother X-APPLE-SPECIAL-DAY:SPECIAL-DAY", "observances", "Mother"),
    (
        f"{D}0510 SUMMARY:Mother_(Not_a_public_holiday)",
        "observances",
        "Mother (Not a public holiday)",
    ),
    (f"{D}0230 SUMMARY:Bad", "unreadable", "Bad: DTSTART: "),
    ("SUMMARY:Bad", "unreadable", "Bad: it has no DTSTART"),
    (
        f"{D}0601 DTEND;VALUE=DATE:20260501 SUMMARY:Bad",
        "unreadable",
        "Bad: its end is before its start",
    ),
    (f"{D}0601 DURATION:P400D SUMMARY:Bad", "unreadable", "Bad: it is longer than 366 days"),
    (
        f"{D}0601 RRULE:FREQ=SECONDLY SUMMARY:Bad",
        "unreadable",
        "Bad: it repeats more often than daily",
    ),
    (f"{D}0601 RRULE:FREQ=YEARLY;BYHOUR=1 SUMMARY:Bad", "unreadable", "Bad: it repeats more often"),
    (
        f"{D}0601 RRULE:FREQ=DAILY;INTERVAL=0 SUMMARY:Bad",
        "unreadable",
        "Bad: the interval of its rule",
    ),
    (f"{D}0601 RRULE:nonsense SUMMARY:Bad", "unreadable", "Bad: it repeats more often than daily"),
    (f"{D}0601 RRULE:FREQ=DAILY;BYSETPOS=0;BYDAY=MO SUMMARY:Bad", "unreadable", "Bad: "),
    (f"{D}0601 RRULE:FREQ=DAILY;UNTIL=2026 SUMMARY:Bad", "unreadable", "Bad: RRULE: "),
    (f"{D}0601 EXDATE:nonsense", "unreadable", "without a title: EXDATE: "),
    (f"{D}0601 BEGIN:VALARM SUMMARY:Bad", "unreadable", "without a title: it has no END:VEVENT"),
]


def test_what_is_not_taken_is_counted_and_the_first_named_with_its_line() -> None:
    wrong = []
    for given, kind, first in NOT_TAKEN:
        got = read(f"{D}0501 SUMMARY:Labour", given)
        noted = got.not_taken
        if (
            days(got) != "05-01"
            or noted is None
            or (getattr(noted, kind), noted.timed + noted.observances + noted.unreadable) != (1, 1)
            or noted.line != 6
            or not noted.first.startswith(first)
        ):
            wrong.append(f"{given}: {days(got)}; {noted}")

    assert wrong == []
    assert read(f"{D}0501").not_taken is None


def test_lines_that_do_not_matter_harm_no_event() -> None:
    given = feed(f"{D}0501 SUMMARY:May ATTENDEE;x nonsense X-WR:1 DESCRIPTION:a")
    given = given.replace("END:VEVENT", "BEGIN:VALARM\r\nTRIGGER:x\r\nEND:VALARM\r\nEND:VEVENT")
    folded = given.replace("SUMMARY:May", "SUMMA\r\n RY:M\r\n\tay")

    assert read_ical(folded, "x", TODAY).days == {date(2026, 5, 1): "off May"}


@pytest.mark.parametrize(
    ("events", "until"),
    [
        # A rule for ever, or an event over New Year, says nothing of the years after.
        ((f"{D}1001", "DTSTART;VALUE=DATE:20200501 RRULE:FREQ=YEARLY"), 2026),
        ((f"{D}1001", f"{D}1230 DTEND;VALUE=DATE:20270103"), 2026),
        ((f"{D}1001", "DTSTART;VALUE=DATE:20200501 RRULE:FREQ=YEARLY;COUNT=10"), 2026),
        ((f"{D}1001", "DTSTART;VALUE=DATE:20260101 RRULE:FREQ=WEEKLY;UNTIL=20291231"), 2026),
        ((f"{D}1001", "DTSTART;VALUE=DATE:20270206 RRULE:FREQ=DAILY;COUNT=7"), 2027),
        ((f"{D}1001 RDATE;VALUE=DATE:20271001",), 2027),
        (
            (
                "UID:y DTSTART;VALUE=DATE:20200501 RRULE:FREQ=YEARLY",
                "UID:y DTSTART;VALUE=DATE:20270502 RECURRENCE-ID;VALUE=DATE:20270501",
            ),
            2027,
        ),
        # Where there are only rules, they are the list.
        (("DTSTART;VALUE=DATE:20200501 RRULE:FREQ=YEARLY",), 2031),
        (("DTSTART;VALUE=DATE:20200501 RRULE:FREQ=YEARLY;UNTIL=20280501",), 2028),
    ],
)
def test_a_feed_is_known_until_the_last_year_that_it_lists(
    events: tuple[str, ...], until: int
) -> None:
    assert read(*events).until == date(until, 12, 31)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no BEGIN:VCALENDAR"),
        ("<html>", "it has no BEGIN:VCALENDAR"),
        (feed(), "no all-day event is in it"),
        (
            feed("DTSTART:20260601T080000Z SUMMARY:A_meeting"),
            "with hours 1, observances 0, unreadable 0; the first in line 2: A meeting",
        ),
        (feed(*[f"{D}0501"] * 5_001), "it has more than 5000 events"),
    ],
)
def test_a_feed_without_days_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(Problem, match=r"expected 'x\.ics' to be an iCalendar file") as refused:
        read_ical(text, "x.ics", TODAY)

    assert words in str(refused.value)


def test_rules_of_a_hostile_feed_cost_some_seconds_at_most() -> None:
    never = f"{D}0601 RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"
    yearly = f"{D}0601 RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"
    weekly = f"{D}0601 RRULE:FREQ=WEEKLY;BYMONTH=2;BYDAY=MO;BYSETPOS=3"
    long = "DTSTART;VALUE=DATE:00010101 DURATION:P366D RRULE:FREQ=DAILY"
    dates = f"{D}0601 RDATE;VALUE=DATE:{','.join(['20260601'] * 9_000)}"
    good = f"{D}0502 RRULE:FREQ=DAILY;COUNT=2", f"{D}0501"
    hostile = feed(never, *good, dates, *[yearly, weekly, long] * 50)
    begun = time.process_time()

    got = read_ical(hostile, "x.ics", TODAY, max_rounds=10_000)

    assert got.not_taken is not None
    assert (days(got), got.not_taken.unreadable) == ("05-01 05-02 05-03", 152)
    assert got.not_taken.first.startswith("without a title: it repeats too often")
    assert time.process_time() - begun < 20
